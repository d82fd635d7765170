#include "fedgrab/core/file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <thread>

namespace fedgrab::file_test {

namespace fs = std::filesystem;

/// While it lives, no file may grow beyond `bytes`: the write fails as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit{bytes, old_limit_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  void (*old_handler_)(int);
  rlimit old_limit_{};
};

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "fedgrab-file-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  fs::path path(const char* name) const { return folder_ / name; }
  void put(const char* name, std::string_view text) const { std::ofstream(path(name), std::ios::binary) << text; }
  size_t files() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

using AtomicFileTest = FileTest;
using LineLogTest = FileTest;

TEST_F(FileTest, ReadsBytesAsTheyAre) {
  const std::string text("a\0\r\n\xff", 5);
  put("x", text);
  EXPECT_EQ(read_text(path("x")), text);
  EXPECT_EQ(read_bytes(path("x")), (std::vector<uint8_t>{'a', 0, '\r', '\n', 0xff}));
  put("empty", "");
  EXPECT_TRUE(read_bytes(path("empty")).empty());
}

TEST_F(FileTest, SaysWhichFileCannotBeRead) {
  for (const auto& missing : {path("missing"), folder_}) {
    for (const auto& read : {+[](const fs::path& p) { read_text(p, Fault::checkpoint); },
                             +[](const fs::path& p) { read_bytes(p, Fault::checkpoint); }}) {
      try {
        read(missing);
        FAIL() << missing;
      } catch (const Error& error) {
        EXPECT_EQ(error.fault(), Fault::checkpoint);
        EXPECT_NE(std::string(error.what()).find(missing.string()), std::string::npos) << error.what();
      }
    }
  }
}

TEST_F(FileTest, MakesFoldersWithTheirParents) {
  make_folder(path("a/b/c"));
  EXPECT_TRUE(fs::is_directory(path("a/b/c")));
  make_folder(path("a/b/c"));
  put("file", "");
  EXPECT_THROW(make_folder(path("file")), Error);
  EXPECT_THROW(make_folder(path("file/below")), Error);
}

TEST_F(AtomicFileTest, IsInvisibleUntilCommitted) {
  put("x", "old");
  AtomicFile file(path("x"));
  file.write("new ");
  file.write("text");
  EXPECT_EQ(read_text(path("x")), "old");
  file.commit();
  EXPECT_EQ(read_text(path("x")), "new text");
  EXPECT_EQ(files(), 1U);
}

TEST_F(AtomicFileTest, KeepsALinkAndReplacesItsFile) {
  write_atomically(path("target"), "old");
  std::filesystem::create_symlink("target", path("link"));
  write_atomically(path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read_text(path("target")), "new");
}

TEST_F(AtomicFileTest, WritesIntoAPipeInsteadOfReplacingIt) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  std::string read;
  std::jthread reader([&] { read = read_text(path("pipe")); });
  write_atomically(path("pipe"), "through");
  reader.join();
  EXPECT_EQ(read, "through");
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

TEST_F(AtomicFileTest, RefusesAFolder) {
  std::filesystem::create_directory(path("folder"));
  EXPECT_THROW(write_atomically(path("folder"), "x"), Error);
  EXPECT_TRUE(std::filesystem::is_directory(path("folder")));
}

TEST_F(AtomicFileTest, LeavesNothingBehindWithoutCommit) {
  { AtomicFile(path("x")).write("half"); }
  EXPECT_EQ(files(), 0U);
}

TEST_F(AtomicFileTest, KeepsTheOldFileWhenTheDiskIsFull) {
  put("x", "old");
  const std::string large(100000, 'x');
  {
    const SmallDisk disk(4096);
    EXPECT_THROW(write_atomically(path("x"), large), Error);
  }
  EXPECT_EQ(read_text(path("x")), "old");
  EXPECT_EQ(files(), 1U);
  write_atomically(path("x"), large);
  EXPECT_EQ(read_text(path("x")), large);
}

TEST_F(AtomicFileTest, NamesThePathItCannotWrite) {
  try {
    write_atomically(path("no/such/folder"), "text");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::other);
    EXPECT_NE(std::string(error.what()).find(path("no/such/folder").string()), std::string::npos) << error.what();
  }
  fs::create_directory(path("folder"));
  EXPECT_THROW(write_atomically(path("folder"), "text"), Error);
  EXPECT_EQ(files(), 1U);
}

TEST_F(LineLogTest, HasOneWriterAtATime) {
  {
    LineLog log(path("log"), 0);
    log.append("one");
    EXPECT_THROW(LineLog(path("log"), 0), Error);
    log.append("two");
  }
  LineLog(path("log"), 2).append("three");
  EXPECT_EQ(read_text(path("log")), "one\ntwo\nthree\n");
}

TEST_F(LineLogTest, LeavesTheLinesOfAnotherWriterAlone) {
  LineLog first(path("log"));
  first.append("one");
  EXPECT_THROW(LineLog(path("log")), Error);
  EXPECT_THROW(LineLog(path("log"), 0), Error);
  EXPECT_EQ(read_text(path("log")), "one\n");
}

TEST_F(LineLogTest, CutsNothingUntilAsked) {
  put("log", "one\ntwo\nthr");
  LineLog log(path("log"));
  EXPECT_EQ(read_text(path("log")), "one\ntwo\nthr");
  log.keep(1);
  log.append("new");
  EXPECT_EQ(read_text(path("log")), "one\nnew\n");
}

TEST_F(LineLogTest, AppendsWholeLines) {
  LineLog log(path("log"), 0);
  log.append("one");
  EXPECT_EQ(read_text(path("log")), "one\n");
  log.append("");
  log.append("three");
  EXPECT_EQ(read_text(path("log")), "one\n\nthree\n");
}

TEST_F(LineLogTest, CutsBackToTheLinesAsked) {
  put("log", "one\ntwo\nthree\n");
  LineLog(path("log"), 2).append("new");
  EXPECT_EQ(read_text(path("log")), "one\ntwo\nnew\n");
  LineLog(path("log"), 0).append("first");
  EXPECT_EQ(read_text(path("log")), "first\n");
}

TEST_F(LineLogTest, DropsAHalfLine) {
  put("log", "one\ntwo\nthr");
  LineLog(path("log"), 3).append("four");
  EXPECT_EQ(read_text(path("log")), "one\ntwo\nfour\n");
}

TEST_F(LineLogTest, SurvivesAFullDisk) {
  LineLog log(path("log"), 0);
  log.append("one");
  {
    const SmallDisk disk(4096);
    EXPECT_THROW(log.append(std::string(10000, 'x')), Error);
  }
  EXPECT_EQ(read_text(path("log")), "one\n");
  log.append("two");
  EXPECT_EQ(read_text(path("log")), "one\ntwo\n");
}

TEST_F(LineLogTest, RefusesAFolder) { EXPECT_THROW(LineLog(folder_, 0), Error); }

TEST_F(FileTest, AFolderIsFilledByOneAtATime) {
  {
    const FolderLock first(folder_);
    EXPECT_THROW(FolderLock{folder_}, Error);
  }
  EXPECT_NO_THROW(FolderLock{folder_});
  EXPECT_THROW(FolderLock{folder_ / "nowhere"}, Error);
}

}  // namespace fedgrab::file_test
