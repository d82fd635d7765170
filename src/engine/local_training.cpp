#include "local_training.h"

#include <cmath>
#include <optional>

#include "cohort.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/random.h"
#include "fedgrab/data/batch.h"

namespace fedgrab {

LocalTraining::LocalTraining(const Federation& federation)
    : federation_(federation),
      network_(federation.model),
      sgd_(*federation.model),
      mixer_(federation.train.mixup, federation.train.cutmix) {}

ClientReport LocalTraining::run(const ClientContext& client, const Composition& method) {
  network_.load(client.round.global);
  std::optional<LabelledFeatures> seen;
  if (method.needs().features) seen = features_of(client.client);
  State start = network_.state();  // shares the network's memory
  method.before_training(client, start, seen ? &*seen : nullptr);
  sgd_.reset();
  const LocalProblem problem = method.configure(client);
  counts_ = problem.class_sizes.defined() ? problem.class_sizes : to_tensor(client.counts);
  const auto& models = problem.reference_models;
  while (references_.size() < models.size()) references_.push_back(std::make_unique<Network>(federation_.model));
  for (size_t i = 0; i < models.size(); ++i) references_[i]->load({federation_.model, models[i]});
  const auto& train = federation_.train;
  const auto& own = federation_.partition[static_cast<size_t>(client.client)];
  const double lr = learning_rate(train, client.round.round);

  ClientReport report{.client = client.client};
  double loss_sum = 0;
  std::vector<int64_t> samples(own.size());
  for (int64_t epoch = 0; epoch < train.local_epochs; ++epoch) {
    const auto order = sample_order(federation_, client, epoch);
    for (size_t i = 0; i < own.size(); ++i) samples[i] = own[static_cast<size_t>(order[i])];
    for (size_t first = 0; first < samples.size(); first += static_cast<size_t>(train.batch)) {
      throw_if_interrupted();
      const size_t count = std::min(samples.size() - first, static_cast<size_t>(train.batch));
      // Every sample of the round has a position of its own, the same whatever the batch size.
      const auto position = static_cast<uint32_t>(static_cast<size_t>(epoch) * samples.size() + first);
      const double loss = step(client, problem, std::span(samples).subspan(first, count), position,
                               static_cast<uint32_t>(report.steps), lr);
      if (!std::isfinite(loss)) throw_bad_loss(loss, client, report.steps + 1);
      loss_sum += loss * static_cast<double>(count);
      report.samples += static_cast<int64_t>(count);
      ++report.steps;
    }
  }
  report.loss = loss_sum / static_cast<double>(std::max<int64_t>(report.samples, 1));
  return report;
}

LabelledFeatures LocalTraining::features_of(int64_t client) {
  constexpr size_t at_once = 250;
  const auto& data = federation_.data;
  const auto shape = data.shape();
  const auto own = std::span(federation_.partition[static_cast<size_t>(client)]);
  std::vector<torch::Tensor> features;
  auto labels = torch::empty({static_cast<int64_t>(own.size())}, torch::kLong);
  for (size_t first = 0; first < own.size(); first += at_once) {
    throw_if_interrupted();
    const auto some = own.subspan(first, std::min(at_once, own.size() - first));
    auto images = torch::empty({static_cast<int64_t>(some.size()), shape.channels, shape.height, shape.width});
    write_batch(data.train.images, some, data.normalisation, images.data_ptr<float>());
    features.push_back(network_.forward(images).features);
  }
  for (size_t i = 0; i < own.size(); ++i)
    labels.data_ptr<int64_t>()[i] = data.train.labels[static_cast<size_t>(own[i])];
  return {torch::cat(features), labels};
}

void LocalTraining::mix(torch::Tensor& images, LogitBatch& batch, const Random& random) const {
  if (!mixer_.on()) return;
  const int64_t count = images.size(0);
  const auto shape = federation_.data.shape();
  const Mix chosen = mixer_.choose(random, count, shape);
  mix_batch(chosen, count, shape, images.data_ptr<float>());
  batch.other_labels = batch.labels.roll(-1);
  batch.share = torch::full({1}, chosen.share);
}

double LocalTraining::step(const ClientContext& client, const LocalProblem& problem, std::span<const int64_t> samples,
                           uint32_t position, uint32_t step_index, double lr) {
  const auto& data = federation_.data;
  const auto shape = data.shape();
  const auto number = static_cast<uint32_t>(client.client);
  const auto round = static_cast<uint32_t>(client.round.round);
  const uint64_t seed = client.round.seed;
  const auto count = static_cast<int64_t>(samples.size());

  auto images = torch::empty({count, shape.channels, shape.height, shape.width});
  write_batch(data.train.images, samples, data.augmentation, data.normalisation,
              Random(seed, Purpose::augment, number, round), position, images.data_ptr<float>());
  auto labels = torch::empty({count}, torch::kLong);
  for (int64_t i = 0; i < count; ++i)
    labels.data_ptr<int64_t>()[i] = data.train.labels[static_cast<size_t>(samples[static_cast<size_t>(i)])];

  LogitBatch batch{.labels = labels};
  batch.counts = counts_;
  mix(images, batch, Random(seed, Purpose::mix, number, round, step_index));
  if (problem.class_weights.defined()) weigh_by_class(batch, problem.class_weights);

  const NetworkOutput output =
      network_.forward_training(images, Random(seed, Purpose::dropout, number, round, step_index));
  std::vector<torch::Tensor> gradients(output.logits.size());
  double loss = 0;
  for (size_t head = 0; head < problem.heads.size(); ++head) {
    batch.logits = output.logits[head].detach();
    batch.prior = problem.heads[head].prior;
    batch.randoms = {Random(seed, Purpose::gate, number, round, step_index)};
    const auto result = (*problem.heads[head].objective)(batch, client.state);
    gradients[head] = result.gradient;
    if (head == 0) loss = result.loss.item<double>();
  }
  torch::Tensor feature_gradient;
  if (problem.feature_loss != nullptr) {
    std::vector<torch::Tensor> references;
    for (size_t i = 0; i < problem.reference_models.size(); ++i)
      references.push_back(references_[i]->forward(images).features);
    const auto [term, gradient] = (*problem.feature_loss)(output.features.detach(), references, batch);
    loss += term.item<double>();
    feature_gradient = gradient;
  }
  network_.backward(output, gradients, feature_gradient);
  sgd_.step(network_, client.round.global, problem, federation_.train, lr);
  return loss;
}

}  // namespace fedgrab
