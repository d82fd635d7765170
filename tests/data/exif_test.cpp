#include "data/exif.h"

#include "image_files.h"

namespace fedgrab::exif_test {

using Bytes = std::vector<uint8_t>;

// Written by Pillow with orientation 6.
constexpr std::string_view png_exif =
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d0000001a655849664d4d002a00000008000101"
    "120003000000010006000000000000d6674b690000001849444154789c63f8cfc0c0f09f8181e13f2397881c040000313303ef9e"
    "d3a8230000000049454e44ae426082";
constexpr std::string_view jpeg_exif =
    "ffd8ffe000104a46494600010100000100010000ffe100224578696600004d4d002a000000080001011200030000000100060000"
    "00000000ffdb0043000302020302020303030304030304050805050404050a070706080c0a0c0c0b0a0b0b0d0e12100d0e110e0b"
    "0b1016101113141515150c0f171816141812141514ffc0000b080008001001011100ffc4001f0000010501010101010100000000"
    "000000000102030405060708090a0bffc400b5100002010303020403050504040000017d01020300041105122131410613516107"
    "227114328191a1082342b1c11552d1f02433627282090a161718191a25262728292a3435363738393a434445464748494a535455"
    "565758595a636465666768696a737475767778797a838485868788898a92939495969798999aa2a3a4a5a6a7a8a9aab2b3b4b5b6"
    "b7b8b9bac2c3c4c5c6c7c8c9cad2d3d4d5d6d7d8d9dae1e2e3e4e5e6e7e8e9eaf1f2f3f4f5f6f7f8f9faffda0008010100003f00"
    "fb02bf9eaaffd9";

/// The same file with another orientation: 01 12 is the tag, 00 03 the type, 00 00 00 01 the count.
std::string with_orientation(std::string_view hex, int orientation) {
  std::string file = from_hex(hex);
  const size_t tag = file.find(from_hex("0112000300000001"));
  file.at(tag + 9) = static_cast<char>(orientation);
  return file;
}

// Pillow's ImageOps.exif_transpose of 1 2 3 above 4 5 6.
const std::vector<Bytes> turned = {{1, 2, 3, 4, 5, 6}, {3, 2, 1, 6, 5, 4}, {6, 5, 4, 3, 2, 1}, {4, 5, 6, 1, 2, 3},
                                   {1, 4, 2, 5, 3, 6}, {4, 1, 5, 2, 6, 3}, {6, 3, 5, 2, 4, 1}, {3, 6, 2, 5, 1, 4}};

TEST(Exif, TurnsAsPillow) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const Image image = upright({{1, 2, 3}, {1, 2, 3, 4, 5, 6}}, orientation);
    EXPECT_EQ(image.bytes, turned[static_cast<size_t>(orientation - 1)]) << orientation;
    EXPECT_EQ(image.shape, orientation < 5 ? (ImageShape{1, 2, 3}) : (ImageShape{1, 3, 2}));
  }
}

TEST(Exif, TurnsEveryPlane) {
  const Image image = upright({{3, 1, 2}, {1, 2, 3, 4, 5, 6}}, 2);
  EXPECT_EQ(image.bytes, (Bytes{2, 1, 4, 3, 6, 5}));
}

TEST(Exif, PngIsTurned) {
  const Image flat = read_content(with_orientation(png_exif, 1));
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const Image image = read_content(with_orientation(png_exif, orientation));
    EXPECT_EQ(image.bytes, upright(flat, orientation).bytes) << orientation;
    EXPECT_EQ(image.shape, upright(flat, orientation).shape) << orientation;
  }
  EXPECT_EQ(read_content(with_orientation(png_exif, 9)).bytes, flat.bytes);
}

/// A white square on the left, which a turn by 90 degrees to the right brings to the top.
TEST(Exif, JpegIsTurned) {
  EXPECT_EQ(exif_orientation(Bytes(from_hex(jpeg_exif).size())), 1);
  const Image flat = read_content(with_orientation(jpeg_exif, 1)), image = read_content(from_hex(jpeg_exif));
  ASSERT_EQ(flat.shape, (ImageShape{1, 8, 16}));
  ASSERT_EQ(image.shape, (ImageShape{1, 16, 8}));
  EXPECT_NEAR(flat.bytes[0], 200, 3);
  EXPECT_NEAR(flat.bytes[15], 0, 3);
  EXPECT_NEAR(image.bytes[7], 200, 3);
  EXPECT_NEAR(image.bytes[15 * 8], 0, 3);
}

TEST(Exif, SurvivesDamage) {
  for (const auto hex : {png_exif, jpeg_exif}) expect_survives_damage(from_hex(hex));
}

}  // namespace fedgrab::exif_test
