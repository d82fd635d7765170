#include "fedgrab/core/live_text.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

namespace fedgrab {
namespace {

winsize screen() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0) size = {24, 80, 0, 0};
  return size;
}

/// The first `width` characters of a UTF-8 text.
std::string cut(const std::string& text, size_t width) {
  size_t end = 0;
  for (size_t shown = 0; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U && shown++ == width) break;
  return text.substr(0, end);
}

}  // namespace

LiveText::LiveText(bool quiet) : visible_(!quiet && isatty(STDERR_FILENO) == 1) {}

size_t LiveText::height() const { return std::max<size_t>(screen().ws_row, 4) - 1; }

void LiveText::erase() {
  if (drawn_ > 0) fmt::print(stderr, "\033[{}A\r\033[J", drawn_);
  drawn_ = 0;
}

void LiveText::show(const std::string& text) {
  if (!visible_) return;
  erase();
  const size_t width = screen().ws_col;
  std::istringstream lines(text);
  for (std::string line; drawn_ < height() && std::getline(lines, line); ++drawn_)
    fmt::print(stderr, "{}\n", cut(line, width));
  std::fflush(stderr);
}

}  // namespace fedgrab
