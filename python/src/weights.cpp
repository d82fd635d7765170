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

void require_weights_only(const Composition& method, const std::string& name) {
  if (!method.weights_only())
    throw Error(Fault::usage, "method.name", name + " needs more between server and clients than averaged weights",
                "simulate it with run()");
  if (method.weighting() == ClientWeights::shuffled)
    throw Error(Fault::usage, "server.weights", "only a simulation weights clients by the samples of others",
                "simulate it with run(), or set server.weights=samples");
  if (method.clips())
    throw Error(Fault::usage, "server.clip", "draws its noise from train.seed, which the clients know",
                "simulate it with run(); a real federation clips and adds noise with Flower, see docs/flower.md");
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
