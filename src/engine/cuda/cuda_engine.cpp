/// Many clients as one problem on the device. A cohort is trained in waves of at most `slots` clients, the largest
/// first, so that clients of a wave end at about the same time; memory grows with slots, not with clients. A wave is
/// cut into a few groups, each a batched problem on a stream of its own: while one waits for memory, another computes.
/// The group of the largest clients comes first at the device, since the round cannot end before they do.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <algorithm>

#include "../cohort.h"
#include "../engines.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/model/head.h"
#include "slot_training.h"

namespace fedgrab {
namespace {

using namespace cuda;

constexpr int64_t largest_evaluation_batch = 500;
constexpr int64_t evaluation_bytes = int64_t{4} << 30;
constexpr int64_t lowest_priority = 3;  // LibTorch has streams of priority 0 to −3
constexpr int64_t steps_per_look = 32;  // at the interrupt flag
constexpr double share_of_free = 0.9;

Precision precision_of(const std::string& name) {
  return name == "fp32" ? Precision::fp32 : name == "tf32" ? Precision::tf32 : Precision::bf16;
}

/// Bytes one slot takes: weights, momentum, the bf16 copy and the model it starts from; the gradient where it is kept;
/// activations and their gradients.
int64_t slot_bytes(const SlotNetwork& network, const TrainParams& train, int64_t batch) {
  const auto& layout = network.layout();
  const int64_t per_weight = network.precision() == Precision::bf16 ? 14 : 12;
  const int64_t gradient = 4 * (layout.trained() - (train.clip > 0 ? 0 : layout.convolutions()));
  return layout.size() * per_weight + gradient + batch * network.activation_bytes();
}

bool add_on_device(const torch::Tensor& values, double weight, torch::Tensor& total) {
  const auto flat = values.contiguous();
  auto bad = torch::zeros({1}, flat.options().dtype(torch::kInt));
  add_fixed(flat.data_ptr<float>(), flat.numel(), weight, total.data_ptr<int64_t>(), bad.data_ptr<int32_t>(),
            c10::cuda::getCurrentCUDAStream().stream());
  return bad.item<int32_t>() == 0;
}

/// Waits for the device when it goes: nothing that was handed to it may be freed while it works, whatever was thrown.
struct Settle {
  Settle() = default;
  Settle(const Settle&) = delete;
  Settle& operator=(const Settle&) = delete;
  ~Settle() { cudaDeviceSynchronize(); }
};

/// Clients trained side by side.
struct Wave {
  std::vector<std::vector<int64_t>> counts;
  std::vector<TensorMap> memories;
  std::vector<std::vector<SlotClient>> dealt;    // by group
  std::vector<std::pair<size_t, size_t>> where;  // of each client: group and place in it
};

class CudaEngine : public Engine {
 public:
  CudaEngine(const EngineParams& params, const Federation& federation)
      : federation_(federation),
        stream_(c10::cuda::getStreamFromPool()),
        name_(params.precision),
        network_(federation.model, precision_of(params.precision)),
        train_(federation.data.train, federation.data.normalisation, federation.data.augmentation),
        evaluation_weights_(1, network_.layout().size(), network_.precision(), false) {
    use_device_add(add_on_device);
    // cuBLAS does not ask the allocator, so it is called while there is room: in this thread and in autograd's.
    const auto one = torch::ones({2, 2}, torch::kCUDA).requires_grad_();
    one.mm(one).sum().backward();
    groups_wanted_ = params.groups;
    deterministic_ = params.deterministic;
    slots_ = std::min<int64_t>(params.slots, static_cast<int64_t>(federation.partition.size()));
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    double budget = static_cast<double>(free) * share_of_free;
    if (params.memory > 0) budget = std::min(budget, params.memory * 0x1.0p30);
    const auto each = static_cast<double>(
        slot_bytes(network_, federation.train, largest_batch(federation.train, federation.partition)));
    const auto fit = static_cast<int64_t>(budget / each);
    if (fit < 1 && params.memory > 0)
      throw Error(Fault::usage, "engine.memory", fmt::format("one client needs {:.1f} GiB", each * 0x1.0p-30),
                  "raise it or lower train.batch");
    if (deterministic_ && fit < slots_)
      throw Error(Fault::usage, "engine.deterministic",
                  fmt::format("{} slots do not fit, {} would; fewer would give other bits", slots_, fit),
                  fmt::format("set engine.slots={}", std::max<int64_t>(fit, 1)));
    slots_ = std::clamp<int64_t>(slots_, 1, std::max<int64_t>(fit, 1));
    c10::cuda::device_synchronize();  // what was uploaded so far went through another stream
  }

