/// The page of web/, which the build puts into the program where it finds Node.
#pragma once

#include <string>
#include <string_view>

#include "fedgrab/record/schema.h"

namespace fedgrab {

/// Without data it requests them from its server. Throws an Error that says what was missing where it was not built in.
std::string_view empty_page();

/// The page with its data inside: one file that needs nothing else.
std::string page_with(const Json& data);

}  // namespace fedgrab
