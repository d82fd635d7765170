#include <zlib.h>

#include <fstream>

#include "fedgrab/core/file.h"
#include "fedgrab/data/load.h"
#include "scratch_folder.h"

namespace fedgrab::idx_test {

std::string idx(const std::vector<uint32_t>& dimensions, std::string_view elements, char type = 0x08) {
  std::string bytes{'\0', '\0', type, static_cast<char>(dimensions.size())};
  for (const uint32_t d : dimensions)
    for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(d >> shift & 0xFF);
  return bytes += elements;
}

std::string labels(std::string_view values) { return idx({static_cast<uint32_t>(values.size())}, values); }

void write_gzip(const std::string& path, const std::string& content) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, content.data(), static_cast<unsigned>(content.size())), static_cast<int>(content.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

/// Three training images and one test image of 1 x 2 pixels, classes 0 to 2.
class Idx : public testing::Test {
 protected:
  void SetUp() override {
    folder.write("train-images-idx3-ubyte", idx({3, 1, 2}, "abcdef"));
    folder.write("train-labels-idx1-ubyte", labels({"\2\0\1", 3}));
    folder.write("t10k-images-idx3-ubyte", idx({1, 1, 2}, "xy"));
    folder.write("t10k-labels-idx1-ubyte", labels({"\1", 1}));
  }
  void remove(const std::string& name) const { std::filesystem::remove(folder.path(name)); }
  void expect_refused(const std::vector<std::string>& fragments) const {
    expect_error(
        Fault::data, [&] { read_idx(folder.path()); }, fragments);
  }

  ScratchFolder folder;
};

TEST_F(Idx, ReadsGreyImages) {
  const Dataset data = read_idx(folder.path());
  EXPECT_EQ(data.shape(), (ImageShape{1, 1, 2}));
  EXPECT_EQ(data.train.count(), 3);
  EXPECT_EQ(data.train.images.count(), 3);
  EXPECT_EQ(data.train.labels, (std::vector<int32_t>{2, 0, 1}));
  EXPECT_EQ(data.train.images.at(2)[1], 'f');
  EXPECT_EQ(data.test.images.at(0)[0], 'x');
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{1}));
  EXPECT_EQ(data.class_names, (std::vector<std::string>{"0", "1", "2"}));
  EXPECT_FLOAT_EQ(data.normalisation.mean.at(0), 0.1307F);
  EXPECT_FLOAT_EQ(data.normalisation.std.at(0), 0.3081F);
  EXPECT_EQ(data.augmentation.operations.count, 0);
  EXPECT_TRUE(data.balanced);
}

TEST_F(Idx, ReadsPackedFilesAndDottedNames) {
  remove("train-images-idx3-ubyte");
  write_gzip(folder.path("train-images-idx3-ubyte.gz"), idx({3, 1, 2}, "ABCDEF"));
  remove("t10k-labels-idx1-ubyte");
  folder.write("t10k-labels.idx1-ubyte", labels({"\2", 1}));
  const Dataset data = read_idx(folder.path());
  EXPECT_EQ(data.train.images.at(0)[1], 'B');
  EXPECT_EQ(data.test.labels, (std::vector<int32_t>{2}));
}

TEST_F(Idx, RefusesADamagedPackedFile) {
  remove("train-labels-idx1-ubyte");
  const std::string file = folder.path("train-labels-idx1-ubyte.gz");
  write_gzip(file, labels({"\2\0\1", 3}));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 9);
  expect_refused({file, "unpack"});
}

/// Of the memory of this process since it was last reset.
int64_t peak_memory() {
  std::ifstream status("/proc/self/status");
  int64_t kibibytes = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) kibibytes = std::stoll(line.substr(6));
  return kibibytes << 10;
}
void reset_peak_memory() { std::ofstream("/proc/self/clear_refs") << 5; }

