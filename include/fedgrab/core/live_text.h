/// A few lines on stderr that are redrawn in place. Where stderr is no terminal, nothing is shown.
#pragma once

#include <cstddef>
#include <string>

namespace fedgrab {

class LiveText {
 public:
  /// `quiet` shows nothing.
  explicit LiveText(bool quiet);
  LiveText(const LiveText&) = delete;
  LiveText& operator=(const LiveText&) = delete;
  /// What was shown last stays on the screen.
  ~LiveText() = default;

  bool visible() const { return visible_; }
  /// Lines that fit on the screen.
  size_t height() const;
  /// Instead of what is shown now. Lines are cut at the edge of the screen.
  void show(const std::string& text);
  /// Before anything else is printed.
  void erase();

 private:
  bool visible_;
  size_t drawn_ = 0;  // lines
};

}  // namespace fedgrab
