/// Images in memory, read as files.
#pragma once

#include <string>
#include <string_view>

#include "fedgrab/data/image.h"
#include "scratch_folder.h"

namespace fedgrab {

inline Image read_content(std::string_view content, std::optional<Levels> levels = {}) {
  const ScratchFolder folder;
  return read_image(folder.write("image", content), 0, levels);
}

inline void expect_unreadable(std::string_view content, const std::string& why) {
  const ScratchFolder folder;
  const auto file = folder.write("broken.png", content);
  expect_error(Fault::data, [&] { read_image(file); }, {file, why});
}

/// Damage of any kind gives an image or an error, never a crash: truncations, and bytes changed.
inline void expect_survives_damage(const std::string& whole) {
  const ScratchFolder folder;
  const auto attempt = [&](const std::string& content) {
    try {
      read_image(folder.write("damaged", content));
    } catch (const Error& error) {
      EXPECT_EQ(error.fault(), Fault::data) << error.what();
    }
  };
  const size_t step = whole.size() / 150 + 1;
  for (size_t at = 0; at < whole.size(); at += step) {
    attempt(whole.substr(0, at));
    for (const int bits : {0xFF, 0x01, 0x80}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ bits);
      attempt(damaged);
    }
  }
}

}  // namespace fedgrab
