/// DPA (paper, Sec. 3.2): the weight norms of a classifier of the global model. SGB re-weights the gradients of the
/// classifier itself, so that an auxiliary head, trained by plain softmax on detached features, reflects the prior
/// better.
#include "entries.h"

namespace fedgrab {

enum class DpaHead { auxiliary, classifier };
template <>
inline constexpr auto enum_names<DpaHead> = names("auxiliary", "classifier");

namespace {

const std::string auxiliary = "probe";  // names the initial values and server state of a run

struct DpaParams {
  DpaHead head = DpaHead::auxiliary;
  double decay = 1;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("head", head,
            "head whose weight norms are used: an auxiliary head, trained by softmax on detached features, or the "
            "classifier");
    v.param("decay", decay,
            "factor on the weights of the auxiliary head after each round; below 1 the norms follow the gradients of "
            "the last rounds")
        .between(0, 1);
  }
};

class Dpa : public ClassPrior {
 public:
  using Params = DpaParams;
  static constexpr const char* name = "dpa";
  explicit Dpa(Params params) : params_(params) {}

  Needs needs(const Architecture& /*architecture*/, int64_t /*classes*/) const override {
    Needs needs;
    if (params_.head == DpaHead::auxiliary) needs.auxiliary = {{.name = auxiliary, .detached = true}};
    return needs;
  }
  torch::Tensor estimate(const State& global, const TensorMap& /*server*/,
                         const torch::Tensor& /*global_counts*/) const override {
    const auto& head = params_.head == DpaHead::auxiliary ? auxiliary : global.model->heads.front().name;
    return global.view(head + ".weight").norm(2, {-1});
  }
  PriorMeaning meaning() const override { return PriorMeaning::order; }
  void server_step(const RoundContext& /*round*/, const Sums& /*sums*/, State& model,
                   TensorMap& /*server*/) const override {
    if (params_.head == DpaHead::auxiliary) model.view(auxiliary + ".weight").mul_(params_.decay);
  }

 private:
  DpaParams params_;
};

}  // namespace

Choice<ClassPrior> dpa_entry() {
  return choice_of<ClassPrior, Dpa>("prior", "weight norms of a classifier of the global model");
}

}  // namespace fedgrab
