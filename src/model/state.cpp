#include "fedgrab/model/state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "fedgrab/core/error.h"
#include "fedgrab/core/random.h"

namespace fedgrab {
namespace {

uint32_t name_hash(const std::string& name) {  // FNV-1a
  uint32_t hash = 2166136261U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

std::string shape_text(at::IntArrayRef shape) {
  return fmt::format("[{}]", fmt::join(shape.begin(), shape.end(), ", "));
}

}  // namespace

torch::Tensor State::view(const ParameterInfo& parameter) const {
  return flat.narrow(0, parameter.offset, parameter.size).view(parameter.shape);
}

TensorMap State::named() const {
  TensorMap tensors;
  for (const auto& p : model->parameters) tensors.emplace(p.name, view(p));
  return tensors;
}

void State::assign(const TensorMap& tensors, const std::string& source) {
  for (const auto& p : model->parameters) {
    const auto found = tensors.find(p.name);
    if (found == tensors.end())
      throw Error(Fault::checkpoint, source, fmt::format("has no tensor {}", p.name),
                  "is it a checkpoint of another model?");
    if (found->second.sizes() != at::IntArrayRef(p.shape))
      throw Error(Fault::checkpoint, source,
                  fmt::format("{} has shape {}, the model needs {}", p.name, shape_text(found->second.sizes()),
                              shape_text(p.shape)),
                  "is it a checkpoint of another model or number of classes?");
    if (!found->second.to(torch::kFloat).isfinite().all().item<bool>())
      throw Error(Fault::checkpoint, source, fmt::format("{} holds values that are not finite", p.name));
    view(p).copy_(found->second);
  }
}

void initialise(const torch::Tensor& values, const ParameterInfo& parameter, uint64_t seed, uint32_t owner) {
  switch (parameter.kind) {
    case ParameterKind::norm_weight:
    case ParameterKind::running_var: values.fill_(1); return;
    case ParameterKind::norm_bias:
    case ParameterKind::running_mean: values.zero_(); return;
    default: break;
  }
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(parameter.fan_in)));
  Random random(seed, Purpose::initialise, name_hash(parameter.name), owner);
  auto drawn = torch::empty(values.sizes(), torch::kFloat);
  auto* data = drawn.data_ptr<float>();
  for (int64_t i = 0; i < parameter.size; ++i) data[i] = (2 * random.uniform() - 1) * bound;
  values.copy_(drawn);  // which may be on a device
}

void make_etf(const torch::Tensor& weight, uint64_t seed) {
  const int64_t rows = weight.size(0), columns = weight.size(1);
  Random random(seed, Purpose::initialise, name_hash("etf"));
  auto basis = torch::empty({rows, columns}, torch::kDouble);
  auto* data = basis.data_ptr<double>();
  for (int64_t i = 0; i < basis.numel(); ++i) data[i] = random.normal();
  if (columns < rows || rows < 2) {
    weight.copy_(basis / basis.norm(2, {1}, true));
    return;
  }
  for (int64_t i = 0; i < rows; ++i) {  // Gram-Schmidt, twice: once leaves rounding behind
    auto row = basis[i];
    for (int pass = 0; pass < 2 && i > 0; ++pass) row.sub_(basis.narrow(0, 0, i).t().mv(basis.narrow(0, 0, i).mv(row)));
    row.div_(row.norm());
  }
  const auto centred = basis - basis.mean(0, true);
  weight.copy_(centred / centred.norm(2, {1}, true));
}

State initial_state(const std::shared_ptr<const Model>& model, uint64_t seed) {
  State state{model, torch::empty({model->size}, torch::kFloat)};
  for (const auto& p : model->parameters) initialise(state.view(p), p, seed);
  return state;
}

}  // namespace fedgrab