  ~CudaEngine() override {
    cudaDeviceSynchronize();
    groups_.clear();
    at::cuda::clearCublasWorkspaces();  // one per stream, and the next engine takes other streams
  }
  CudaEngine(const CudaEngine&) = delete;
  CudaEngine& operator=(const CudaEngine&) = delete;

  std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) override;
  Predictions predict(const State& state, const Split& split) override;
  std::string describe() const override {
    return fmt::format("{}, {}, {} slots in {} groups", at::cuda::getCurrentDeviceProperties()->name, name_, slots_,
                       std::min(groups_wanted_, slots_));
  }
  std::map<std::string, double> phase_seconds() const override { return phases_; }
  int64_t peak_device_bytes() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    return stats.reserved_bytes[0].peak;
  }

 private:
  void make_groups();
  void train_wave(const RoundTask& task, const torch::Tensor& global, std::span<const size_t> places,
                  const ClientStore& store, Wave& wave);
  void collect(const RoundTask& task, std::span<const size_t> places, Wave& wave, Sums& sums, ClientStore& store,
               std::vector<ClientReport>& reports);
  Predictions predict(const torch::Tensor& flat, const Split& split);
  /// Runs the loaded model over `count` images, those of `indices` where it is defined, else the first ones: calls
  /// take(first, features [some, …]) batch after batch.
  template <class Take>
  void run_over(const DeviceImages& data, const torch::Tensor& indices, int64_t count, Take take);
  void load_for_evaluation(const torch::Tensor& flat);
  /// Shows the method what the loaded model makes of a client's images.
  void observe(const Method& method, const ClientView& view, const std::vector<int64_t>& own);
  const DeviceImages& resident(const Split& split);

  const Federation& federation_;
  c10::cuda::CUDAStream stream_;
  std::string name_;
  SlotNetwork network_;
  DeviceImages train_;
  SlotWeights evaluation_weights_;
  std::map<const uint8_t*, std::pair<Images, DeviceImages>> resident_;  // evaluated so far; the bytes are kept alive
  int64_t slots_ = 1, groups_wanted_ = 1;
  bool deterministic_ = false;
  std::vector<std::unique_ptr<SlotTraining>> groups_;
  std::map<std::string, double> phases_;
};

std::vector<ClientReport> CudaEngine::train(const RoundTask& task, Sums& sums, ClientStore& store) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  const auto order = by_size(task.clients, federation_.partition);
  std::vector<ClientReport> reports(order.size());
  phases_.clear();
  const auto global = task.global.flat.cuda();
  size_t next = 0;
  while (next < order.size()) {
    const auto first = next;
    next = std::min(order.size(), first + static_cast<size_t>(slots_));
    const auto places = std::span(order).subspan(first, next - first);
    Wave wave;
    try {
      make_groups();
      train_wave(task, global, places, store, wave);
    } catch (const c10::OutOfMemoryError&) {  // no client of this wave has been added to the sums
      if (deterministic_)
        throw Error(Fault::other, "device memory", fmt::format("not enough for {} slots", slots_),
                    "lower engine.slots, or let engine.deterministic go");
      if (slots_ == 1) throw Error(Fault::other, "device memory", "not enough for one client", "lower train.batch");
      groups_.clear();
      c10::cuda::CUDACachingAllocator::emptyCache();
      slots_ = (slots_ + 1) / 2;
      warn(fmt::format("the device is out of memory: going on with {} clients at once", slots_));
      next = first;
      continue;
    }
    collect(task, places, wave, sums, store, reports);
  }
  return reports;
}

