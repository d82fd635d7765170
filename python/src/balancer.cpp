/// SGB and DPA for a training loop of any kind.
#include "fedgrab/objective/balancer.h"

#include <fmt/format.h>
#include <pybind11/stl.h>

#include <mutex>

#include "arrays.h"
#include "fedgrab/prior/prior.h"
#include "module.h"

namespace fedgrab::python {
namespace {

BalancerParams read_params(const Assignments& parameters) {
  Schema schema;
  schema.add<BalancerParams>("sgb");
  Config config(std::move(schema));
  for (const auto& [key, value] : parameters) config.set_text("sgb." + key, value);
  return config.read<BalancerParams>("sgb");
}

void require_shape(const torch::Tensor& tensor, const std::vector<int64_t>& shape, const char* name) {
  if (tensor.sizes().vec() != shape)
    throw py::value_error(
        fmt::format("{}: expected shape {}, got {}", name, shape_text(shape), shape_text(tensor.sizes().vec())));
}

/// fedgrab::Balancer with checked arguments.
class Balancer {
 public:
  Balancer(int64_t classes, const Assignments& parameters, uint64_t seed)
      : classes_(classes), balancer_(std::max<int64_t>(classes, 1), read_params(parameters), seed) {
    if (classes < 1) throw py::value_error(fmt::format("classes: expected 1 or more, got {}", classes));
  }

  py::tuple step(const py::object& logits_given, const py::object& labels_given, const py::object& prior_given,
                 const py::object& exempt_given) {
    if (!prior_given.is_none() && !exempt_given.is_none())
      throw py::value_error("prior, exempt: give one of them; a prior decides by chance what exempt states");
    LogitBatch batch{.logits = float_tensor(as_array(logits_given), "logits")};
    if (batch.logits.dim() != 2 || batch.logits.size(0) == 0 || batch.logits.size(1) != classes_)
      throw py::value_error(
          fmt::format("logits: expected shape [batch, {}], got {}", classes_, shape_text(batch.logits.sizes().vec())));
    batch.labels = integer_tensor(as_array(labels_given), "labels");
    require_shape(batch.labels, {batch.logits.size(0)}, "labels");
    if (batch.labels.min().item<int64_t>() < 0 || batch.labels.max().item<int64_t>() >= classes_)
      throw py::value_error(fmt::format("labels: not all within 0 … {}", classes_ - 1));
    if (!prior_given.is_none()) {
      batch.prior = float_tensor(as_array(prior_given), "prior").to(torch::kFloat);
      require_shape(batch.prior, {classes_}, "prior");
      if (batch.prior.min().item<float>() < 0 || batch.prior.max().item<float>() > 1)
        throw py::value_error("prior: not all within 0 … 1");
    }
    torch::Tensor exempt;
    if (!exempt_given.is_none()) {
      if (balancer_.params().mount != Mount::all)
        throw py::value_error("exempt: states by itself which classes are exempt; leave mount at all");
      const auto array = as_array(exempt_given);
      if (array.dtype().kind() != 'b')
        throw py::type_error("exempt: expected bool, got " + std::string(py::str(array.dtype())));
      exempt = to_tensors(py::dict(py::arg("exempt") = array)).at("exempt");
      require_shape(exempt, {classes_}, "exempt");
    }
    LogitLoss result;
    {
      const py::gil_scoped_release released;
      const std::lock_guard one_at_a_time(guard_);
      balancer_.set_prior(batch.prior);
      result = exempt.defined() ? balancer_.step(batch.logits, batch.labels, exempt)
                                : balancer_.step(batch.logits, batch.labels);
    }
    return py::make_tuple(result.loss.item<double>(), to_numpy(result.gradient));
  }

