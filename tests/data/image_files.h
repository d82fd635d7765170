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

/// Six pixels that every lossless format keeps, as they are and turned by its orientation.
inline void expect_six_pixels(std::string_view content) {
  const Image image = read_content(content);
  EXPECT_EQ(image.shape, (ImageShape{3, 2, 3}));
  EXPECT_EQ(image.bytes, (std::vector<uint8_t>{255, 0, 0, 10, 40, 70, 0, 255, 0, 20, 50, 80, 0, 0, 255, 30, 60, 90}));
}
inline void expect_six_turned_pixels(std::string_view content) {
  const Image image = read_content(content);
  EXPECT_EQ(image.shape, (ImageShape{3, 3, 2}));
  EXPECT_EQ(image.bytes, (std::vector<uint8_t>{10, 255, 40, 0, 70, 0, 20, 0, 50, 255, 80, 0, 30, 0, 60, 0, 90, 255}));
}
/// An opaque pixel and a transparent one.
inline void expect_transparency_on_black(std::string_view content) {
  EXPECT_EQ(read_content(content).bytes, (std::vector<uint8_t>{200, 50, 100, 25, 0, 0}));
}

/// Of every `step`-th length from `first` on; the last `padding` bytes may be missing.
inline void expect_truncations_unreadable(const std::string& whole, const std::string& why, size_t first,
                                          size_t padding, size_t step = 1) {
  for (size_t size = first; size < whole.size() - padding; size += step) expect_unreadable(whole.substr(0, size), why);
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
