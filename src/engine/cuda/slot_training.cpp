#include "slot_training.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

#include "../cohort.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/random.h"
#include "fedgrab/data/batch_mixer.h"

namespace fedgrab::cuda {
namespace {

constexpr int64_t steps_ahead = 32;  // in flight while more are started, at most

}  // namespace

int64_t largest_batch(const TrainParams& train, const Partition& partition) {
  int64_t longest = 1;
  for (const auto& own : partition) longest = std::max(longest, static_cast<int64_t>(own.size()));
  return std::min(train.batch, longest);
}

SlotTraining::StepKey SlotTraining::key_of(uint64_t method, const LocalProblem& problem) {
  StepKey key{.method = method,
              .proximal = problem.proximal,
              .correction = problem.correction.defined(),
              .class_weights = problem.class_weights.defined(),
              .feature_loss = problem.feature_loss,
              .references = problem.reference_models.size()};
  for (const auto& head : problem.heads) {
    key.objectives.push_back(head.objective);
    key.priors.push_back(head.prior.defined());
  }
  return key;
}

SlotTraining::SlotTraining(const Federation& federation, const SlotNetwork& network, const DeviceImages& data,
                           int64_t slots, int priority)
    : federation_(federation),
      network_(network),
      data_(data),
      stream_(c10::cuda::getStreamFromPool(priority)),
      slots_(slots),
      longest_(1),
      batch_(largest_batch(federation.train, federation.partition)),
      weights_(slots, network.layout().size(), network.precision(), true),
      update_{.side = c10::cuda::getStreamFromPool(std::min(priority + 1, 0))} {
  for (const auto& own : federation.partition) longest_ = std::max(longest_, static_cast<int64_t>(own.size()));
  const auto& train = federation.train;
  const auto shape = federation.data.shape();
  const int64_t classes = federation.model->classes;
  const auto zeros = [](at::IntArrayRef sizes, torch::ScalarType type) { return torch::zeros(sizes, on_device(type)); };
  images_ = zeros({slots, batch_, shape.height, shape.width, channel_padding}, network.type());
  labels_ = zeros({slots, batch_}, torch::kLong);
  mask_ = zeros({slots, batch_}, torch::kFloat);
  counts_ = zeros({slots}, torch::kInt);
  order_ = zeros({slots, train.local_epochs, longest_}, torch::kInt);
  samples_ = zeros({slots}, torch::kInt);
  clients_ = zeros({slots}, torch::kInt);
  step_ = zeros({1}, torch::kInt);
  round_ = zeros({1}, torch::kInt);
  lr_ = zeros({1}, torch::kFloat);
  class_counts_ = zeros({slots, classes}, torch::kFloat);
  class_weights_ = zeros({slots, classes}, torch::kFloat);
  loss_sum_ = zeros({slots}, torch::kDouble);
  first_bad_ = zeros({slots}, torch::kInt);
  clip_scratch_ = zeros({slots, 64}, torch::kDouble);
  clip_factor_ = zeros({slots}, torch::kFloat);
  if (const BatchMixer mixer(train.mixup, train.cutmix); mixer.on()) {
    if (!mixer.mixup().empty()) mixup_table_ = torch::tensor(mixer.mixup()).cuda();
    if (!mixer.cutmix().empty()) cutmix_table_ = torch::tensor(mixer.cutmix()).cuda();
    other_labels_ = zeros({slots, batch_}, torch::kLong);
    share_ = zeros({slots, 1}, torch::kFloat);
  }
  const auto& layout = network.layout();
  if (data.streamed) feed_ = std::make_unique<ImageFeed>(federation.data.train.images, steps_at_once * slots * batch_);
  update_.fused = train.clip <= 0;  // a norm needs the whole gradient first
  update_.first = update_.fused ? layout.convolutions() : 0;
  update_.gradient = zeros({slots, std::max<int64_t>(layout.trained() - update_.first, 1)}, torch::kFloat);
}

RoundPlan SlotTraining::plan() const {
  const auto seed = static_cast<uint64_t>(federation_.train.seed);
  return {order_.data_ptr<int32_t>(),
          samples_.data_ptr<int32_t>(),
          clients_.data_ptr<int32_t>(),
          step_.data_ptr<int32_t>(),
          reinterpret_cast<const uint32_t*>(round_.data_ptr<int32_t>()),
          Random(seed, Purpose::augment).key(),
          Random(seed, Purpose::gate).key(),
          Random(seed, Purpose::dropout).key(),
          Random(seed, Purpose::mix).key(),
          static_cast<int>(slots_),
          static_cast<int>(batch_),
          static_cast<int>(federation_.train.local_epochs),
          static_cast<int>(longest_)};
}

void SlotTraining::begin(const std::vector<SlotClient>& clients, uint64_t method, int64_t round) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  const LocalProblem& problem = clients.front().problem;
  const StepKey key = key_of(method, problem);
  for (const auto& client : clients)
    if (key_of(method, client.problem) != key)
      throw Error(Fault::other, "method", "clients with different terms in their losses cannot train side by side",
                  "choose --device cpu");
  heads_ = problem.heads;
  feature_loss_ = problem.feature_loss;
  if (!graph_ || key != key_) {
    graph_.reset();
    key_ = key;
    load(clients);
    record_step();
  }
  load(clients);
  load_state(clients);
  prepare_round(clients, round);
  steps_ = steps_of(clients.front());
  started_ = done_ = 0;
  marks_.clear();
}

