#include "fedgrab/core/natural_order.h"

#include <cctype>
#include <charconv>
#include <compare>
#include <limits>

namespace fedgrab {
namespace {

bool starts_with_digit(std::string_view text) {
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
}

/// Takes the number at the start: "0.05", "1e-3".
double take_number(std::string_view& text) {
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return code == std::errc() ? value : std::numeric_limits<double>::infinity();
}

}  // namespace

bool natural_less(std::string_view a, std::string_view b) {
  std::string_view left = a, right = b;
  while (!left.empty() && !right.empty()) {
    if (starts_with_digit(left) && starts_with_digit(right)) {
      const double x = take_number(left), y = take_number(right);
      if (x != y) return x < y;
      continue;
    }
    if (left.front() != right.front()) return left.front() < right.front();
    left.remove_prefix(1);
    right.remove_prefix(1);
  }
  if (left.empty() != right.empty()) return left.empty();
  return a < b;
}

}  // namespace fedgrab
