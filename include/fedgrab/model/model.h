/// A backbone plus named heads, and the layout of all their parameters in one flat buffer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fedgrab/core/enums.h"
#include "fedgrab/model/architecture.h"

namespace fedgrab {

/// How a round changes a parameter: averaged by the server, kept by its client, or never changed.
enum class Role { shared, personal, frozen };

enum class HeadKind { linear, cosine };
template <>
inline constexpr auto enum_names<HeadKind> = names("linear", "cosine");

struct Head {
  std::string name = "fc";
  HeadKind kind = HeadKind::linear;
  Role role = Role::shared;
  /// Reads the features without sending a gradient back into the backbone.
  bool detached = false;
  bool bias = true;
  /// Multiplies the logits: a cosine lies in [−1, 1].
  double scale = 1;
  /// A linear layer before the classifier, and a learned factor on the logits (FedETF).
  bool projected = false;
  /// Deployed models: offset of the logit of each class, for heads without a bias.
  std::vector<float> offset{};
  /// Models deployed by version 0.1: offset of the standardised logit of each class.
  std::vector<float> shift{};
};

enum class ParameterKind { weight, bias, norm_weight, norm_bias, running_mean, running_var };

struct ParameterInfo {
  std::string name;
  std::vector<int64_t> shape;
  ParameterKind kind;
  Role role = Role::shared;
  int64_t fan_in = 1;
  int64_t offset = 0, size = 0;

  bool buffer() const { return kind == ParameterKind::running_mean || kind == ParameterKind::running_var; }
  bool trained() const { return !buffer() && role != Role::frozen; }
};

/// A contiguous range of the flat buffer.
struct Range {
  int64_t offset = 0, size = 0;
};

struct Model {
  Architecture architecture;
  std::vector<Head> heads;  // the first one classifies
  int64_t classes = 0;
  /// Optimised parameters come first and buffers last, so that there are few ranges.
  std::vector<ParameterInfo> parameters;
  int64_t size = 0;  // floats in the flat buffer

  const ParameterInfo& find(const std::string& name) const;
  /// Weights and biases, without buffers, of backbone and first head: what papers call the number of parameters.
  int64_t parameter_count() const;
  /// Neighbouring parameters for which the predicate holds, joined.
  template <class Predicate>
  std::vector<Range> ranges(Predicate holds) const {
    std::vector<Range> found;
    for (const auto& p : parameters) {
      if (!holds(p)) continue;
      if (!found.empty() && found.back().offset + found.back().size == p.offset)
        found.back().size += p.size;
      else
        found.push_back({p.offset, p.size});
    }
    return found;
  }
};

std::shared_ptr<const Model> make_model(Architecture architecture, std::vector<Head> heads, int64_t classes);

}  // namespace fedgrab