void SlotTraining::start_steps() {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  const int64_t count = std::min(steps_at_once, steps_ - started_);
  const auto half = static_cast<size_t>(started_ / steps_at_once % 2);
  if (feed_) feed_images(count);
  for (int64_t i = 0; i < count; ++i) graph_->replay();
  if (feed_) feed_->read(half);
  started_ += count;
  marks_.emplace_back(started_, at::cuda::CUDAEvent());
  marks_.back().second.record(stream_);
}

void SlotTraining::feed_images(int64_t steps) {
  std::vector<int64_t> images(static_cast<size_t>(steps * slots_ * batch_), -1);
  for (int64_t step = started_; step < started_ + steps; ++step)
    for (size_t slot = 0; slot < host_samples_.size(); ++slot) {
      const int64_t samples = host_samples_[slot], per_epoch = (samples + batch_ - 1) / batch_;
      if (samples == 0 || step >= per_epoch * federation_.train.local_epochs) continue;
      const int64_t first = step % per_epoch * batch_;
      const auto* order = host_order_[static_cast<int64_t>(slot)][step / per_epoch].data_ptr<int32_t>() + first;
      const int64_t place = ((step - started_) * slots_ + static_cast<int64_t>(slot)) * batch_;
      std::copy_n(order, std::min(batch_, samples - first), images.begin() + place);
    }
  feed_->fill(static_cast<size_t>(started_ / steps_at_once % 2), images);
}

int64_t SlotTraining::steps_in_flight() {
  for (; !marks_.empty() && marks_.front().second.query(); marks_.pop_front()) done_ = marks_.front().first;
  return started_ - done_;
}

bool SlotTraining::can_start() {
  // Streamed images have room for the steps that run and for the next.
  return started_ < steps_ && steps_in_flight() <= (feed_ ? steps_at_once : steps_ahead);
}

bool SlotTraining::done() { return started_ == steps_ && steps_in_flight() == 0; }

void SlotTraining::finish() {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  const auto loss = loss_sum_.cpu();
  const auto bad = first_bad_.cpu();
  host_state_.clear();
  for (const auto& [name, tensor] : state_) host_state_[name] = tensor.cpu();
  host_loss_.assign(loss.data_ptr<double>(), loss.data_ptr<double>() + slots_);
  host_bad_.assign(bad.data_ptr<int32_t>(), bad.data_ptr<int32_t>() + slots_);
}

int64_t SlotTraining::steps_of(const SlotClient& client) const {
  const auto samples = static_cast<int64_t>(federation_.partition[static_cast<size_t>(client.context.client)].size());
  const auto& train = federation_.train;
  return (samples + batch_ - 1) / batch_ * train.local_epochs;
}

