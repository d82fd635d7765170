/// Every loss of this field is a rule on logits: it maps logits and labels to a loss and to the gradient that the
/// backward pass starts from. All tensors may carry leading slot dimensions, one slot per client trained side by side.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/core/parameters.h"
#include "fedgrab/core/random.h"
#include "fedgrab/core/registry.h"
#include "fedgrab/model/model.h"
#include "fedgrab/model/tensor_map.h"

namespace fedgrab {

struct LogitBatch {
  torch::Tensor logits;  // [.., batch, classes]
  torch::Tensor labels;  // [.., batch], int64
  /// Second label of each sample, where images are mixed; undefined: there is none. [.., batch], int64
  torch::Tensor other_labels;
  torch::Tensor share;    // [.., batch] or [.., 1], weight of `labels`; `other_labels` have the rest
  torch::Tensor mask;     // [.., batch], 1 where there is a sample; undefined: everywhere
  torch::Tensor weights;  // [.., batch], importance of each sample; undefined: 1
  torch::Tensor counts;   // [.., classes], sizes of the classes: the client's own, or an estimate
  torch::Tensor prior;    // [.., classes], in [0, 1]; undefined: none
  /// Uniform numbers on [0, 1) for this step and purpose, drawn only when needed.
  std::vector<Random> randoms;  // one per slot
  torch::Tensor uniforms;       // [.., n or more], drawn already on the logits' device; undefined: from randoms
};

struct LogitLoss {
  torch::Tensor loss;      // [..], mean over the samples of each slot
  torch::Tensor gradient;  // as logits, of the mean loss
};

struct BalancerParams;

/// A loss as plain data, for a device that evaluates it in one kernel of its own; operator() is the oracle.
struct KernelForm {
  bool sigmoid = false;                      // else softmax
  const BalancerParams* balancer = nullptr;  // null: nothing is re-weighted
  bool offset = false;                       // logit_offset() is added to the logits
};

/// Per-class numbers of one client, for the record: "delta", "beta_pos", …
using Diagnostics = std::map<std::string, std::vector<double>>;

/// Why a loss that accumulates gradients takes no second label.
inline constexpr const char* splits_by_sign =
    "tells positive from negative gradients by their sign, which a second label changes";

class Objective {
 public:
  virtual ~Objective() = default;

  /// Where a kernel can take its place.
  virtual std::optional<KernelForm> kernel_form() const { return {}; }

  /// What is added to the logits of each class before the base loss, from the sizes of the classes; undefined: nothing.
  /// [.., classes]
  virtual torch::Tensor logit_offset(const torch::Tensor& /*counts*/) const { return {}; }
  /// Why it needs one label per sample; empty: it takes two, λ of the one and 1 − λ of the other.
  virtual std::string one_label_reason() const { return "is defined for one label per image"; }
  bool mixes() const { return one_label_reason().empty(); }
  /// The head it is made for.
  virtual Head head() const { return {}; }
  /// Uniform numbers that it needs in a step.
  virtual int64_t uniforms(int64_t /*batch*/, int64_t /*classes*/) const { return 0; }
  /// Numbers for the record, read from the client state after local training.
  virtual Diagnostics diagnose(const TensorMap& /*client_state*/) const { return {}; }
  /// Checks the shapes, then calls evaluate(). The client state is kept from step to step and from round to round.
  LogitLoss operator()(const LogitBatch& batch, TensorMap& client_state) const;

 protected:
  virtual LogitLoss evaluate(const LogitBatch& batch, TensorMap& client_state) const = 0;
};

/// 1/number of samples where there is one, else 0: turns a sum over the batch into the mean of each slot. [.., batch]
torch::Tensor mean_weights(const LogitBatch& batch);
/// 1 at each sample's label. [.., batch, classes]
torch::Tensor one_hot(const LogitBatch& batch);
/// What a probability should be: 1 at the label, or shared between two labels. [.., batch, classes]
torch::Tensor targets(const LogitBatch& batch);
/// Sets `weights` to those of the labels, and where there are two, `share` so that each label's part of the loss has
/// the weight of that label. class_weights: [.., classes].
void weigh_by_class(LogitBatch& batch, const torch::Tensor& class_weights);
/// Uniform numbers [.., n] of this batch, on the logits' device.
torch::Tensor uniform(const LogitBatch& batch, int64_t n);

/// Of a tensor of any type and device.
std::vector<double> to_vector(const torch::Tensor& tensor);

/// The same loss, with the positive and negative gradients of every class accumulated as SGB does (paper, Sec. 3.3);
/// their difference is "delta" in its diagnostics.
std::unique_ptr<Objective> collecting(std::unique_ptr<Objective> loss);

/// Loss and gradient of the base losses.
LogitLoss softmax_loss(const LogitBatch& batch);
LogitLoss sigmoid_loss(const LogitBatch& batch);

/// The losses there are.
const std::vector<Choice<Objective>>& objectives();
std::unique_ptr<Objective> make_objective(const std::string& name, const Config& config);

}  // namespace fedgrab