TEST_F(Idx, UnpacksNoMoreThanTheHeaderAnnounces) {
  remove("train-images-idx3-ubyte");
  const std::string name = "train-images-idx3-ubyte.gz", zeros(size_t{1} << 24, '\0');
  write_gzip(folder.path("head.gz"), idx({3, 1, 2}, "abcdef"));
  write_gzip(folder.path("zeros.gz"), zeros);
  const auto bytes_of = [&](const char* file) {
    const auto bytes = read_bytes(folder.path(file));
    return std::string(bytes.begin(), bytes.end());
  };
  std::string bomb = bytes_of("head.gz");
  const std::string more = bytes_of("zeros.gz");
  for (int times = 0; times < 64; ++times) bomb += more;  // 1 GiB in 1 MiB
  const auto file = folder.write(name, bomb);
  reset_peak_memory();
  const int64_t before = peak_memory();
  expect_refused({file, "more than 6 bytes", "3 x 1 x 2"});
  EXPECT_LT(peak_memory() - before, int64_t{1} << 28);
  // As many elements as that, of which there are none.
  write_gzip(file, idx({1U << 10, 1U << 10, 1U << 10}, ""));
  expect_refused({file, "too short", "1024 x 1024 x 1024"});
}

TEST_F(Idx, ReadsColourWithChannelsFirstOrLast) {
  remove("train-images-idx3-ubyte");
  remove("t10k-images-idx3-ubyte");
  folder.write("train-images-idx4-ubyte", idx({3, 3, 1, 2}, "rRgGbB......------"));
  folder.write("t10k-images-idx4-ubyte", idx({1, 1, 2, 3}, "rgbRGB"));
  const Dataset data = read_idx(folder.path());
  EXPECT_EQ(data.shape(), (ImageShape{3, 1, 2}));
  for (const auto image : {data.train.images.at(0), data.test.images.at(0)})
    EXPECT_EQ(std::string(image.begin(), image.end()), "rRgGbB");
  EXPECT_EQ(data.normalisation.mean.size(), 3U);
}

TEST_F(Idx, RefusesAnotherFormat) {
  const auto file = folder.write("train-images-idx3-ubyte", "GIF89a, say");
  expect_refused({file, "not an IDX file"});
  folder.write("train-images-idx3-ubyte", "");
  expect_refused({file, "not an IDX file"});
  folder.write("train-images-idx3-ubyte", idx({3, 1, 2}, std::string(24, '\0'), 0x0D));
  expect_refused({file, "0x0D"});
  folder.write("train-images-idx3-ubyte", idx({3}, "abc"));
  expect_refused({file, "not images"});
  folder.write("train-images-idx3-ubyte", idx({3, 2, 1, 2}, "0123456789ab"));
  expect_refused({file, "3 x 2 x 1 x 2"});
}

TEST_F(Idx, RefusesTruncatedAndOverlongFiles) {
  const auto file = folder.write("train-images-idx3-ubyte", idx({3, 1, 2}, "abcde"));
  expect_refused({file, "5 bytes", "3 x 1 x 2"});
  folder.write("train-images-idx3-ubyte", idx({3, 1, 2}, "abcdefg"));
  expect_refused({file, "more than 6 bytes", "3 x 1 x 2"});
  folder.write("train-images-idx3-ubyte", idx({3, 1, 2}, "").substr(0, 9));
  expect_refused({file, "header"});
  // 2^96 elements: the product must not wrap around to something that fits.
  folder.write("train-images-idx3-ubyte", idx({1U << 31, 1U << 31, 1U << 31}, ""));
  expect_refused({file, "too short", "2147483648 x 2147483648"});
  folder.write("train-images-idx3-ubyte", idx({3, 0, 2}, ""));
  expect_refused({file, "not images"});
}

TEST_F(Idx, RefusesCountsThatDiffer) {
  const auto file = folder.write("train-labels-idx1-ubyte", labels({"\2\1", 2}));
  expect_refused({file, "2 labels", "3 images", "train-images-idx3-ubyte"});
}

TEST_F(Idx, RefusesTrainAndTestOfDifferentSets) {
  folder.write("t10k-labels-idx1-ubyte", labels({"\3", 1}));
  expect_refused({folder.path(), "test label 3"});
  folder.write("t10k-labels-idx1-ubyte", labels({"\1", 1}));
  folder.write("t10k-images-idx3-ubyte", idx({1, 2, 2}, "wxyz"));
  expect_refused({folder.path(), "differ in size"});
}

TEST_F(Idx, RefusesASingleClass) {
  folder.write("train-labels-idx1-ubyte", labels({"\0\0\0", 3}));
  expect_refused({folder.path(), "two classes"});
}

TEST_F(Idx, NamesTheMissingFile) {
  remove("t10k-labels-idx1-ubyte");
  expect_refused({folder.path(), "t10k-labels-idx1-ubyte"});
  expect_error(Fault::data, [&] { read_idx(folder.path("nowhere")); }, {folder.path("nowhere"), "folder"});
}

}  // namespace fedgrab::idx_test
