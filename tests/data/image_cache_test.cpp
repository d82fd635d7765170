#include "data/image_cache.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <array>
#include <csignal>
#include <set>
#include <thread>

#include "fedgrab/core/file.h"
#include "scratch_folder.h"

namespace fedgrab::image_cache_test {

namespace fs = std::filesystem;

/// Grey files of 4 x 4 pixels, each of one value.
class ImageCache : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 6; ++i) files.push_back(write(i, 10 * i + 10));
    rules = {folder.path("cache"), "test", 4, 1};
  }
  std::string write(int i, int value) const {
    std::string text = "P2 4 4 255";
    for (int pixel = 0; pixel < 16; ++pixel) text += fmt::format(" {}", value);
    return folder.write(fmt::format("{}.pgm", i), text);
  }
  CachedImages open() const { return cache_images(files, rules); }
  fs::path cache_file() const {
    for (const auto& entry : fs::directory_iterator(rules.folder))
      if (entry.path().extension() == ".images") return entry.path();
    return {};
  }
  static std::vector<int> firsts(const CachedImages& cached) {
    std::vector<int> values;
    for (int64_t i = 0; i < cached.images.count(); ++i) values.push_back(cached.images.at(i)[0]);
    return values;
  }
  void damage(int64_t from_end) const {
    std::fstream file(cache_file(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-from_end, std::ios::end);
    file.put('\x7F');
  }

  ScratchFolder folder;
  std::vector<fs::path> files;
  CacheRules rules;
};

TEST_F(ImageCache, DecodesOnce) {
  const CachedImages first = open();
  EXPECT_EQ(first.decoded, 6);
  EXPECT_EQ(firsts(first), (std::vector<int>{10, 20, 30, 40, 50, 60}));
  EXPECT_EQ(first.images.shape, (ImageShape{1, 4, 4}));
  EXPECT_EQ(first.files, (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  const CachedImages second = open();  // beside the first
  EXPECT_EQ(second.decoded, 0);
  EXPECT_EQ(firsts(second), firsts(first));
}

TEST_F(ImageCache, IsVerifiedBesideOthersWhoReadIt) {
  const CachedImages held = open();
  rules.verify = true;
  EXPECT_EQ(open().decoded, 0);
}

TEST_F(ImageCache, FollowsItsSources) {
  EXPECT_EQ(open().decoded, 6);
  write(2, 99);
  fs::last_write_time(files[2], fs::last_write_time(files[2]) + std::chrono::seconds(2));
  const CachedImages changed = open();
  EXPECT_EQ(changed.decoded, 1);
  EXPECT_EQ(firsts(changed), (std::vector<int>{10, 20, 99, 40, 50, 60}));
}

TEST_F(ImageCache, KeepsPreprocessingsApart) {
  open();
  rules.side = 2;
  EXPECT_EQ(open().decoded, 6);
  rules.channels = 3;
  EXPECT_EQ(open().images.shape, (ImageShape{3, 2, 2}));
  rules = {folder.path("cache"), "test", 4, 1};
  EXPECT_EQ(open().decoded, 0);
}

TEST_F(ImageCache, MakesDamagedImagesAgain) {
  open();
  damage(3 * 16);  // in the fourth of six
  EXPECT_EQ(firsts(open())[3], 0x7F);
  rules.verify = true;
  const CachedImages mended = open();
  EXPECT_EQ(mended.decoded, 1);
  EXPECT_EQ(firsts(mended), (std::vector<int>{10, 20, 30, 40, 50, 60}));
}

TEST_F(ImageCache, RebuildsACutOne) {
  open();
  fs::resize_file(cache_file(), 4100);
  EXPECT_EQ(open().decoded, 6);
}

TEST_F(ImageCache, GoesOnWhereItStopped) {
  folder.write("4.pgm", "P2 4 4 255 cut");
  expect_error(Fault::data, [&] { open(); }, {files[4].string()});
  write(4, 50);
  const CachedImages whole = open();
  EXPECT_GE(whole.decoded, 1);
  EXPECT_LT(whole.decoded, 6);
  EXPECT_EQ(firsts(whole), (std::vector<int>{10, 20, 30, 40, 50, 60}));
}

TEST_F(ImageCache, ChecksWhatAStopLeft) {
  folder.write("5.pgm", "");
  expect_error(Fault::data, [&] { open(); }, {files[5].string(), "empty"});
  damage(6 * 16);  // as a power cut might
  write(5, 60);
  EXPECT_EQ(firsts(open()), (std::vector<int>{10, 20, 30, 40, 50, 60}));
}

TEST_F(ImageCache, SkipsBadFiles) {
  folder.write("1.pgm", "GIF89a");
  folder.write("5.pgm", "");
  fs::remove(files[3]);
  rules.skip_bad = true;
  {
    const CachedImages some = open();
    EXPECT_EQ(firsts(some), (std::vector<int>{10, 50, 30}));
    EXPECT_EQ(some.files, (std::vector<int64_t>{0, 4, 2}));
    EXPECT_EQ(std::set(some.bad.begin(), some.bad.end()), (std::set<int64_t>{1, 3, 5}));
  }
  const std::string reasons = read_text(cache_file().replace_extension("bad.txt"));
  for (const char* part : {"1.pgm: is not a PNG", "3.pgm: is listed", "5.pgm: is empty"})
    EXPECT_NE(reasons.find(part), std::string::npos) << reasons;
  EXPECT_EQ(open().decoded, 0) << "bad files are known";

  rules.skip_bad = false;
  expect_error(Fault::data, [&] { open(); }, {".pgm"});
  for (const int i : {1, 3, 5}) write(i, 10 * i + 10);
  EXPECT_EQ(firsts(open()), (std::vector<int>{10, 20, 30, 40, 50, 60})) << "the order is that of the list again";
}

TEST_F(ImageCache, NamesAMissingFile) {
  fs::remove(files[2]);
  expect_error(Fault::data, [&] { open(); }, {files[2].string(), "no such file"});
}

TEST_F(ImageCache, SaysWhatToDoWithoutRoom) {
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{4000, before.rlim_max};
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &small);
  expect_error(Fault::other, [&] { open(); }, {"test-", "data.cache"});
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_TRUE(cache_file().empty()) << "nothing is left behind";
  EXPECT_EQ(open().decoded, 6);
}

TEST_F(ImageCache, IsBuiltByOneOfMany) {
  std::vector<std::jthread> threads;
  std::array<CachedImages, 4> results;
  for (auto& result : results) threads.emplace_back([&] { result = open(); });
  threads.clear();
  int64_t decoded = 0;
  for (const auto& result : results) {
    EXPECT_EQ(firsts(result), (std::vector<int>{10, 20, 30, 40, 50, 60}));
    decoded += result.decoded;
  }
  EXPECT_EQ(decoded, 6);
}

TEST_F(ImageCache, KnowsTheSizesOfItsSources) {
  folder.write("1.pgm", "P2 1 2 255 1 2");
  std::string large = "P2 9 8 255";
  for (int pixel = 0; pixel < 72; ++pixel) large += " 1";
  folder.write("2.pgm", large);
  const SourceSizes sizes = open().sources;
  EXPECT_EQ(sizes.smallest.height, 2);
  EXPECT_EQ(sizes.median.width, 4);
  EXPECT_EQ(sizes.largest.width, 9);
}

}  // namespace fedgrab::image_cache_test
