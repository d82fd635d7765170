/// FedETF (Li et al. 2023, Eq. 5 to 7): the classifier is a fixed simplex ETF, the same for all clients, so that they
/// cannot drift apart in it; features pass a projection layer and meet it as cosines, with a learned temperature, under
/// balanced softmax by the client's own counts.
#include "entries.h"

namespace fedgrab {
namespace {

struct FedEtfParams {
  double scale = 10;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("scale", scale, "factor on the cosines, which the learned temperature starts from").between(1e-3, 1e3);
  }
};

class FedEtf : public Method {
 public:
  using Params = FedEtfParams;
  static constexpr const char* name = "fedetf";
  static constexpr const char* usual_loss = "balanced-softmax";
  FedEtf(LocalLoss loss, Params params) : Method(std::move(loss)), scale_(params.scale) {}

  std::vector<Head> heads() const override {
    auto heads = Method::heads();
    heads.front() = {.kind = HeadKind::cosine, .role = Role::frozen, .bias = false, .scale = scale_, .projected = true};
    return heads;
  }
  void initialise(State& global, uint64_t seed) const override { make_etf(global.view("fc.weight"), seed); }

 private:
  double scale_;
};

}  // namespace

MethodEntry fedetf_entry() {
  return entry_of<FedEtf, linear_loss>(groups::long_tailed, "a fixed simplex as the head, balanced softmax (Li 2023)");
}

}  // namespace fedgrab
