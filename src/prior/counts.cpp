/// The class counts of the federation: every client reveals its own once, so the user must select it.
#include "entries.h"

namespace fedgrab {
namespace {

class Counts : public ClassPrior {
 public:
  static constexpr const char* name = "counts";

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    return {.global_counts = true};
  }
  torch::Tensor estimate(const State& /*global*/, const TensorMap& /*server*/,
                         const torch::Tensor& global_counts) const override {
    return global_counts;
  }
};

}  // namespace

Choice<ClassPrior> counts_entry() {
  return choice_of<ClassPrior, Counts>("prior", "class counts, which every client reveals once");
}

}  // namespace fedgrab