void SlotTraining::load(const std::vector<SlotClient>& clients) {
  const auto& layout = network_.layout();
  const LocalProblem& common = clients.front().problem;  // which terms there are
  const bool corrected = common.correction.defined();
  if (corrected && !update_.correction.defined()) update_.correction = torch::zeros_like(weights_.values);
  if (common.proximal != 0) {
    const auto global = layout.from_state(clients.front().context.round.global.flat.cuda());
    if (!update_.start.defined()) update_.start = torch::empty_like(global);
    update_.start.copy_(global);
  }
  priors_.resize(common.heads.size());
  while (references_.size() < common.reference_models.size())
    references_.emplace_back(slots_, layout.size(), network_.precision(), false);
  bool alike = true;  // all start from the same weights
  // What is small goes over in one copy for all: each would cost as much as a step.
  std::vector<torch::Tensor> counts;
  std::vector<std::vector<torch::Tensor>> priors(priors_.size());
  for (size_t i = 0; i < clients.size(); ++i) {
    const auto slot = static_cast<int64_t>(i);
    const auto& [context, start, problem] = clients[i];
    if (start.data_ptr() != clients.front().start.data_ptr()) alike = false;
    if (corrected) update_.correction[slot].copy_(layout.from_state(problem.correction.cuda()));
    if (problem.class_weights.defined()) class_weights_[slot].copy_(problem.class_weights);
    counts.push_back(problem.class_sizes.defined() ? problem.class_sizes : to_tensor(context.counts));
    for (size_t model = 0; model < problem.reference_models.size(); ++model)
      references_[model].values[slot].copy_(layout.from_state(problem.reference_models[model].cuda()));
    for (size_t head = 0; head < problem.heads.size(); ++head)
      if (problem.heads[head].prior.defined()) priors[head].push_back(problem.heads[head].prior);
  }
  const auto used = static_cast<int64_t>(clients.size());
  if (alike)
    weights_.values.narrow(0, 0, used).copy_(clients.front().start.unsqueeze(0));
  else
    for (int64_t slot = 0; slot < used; ++slot) weights_.values[slot].copy_(clients[static_cast<size_t>(slot)].start);
  const auto into = [&](torch::Tensor& rows, const std::vector<torch::Tensor>& values) {
    if (!rows.defined()) rows = torch::zeros_like(class_counts_);
    rows.narrow(0, 0, static_cast<int64_t>(values.size())).copy_(torch::stack(values));
  };
  into(class_counts_, counts);
  for (size_t head = 0; head < priors.size(); ++head)
    if (!priors[head].empty()) into(priors_[head], priors[head]);
  load_offsets(common);
  weights_.restart();
  for (auto& reference : references_) reference.restart();
  update_.gradient.zero_();
}

void SlotTraining::load_offsets(const LocalProblem& problem) {
  offsets_.resize(problem.heads.size());
  for (size_t head = 0; head < offsets_.size(); ++head) {
    const auto offset = problem.heads[head].objective->logit_offset(class_counts_);
    if (!offset.defined()) continue;
    if (!offsets_[head].defined()) offsets_[head] = torch::zeros_like(class_counts_);
    offsets_[head].copy_(offset);  // in place: a recorded step reads it there
  }
}

void SlotTraining::load_state(const std::vector<SlotClient>& clients) {
  for (auto& [name, tensor] : state_) {
    std::vector<torch::Tensor> rows;
    for (const auto& client : clients) {
      const auto found = client.context.state.find(name);
      // A client state starts at zero.
      rows.push_back(found == client.context.state.end() ? torch::zeros(tensor[0].sizes(), tensor.scalar_type())
                                                         : found->second);
    }
    tensor.narrow(0, 0, static_cast<int64_t>(rows.size())).copy_(torch::stack(rows));
  }
}

