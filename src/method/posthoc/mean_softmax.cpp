/// z − log q, q the class-balanced mean softmax over images: one exchange, nothing to iterate.
#include "class_offset.h"
#include "entries.h"
#include "fitting.h"

namespace fedgrab {
namespace {

class MeanSoftmax : public PosthocClassifier {
 public:
  static constexpr const char* name = "mean-softmax";

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override { return {.logits = true}; }
  void fit(const LabelledLogits& images, const torch::Tensor& /*prior*/, TensorMap& server) const override {
    server[fitted_offset] = -log_mean_softmax(images.logits, images.labels);
  }
  State deploy(const State& model, const torch::Tensor& /*prior*/, const TensorMap& server) const override {
    const auto offset = server.find(fitted_offset);
    return offset == server.end() ? model : with_offset(model, offset->second);
  }
  PosthocNumbers numbers(const TensorMap& server) const override { return offset_numbers(server); }
};

}  // namespace

Choice<PosthocClassifier> mean_softmax_entry() {
  return choice_of<PosthocClassifier, MeanSoftmax>("posthoc",
                                                   "logits minus the log of their class-balanced mean softmax");
}

}  // namespace fedgrab
