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

/// The balancer of the engine, with the number of steps beside its memory, so that a restored one draws the same gates.
class Balancer {
 public:
  Balancer(int64_t classes, const Assignments& parameters, uint64_t seed)
      : classes_(classes), seed_(seed), objective_(read_params(parameters)) {
    if (classes < 1) throw py::value_error(fmt::format("classes: expected 1 or more, got {}", classes));
    BalancedObjective::state_in(memory_, {classes}, torch::kCPU);
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
      if (objective_.params().mount != "all")
        throw py::value_error("exempt: says by itself which classes go free; leave mount at all");
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
      result = advance(batch, exempt);  // needs no GIL, so that whoever waits for the lock may hold it
    }
    return py::make_tuple(result.loss.item<double>(), to_numpy(result.gradient));
  }

  py::array collected(const char* name) const {
    const std::lock_guard one_at_a_time(guard_);
    return to_numpy(memory_.at(name).clone());
  }
  py::array delta() const {
    const std::lock_guard one_at_a_time(guard_);
    return to_numpy(memory_.at("sgb.positive") - memory_.at("sgb.negative"));
  }
  py::tuple beta() const {
    const std::lock_guard one_at_a_time(guard_);
    const auto& output = memory_.at("sgb.output");
    return py::make_tuple(to_numpy(phi(objective_.params(), output)), to_numpy(phi(objective_.params(), -output)));
  }
  py::dict memory() const {
    const std::lock_guard one_at_a_time(guard_);
    auto arrays = to_dict(memory_);
    arrays["steps"] = py::array_t<int64_t>(1, &steps_);
    return arrays;
  }
  void set_memory(const py::dict& arrays) {
    auto tensors = to_tensors(arrays);
    for (const auto& [name, own] : memory_) {
      const auto found = tensors.find(name);
      if (found == tensors.end()) throw py::value_error("state: not that of a balancer, " + name + " is missing");
      require_shape(found->second, {classes_}, name.c_str());
      if (found->second.scalar_type() != torch::kDouble || !found->second.isfinite().all().item<bool>())
        throw py::value_error("state: " + name + " is not finite float64");
    }
    const auto steps = tensors.find("steps");
    if (steps == tensors.end() || steps->second.numel() != 1 || steps->second.scalar_type() != torch::kLong ||
        steps->second.item<int64_t>() < 0)
      throw py::value_error("state: not that of a balancer, steps is missing or not a count");
    const std::lock_guard one_at_a_time(guard_);
    steps_ = steps->second.item<int64_t>();
    for (auto& [name, own] : memory_) own.copy_(tensors.at(name));
  }
  int64_t classes() const { return classes_; }
  int64_t steps() const { return steps_; }

 private:
  LogitLoss advance(LogitBatch& batch, const torch::Tensor& exempt) {
    const torch::NoGradGuard no_graph;
    LogitLoss result;
    if (exempt.defined()) {
      auto state = BalancedObjective::state_in(memory_, {classes_}, torch::kCPU);
      const auto weights = control(objective_.params(), state);
      const auto [loss, gradient] = objective_.params().form == "softmax" ? softmax_loss(batch) : sigmoid_loss(batch);
      result = {loss, balance(gradient, weights, exempt, state)};
    } else {
      batch.randoms = {Random(seed_, Purpose::gate, 0, 0, static_cast<uint32_t>(steps_))};
      result = objective_(batch, memory_);
    }
    ++steps_;
    return result;
  }

  int64_t classes_;
  uint64_t seed_;
  BalancedObjective objective_;
  TensorMap memory_;
  int64_t steps_ = 0;
  mutable std::mutex guard_;
};

py::array prior(const py::object& weight, const std::string& scale, double span_min) {
  if (scale != "share" && scale != "max" && scale != "span" && scale != "rank")
    throw py::value_error(fmt::format("scale: expected share, max, span or rank, got {}", scale));
  if (!(span_min >= 0 && span_min <= 1))
    throw py::value_error(fmt::format("span_min: expected 0 … 1, got {}", span_min));
  const auto rows = float_tensor(as_array(weight), "weight");
  if (rows.dim() != 2 || rows.size(0) == 0)
    throw py::value_error("weight: expected shape [classes, features], got " + shape_text(rows.sizes().vec()));
  return to_numpy(prior_from_weights(rows, scale, span_min));
}

}  // namespace

void bind_balancer(py::module_& module) {
  using namespace py::literals;
  py::class_<Balancer>(module, "Balancer")
      .def(py::init<int64_t, const Assignments&, uint64_t>(), "classes"_a, "parameters"_a, "seed"_a)
      .def("step", &Balancer::step, "logits"_a, "labels"_a, "prior"_a, "exempt"_a)
      .def_property_readonly("positive", [](Balancer& b) { return b.collected("sgb.positive"); })
      .def_property_readonly("negative", [](Balancer& b) { return b.collected("sgb.negative"); })
      .def_property_readonly("output", [](Balancer& b) { return b.collected("sgb.output"); })
      .def_property_readonly("delta", &Balancer::delta)
      .def_property_readonly("beta", &Balancer::beta)
      .def_property_readonly("classes", &Balancer::classes)
      .def_property_readonly("steps", &Balancer::steps)
      .def("memory", &Balancer::memory)
      .def("set_memory", &Balancer::set_memory, "arrays"_a);
  module.def("prior", &prior, "weight"_a, "scale"_a, "span_min"_a);
}

}  // namespace fedgrab::python
