#include "local_training.h"

#include <cmath>

#include "cohort.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/random.h"
#include "fedgrab/data/batch.h"

namespace fedgrab {

LocalTraining::LocalTraining(const Federation& federation)
    : federation_(federation), network_(federation.model), sgd_(*federation.model) {}

ClientReport LocalTraining::run(const ClientView& view, const Method& method) {
  network_.load(view.global);
  if (method.wants_features()) observe(view, method);
  if (method.prepares(view.round)) method.prepare(view, network_.state());
  sgd_.reset();
  const ClientRule rule = method.client_rule(view);
  counts_ = rule.class_sizes.defined() ? rule.class_sizes
                                       : torch::tensor(std::vector<float>(view.counts.begin(), view.counts.end()));
  while (others_.size() < rule.others.size()) others_.push_back(std::make_unique<Network>(federation_.model));
  for (size_t i = 0; i < rule.others.size(); ++i) others_[i]->load({federation_.model, rule.others[i]});
  const auto& train = federation_.train;
  const auto& own = federation_.partition[static_cast<size_t>(view.client)];
  const double lr = learning_rate(train, view.round);

  ClientReport report{.client = view.client};
  double loss_sum = 0;
  std::vector<int64_t> samples(own.size());
  for (int64_t epoch = 0; epoch < train.local_epochs; ++epoch) {
    const auto order = sample_order(federation_, view, epoch);
    for (size_t i = 0; i < own.size(); ++i) samples[i] = own[static_cast<size_t>(order[i])];
    for (size_t first = 0; first < samples.size(); first += static_cast<size_t>(train.batch)) {
      throw_if_interrupted();
      const size_t count = std::min(samples.size() - first, static_cast<size_t>(train.batch));
      // Every sample of the round has a position of its own, the same whatever the batch size.
      const auto position = static_cast<uint32_t>(static_cast<size_t>(epoch) * samples.size() + first);
      const double loss =
          step(view, rule, std::span(samples).subspan(first, count), position, static_cast<uint32_t>(report.steps), lr);
      if (!std::isfinite(loss)) throw_bad_loss(loss, view, report.steps + 1);
      loss_sum += loss * static_cast<double>(count);
      report.samples += static_cast<int64_t>(count);
      ++report.steps;
    }
  }
  report.loss = loss_sum / static_cast<double>(std::max<int64_t>(report.samples, 1));
  return report;
}

void LocalTraining::observe(const ClientView& view, const Method& method) {
  constexpr size_t at_once = 250;
  const auto& data = federation_.data;
  const auto shape = data.shape();
  const auto own = std::span(federation_.partition[static_cast<size_t>(view.client)]);
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
  method.observe(view, torch::cat(features), labels);
}

double LocalTraining::step(const ClientView& view, const ClientRule& rule, std::span<const int64_t> samples,
                           uint32_t position, uint32_t step_index, double lr) {
  const auto& data = federation_.data;
  const auto shape = data.shape();
  const auto client = static_cast<uint32_t>(view.client);
  const auto round = static_cast<uint32_t>(view.round);
  const auto count = static_cast<int64_t>(samples.size());

  auto images = torch::empty({count, shape.channels, shape.height, shape.width});
  write_batch(data.train.images, samples, data.augmentation, data.normalisation,
              Random(view.seed, Purpose::augment, client, round), position, images.data_ptr<float>());
  auto labels = torch::empty({count}, torch::kLong);
  for (int64_t i = 0; i < count; ++i)
    labels.data_ptr<int64_t>()[i] = data.train.labels[static_cast<size_t>(samples[static_cast<size_t>(i)])];

  const NetworkOutput output =
      network_.forward_training(images, Random(view.seed, Purpose::dropout, client, round, step_index));
  LogitBatch batch{.labels = labels};
  batch.counts = counts_;
  if (rule.class_weights.defined()) batch.weights = rule.class_weights.index_select(0, labels);
  std::vector<torch::Tensor> gradients(output.logits.size());
  torch::Tensor feature_gradient;
  double loss = 0;
  for (size_t head = 0; head < rule.heads.size(); ++head) {
    const HeadRule& how = rule.heads[head];
    batch.logits = output.logits[head].detach();
    batch.prior = how.prior;
    batch.randoms = {Random(view.seed, Purpose::gate, client, round, step_index)};
    LogitLoss result;
    if (how.backbone != nullptr) {
      const auto& own = network_.model().heads[head];
      result = (*how.backbone)(batch, view.memory);
      feature_gradient = result.gradient.matmul(network_.state().view(own.name + ".weight")) * own.scale;
    }
    if (how.objective != nullptr) {
      result = (*how.objective)(batch, view.memory);
      gradients[head] = result.gradient;
    }
    if (head == 0 && result.loss.defined()) loss = result.loss.item<double>();
  }
  if (rule.feature_term != nullptr) {
    std::vector<torch::Tensor> theirs;
    for (size_t i = 0; i < rule.others.size(); ++i) theirs.push_back(others_[i]->forward(images).features);
    const auto [term, gradient] = (*rule.feature_term)(output.features.detach(), theirs, batch);
    loss += term.item<double>();
    feature_gradient = feature_gradient.defined() ? feature_gradient + gradient : gradient;
  }
  network_.backward(output, gradients, feature_gradient);
  sgd_.step(network_, view.global, rule, federation_.train, lr);
  return loss;
}

}  // namespace fedgrab
