/// Many clients as one problem on the device. The slots are cut into a few groups, each a batched problem on a stream
/// of its own: while one waits for memory, another computes. A cohort is scheduled in slot batches as large as a group,
/// the largest clients first, so that those of a batch end at about the same time; a group takes the next batch when it
/// is done with one, and is loaded and collected while the others train. Memory grows with slots, not with clients.
/// Which group trained whom leaves no trace: all are alike, and sums do not depend on the order.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

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
constexpr double share_of_free = 0.9;

/// Bytes one slot takes: weights, momentum, the bf16 copy and the model it starts from; the gradient where it is kept;
/// activations and their gradients; images on their way, where they are streamed.
int64_t slot_bytes(const SlotNetwork& network, const TrainParams& train, int64_t batch, int64_t streamed_image) {
  const auto& layout = network.layout();
  const int64_t per_weight = network.precision() == Precision::bf16 ? 14 : 12;
  const int64_t gradient = 4 * (layout.trained() - (train.clip > 0 ? 0 : layout.convolutions()));
  return layout.size() * per_weight + gradient +
         batch * (network.activation_bytes() + 2 * SlotTraining::steps_at_once * streamed_image);
}

/// Whether images stay with the host and come over as they are used.
bool streams_images(const EngineParams& params, const Federation& federation) {
  if (params.data != DeviceData::automatic) return params.data == DeviceData::streamed;
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return federation.data.train.images.bytes.size() + federation.data.test.images.bytes.size() > free / 2;
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

/// Clients trained side by side in a group.
struct SlotBatch {
  std::span<const size_t> places;  // in the cohort
  std::vector<std::vector<int64_t>> counts;
  std::vector<TensorMap> states;
  std::vector<SlotClient> clients;  // their contexts refer to both
};

class CudaEngine : public Engine {
 public:
  CudaEngine(const EngineParams& params, const Federation& federation)
      : federation_(federation),
        stream_(c10::cuda::getStreamFromPool()),
        name_(name_of(params.precision)),
        tiles_(params.precision, !params.deterministic),
        network_(federation.model, params.precision, tiles_),
        streamed_(streams_images(params, federation)),
        train_(federation.data.train, federation.data.normalisation, federation.data.augmentation, streamed_),
        evaluation_weights_(1, network_.layout().size(), network_.precision(), false) {
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
    const auto each = static_cast<double>(slot_bytes(network_, federation.train,
                                                     largest_batch(federation.train, federation.partition),
                                                     streamed_ ? federation.data.train.images.stored().size() : 0));
    fit_ = static_cast<int64_t>(budget / each);
    if (fit_ < 1 && params.memory > 0)
      throw Error(Fault::usage, "engine.memory", fmt::format("one client needs {:.1f} GiB", each * 0x1.0p-30),
                  "raise it or lower train.batch");
    const int64_t at_once = std::max<int64_t>(fit_, 1);
    if (deterministic_ && fit_ < slots_)
      throw Error(Fault::usage, "engine.deterministic",
                  fmt::format("{} slots do not fit, {} would; fewer would give other bits", slots_, fit_),
                  fmt::format("set engine.slots={}", at_once));
    if (fit_ < slots_)
      warn(fmt::format(
          "{:.1f} GiB of device memory{} hold {} clients at once instead of {}: training is slower for that",
          budget * 0x1.0p-30, params.memory > 0 ? " (engine.memory)" : "", at_once, slots_));
    slots_ = std::clamp<int64_t>(slots_, 1, at_once);
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
  Predictions predict_part(const State& state, const Split& split, int64_t first, int64_t count, bool logits) override;
  std::string describe() const override {
    return fmt::format("{}, {}, {} slots in {} groups", at::cuda::getCurrentDeviceProperties()->name, name_, slots_,
                       groups().first);
  }
  std::map<std::string, double> phase_seconds() const override { return phases_; }
  int64_t peak_device_bytes() const override {
    const auto stats = c10::cuda::CUDACachingAllocator::getDeviceStats(c10::cuda::current_device());
    return stats.reserved_bytes[0].peak;
  }

 private:
  /// How many, and their slots: all alike, so that it does not matter who trains whom.
  std::pair<int64_t, int64_t> groups() const {
    const int64_t each = (slots_ + groups_wanted_ - 1) / groups_wanted_;
    return {std::min((slots_ + each - 1) / each, std::max<int64_t>(fit_ / each, 1)), each};
  }
  void make_groups();
  /// Trains the clients at `places` of the cohort, the largest first, and removes each slot batch from `places` when it
  /// has been collected.
  void train_batches(const RoundTask& task, const torch::Tensor& global, std::vector<size_t>& places, Sums& sums,
                     ClientStore& store, std::vector<ClientReport>& reports);
  void load(const RoundTask& task, const torch::Tensor& global, const torch::Tensor& common, SlotTraining& group,
            SlotBatch& batch, const ClientStore& store);
  void collect(const RoundTask& task, SlotTraining& group, SlotBatch& batch, Sums& sums, ClientStore& store,
               std::vector<ClientReport>& reports);
  Predictions predict_on_device(const State& state, const Split& split, int64_t first, int64_t count, bool logits);
  /// Runs the loaded model over `count` images, those of `indices` where there are any, else those from `start` on:
  /// calls take(first, features [some, …]) batch after batch, `first` counted from 0.
  template <class Take>
  void run_over(const DeviceImages& data, const Images& images, std::span<const int64_t> indices, int64_t start,
                int64_t count, Take take);
  void load_for_evaluation(const torch::Tensor& flat);
  /// What the loaded model makes of a client's images.
  LabelledFeatures features_of(const std::vector<int64_t>& own);
  const DeviceImages& resident(const Split& split);

  const Federation& federation_;
  c10::cuda::CUDAStream stream_;
  std::string name_;
  TileChoice tiles_;
  SlotNetwork network_;
  bool streamed_;
  DeviceImages train_;
  SlotWeights evaluation_weights_;
  std::map<const uint8_t*, std::pair<Images, DeviceImages>> resident_;  // evaluated so far; the bytes are kept alive
  int64_t slots_ = 1, fit_ = 1, groups_wanted_ = 1;
  bool deterministic_ = false;
  std::vector<std::unique_ptr<SlotTraining>> groups_;
  std::map<std::string, double> phases_;
};

std::vector<ClientReport> CudaEngine::train(const RoundTask& task, Sums& sums, ClientStore& store) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  std::vector<ClientReport> reports(task.clients.size());
  sums.use(add_on_device);
  phases_.clear();
  const auto global = task.round.global.flat.cuda();
  const Settle settle;
  for (auto places = by_size(task.clients, federation_.partition); !places.empty();) {
    try {
      make_groups();
      train_batches(task, global, places, sums, store, reports);
    } catch (const c10::OutOfMemoryError&) {  // no client that is still in `places` has been added to the sums
      cudaDeviceSynchronize();
      if (deterministic_)
        throw Error(Fault::other, "device memory", fmt::format("not enough for {} slots", slots_),
                    "lower engine.slots, or let engine.deterministic go");
      if (slots_ == 1) throw Error(Fault::other, "device memory", "not enough for one client", "lower train.batch");
      groups_.clear();
      c10::cuda::CUDACachingAllocator::emptyCache();
      fit_ = slots_ = (slots_ + 1) / 2;
      warn(fmt::format("the device is out of memory: going on with {} clients at once", slots_));
    }
  }
  tiles_.remember();
  return reports;
}

void CudaEngine::make_groups() {
  if (!groups_.empty()) return;
  const auto [count, each] = groups();
  tiles_.share(count);
  for (int64_t g = 0; g < count; ++g)
    groups_.push_back(std::make_unique<SlotTraining>(federation_, network_, train_, each,
                                                     static_cast<int>(-std::max<int64_t>(lowest_priority - g, 0))));
  c10::cuda::device_synchronize();
}

void CudaEngine::train_batches(const RoundTask& task, const torch::Tensor& global, std::vector<size_t>& places,
                               Sums& sums, ClientStore& store, std::vector<ClientReport>& reports) {
  const auto common = network_.layout().from_state(global);
  c10::cuda::device_synchronize();  // groups read on their own streams what was prepared on this one
  const auto all = places;
  std::vector<SlotBatch> batches(groups_.size());  // where a group has one
  size_t scheduled = 0, collected = 0;
  Stopwatch watch;
  const Stopwatch whole;
  double load_seconds = 0, collect_seconds = 0;
  while (collected < all.size()) {
    throw_if_interrupted();
    bool waiting = true;
    for (size_t g = 0; g < groups_.size(); ++g) {
      auto& group = *groups_[g];
      auto& batch = batches[g];
      if (batch.places.empty() && scheduled < all.size()) {
        watch.lap();
        batch.places =
            std::span(all).subspan(scheduled, std::min(all.size() - scheduled, static_cast<size_t>(group.slots())));
        scheduled += batch.places.size();
        load(task, global, common, group, batch, store);
        load_seconds += watch.lap();
        waiting = false;
      }
      if (batch.places.empty()) continue;
      if (group.can_start()) {
        group.start_steps();
        waiting = false;
      } else if (group.done()) {
        watch.lap();
        collect(task, group, batch, sums, store, reports);
        collected += batch.places.size();
        std::erase_if(places,
                      [&](size_t place) { return std::ranges::find(batch.places, place) != batch.places.end(); });
        batch = {};
        collect_seconds += watch.lap();
        waiting = false;
      }
    }
    if (waiting) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  phases_["load"] += load_seconds;
  phases_["collect"] += collect_seconds;
  phases_["steps"] += whole.elapsed() - load_seconds - collect_seconds;
}

void CudaEngine::load(const RoundTask& task, const torch::Tensor& global, const torch::Tensor& common,
                      SlotTraining& group, SlotBatch& batch, const ClientStore& store) {
  const c10::cuda::CUDAStreamGuard guard(group.stream());
  const bool features = task.method.needs().features;
  batch.counts.reserve(batch.places.size());
  batch.states.reserve(batch.places.size());  // contexts refer to both
  if (features) load_for_evaluation(global);
  for (const size_t place : batch.places) {
    const int64_t client = task.clients[place];
    const auto& own = federation_.partition[static_cast<size_t>(client)];
    batch.counts.push_back(class_counts(federation_.data.train.labels, own, federation_.data.classes()));
    batch.states.push_back(store.read(client));
    const auto context = context_of(task.round, client, batch.counts.back(), batch.states.back());
    const bool own_start = task.method.own_start(task.round.round);
    State start{federation_.model, own_start ? global.clone() : global};
    const auto seen = features ? features_of(own) : LabelledFeatures{};
    task.method.before_training(context, start, features ? &seen : nullptr);
    batch.clients.push_back(
        {context, own_start ? network_.layout().from_state(start.flat) : common, task.method.configure(context)});
  }
  group.begin(batch.clients, task.method.id(), task.round.round);
}

void CudaEngine::collect(const RoundTask& task, SlotTraining& group, SlotBatch& batch, Sums& sums, ClientStore& store,
                         std::vector<ClientReport>& reports) {
  const c10::cuda::CUDAStreamGuard guard(group.stream());
  try {
    group.finish();
    for (size_t i = 0; i < batch.places.size(); ++i) {
      const auto& client = batch.clients[i];
      group.read_state(client.context.state, i);
      auto& report = reports[batch.places[i]];
      report = group.report(client, i);
      const State local{federation_.model, group.state(i)};
      send_update(federation_, task, client.context, local, report, sums);
      if (task.evaluate_clients) {
        const Split& test = federation_.data.test;
        const auto own = task.method.personalise(client.context, local);
        report.accuracy = class_accuracy(predict_on_device(own, test, 0, test.count(), false).classes, test.labels,
                                         federation_.data.classes());
      }
      store.write(client.context.client, std::move(batch.states[i]));
    }
  } catch (const c10::OutOfMemoryError&) {  // some of the batch may be in the sums already
    throw Error(Fault::other, "device memory", "not enough to collect a client", "lower engine.slots");
  }
}

const DeviceImages& CudaEngine::resident(const Split& split) {
  const auto* const key = split.images.bytes.data();
  if (key == federation_.data.train.images.bytes.data()) return train_;
  const auto found = resident_.find(key);
  if (found != resident_.end() && found->second.first.bytes.size() == split.images.bytes.size())
    return found->second.second;
  DeviceImages images(split, federation_.data.normalisation, Augmentation{}, streamed_);
  return resident_.insert_or_assign(key, std::pair(split.images, std::move(images))).first->second.second;
}

Predictions CudaEngine::predict_part(const State& state, const Split& split, int64_t first, int64_t count,
                                     bool logits) {
  const c10::cuda::CUDAStreamGuard guard(stream_);
  return predict_on_device({state.model, state.flat.cuda()}, split, first, count, logits);
}

void CudaEngine::load_for_evaluation(const torch::Tensor& flat) {
  evaluation_weights_.values[0].copy_(network_.layout().from_state(flat));
  evaluation_weights_.restart();
}

template <class Take>
void CudaEngine::run_over(const DeviceImages& data, const Images& images, std::span<const int64_t> indices,
                          int64_t start, int64_t count, Take take) {
  const torch::NoGradGuard no_graph;
  const auto options = torch::TensorOptions().device(torch::kCUDA);
  const int64_t batch = std::clamp<int64_t>(
      std::min(evaluation_bytes / network_.activation_bytes(), network_.largest_batch()), 1, largest_evaluation_batch);
  const auto shape = federation_.data.shape();
  auto input = torch::empty({1, batch, shape.height, shape.width, channel_padding}, options.dtype(network_.type()));
  BatchSource source = data.source;
  std::unique_ptr<ImageFeed> feed;
  if (data.streamed) feed = std::make_unique<ImageFeed>(images, batch);
  torch::Tensor listed;  // on the device
  if (!indices.empty() && !feed)
    listed = torch::tensor(std::vector<int32_t>(indices.begin(), indices.end()), torch::kInt).cuda();
  for (int64_t first = 0; first < count; first += batch) {
    throw_if_interrupted();
    const int64_t some = std::min(batch, count - first);
    const auto counts = torch::full({1}, some, options.dtype(torch::kInt));
    const auto stream = c10::cuda::getCurrentCUDAStream().stream();
    if (feed) {
      std::vector<int64_t> wanted(static_cast<size_t>(some));
      for (int64_t i = 0; i < some; ++i)
        wanted[static_cast<size_t>(i)] = indices.empty() ? start + first + i : indices[static_cast<size_t>(first + i)];
      const auto half = static_cast<size_t>(first / batch % 2);
      feed->fill(half, wanted);
      source.pixels = feed->pixels();
      gather_plain(network_.precision(), source, nullptr, static_cast<int64_t>(half) * batch, static_cast<int>(some),
                   input.data_ptr(), stream);
      feed->read(half);
    } else {
      gather_plain(network_.precision(), source, listed.defined() ? listed.data_ptr<int32_t>() : nullptr,
                   listed.defined() ? first : start + first, static_cast<int>(some), input.data_ptr(), stream);
    }
    take(first, network_.forward(evaluation_weights_, input, counts, nullptr)[0].narrow(0, 0, some));
  }
  if (feed) c10::cuda::getCurrentCUDAStream().synchronize();
}

LabelledFeatures CudaEngine::features_of(const std::vector<int64_t>& own) {
  const auto indices = torch::tensor(own, torch::kInt).cuda();
  std::vector<torch::Tensor> features;
  run_over(train_, federation_.data.train.images, own, 0, static_cast<int64_t>(own.size()),
           [&](int64_t /*first*/, const torch::Tensor& some) { features.push_back(some.clone()); });
  c10::cuda::getCurrentCUDAStream().synchronize();  // the evaluation's weights may be another model's next
  return {torch::cat(features), train_.labels.index_select(0, indices).to(torch::kLong)};
}

Predictions CudaEngine::predict_on_device(const State& state, const Split& split, int64_t start, int64_t count,
                                          bool with_logits) {
  const auto& data = resident(split);
  const auto options = torch::TensorOptions().device(torch::kCUDA);
  load_for_evaluation(state.flat);
  const Head& head = state.model->heads.front();  // which may differ from the one that was trained
  auto classes = torch::empty({count}, options.dtype(torch::kInt));
  auto loss = torch::zeros({}, options.dtype(torch::kDouble));
  torch::Tensor all;
  if (with_logits) all = torch::empty({count, state.model->classes}, options.dtype(torch::kFloat));
  run_over(data, split.images, {}, start, count, [&](int64_t first, const torch::Tensor& features) {
    const auto logits =
        head_logits(head, features, [&](const std::string& suffix) { return state.view(head.name + suffix); });
    classes.narrow(0, first, features.size(0)).copy_(logits.argmax(1));
    if (with_logits) all.narrow(0, first, features.size(0)).copy_(logits);
    const auto labels = data.labels.narrow(0, start + first, features.size(0)).to(torch::kLong);
    loss -= logits.log_softmax(1).gather(1, labels.unsqueeze(1)).to(torch::kDouble).sum();
  });
  const auto host = classes.cpu();
  return {{host.data_ptr<int32_t>(), host.data_ptr<int32_t>() + count},
          loss.item<double>(),
          with_logits ? all.cpu() : torch::Tensor()};
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
