/// The accountant of differential privacy.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include "fedgrab/core/privacy_accountant.h"
#include "module.h"

namespace fedgrab::python {
namespace {

double privacy_spent(double noise, int64_t clients, int64_t per_round, int64_t rounds, double delta,
                     const std::string& sampling) {
  const auto known = enum_named<ClientSampling>(sampling);
  if (!known) throw py::value_error(fmt::format("sampling: expected fixed or poisson, got {}", sampling));
  const PrivacyAccountant accountant({noise, clients, per_round, *known});
  return accountant.epsilon(rounds, delta);
}

}  // namespace

void bind_privacy(py::module_& module) {
  using namespace py::literals;
  module.def("privacy_spent", &privacy_spent, "noise"_a, "clients"_a, "per_round"_a, "rounds"_a, "delta"_a,
             "sampling"_a);
}

}  // namespace fedgrab::python
