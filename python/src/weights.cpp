#include "weights.h"

#include <fmt/format.h>

#include "arrays.h"
#include "fedgrab/core/error.h"
#include "fedgrab/experiment/checkpoint.h"

namespace fedgrab::python {
namespace {

template <class Visit>
void each_shared(const Model& model, Visit visit) {
  for (const auto& parameter : model.parameters)
    if (parameter.role == Role::shared) visit(parameter);
}

}  // namespace

State first_state(const Settings& settings, const Method& method, ImageShape shape, int64_t classes) {
  auto state = initial_state(make_model(make_architecture(settings.model.name, shape), method.heads(), classes),
                             settings.seed());
  method.initialise(state, settings.seed());
  if (!settings.model.init.empty()) initialise_from_file(state, settings.model.init);
  return state;
}

void require_weights_only(const Method& method, const std::string& name, const State& start) {
  bool content = !method.wants_counts();
  try {
    State global = start.clone();
    TensorMap memory;
    Sums sums;
    sums.add("state", start.flat + 1, 1);
    if (content) method.server_rule(global, sums, 1, memory);
    for (const auto& p : global.model->parameters)  // what does not travel must not change
      content = content && (p.role == Role::shared || global.view(p).equal(start.view(p)));
  } catch (const std::exception&) {  // it looks for what is not there
    content = false;
  }
  if (!content)
    throw Error(Fault::usage, "method.name", name + " needs more between server and clients than averaged weights",
                "simulate it with run()");
}

py::dict shared_weights(const State& state) {
  py::dict weights;
  each_shared(*state.model, [&](const ParameterInfo& p) { weights[py::str(p.name)] = to_numpy(state.view(p)); });
  return weights;
}

void assign_weights(const State& state, const py::dict& weights) {
  size_t known = 0;
  each_shared(*state.model, [&](const ParameterInfo& p) {
    const py::str name(p.name);
    if (!weights.contains(name)) throw py::value_error(fmt::format("weights: {} is missing", p.name));
    const auto values = float_tensor(as_array(weights[name]), p.name.c_str());
    if (values.sizes().vec() != p.shape)
      throw py::value_error(
          fmt::format("{}: expected shape {}, got {}", p.name, shape_text(p.shape), shape_text(values.sizes().vec())));
    state.view(p).copy_(values);
    if (!state.view(p).isfinite().all().item<bool>())
      throw py::value_error(p.name + ": not all within what float32 holds");
    ++known;
  });
  if (weights.size() != known)
    throw py::value_error(fmt::format("weights: {} arrays where the model has {}", weights.size(), known));
}

}  // namespace fedgrab::python