void CudaEngine::make_groups() {
  if (!groups_.empty()) return;
  const int64_t count = std::min(groups_wanted_, slots_);
  for (int64_t g = 0; g < count; ++g)
    groups_.push_back(std::make_unique<SlotTraining>(federation_, network_, train_, (slots_ + count - 1 - g) / count,
                                                     static_cast<int>(-std::max<int64_t>(lowest_priority - g, 0))));
  c10::cuda::device_synchronize();
}

void CudaEngine::train_wave(const RoundTask& task, const torch::Tensor& global, std::span<const size_t> places,
                            const ClientStore& store, Wave& wave) {
  Stopwatch watch;
  const auto total = total_samples(task.clients, federation_.partition);
  wave.dealt.resize(groups_.size());
  wave.counts.reserve(places.size());
  wave.memories.reserve(places.size());  // views refer to both
  if (task.method.wants_features()) load_for_evaluation(global);
  const auto common = network_.layout().from_state(global);
  // As make_groups() cuts the slots: the first groups take one more.
  const size_t each = places.size() / groups_.size(), more = places.size() % groups_.size();
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t group = i < more * (each + 1) ? i / (each + 1) : more + (i - more * (each + 1)) / each;
    const int64_t client = task.clients[places[i]];
    const auto& own = federation_.partition[static_cast<size_t>(client)];
    wave.counts.push_back(class_counts(federation_.data.train.labels, own, federation_.data.classes()));
    wave.memories.push_back(store.read(client));
    const auto view = view_of(federation_, task, client, total, wave.counts.back(), wave.memories.back());
    if (task.method.wants_features()) observe(task.method, view, own);
    auto start = common;
    if (task.method.prepares(task.round)) {
      const State own_start{federation_.model, global.clone()};
      task.method.prepare(view, own_start);
      start = network_.layout().from_state(own_start.flat);
    }
    wave.where.emplace_back(group, wave.dealt[group].size());
    wave.dealt[group].push_back({view, start, task.method.client_rule(view)});
  }
  c10::cuda::device_synchronize();  // groups read on their own streams what was prepared on this one
  const Settle settle;
  std::vector<int64_t> steps(groups_.size());
  for (size_t g = 0; g < groups_.size(); ++g)
    if (!wave.dealt[g].empty()) steps[g] = groups_[g]->begin(wave.dealt[g], task.round);
  c10::cuda::device_synchronize();
  phases_["load"] += watch.lap();
  for (int64_t t = 0; t < *std::max_element(steps.begin(), steps.end()); ++t) {
    if (t % steps_per_look == 0) throw_if_interrupted();
    for (size_t g = 0; g < groups_.size(); ++g)
      if (t < steps[g]) groups_[g]->start_step();
  }
  for (size_t g = 0; g < groups_.size(); ++g)
    if (!wave.dealt[g].empty()) groups_[g]->finish();
  phases_["steps"] += watch.lap();
}

void CudaEngine::collect(const RoundTask& task, std::span<const size_t> places, Wave& wave, Sums& sums,
                         ClientStore& store, std::vector<ClientReport>& reports) {
  Stopwatch watch;
  for (size_t i = 0; i < places.size(); ++i) {
    const auto [group, place] = wave.where[i];
    const auto& client = wave.dealt[group][place];
    const auto& trained = *groups_[group];
    trained.read_memory(client.view.memory, place);
    auto& report = reports[places[i]];
    report = trained.report(client, place);
    const State local{federation_.model, trained.state(place)};
    contribute(federation_, task, client.view, local, report, sums);
    if (task.evaluate_clients) {
      const Split& test = federation_.data.test;
      const auto own = task.method.personalised(client.view, local);
      report.accuracy = class_accuracy(predict(own.flat, test).classes, test.labels, federation_.data.classes());
    }
    store.write(client.view.client, std::move(wave.memories[i]));
  }
  c10::cuda::device_synchronize();
  phases_["collect"] += watch.lap();
}

