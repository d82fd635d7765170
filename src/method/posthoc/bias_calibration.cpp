/// Bias calibration: z + b, b fitted by class-balanced cross-entropy with ridge λ = 0.1/M. A
/// model's class bias is mostly not the log prior, and this corrects whatever it is.
#include "class_offset.h"
#include "entries.h"
#include "fitting.h"

namespace fedgrab {
namespace {

struct BiasCalibrationParams {
  double ridge = 0.1, balance = -1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("ridge", ridge, "weight of the L2 penalty on the biases, divided by the number of classes").between(0, 1e3);
    v.param("balance", balance,
            "an image of a class with n images has weight n^-balance in the fit: 1 is best for balanced accuracy, 0 "
            "for accuracy; -1: 1 where the test set is balanced, 0.25 on your own data")
        .between(-1, 2);
  }
};

class BiasCalibration : public PosthocClassifier {
 public:
  using Params = BiasCalibrationParams;
  static constexpr const char* name = "bias-calibration";
  explicit BiasCalibration(Params params) : params_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override { return {.logits = true}; }
  void fit(const LabelledLogits& images, const torch::Tensor& /*prior*/, TensorMap& server) const override {
    const int64_t classes = images.logits.size(1);
    const double balance = params_.balance >= 0 ? params_.balance : images.balanced_test ? 1 : own_data;
    server[fitted_offset] =
        fit_class_bias(images.logits, images.labels, class_balanced_weights(images.labels, classes, balance),
                       params_.ridge / static_cast<double>(classes));
  }
  State deploy(const State& model, const torch::Tensor& /*prior*/, const TensorMap& server) const override {
    const auto offset = server.find(fitted_offset);
    return offset == server.end() ? model : with_offset(model, offset->second);
  }
  PosthocNumbers numbers(const TensorMap& server) const override { return offset_numbers(server); }

 private:
  /// Between the images of accuracy and the classes of balanced accuracy. Macro F1 is flat from 0.25 to 0.5, and
  /// accuracy falls from 0.25 on where one class is most of the data (results/real-images.md).
  static constexpr double own_data = 0.25;

  Params params_;
};

}  // namespace

Choice<PosthocClassifier> bias_calibration_entry() {
  return choice_of<PosthocClassifier, BiasCalibration>("posthoc", "class bias fitted by class-balanced cross-entropy");
}

}  // namespace fedgrab
