/// Every failure a user can cause is an Error: one line that says what, why and what to do about it.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace fedgrab {

/// Also the exit code of the command line.
enum class Fault { other = 1, usage = 2, data = 3, checkpoint = 4 };

/// The text as a terminal may show it: line breaks as they are, other control characters spelled out (\x1b).
std::string printable(std::string_view text);

class Error : public std::runtime_error {
 public:
  /// Reads `what: why (hint)`; line breaks become spaces and control characters are spelled out, so that the
  /// message stays one line and does nothing to a terminal.
  Error(Fault fault, const std::string& what, const std::string& why, const std::string& hint = {});

  Fault fault() const { return fault_; }
  int exit_code() const { return static_cast<int>(fault_); }

 private:
  Fault fault_;
};

}  // namespace fedgrab
