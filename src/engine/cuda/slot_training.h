/// Local training of up to `slots` clients side by side, on a stream of its own. One step of all of them is recorded
/// once as a CUDA graph; the host then only starts it again and again, and touches nothing in between.
#pragma once

#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>
#include <memory>
#include <vector>

#include "device_images.h"
#include "fedgrab/engine/engine.h"
#include "image_feed.h"
#include "slot_network.h"

namespace fedgrab::cuda {

/// One client of a slot batch: what it starts from and how it trains.
struct SlotClient {
  ClientContext context;
  torch::Tensor start;  // its weights on the device, as the device lays them out
  LocalProblem problem;
};

/// The batch to make room for: no client fills a larger one.
int64_t largest_batch(const TrainParams& train, const Partition& partition);

class SlotTraining {
 public:
  static constexpr int64_t steps_at_once = 8;  // that are started together

  /// `priority`: 0 or less; the device serves lower numbers first.
  SlotTraining(const Federation& federation, const SlotNetwork& network, const DeviceImages& data, int64_t slots,
               int priority);

  int64_t slots() const { return slots_; }
  const c10::cuda::CUDAStream& stream() const { return stream_; }

  /// Loads at most slots() clients of one round, the largest first.
  void begin(const std::vector<SlotClient>& clients, uint64_t method, int64_t round);
  /// Starts the next few steps without waiting for them.
  void start_steps();
  /// Some are left, and few enough in flight to start more.
  bool can_start();
  /// All were started, and are done.
  bool done();
  /// Waits until all is done.
  void finish();

  // After finish(), of the client at a place:
  torch::Tensor state(size_t at) const { return network_.layout().to_state(weights_.values[static_cast<int64_t>(at)]); }
  ClientReport report(const SlotClient& client, size_t at) const;
  void read_state(TensorMap& client_state, size_t at) const;

 private:
  /// What a recorded step depends on beyond the tensors it reads. Losses belong to one Composition, which lives as long
  /// as `method` says: a graph recorded for another is never used again, even where a new loss has an old address.
  struct StepKey {
    uint64_t method = 0;
    std::vector<const Objective*> objectives;  // by head
    std::vector<bool> priors;                  // by head, defined or not
    double proximal = 0;
    bool correction = false, class_weights = false;
    const FeatureLoss* feature_loss = nullptr;
    size_t references = 0;
    bool operator==(const StepKey& other) const = default;
  };
  static StepKey key_of(uint64_t method, const LocalProblem& problem);
  int64_t steps_of(const SlotClient& client) const;
  void load(const std::vector<SlotClient>& clients);
  /// From the class sizes that were loaded.
  void load_offsets(const LocalProblem& problem);
  void load_state(const std::vector<SlotClient>& clients);
  void prepare_round(const std::vector<SlotClient>& clients, int64_t round);
  int64_t steps_in_flight();
  /// Streams the images of the next steps to the device.
  void feed_images(int64_t steps);
  void record_step();
  /// Mixes the batch where that is on.
  void mix();
  /// A part of the layout that is updated alike.
  struct Stretch {
    int64_t from, to;
    bool with_terms, decays;  // with_terms: those of the local problem
  };
  /// From `first` to the end of what is trained. Auxiliary heads have no terms.
  std::vector<Stretch> stretches(int64_t first, bool has_terms) const;
  void step();
  RoundPlan plan() const;
  /// Trains the heads; returns the gradient of the features. By LibTorch, for every head and loss there is:
  torch::Tensor train_heads(const torch::Tensor& features, torch::Tensor& loss);
  /// … and in one kernel per head, for those it knows.
  bool heads_fit_kernel() const;
  torch::Tensor train_heads_in_kernel(const torch::Tensor& features, torch::Tensor& loss);
  /// The gradient that the feature loss adds; its value is added to `loss`.
  torch::Tensor compare_features(const torch::Tensor& features, torch::Tensor& loss);

  const Federation& federation_;
  const SlotNetwork& network_;
  const DeviceImages& data_;
  c10::cuda::CUDAStream stream_;
  int64_t slots_, longest_, batch_;
  SlotWeights weights_;
  Update update_;
  TensorMap state_;  // client states that losses use, [slots, …]
  StepKey key_;
  std::vector<HeadLoss> heads_;
  const FeatureLoss* feature_loss_ = nullptr;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  std::unique_ptr<ImageFeed> feed_;  // where images are streamed
  torch::Tensor host_order_;         // then, as order_
  std::vector<int64_t> host_samples_;
  int64_t steps_ = 0, started_ = 0, done_ = 0;                 // of this slot batch
  std::deque<std::pair<int64_t, at::cuda::CUDAEvent>> marks_;  // steps started before each

  // Inputs of a step, at fixed addresses.
  torch::Tensor images_, labels_, mask_, counts_;
  torch::Tensor other_labels_, share_;        // undefined where images are not mixed
  torch::Tensor mixup_table_, cutmix_table_;  // undefined: off
  torch::Tensor order_, samples_, clients_, step_, round_, lr_;
  torch::Tensor class_counts_, class_weights_, uniforms_;
  std::vector<torch::Tensor> priors_;    // by head
  std::vector<torch::Tensor> offsets_;   // by head, Objective::logit_offset(); undefined where there is none
  std::vector<SlotWeights> references_;  // models whose features a loss compares with
  torch::Tensor loss_sum_, first_bad_;
  torch::Tensor clip_scratch_, clip_factor_;
  TensorMap host_state_;  // after finish()
  std::vector<double> host_loss_;
  std::vector<int32_t> host_bad_;
};

}  // namespace fedgrab::cuda
