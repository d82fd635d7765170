// Files are written by DCMTK's tools, and what they should look like is what dcm2pnm makes of them.
#include <fmt/format.h>

#include <cmath>
#include <set>

#include "fedgrab/core/file.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/random.h"
#include "image_files.h"

namespace fedgrab::dicom_test {

constexpr int rows = 9, columns = 11;

/// What dump2dcm makes a file of.
struct Scan {
  std::string photometric = "MONOCHROME2";
  int bits_allocated = 16, bits_stored = 12;
  bool is_signed = false;
  int samples = 1, planar = 0, frames = 1;
  std::string slope, intercept, centre, width;
};

class Dicom : public testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v dump2dcm dcm2pnm dcmcrle dcmcjpeg dcmcjpls dcmconv img2dcm >/dev/null") != 0)
      GTEST_SKIP() << "DCMTK's tools are not installed (Debian: dcmtk)";
  }

  void call(const std::string& command) const {
    const std::string line = fmt::format("cd '{}' && {} >tool.log 2>&1", folder.path(), command);
    ASSERT_EQ(std::system(line.c_str()), 0) << command << ": " << read_text(folder.path("tool.log"));
  }

  /// Random numbers over all bits, written as scan.dcm.
  std::string write(const Scan& scan, uint64_t seed = 1) const {
    Random random(seed, Purpose::synthetic);
    std::string pixels;
    for (int i = 0; i < rows * columns * scan.samples * scan.frames; ++i) {
      const auto value = random.below(uint64_t{1} << scan.bits_stored);
      // A negative number fills the bits above those stored with its sign.
      const bool negative = scan.is_signed && (value >> (scan.bits_stored - 1) & 1U) != 0;
      const uint64_t stored = negative ? value | ~uint64_t{0} << scan.bits_stored : value;
      for (int byte = 0; byte < scan.bits_allocated / 8; ++byte)
        pixels += static_cast<char>(stored >> (8 * byte) & 0xFFU);
    }
    if (pixels.size() % 2 != 0) pixels += '\0';
    folder.write("pixels.raw", pixels);
    std::string text = fmt::format(
        "(0008,0016) UI =SecondaryCaptureImageStorage\n(0008,0018) UI [1.2.3.4]\n(0028,0002) US {}\n"
        "(0028,0004) CS [{}]\n(0028,0010) US {}\n(0028,0011) US {}\n(0028,0100) US {}\n(0028,0101) US {}\n"
        "(0028,0102) US {}\n(0028,0103) US {}\n",
        scan.samples, scan.photometric, rows, columns, scan.bits_allocated, scan.bits_stored, scan.bits_stored - 1,
        scan.is_signed ? 1 : 0);
    if (scan.samples > 1) text += fmt::format("(0028,0006) US {}\n", scan.planar);
    if (scan.frames > 1) text += fmt::format("(0028,0008) IS [{}]\n", scan.frames);
    if (!scan.centre.empty())
      text += fmt::format("(0028,1050) DS [{}]\n(0028,1051) DS [{}]\n", scan.centre, scan.width);
    if (!scan.slope.empty())
      text += fmt::format("(0028,1052) DS [{}]\n(0028,1053) DS [{}]\n", scan.intercept, scan.slope);
    text += fmt::format("(7fe0,0010) {} =pixels.raw\n", scan.bits_allocated == 8 ? "OB" : "OW");
    folder.write("scan.txt", text);
    call("dump2dcm scan.txt scan.dcm");
    return folder.path("scan.dcm");
  }

  /// `options`: how dcm2pnm is told to do what fedgrab does by itself.
  void expect_as_dcm2pnm(const std::string& file, const std::string& options, std::optional<Levels> levels = {}) const {
    call(fmt::format("dcmj2pnm {} '{}' expected.pnm", options, file));
    const Image expected = read_image(folder.path("expected.pnm")), image = read_image(file, 0, levels);
    EXPECT_EQ(image.shape, expected.shape);
    EXPECT_EQ(image.bytes, expected.bytes) << read_text(folder.path("scan.txt"));
    EXPECT_GT(std::set<uint8_t>(image.bytes.begin(), image.bytes.end()).size(), 10U) << "nothing to compare";
  }

  ScratchFolder folder;
};

TEST_F(Dicom, RendersGreyAsDcmtk) {
  uint64_t seed = 0;
  for (const char* photometric : {"MONOCHROME1", "MONOCHROME2"})
    for (const auto& [allocated, stored] : {std::pair(8, 8), {16, 8}, {16, 10}, {16, 12}, {16, 16}})
      for (const bool is_signed : {false, true})
        for (const bool rescaled : {false, true})
          for (const bool windowed : {false, true}) {
            Scan scan{photometric, allocated, stored, is_signed};
            if (rescaled) scan.slope = "2.5", scan.intercept = "-1024";
            if (windowed) {  // over the middle of what the file may hold, a quarter cut off on either side
              const double count = std::exp2(stored), middle = is_signed ? -0.5 : count / 2 - 0.5;
              scan.centre = fmt::format("{}", rescaled ? middle * 2.5 - 1024 : middle);
              scan.width = fmt::format("{}", count / 2 * (rescaled ? 2.5 : 1));
            }
            expect_as_dcm2pnm(write(scan, ++seed), windowed ? "+Wi 1" : stored > 8 ? "+Wm" : "-W");
          }
}