void SlotTraining::prepare_round(const std::vector<SlotClient>& clients, int64_t round) {
  auto samples = torch::zeros({slots_}, torch::kInt), ids = torch::zeros({slots_}, torch::kInt);
  auto own = torch::zeros({slots_, longest_}, torch::kInt);
  for (size_t i = 0; i < clients.size(); ++i) {
    const auto& mine = federation_.partition[static_cast<size_t>(clients[i].context.client)];
    samples.data_ptr<int32_t>()[i] = static_cast<int32_t>(mine.size());
    ids.data_ptr<int32_t>()[i] = static_cast<int32_t>(clients[i].context.client);
    std::copy(mine.begin(), mine.end(), own.data_ptr<int32_t>() + static_cast<int64_t>(i) * longest_);
  }
  samples_.copy_(samples);
  clients_.copy_(ids);
  round_.fill_(static_cast<int32_t>(round));
  lr_.fill_(learning_rate(federation_.train, round));
  step_.zero_();
  loss_sum_.zero_();
  first_bad_.zero_();
  if (federation_.train.sampling != Sampling::shuffled || feed_) {
    auto order = torch::zeros(order_.sizes(), torch::kInt);
    for (size_t i = 0; i < clients.size(); ++i) {
      const auto& mine = federation_.partition[static_cast<size_t>(clients[i].context.client)];
      for (int64_t epoch = 0; epoch < order.size(1); ++epoch) {
        auto* place = order[static_cast<int64_t>(i)][epoch].data_ptr<int32_t>();
        for (const int64_t at : sample_order(federation_, clients[i].context, epoch))
          *place++ = static_cast<int32_t>(mine[static_cast<size_t>(at)]);
      }
    }
    order_.copy_(order);
    if (!feed_) return;
    host_order_ = order;
    host_samples_.assign(samples.data_ptr<int32_t>(), samples.data_ptr<int32_t>() + clients.size());
    return;
  }
  auto keys = torch::empty(order_.sizes(), on_device(torch::kLong));
  shuffle_keys(plan(), Random(static_cast<uint64_t>(federation_.train.seed), Purpose::shuffle).key(),
               keys.data_ptr<int64_t>(), stream());
  const auto places = std::get<0>(keys.sort(-1)).bitwise_and(0x7FFFFFFF).clamp_max(longest_ - 1);
  order_.copy_(own.cuda().unsqueeze(1).expand(order_.sizes()).gather(-1, places));
}

void SlotTraining::record_step() {
  // Once without samples, so that libraries are loaded and losses have made their state; it changes nothing.
  samples_.zero_();
  step_.zero_();
  state_.clear();
  int64_t numbers = 0;
  for (const auto& head : heads_)
    numbers = std::max(numbers, head.objective->uniforms(batch_, federation_.model->classes));
  uniforms_ = torch::zeros({slots_, numbers}, on_device(torch::kFloat));
  step();
  // What that left cached would not be given back during the recording, which needs as much again.
  c10::cuda::device_synchronize();
  c10::cuda::CUDACachingAllocator::emptyCache();
  auto graph = std::make_unique<at::cuda::CUDAGraph>();
  graph->capture_begin();
  try {
    step();
  } catch (...) {  // a stream left recording would take nothing else
    try {
      graph->capture_end();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): it cannot be completed, as we know
    }
    throw;
  }
  graph->capture_end();
  graph_ = std::move(graph);
}

std::vector<SlotTraining::Stretch> SlotTraining::stretches(int64_t first, bool has_terms) const {
  const Model& model = *federation_.model;
  const auto& layout = network_.layout();
  std::map<int64_t, Stretch> by_start;
  for (const auto& p : model.parameters)
    if (const int64_t from = layout.offset(p.name); p.trained() && from >= first)
      by_start[from] = {from, from, has_terms && !is_auxiliary(model, p),
                        federation_.train.decay_norms || p.kind == ParameterKind::weight};
  std::vector<Stretch> found;
  for (const auto& [from, next] : by_start) {
    if (!found.empty() && found.back().with_terms == next.with_terms && found.back().decays == next.decays) continue;
    if (!found.empty()) found.back().to = from;
    found.push_back(next);
  }
  if (!found.empty()) found.back().to = layout.trained();
  return found;
}

void SlotTraining::mix() {
  if (!share_.defined()) return;
  const auto table = [](const torch::Tensor& t) { return t.defined() ? t.data_ptr<float>() : nullptr; };
  const auto shape = federation_.data.shape();
  mix_images(network_.precision(), {table(mixup_table_), table(cutmix_table_)}, plan(), counts_.data_ptr<int32_t>(),
             static_cast<int>(shape.height), static_cast<int>(shape.width), images_.data_ptr(),
             labels_.data_ptr<int64_t>(), other_labels_.data_ptr<int64_t>(), share_.data_ptr<float>(), stream());
}

