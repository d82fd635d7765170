#include "fedgrab/report/page.h"

#include <stdexcept>

namespace fedgrab {
namespace {

/// JSON that can stand inside a script element: nothing in it ends the element or opens a comment.
std::string embeddable(const Json& data) {
  std::string text;
  for (const char c : data.dump(-1, ' ', false, Json::error_handler_t::replace))
    text += c == '<' ? "\\u003c" : std::string(1, c);
  return text;
}

}  // namespace

std::string page_with(const Json& data) {
  static constexpr std::string_view before = "type=\"application/json\">", nothing = "null";
  std::string page(empty_page());
  const size_t place = page.find(before);
  if (place == std::string::npos) throw std::logic_error("the page has no place for data");
  return page.replace(place + before.size(), nothing.size(), embeddable(data));
}

}  // namespace fedgrab
