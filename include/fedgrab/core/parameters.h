/// A parameter is declared once, where it is used: name, default, bounds, one line of help. That declaration drives
/// TOML files, --set, validation, `fedgrab params` and docs/parameters.md.
///
///   struct TrainParams {
///     double lr = 0.03;
///     template <class Visitor> void describe(Visitor& v) { v.param("lr", lr, "learning rate").at_least(0); }
///   };  // an enum field takes its choices from enum_names
///   schema.add<TrainParams>("train");                 // declares train.lr
///   auto train = config.read<TrainParams>("train");   // typed values
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

using Value = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                           std::vector<std::string>>;

/// As TOML writes it; numbers in the shortest form that reads back to the same bits.
std::string to_text(const Value& value);
/// "integer", "list of numbers", …
std::string type_name(const Value& value);

struct Parameter {
  std::string key;
  Value fallback;
  std::string help;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices{};  // of a text or an integer; empty: any

  Parameter& at_least(double bound) { return min = bound, *this; }
  Parameter& at_most(double bound) { return max = bound, *this; }
  Parameter& between(double low, double high) { return at_least(low).at_most(high); }
  Parameter& one_of(std::vector<std::string> names) { return choices = std::move(names), *this; }

  /// Throws a usage Error naming key, value and bound.
  void check(const Value& value) const;
  /// "0 … 1", "one of a, b", or empty.
  std::string bounds() const;
};

/// All declared parameters, in order of declaration.
class Schema {
 public:
  template <class Params>
  void add(const std::string& group) {
    Declaring visitor{*this, group};
    Params defaults;
    defaults.describe(visitor);
  }

  const std::vector<Parameter>& all() const { return parameters_; }
  /// Accepts `method` for `method.name`. An unknown key throws a usage Error that names the nearest known one.
  const Parameter& find(std::string_view key) const;
  bool contains(std::string_view key) const { return lookup(key) != nullptr; }

 private:
  struct Declaring {
    Schema& schema;
    const std::string& group;
    template <class T>
    Parameter& param(const std::string& name, T& field, std::string help) {
      if constexpr (std::is_enum_v<T>)
        return schema.parameters_.emplace_back(Parameter{group + "." + name, Value(name_of(field)), std::move(help)})
            .one_of(all_names<T>());
      else
        return schema.parameters_.emplace_back(Parameter{group + "." + name, Value(field), std::move(help)});
    }
  };

  const Parameter* lookup(std::string_view key) const;

  std::vector<Parameter> parameters_;
};

/// A value for every parameter of a schema. What is set later wins, so callers apply defaults, then presets, then the
/// file, then flags.
class Config {
 public:
  explicit Config(Schema schema) : schema_(std::move(schema)) {}

  const Schema& schema() const { return schema_; }
  void set(std::string_view key, Value value);
  /// From the command line: `text` is read as the parameter's type; lists are comma-separated, brackets optional.
  void set_text(std::string_view key, std::string_view text);
  /// Tables [sweep], [reproduce] and [preset] are ignored.
  void load_toml_text(std::string_view text, const std::string& name);
  /// The values of a TOML text without setting them: typed where the schema knows the key, as texts where it does not.
  std::vector<std::pair<std::string, Value>> read_toml_text(std::string_view text, const std::string& name) const;

  const Value& get(std::string_view key) const;
  bool is_set(std::string_view key) const;
  /// Back to the defaults for every key that starts so.
  void reset(std::string_view prefix);

  template <class Params>
  Params read(const std::string& group) const {
    Params params;
    Reading visitor{*this, group};
    params.describe(visitor);
    return params;
  }

  /// Every parameter with its value, by group; with `commented`, as a file to edit: each line commented out, help
  /// above.
  std::string to_toml(bool commented = false) const;

 private:
  struct Reading {
    const Config& config;
    const std::string& group;
    Parameter ignored{};
    template <class T>
    Parameter& param(const std::string& name, T& field, const std::string& /*help*/) {
      const Value& value = config.get(group + "." + name);
      if constexpr (std::is_enum_v<T>)
        field = enum_named<T>(std::get<std::string>(value)).value();  // checked when it was set
      else
        field = std::get<T>(value);
      return ignored;
    }
  };

  Schema schema_;
  std::map<std::string, Value, std::less<>> values_;
};

/// The smallest number of insertions, deletions, substitutions and swaps of neighbours between two words.
size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or empty when none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace fedgrab