const DeviceImages& CudaEngine::resident(const Split& split) {
  const auto* const key = split.images.bytes.data();
  if (key == federation_.data.train.images.bytes.data()) return train_;
  const auto found = resident_.find(key);
  if (found != resident_.end() && found->second.first.bytes.size() == split.images.bytes.size())
    return found->second.second;
  DeviceImages images(split, federation_.data.normalisation, Augmentation{});
  return resident_.insert_or_assign(key, std::pair(split.images, std::move(images))).first->second.second;
}

Predictions CudaEngine::predict(const State& state, const Split& split) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  return predict(state.flat.cuda(), split);
}

void CudaEngine::load_for_evaluation(const torch::Tensor& flat) {
  evaluation_weights_.values[0].copy_(network_.layout().from_state(flat));
  evaluation_weights_.restart();
}

template <class Take>
void CudaEngine::run_over(const DeviceImages& data, const torch::Tensor& indices, int64_t count, Take take) {
  const torch::NoGradGuard no_graph;
  const auto options = torch::TensorOptions().device(torch::kCUDA);
  const int64_t batch = std::clamp<int64_t>(
      std::min(evaluation_bytes / network_.activation_bytes(), network_.largest_batch()), 1, largest_evaluation_batch);
  const auto shape = federation_.data.shape();
  auto images = torch::empty({1, batch, shape.height, shape.width, channel_padding}, options.dtype(network_.type()));
  for (int64_t first = 0; first < count; first += batch) {
    throw_if_interrupted();
    const int64_t some = std::min(batch, count - first);
    const auto counts = torch::full({1}, some, options.dtype(torch::kInt));
    gather_plain(network_.precision(), data.source, indices.defined() ? indices.data_ptr<int32_t>() : nullptr, first,
                 static_cast<int>(some), images.data_ptr(), stream_.stream());
    take(first, network_.forward(evaluation_weights_, images, counts, nullptr)[0].narrow(0, 0, some));
  }
}

void CudaEngine::observe(const Method& method, const ClientView& view, const std::vector<int64_t>& own) {
  const auto indices = torch::tensor(own, torch::kInt).cuda();
  std::vector<torch::Tensor> features;
  run_over(train_, indices, static_cast<int64_t>(own.size()),
           [&](int64_t /*first*/, const torch::Tensor& some) { features.push_back(some.clone()); });
  method.observe(view, torch::cat(features), train_.labels.index_select(0, indices).to(torch::kLong));
}

Predictions CudaEngine::predict(const torch::Tensor& flat, const Split& split) {
  const auto& data = resident(split);
  const auto options = torch::TensorOptions().device(torch::kCUDA);
  load_for_evaluation(flat);
  const State state{federation_.model, flat};
  const Head& head = federation_.model->heads.front();
  auto classes = torch::empty({split.count()}, options.dtype(torch::kInt));
  auto loss = torch::zeros({}, options.dtype(torch::kDouble));
  run_over(data, {}, split.count(), [&](int64_t first, const torch::Tensor& features) {
    const auto logits =
        head_logits(head, features, [&](const std::string& suffix) { return state.view(head.name + suffix); });
    classes.narrow(0, first, features.size(0)).copy_(logits.argmax(1));
    const auto labels = data.labels.narrow(0, first, features.size(0)).to(torch::kLong);
    loss -= logits.log_softmax(1).gather(1, labels.unsqueeze(1)).to(torch::kDouble).sum();
  });
  const auto host = classes.cpu();
  return {{host.data_ptr<int32_t>(), host.data_ptr<int32_t>() + split.count()},
          loss.item<double>() / static_cast<double>(std::max<int64_t>(split.count(), 1))};
}

}  // namespace

bool cuda_usable() { return torch::cuda::is_available() && at::cuda::getCurrentDeviceProperties()->major >= 8; }

std::unique_ptr<Engine> make_cuda_engine(const EngineParams& params, const Federation& federation) {
  // So that what it needs can be told apart from what others left cached. The allocator comes to life with a first
  // tensor.
  torch::zeros({1}, torch::kCUDA);
  c10::cuda::CUDACachingAllocator::emptyCache();
  c10::cuda::CUDACachingAllocator::resetPeakStats(c10::cuda::current_device());
  return std::make_unique<CudaEngine>(params, federation);
}

}  // namespace fedgrab