  py::array read(torch::Tensor BalancerState::*member) const {
    const std::lock_guard one_at_a_time(guard_);
    return to_numpy((balancer_.state().*member).clone());
  }
  py::array delta() const {
    const std::lock_guard one_at_a_time(guard_);
    return to_numpy(balancer_.state().difference());
  }
  py::tuple beta() const {
    const std::lock_guard one_at_a_time(guard_);
    const auto& output = balancer_.state().output;
    return py::make_tuple(to_numpy(phi(balancer_.params(), output)), to_numpy(phi(balancer_.params(), -output)));
  }
  py::dict state() const {
    const std::lock_guard one_at_a_time(guard_);
    TensorMap tensors;
    for (const auto& [name, member] : members) tensors[name] = (balancer_.state().*member).clone();
    auto arrays = to_dict(tensors);
    const int64_t steps = balancer_.steps();
    arrays["steps"] = py::array_t<int64_t>(1, &steps);
    return arrays;
  }
  void set_state(const py::dict& arrays) {
    const auto tensors = to_tensors(arrays);
    BalancerState restored;
    for (const auto& [name, member] : members) {
      const auto found = tensors.find(name);
      if (found == tensors.end())
        throw py::value_error(fmt::format("state: not that of a balancer, {} is missing", name));
      require_shape(found->second, {classes_}, name);
      if (found->second.scalar_type() != torch::kDouble || !found->second.isfinite().all().item<bool>())
        throw py::value_error(fmt::format("state: {} is not finite float64", name));
      restored.*member = found->second.clone();
    }
    const auto steps = tensors.find("steps");
    if (steps == tensors.end() || steps->second.numel() != 1 || steps->second.scalar_type() != torch::kLong ||
        steps->second.item<int64_t>() < 0)
      throw py::value_error("state: not that of a balancer, steps is missing or not a count");
    const std::lock_guard one_at_a_time(guard_);
    balancer_.restore(std::move(restored), static_cast<uint32_t>(steps->second.item<int64_t>()));
  }
  int64_t classes() const { return classes_; }
  int64_t steps() const { return balancer_.steps(); }

 private:
  static constexpr std::pair<const char*, torch::Tensor BalancerState::*> members[] = {
      {"sgb.positive", &BalancerState::positive},
      {"sgb.negative", &BalancerState::negative},
      {"sgb.error", &BalancerState::error},
      {"sgb.error_sum", &BalancerState::error_sum},
      {"sgb.output", &BalancerState::output}};

  int64_t classes_;
  fedgrab::Balancer balancer_;
  mutable std::mutex guard_;
};

py::array prior(const py::object& weight, const std::string& scale, double span_min) {
  const auto known = enum_named<PriorScale>(scale);
  if (!known) throw py::value_error(fmt::format("scale: expected share, span or rank, got {}", scale));
  if (!(span_min >= 0 && span_min <= 1))
    throw py::value_error(fmt::format("span_min: expected 0 … 1, got {}", span_min));
  const auto rows = float_tensor(as_array(weight), "weight");
  if (rows.dim() != 2 || rows.size(0) == 0)
    throw py::value_error("weight: expected shape [classes, features], got " + shape_text(rows.sizes().vec()));
  return to_numpy(prior_from_weights(rows, *known, span_min));
}

}  // namespace

void bind_balancer(py::module_& module) {
  using namespace py::literals;
  py::class_<Balancer>(module, "Balancer")
      .def(py::init<int64_t, const Assignments&, uint64_t>(), "classes"_a, "parameters"_a, "seed"_a)
      .def("step", &Balancer::step, "logits"_a, "labels"_a, "prior"_a, "exempt"_a)
      .def_property_readonly("positive", [](Balancer& b) { return b.read(&BalancerState::positive); })
      .def_property_readonly("negative", [](Balancer& b) { return b.read(&BalancerState::negative); })
      .def_property_readonly("output", [](Balancer& b) { return b.read(&BalancerState::output); })
      .def_property_readonly("delta", &Balancer::delta)
      .def_property_readonly("beta", &Balancer::beta)
      .def_property_readonly("classes", &Balancer::classes)
      .def_property_readonly("steps", &Balancer::steps)
      .def("state", &Balancer::state)
      .def("set_state", &Balancer::set_state, "arrays"_a);
  module.def("prior", &prior, "weight"_a, "scale"_a, "span_min"_a);
}

}  // namespace fedgrab::python
