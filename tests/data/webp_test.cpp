#include "image_files.h"

namespace fedgrab::webp_test {

// Written by Pillow; `exif` has orientation 6.
constexpr std::string_view rgb =
    "5249464642000000574542505650384c350000002f024000002f40986db439dc7bfe96a7212420741ffc7f8920db6617a9bfe5e7"
    "3fe0cf78264501856c23c0a17b054ee922fa1fc30b00";
constexpr std::string_view rgba = "524946461e000000574542505650384c110000002f010000100f509992c5ff00236444ff0300";
constexpr std::string_view lossy =
    "524946463a00000057454250565038202e0000009001009d012a1000080001402625a00274ba00039800fef14dafe2da4742990f"
    "fef19fff719fff719ffc88000000";
constexpr std::string_view exif =
    "524946467600000057454250565038580a000000080000000200000100005650384c350000002f024000002f40986db439dc7bfe"
    "96a7212420741ffc7f8920db6617a9bfe5e73fe0cf78264501856c23c0a17b054ee922fa1fc30b00455849461a0000004d4d002a"
    "00000008000101120003000000010006000000000000";
constexpr std::string_view animation =
    "524946468400000057454250565038580a00000002000000010000010000414e494d06000000000000000000414e4d4626000000"
    "000000000000010000010000000000025650384c0e0000002f01400000071011fd0f4444ff03414e4d462a000000000000000000"
    "010000010000000000005650384c110000002f0140000007d0842634a1ff8188e87f0000";

TEST(WebP, ReadsColour) { expect_six_pixels(from_hex(rgb)); }

TEST(WebP, ReadsLossyImages) {
  const Image image = read_content(from_hex(lossy));
  ASSERT_EQ(image.shape, (ImageShape{3, 8, 16}));
  EXPECT_NEAR(image.bytes[0], 200, 3);
  EXPECT_NEAR(image.bytes[128], 30, 3);
  EXPECT_NEAR(image.bytes[256], 40, 3);
}

TEST(WebP, LaysTransparencyOnBlack) { expect_transparency_on_black(from_hex(rgba)); }

TEST(WebP, IsTurned) { expect_six_turned_pixels(from_hex(exif)); }

TEST(WebP, RefusesAnimations) { expect_unreadable(from_hex(animation), "animation"); }

TEST(WebP, RefusesEveryTruncation) {
  for (const auto hex : {rgb, lossy}) expect_truncations_unreadable(from_hex(hex), "WebP", 12, 4);
}

TEST(WebP, RefusesTooManyPixels) {
  std::string large = from_hex(rgb);
  large.replace(large.find("\x2F") + 1, 4, from_hex("ffffff0f"));  // 16384 x 16384, in 14 bits each
  expect_unreadable(large, "16384 x 16384 pixels");
}

TEST(WebP, SurvivesDamage) {
  for (const auto hex : {rgb, rgba, lossy, exif, animation}) expect_survives_damage(from_hex(hex));
}

}  // namespace fedgrab::webp_test
