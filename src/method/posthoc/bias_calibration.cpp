/// Bias calibration: z + b, b fitted by class-balanced cross-entropy with ridge λ = 0.1/M. A
/// model's class bias is mostly not the log prior, and this corrects whatever it is.
#include "class_offset.h"
#include "entries.h"
#include "fitting.h"

namespace fedgrab {
namespace {

struct BiasCalibrationParams {
  double ridge = 0.1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("ridge", ridge, "weight of the penalty on the biases, divided by the number of classes").between(0, 1e3);
  }
};

class BiasCalibration : public PosthocClassifier {
 public:
  using Params = BiasCalibrationParams;
  static constexpr const char* name = "bias-calibration";
  explicit BiasCalibration(Params params) : ridge_(params.ridge) {}

  bool fitted() const override { return true; }
  void fit(const LabelledLogits& images, const torch::Tensor& /*prior*/, TensorMap& server) const override {
    server[fitted_offset] =
        fit_class_bias(images.logits, images.labels, ridge_ / static_cast<double>(images.logits.size(1)));
  }
  State deploy(const State& model, const torch::Tensor& /*prior*/, const TensorMap& server) const override {
    const auto offset = server.find(fitted_offset);
    return offset == server.end() ? model : with_offset(model, offset->second);
  }
  PosthocNumbers numbers(const TensorMap& server) const override { return offset_numbers(server); }

 private:
  double ridge_;
};

}  // namespace

Choice<PosthocClassifier> bias_calibration_entry() {
  return choice_of<PosthocClassifier, BiasCalibration>("posthoc", "class bias fitted by class-balanced cross-entropy");
}

}  // namespace fedgrab
