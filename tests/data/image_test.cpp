#include "fedgrab/data/image.h"

#include <atomic>
#include <cmath>
#include <thread>

#include "data/decode.h"
#include "fedgrab/core/parallel.h"
#include "image_files.h"

namespace fedgrab::image_test {

using Bytes = std::vector<uint8_t>;

// Written by Pillow.
constexpr std::string_view png_rgb =
    "89504e470d0a1a0a0000000d49484452000000030000000208020000001216f14d000000184944415478da63f8cfc0c0f09f8181"
    "e13f2397881c040000313303ef76d3c3690000000049454e44ae426082";
constexpr std::string_view png_rgba =
    "89504e470d0a1a0a0000000d494844520000000200000002080600000072b60d240000001a4944415478da633c9162f49f8181a1"
    "9185818181d17cf65963002e3904b7bf27cda60000000049454e44ae426082";
constexpr std::string_view png_palette =
    "89504e470d0a1a0a0000000d49484452000000020000000202030000000fd8e5b700000009504c5445ff000000ff00010203aab5"
    "7b080000000c4944415478da6310600a0000008800635c1cd9170000000049454e44ae426082";
constexpr std::string_view png_grey16 =
    "89504e470d0a1a0a0000000d49484452000000030000000110000000006e1b972b0000000f4944415478da636660f8ffffdc3900"
    "097f039e984040d40000000049454e44ae426082";
constexpr std::string_view png_bits =
    "89504e470d0a1a0a0000000d49484452000000050000000101000000003e85595e0000000a4944415478da63880000005a0059d2"
    "7790420000000049454e44ae426082";
constexpr std::string_view png_grey_alpha =
    "89504e470d0a1a0a0000000d49484452000000020000000108040000005e2bb7010000000d4944415478da634cf9cf60020004cb"
    "019984c6126a0000000049454e44ae426082";
constexpr std::string_view png_wide =
    "89504e470d0a1a0a0000000d4948445200000003000000021000000000e88fe5850000001649444154789c636060f8ffdfd79781"
    "ff3f2303f30b00205d0493980728600000000049454e44ae426082";
constexpr std::string_view jpeg_rgb =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c"
    "0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffdb00430103040405040509050509"
    "140d0b0d141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414141414"
    "1414ffc00011080008001003011100021101031101ffc4001500010100000000000000000000000000000607ffc4001410010000"
    "0000000000000000000000000000ffc400160101010100000000000000000000000000090708ffc4001411010000000000000000"
    "0000000000000000ffda000c03010002110311003f008227edc02a4a063bffd9";
constexpr std::string_view jpeg_grey =
    "ffd8ffe000104a46494600010100000100010000ffdb0043000302020302020303030304030304050805050404050a070706080c"
    "0a0c0c0b0a0b0b0d0e12100d0e110e0b0b1016101113141515150c0f171816141812141514ffc0000b080008000801011100ffc4"
    "0014000100000000000000000000000000000007ffc40014100100000000000000000000000000000000ffda0008010100003f00"
    "1a7fffd9";
constexpr std::string_view jpeg_cmyk =
    "ffd8ffee000e41646f626500640000000000ffdb0043000201010101010201010102020202020403020202020504040304060506"
    "060605060606070908060709070606080b08090a0a0a0a0a06080b0c0b0a0c090a0a0affc000140800080008044311004d110059"
    "11004b1100ffc4001500010100000000000000000000000000000907ffc40014100100000000000000000000000000000000ffda"
    "000e0443004d0059004b00003f007f16c1b64d1fffd9";

Image read(std::string_view content) { return read_content(content); }

TEST(Png, ReadsColour) { expect_six_pixels(from_hex(png_rgb)); }

TEST(Png, LaysTransparencyOnBlack) {
  EXPECT_EQ(read(from_hex(png_rgba)).bytes, (Bytes{200, 100, 0, 51, 100, 50, 0, 51, 50, 25, 0, 51}));
  const Image grey = read(from_hex(png_grey_alpha));
  EXPECT_EQ(grey.shape, (ImageShape{1, 1, 2}));
  EXPECT_EQ(grey.bytes, (Bytes{100, 20}));
}

TEST(Png, ExpandsPalettes) {
  const Image image = read(from_hex(png_palette));
  EXPECT_EQ(image.shape, (ImageShape{3, 2, 2}));
  EXPECT_EQ(image.bytes, (Bytes{255, 0, 0, 1, 0, 255, 255, 2, 0, 0, 0, 3}));
}

TEST(Png, BringsEveryDepthToEightBits) {
  EXPECT_EQ(read(from_hex(png_grey16)).bytes, (Bytes{0, 255, 77}));
  EXPECT_EQ(read(from_hex(png_bits)).bytes, (Bytes{0, 255, 0, 255, 255}));
}

TEST(Png, CutsSixteenBitsToLevels) {
  const Levels levels{1000, 4095};
  EXPECT_EQ(read_content(from_hex(png_wide), levels).bytes, (Bytes{0, 255, 255, 255, 0, 0}));
  EXPECT_EQ(read_content(from_hex(png_wide), Levels{0, 4095}).bytes, (Bytes{0, 255, 255, 255, 16, 62}));
  EXPECT_EQ(read_content(from_hex(png_wide)).bytes, (Bytes{0, 255, 77, 16, 1, 4}));
  EXPECT_EQ(read_content(from_hex(png_rgb), levels).bytes, read(from_hex(png_rgb)).bytes) << "of 8 bits";
  EXPECT_EQ(read_content(std::string("P5 2 1 65535\n\x0F\xFF\x4D\x4D", 17), levels).bytes, (Bytes{255, 255}));
}

TEST(Png, RefusesEveryTruncation) { expect_truncations_unreadable(from_hex(png_rgb), "PNG", 4, 0); }

TEST(Png, RefusesDamagedPixels) {
  std::string damaged = from_hex(png_rgb);
  damaged[48] = static_cast<char>(damaged[48] ^ 0x10);
  expect_unreadable(damaged, "PNG");
}

TEST(Jpeg, ReadsColour) {
  const Image image = read(from_hex(jpeg_rgb));
  ASSERT_EQ(image.shape, (ImageShape{3, 8, 16}));
  // Decoders may round differently by a level or two.
  const std::vector<std::pair<size_t, int>> expected = {{0, 200},       {128, 30},       {256, 39},  {15, 20},
                                                        {128 + 15, 60}, {256 + 15, 220}, {115, 200}, {128 + 115, 30}};
  for (const auto& [at, value] : expected) EXPECT_NEAR(image.bytes[at], value, 2) << at;
}

TEST(Jpeg, ReadsGrey) {
  const Image image = read(from_hex(jpeg_grey));
  ASSERT_EQ(image.shape, (ImageShape{1, 8, 8}));
  for (const int value : image.bytes) EXPECT_NEAR(value, 90, 2);
}

TEST(Jpeg, ConvertsCmykToColour) {
  const Image image = read(from_hex(jpeg_cmyk));
  ASSERT_EQ(image.shape, (ImageShape{3, 8, 8}));
  EXPECT_NEAR(image.bytes[0], 205, 2);
  EXPECT_NEAR(image.bytes[64], 125, 2);
  EXPECT_NEAR(image.bytes[128], 44, 2);
}

TEST(Jpeg, IsDecodedSmallerWhereThatIsEnough) {
  const std::string photo = FEDGRAB_TEST_DATA "/data/reference/photo.jpg";
  EXPECT_EQ(read_image(photo).shape, (ImageShape{3, 120, 165}));
  EXPECT_EQ(read_image(photo, 61).shape, (ImageShape{3, 120, 165}));
  const Image half = read_image(photo, 60), eighth = read_image(photo, 1);
  EXPECT_EQ(half.shape, (ImageShape{3, 60, 83}));
  EXPECT_EQ(half.reduced, 2);
  EXPECT_EQ(eighth.shape, (ImageShape{3, 15, 21}));
  const Image full = centre_square(read_image(photo), 40), fast = centre_square(read_image(photo, 40), 40);
  double difference = 0;
  for (size_t i = 0; i < full.bytes.size(); ++i) difference += std::abs(full.bytes[i] - fast.bytes[i]);
  EXPECT_LT(difference / static_cast<double>(full.bytes.size()), 3);
}

TEST(Jpeg, RefusesEveryTruncation) {
  const std::string whole = from_hex(jpeg_rgb);
  for (size_t size = 2; size < whole.size(); ++size) expect_unreadable(whole.substr(0, size), "JPEG");
}

TEST(Jpeg, RefusesAnAbsurdSize) {
  std::string bytes = from_hex(jpeg_grey);
  const size_t frame = bytes.find("\xFF\xC0");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\xFF\x00\xFF\x00", 4);
  expect_unreadable(bytes, "65280 x 65280");
}

TEST(Pnm, ReadsPlainAndRawAlike) {
  const Bytes grey{0, 128, 255, 7, 8, 9};
  EXPECT_EQ(read("P2 # a comment\n3 2\n255\n0 128 255\n7 8 9\n").bytes, grey);
  EXPECT_EQ(read(std::string("P5\n3 2\n255\n\x00\x80\xFF\x07\x08\x09", 17)).bytes, grey);
  EXPECT_EQ(read("P2 3 2 255 0 128 255 7 8 9").shape, (ImageShape{1, 2, 3}));
  const Bytes colour{1, 4, 2, 5, 3, 6};
  EXPECT_EQ(read("P3\n2 1\n# sizes above\n255\n1 2 3 4 5 6").bytes, colour);
  EXPECT_EQ(read("P6 2 1 255\n\x01\x02\x03\x04\x05\x06").bytes, colour);
  EXPECT_EQ(read("P3 2 1 255 1 2 3 4 5 6").shape, (ImageShape{3, 1, 2}));
}

TEST(Pnm, ScalesToEightBits) {
  EXPECT_EQ(read("P2 3 1 1 0 1 1").bytes, (Bytes{0, 255, 255}));
  EXPECT_EQ(read("P2 3 1 15 0 7 15").bytes, (Bytes{0, 119, 255}));
  EXPECT_EQ(read(std::string("P5 2 1 65535\n\xFF\xFF\x4D\x4D", 17)).bytes, (Bytes{255, 77}));
}

TEST(Pnm, RefusesWhatIsNotAnImage) {
  expect_unreadable("P5 3 2 255\nabcde", "ends too early");
  expect_unreadable("P5 3 2 1000\nabcdefg", "ends too early");
  expect_unreadable("P2 3 1 255 1 2", "ends too early");
  expect_unreadable("P2 2 1 255 1 200000000000", "too large");
  expect_unreadable("P2 2 1 9 1 10", "above");
  expect_unreadable("P5 2 1 9\n\x01\x0A", "above");
  expect_unreadable("P2 2 1 0 0 0", "largest value is 0");
  expect_unreadable("P2 2 1 65536 0 0", "65536");
  expect_unreadable("P5 0 4 255\n", "0 x 4");
  expect_unreadable("P5 65536 65536 255\n", "65536 x 65536");
  expect_unreadable("P3 2 one 255", "number is missing");
  expect_unreadable("P6", "ends too early");
}

TEST(ReadImage, RefusesOtherFiles) {
  expect_unreadable("", "is empty");
  expect_unreadable("GIF89a", "not a PNG, JPEG, TIFF, WebP, DICOM, PPM or PGM");
  expect_unreadable("P7\nWIDTH 1", "not a PNG, JPEG, TIFF, WebP, DICOM, PPM or PGM");
  const ScratchFolder folder;
  expect_error(Fault::data, [&] { read_image(folder.path("absent.png")); }, {folder.path("absent.png")});
}

TEST(ReadImage, NamesThePackageOfAFormatThatWasNotBuilt) {
  expect_error(Fault::data, [] { not_built_in("scan.dcm", "DICOM", "libdcmtk-dev"); },
               {"scan.dcm", "is a DICOM file", "install libdcmtk-dev"});
}

// 16000 x 16000 pixels of four bytes in 69 bytes.
constexpr std::string_view png_bomb =
    "89504e470d0a1a0a0000000d4948445200003e8000003e800806000000417edfde0000000c49444154789c6360a03d00000064000186"
    "643c350000000049454e44ae426082";

TEST(ReadImage, RefusesWhatTakesTooMuchMemory) {
  expect_unreadable(from_hex(png_bomb), "16000 x 16000 pixels, 1953 MiB");
  // One component in the first scan of three: libjpeg then keeps the coefficients of the whole image.
  std::string jpeg = from_hex(jpeg_rgb);
  const std::string one_scan = from_hex("ffda000c03010002110311003f00"),
                    first_of_several = from_hex("ffda0008010100003f00");
  jpeg.replace(jpeg.find(one_scan), one_scan.size(), first_of_several);
  const std::string size = from_hex("ffc000110800080010"), large = from_hex("ffc00011083fff3fff");
  jpeg.replace(jpeg.find(size), size.size(), large);
  expect_unreadable(jpeg, "16383 x 16383 pixels, 2303 MiB");
  expect_unreadable("P6 16000 16000 255\n", "16000 x 16000 pixels, 1464 MiB");
}

TEST(ReadImage, RefusesAFileThatIsNoneByItsSize) {
  const ScratchFolder folder;
  const auto file = folder.write("hole.png", from_hex(png_rgb));
  std::filesystem::resize_file(file, uint64_t{1} << 40);  // takes no room on the disk
  expect_error(Fault::data, [&] { read_image(file); }, {file, "larger than any image"});
}

TEST(MemoryBudget, IsNotExceededByThreadsTogether) {
  MemoryBudget budget(100);
  std::atomic<int64_t> taken = 0, most = 0;
  parallel_for(200, 8, [&](int64_t item, int) {
    const int64_t bytes = 20 + item % 60;
    const MemoryShare share = budget.take(static_cast<uint64_t>(bytes));
    const int64_t now = taken += bytes;
    int64_t seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    std::this_thread::yield();
    taken -= bytes;
  });
  EXPECT_LE(most, 100);
  EXPECT_GE(most, 79);
}

TEST(LooksLikeImage, GoesByTheEnding) {
  for (const char* name :
       {"a.png", "b.JPG", "c.jpeg", "d.Ppm", "e.pgm", "f.g.pnm", "g.tif", "h.TIFF", "i.webp", "j.dcm"})
    EXPECT_TRUE(looks_like_image(name)) << name;
  for (const char* name : {"png", "a.txt", "Thumbs.db", "._a.png", ".png", "a.png.part"})
    EXPECT_FALSE(looks_like_image(name)) << name;
}

TEST(IsImageFile, LooksIntoFilesOfOtherNames) {
  const ScratchFolder folder;
  const std::string dicom = std::string(128, '\0') + "DICM";
  EXPECT_TRUE(is_image_file(folder.write("1.2.840.10008", dicom)));
  EXPECT_TRUE(is_image_file(folder.write("scan", from_hex(png_rgb))));
  EXPECT_TRUE(is_image_file(folder.write("broken.png", "")));
  EXPECT_FALSE(is_image_file(folder.write("DICOMDIR", dicom))) << "the index of an archive";
  EXPECT_FALSE(is_image_file(folder.write(".scan", from_hex(png_rgb))));
  EXPECT_FALSE(is_image_file(folder.write("notes", "P2 was well")));
  EXPECT_FALSE(is_image_file(folder.write("empty", "")));
  EXPECT_FALSE(is_image_file(folder.path()));
}

const Image pattern{{1, 5, 7}, {0,   37,  74, 111, 148, 185, 222, 91, 141, 191, 241, 35,  85, 135, 182, 245, 52, 115,
                                178, 241, 48, 17,  93,  169, 245, 65, 141, 217, 108, 197, 30, 119, 208, 41,  130}};

void expect_near(const Bytes& bytes, const Bytes& expected) {
  ASSERT_EQ(bytes.size(), expected.size());
  for (size_t i = 0; i < bytes.size(); ++i) EXPECT_NEAR(bytes[i], expected[i], 1) << "at " << i;
}

// Expected values: Image.resize((width, height), Image.BILINEAR) of Pillow, which rounds after each direction.
TEST(Resize, AgreesWithPillow) {
  expect_near(resize(pattern, 2, 3).bytes, {110, 141, 141, 122, 145, 137});
  expect_near(resize(pattern, 2, 7).bytes, {79, 129, 121, 171, 105, 155, 147, 87, 163, 99, 175, 135, 129, 147});
  expect_near(resize(pattern, 5, 4).bytes,
              {19, 77, 145, 203, 117, 195, 103, 109, 203, 108, 173, 137, 57, 175, 131, 177, 142, 88, 150, 96});
  expect_near(resize(pattern, 8, 10).bytes,
              {0,   20,  46,  72,  98,  124, 150, 176, 202, 222, 40,  63,  93,  123, 153, 144, 101, 131, 161, 184,
               97,  124, 157, 181, 216, 167, 46,  83,  111, 130, 154, 186, 184, 102, 134, 147, 136, 178, 140, 75,
               130, 168, 170, 94,  132, 151, 146, 193, 161, 101, 27,  69,  117, 159, 210, 179, 76,  128, 174, 206,
               68,  114, 136, 94,  145, 164, 143, 100, 122, 168, 108, 157, 155, 38,  88,  150, 200, 83,  81,  130});
}

TEST(Resize, SmoothsWhatItShrinks) {
  Image checkers{{1, 16, 16}, {}};
  for (int y = 0; y < 16; ++y)
    for (int x = 0; x < 16; ++x) checkers.bytes.push_back((x / 3 + y / 3) % 2 == 1 ? 255 : 0);
  expect_near(resize(checkers, 4, 4).bytes,
              {111, 128, 136, 111, 128, 128, 128, 128, 136, 128, 123, 136, 111, 128, 136, 111});
}

TEST(Resize, TreatsEachChannelAlone) {
  Image colour{{3, 5, 7}, pattern.bytes};
  colour.bytes.resize(3 * 35, 200);
  const Image small = resize(colour, 2, 3);
  EXPECT_EQ(small.shape, (ImageShape{3, 2, 3}));
  EXPECT_EQ(Bytes(small.bytes.begin(), small.bytes.begin() + 6), resize(pattern, 2, 3).bytes);
  EXPECT_EQ(Bytes(small.bytes.begin() + 6, small.bytes.end()), Bytes(12, 200));
}

/// The whole is never made, but what is made is the middle of it.
TEST(CentreSquare, IsTheMiddleOfTheResizedImage) {
  for (const auto& sizes : {std::array<int64_t, 3>{37, 90, 16}, {201, 50, 33}, {9, 31, 24}}) {
    const int64_t height = sizes[0], width = sizes[1], side = sizes[2];
    Image image{{1, height, width}, {}};
    for (int64_t i = 0; i < height * width; ++i) image.bytes.push_back(static_cast<uint8_t>(i * i % 251));
    const int64_t shorter = std::min(height, width);
    const Image whole = resize(image, height * side / shorter, width * side / shorter);
    const auto offset = [&](int64_t length) { return std::lrint(static_cast<double>(length - side) / 2); };
    Bytes middle;
    for (int64_t y = 0; y < side; ++y)
      for (int64_t x = 0; x < side; ++x)
        middle.push_back(whole.bytes[static_cast<size_t>((y + offset(whole.shape.height)) * whole.shape.width + x +
                                                         offset(whole.shape.width))]);
    EXPECT_EQ(centre_square(image, side).bytes, middle) << height << " x " << width;
  }
}

TEST(CentreSquare, OfALineTakesNoMoreThanTheSquare) {
  const Image line{{1, 1, 4000000}, Bytes(4000000, 7)};  // resized as a whole: 16 GB
  EXPECT_EQ(centre_square(line, 64).bytes, Bytes(64 * 64, 7));
}

TEST(CentreSquare, KeepsTheMiddle) {
  const Image wide{{1, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}};
  EXPECT_EQ(centre_square(wide, 2).bytes, (Bytes{3, 4, 8, 9})) << "1.5 is rounded to even";
  const Image tall{{1, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8}};
  EXPECT_EQ(centre_square(tall, 2).bytes, (Bytes{3, 4, 5, 6}));
  EXPECT_EQ(centre_square(pattern, 3).shape, (ImageShape{1, 3, 3}));
}

TEST(Resize, LeavesTheSameSizeAlone) { EXPECT_EQ(resize(pattern, 5, 7).bytes, pattern.bytes); }

TEST(WithChannels, ConvertsAsPillow) {
  const Image colour = read(from_hex(png_rgb));
  EXPECT_EQ(with_channels(colour, 1).bytes, (Bytes{76, 150, 29, 18, 48, 78}));
  EXPECT_EQ(with_channels(colour, 3).bytes, colour.bytes);
  const Image grey{{1, 1, 2}, {5, 6}};
  EXPECT_EQ(with_channels(grey, 3).bytes, (Bytes{5, 6, 5, 6, 5, 6}));
  EXPECT_EQ(with_channels(grey, 3).shape, (ImageShape{3, 1, 2}));
}

}  // namespace fedgrab::image_test
