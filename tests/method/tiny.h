/// A method by its name, and a model of a few numbers to try it on.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fedgrab/method/method.h"

namespace fedgrab {

using Settings = std::vector<std::pair<std::string, Value>>;

inline std::unique_ptr<Method> make_method(const std::string& name, const Settings& settings = {}) {
  Schema schema;
  declare_methods(schema);
  Config config(schema);
  for (const auto& [key, value] : settings) config.set("method." + name + "." + key, value);
  return find_method(name).make(config);
}

/// `features` numbers an image, normed (bn1), and the heads on them.
inline std::shared_ptr<const Model> tiny_model(std::vector<Head> heads, int64_t features, int64_t classes) {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = features, .out = features};
  return make_model({"tiny", {features, 1, 1}, {norm, Layer{LayerKind::flatten, "", 0}}, features}, std::move(heads),
                    classes);
}

}  // namespace fedgrab