void SlotTraining::step() {
  const auto& layout = network_.layout();
  const auto& train = federation_.train;
  BatchSource source = data_.source;
  if (feed_) source.pixels = feed_->pixels(), source.window = static_cast<int>(steps_at_once);
  gather_batch(network_.precision(), source, plan(), images_.data_ptr(), labels_.data_ptr<int64_t>(),
               mask_.data_ptr<float>(), counts_.data_ptr<int32_t>(), stream());
  mix();
  if (uniforms_.size(1) > 0)
    gate_uniforms(plan(), static_cast<int>(uniforms_.size(1)), uniforms_.data_ptr<float>(), stream());
  SlotNetwork::Tape tape{.plan = plan()};
  const auto features = network_.forward(weights_, images_, counts_, &tape);
  torch::Tensor loss;
  auto feature_gradient = heads_fit_kernel() ? train_heads_in_kernel(features, loss) : train_heads(features, loss);
  if (feature_loss_ != nullptr) feature_gradient = feature_gradient + compare_features(features, loss);
  update_.rule = {lr_.data_ptr<float>(), static_cast<float>(train.momentum), static_cast<float>(train.weight_decay),
                  static_cast<float>(key_.proximal)};
  Update update = update_;
  if (key_.proximal == 0) update.start.reset();
  if (!key_.correction) update.correction.reset();
  network_.backward(weights_, images_, counts_, tape, feature_gradient, update);

  const int64_t first = update.first, size = layout.trained() - first;
  const float* factor = nullptr;
  if (!update.fused) {
    clip_factors(update.gradient.data_ptr<float>(), size, update.gradient.size(1), static_cast<int>(slots_),
                 static_cast<float>(train.clip), clip_scratch_.data_ptr<double>(), clip_factor_.data_ptr<float>(),
                 stream());
    factor = clip_factor_.data_ptr<float>();
  }
  const bool has_terms = update.start.defined() || update.correction.defined();
  for (const auto& [from, to, with_terms, decays] : stretches(first, has_terms)) {
    const auto at = [from = from](const torch::Tensor& t) {
      return t.defined() ? t.data_ptr<float>() + from : nullptr;
    };
    auto rule = update.rule;
    if (!with_terms) rule.proximal = 0;
    if (!decays) rule.decay = 0;
    const SlotTensor rest{at(weights_.values),
                          at(weights_.velocity),
                          weights_.copy.defined() ? static_cast<char*>(weights_.copy.data_ptr()) + from * 2 : nullptr,
                          with_terms ? at(update.start) : nullptr,
                          with_terms ? at(update.correction) : nullptr,
                          layout.size()};
    sgd_step(rest, to - from, update.gradient.data_ptr<float>() + (from - first), update.gradient.size(1), factor,
             counts_.data_ptr<int32_t>(), static_cast<int>(slots_), rule, stream());
  }
  finish_step(loss.data_ptr<float>(), counts_.data_ptr<int32_t>(), static_cast<int>(slots_),
              loss_sum_.data_ptr<double>(), first_bad_.data_ptr<int32_t>(), step_.data_ptr<int32_t>(), stream());
}

ClientReport SlotTraining::report(const SlotClient& client, size_t at) const {
  const auto samples = static_cast<int64_t>(federation_.partition[static_cast<size_t>(client.context.client)].size());
  const auto& train = federation_.train;
  ClientReport report{.client = client.context.client};
  report.steps = steps_of(client);
  report.samples = samples * train.local_epochs;
  if (host_bad_[at] != 0) throw_bad_loss(host_loss_[at], client.context, host_bad_[at]);
  report.loss = host_loss_[at] / static_cast<double>(std::max<int64_t>(report.samples, 1));
  return report;
}

void SlotTraining::read_state(TensorMap& client_state, size_t at) const {
  for (const auto& [name, tensor] : host_state_) client_state[name] = tensor[static_cast<int64_t>(at)].clone();
}

}  // namespace fedgrab::cuda
