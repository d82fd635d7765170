/// Reads torchvision_reference.json and computes the weights and pixels its answers belong to.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fedgrab/core/file.h"
#include "fedgrab/model/model.h"

namespace fedgrab {

inline const nlohmann::json& torchvision_reference() {
  static const auto reference =
      nlohmann::json::parse(read_text(std::string(FEDGRAB_TEST_DATA) + "/model/torchvision_reference.json"));
  return reference;
}

inline const nlohmann::json& torchvision_reference(std::string_view network) {
  for (const auto& entry : torchvision_reference())
    if (entry.at("network") == network) return entry;
  throw std::out_of_range(std::string(network));
}

inline std::shared_ptr<const Model> reference_model(const nlohmann::json& reference) {
  const int64_t side = reference.at("side");
  return make_model(make_architecture(reference.at("network"), {3, side, side}), {Head{}}, reference.at("classes"));
}

/// value(name, index) of torchvision_reference.py, whose docstring has the formula.
inline torch::Tensor reference_tensor(const std::string& name, const std::vector<int64_t>& shape) {
  uint64_t hash = 0xCBF29CE484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
  auto values = torch::empty(shape, torch::kFloat);
  const int64_t count = values.numel();
  const double fan_in = static_cast<double>(count) / static_cast<double>(shape.front());
  const auto value = [&](double u) {
    const double centred = 2 * u - 1;
    if (name == "input") return centred * std::sqrt(3.0);
    if (shape.size() > 1) return centred * std::sqrt(3.0) * std::sqrt(2 / fan_in) * (shape.size() == 2 ? 0.1 : 1.0);
    if (name.ends_with("running_var")) return 1 + 0.5 * u;
    return name.ends_with("weight") ? 1 + 0.1 * centred : 0.1 * centred;
  };
  auto* out = values.data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    uint64_t x = hash + static_cast<uint64_t>(i) * 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
    x = x ^ (x >> 31);
    out[i] = static_cast<float>(value(static_cast<double>(x >> 40) * 0x1.0p-24));
  }
  return values;
}

inline torch::Tensor reference_images(const nlohmann::json& reference) {
  const int64_t side = reference.at("side");
  return reference_tensor("input", {reference.at("batch"), 3, side, side});
}

}  // namespace fedgrab