TEST_F(Dicom, TakesTheFirstWindow) {
  Scan scan;
  scan.centre = "2000\\300", scan.width = "1500\\200";
  const auto file = write(scan);
  expect_as_dcm2pnm(file, "+Wi 1");
}

/// A window of DICOM with the centre c and the width w shows the values from c - w / 2 to c + w / 2 - 1.
TEST_F(Dicom, LevelsGoBeforeTheWindow) {
  Scan scan;
  scan.centre = "2000", scan.width = "1500";
  const auto file = write(scan);
  expect_as_dcm2pnm(file, "+Ww 1500.5 1001", Levels{1000, 2000});
  const Image image = read_image(file, 0, Levels{0, 4095});
  const auto raw = read_bytes(folder.path("pixels.raw"));
  for (size_t i = 0; i < image.bytes.size(); ++i)
    EXPECT_NEAR(image.bytes[i], (raw[2 * i] | raw[2 * i + 1] << 8) * 255.0 / 4095, 1);
}

TEST_F(Dicom, ReadsColourInEveryOrder) {
  for (const char* photometric : {"RGB", "YBR_FULL"})
    for (const int planar : {0, 1}) {
      Scan scan{photometric, 8, 8};
      scan.samples = 3, scan.planar = planar;
      const auto file = write(scan);
      expect_as_dcm2pnm(file, "");
      EXPECT_EQ(read_image(file).shape, (ImageShape{3, rows, columns}));
    }
}

TEST_F(Dicom, UnpacksWhatDcmtkPacks) {
  Scan scan;
  scan.centre = "2000", scan.width = "1500";
  write(scan);
  const Image flat = read_image(folder.path("scan.dcm"));
  for (const char* pack : {"dcmcrle", "dcmcjpeg", "dcmcjpeg +e1", "dcmcjpls", "dcmconv +tb", "dcmconv +ti"}) {
    call(fmt::format("{} scan.dcm packed.dcm", pack));
    EXPECT_EQ(read_image(folder.path("packed.dcm")).bytes, flat.bytes) << pack;
  }
  call("dcmcjpeg +ee scan.dcm packed.dcm");  // 12 bits, with loss
  expect_as_dcm2pnm(folder.path("packed.dcm"), "+Wi 1");
}

TEST_F(Dicom, ReadsAPhotograph) {
  call("img2dcm " FEDGRAB_TEST_DATA "/data/reference/photo.jpg photo.dcm");
  expect_as_dcm2pnm(folder.path("photo.dcm"), "");
  EXPECT_EQ(read_image(folder.path("photo.dcm")).shape, (ImageShape{3, 120, 165}));
}

TEST_F(Dicom, ThreadsReadTogether) {
  write({});
  call("dcmcjpeg scan.dcm packed.dcm");
  const Image alone = read_image(folder.path("scan.dcm"));
  parallel_for(200, 8, [&](int64_t item, int) {
    EXPECT_EQ(read_image(folder.path(item % 2 == 0 ? "scan.dcm" : "packed.dcm")).bytes, alone.bytes);
  });
}

TEST_F(Dicom, RefusesWhatIsNotOneImage) {
  const auto expect = [&](const std::string& file, const std::vector<std::string>& fragments) {
    expect_error(
        Fault::data, [&] { read_image(file); }, fragments);
  };
  Scan frames;
  frames.frames = 3;
  const auto file = write(frames);
  expect(file, {file, "3 frames", "--all-frames"});
  write({});
  call("dcmconv +td scan.dcm deflated.dcm");
  expect(folder.path("deflated.dcm"), {"deflated", "dcmconv"});
  call("dcmodify -e '(7fe0,0010)' scan.dcm");
  expect(folder.path("scan.dcm"), {"no image"});
  write({});
  call("dcmodify -m '(0028,0010)=10' scan.dcm");
  expect(folder.path("scan.dcm"), {"ends too early"});
  write({});
  call("dcmodify -m '(0028,0010)=40000' -m '(0028,0011)=40000' scan.dcm");
  expect(folder.path("scan.dcm"), {"40000 x 40000"});
}

TEST_F(Dicom, RefusesEveryTruncation) {
  const auto bytes = read_bytes(write({}));
  const std::string whole(bytes.begin(), bytes.end());
  for (size_t size = 132; size + 2 < whole.size(); ++size) expect_unreadable(whole.substr(0, size), "DICOM");
}

TEST_F(Dicom, SurvivesDamage) {
  write({});
  for (const char* pack : {"dcmconv", "dcmcrle", "dcmcjpeg", "dcmcjpls"}) {
    call(fmt::format("{} scan.dcm packed.dcm", pack));
    const auto bytes = read_bytes(folder.path("packed.dcm"));
    expect_survives_damage({bytes.begin(), bytes.end()});
  }
}

}  // namespace fedgrab::dicom_test
