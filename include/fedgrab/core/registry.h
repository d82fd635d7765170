/// A registry lists the choices of one kind of part: name, summary, how to make it from a configuration, and its own
/// parameters. A new choice is a file of its own and one line in the list.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/parameters.h"

namespace fedgrab {

template <class Part>
struct Choice {
  std::string name;
  std::string summary;
  std::unique_ptr<Part> (*make)(const Config& config);
  void (*declare)(Schema& schema) = nullptr;  // its parameters, where it has any
};

template <class Entry>
std::vector<std::string> names_in(const std::vector<Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.push_back(entry.name);
  return names;
}

/// `help`: how a user lists the choices.
template <class Entry>
const Entry& find_in(const std::vector<Entry>& entries, const std::string& key, const std::string& name,
                     const std::string& help) {
  for (const auto& entry : entries)
    if (entry.name == name) return entry;
  const std::string near = nearest(name, names_in(entries));
  throw Error(Fault::usage, key, fmt::format("unknown value \"{}\"", name),
              near.empty() ? help : fmt::format("did you mean {}?", near));
}

template <class Part>
void declare_all(const std::vector<Choice<Part>>& choices, Schema& schema) {
  for (const auto& choice : choices)
    if (choice.declare != nullptr) choice.declare(schema);
}

/// A choice by its class: made from Type::Params, which are declared under GROUP.NAME, or without parameters.
template <class Part, class Type>
Choice<Part> choice_of(const char* group, const char* summary) {
  static const std::string own_group = std::string(group) + "." + Type::name;
  Choice<Part> choice{Type::name, summary, [](const Config& config) -> std::unique_ptr<Part> {
                        if constexpr (requires { typename Type::Params; })
                          return std::make_unique<Type>(config.read<typename Type::Params>(own_group));
                        else
                          return std::make_unique<Type>();
                      }};
  if constexpr (requires { typename Type::Params; })
    choice.declare = [](Schema& schema) { schema.add<typename Type::Params>(own_group); };
  return choice;
}

}  // namespace fedgrab
