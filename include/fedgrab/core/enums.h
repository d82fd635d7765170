/// Names of an enum's values, declared once beside the enum; parameters, files and messages use them.
///
///   enum class Sampling { shuffled, class_balanced };
///   template <>
///   inline constexpr auto enum_names<Sampling> = names("shuffled", "class-balanced");
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fedgrab {

template <class... Texts>
constexpr std::array<std::string_view, sizeof...(Texts)> names(const Texts&... texts) {
  return {std::string_view(texts)...};
}

/// In the order of the values, which count from 0.
template <class Enum>
inline constexpr auto enum_names = std::array<std::string_view, 0>{};

template <class Enum>
std::string name_of(Enum value) {
  return std::string(enum_names<Enum>.at(static_cast<size_t>(value)));
}

template <class Enum>
std::optional<Enum> enum_named(std::string_view name) {
  for (size_t i = 0; i < enum_names<Enum>.size(); ++i)
    if (enum_names<Enum>[i] == name) return static_cast<Enum>(i);
  return {};
}

template <class Enum>
std::vector<std::string> all_names() {
  return {enum_names<Enum>.begin(), enum_names<Enum>.end()};
}

}  // namespace fedgrab
