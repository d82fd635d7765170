/// Texts in the order a reader expects: numbers in them by their value, so that 5 comes before 10 and 0.05 before 0.1.
#pragma once

#include <string_view>

namespace fedgrab {

/// A strict order: texts that differ are never equal.
bool natural_less(std::string_view a, std::string_view b);

}  // namespace fedgrab
