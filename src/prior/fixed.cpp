/// A prior set by hand, as in the code that the authors of Fed-GraB published.
#include <fmt/format.h>

#include <algorithm>

#include "entries.h"

namespace fedgrab {
namespace {

class Fixed : public ClassPrior {
 public:
  explicit Fixed(std::vector<double> values) : values_(std::move(values)) {}

  Needs needs(const Architecture& /*architecture*/, int64_t classes) const override {
    if (classes > 0 && !values_.empty() && static_cast<int64_t>(values_.size()) != classes)
      throw Error(Fault::usage, "prior.fixed", fmt::format("{} values for {} classes", values_.size(), classes),
                  "give one per class");
    return {};
  }
  torch::Tensor estimate(const State& global, const TensorMap& /*server*/,
                         const torch::Tensor& /*global_counts*/) const override {
    if (!values_.empty()) return torch::tensor(values_, torch::kFloat);
    const int64_t classes = global.model->classes;
    return torch::pow(0.1,
                      torch::arange(classes, torch::kFloat) / static_cast<double>(std::max<int64_t>(classes - 1, 1)));
  }
  PriorMeaning meaning() const override { return PriorMeaning::probabilities; }

 private:
  std::vector<double> values_;
};

}  // namespace

Choice<ClassPrior> fixed_entry() {
  return {"fixed", "the values of prior.fixed", [](const Config& config) -> std::unique_ptr<ClassPrior> {
            return std::make_unique<Fixed>(config.read<PriorParams>("prior").fixed);
          }};
}

}  // namespace fedgrab
