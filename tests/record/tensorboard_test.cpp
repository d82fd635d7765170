#include "fedgrab/record/tensorboard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab::tensorboard_test {

namespace fs = std::filesystem;
using namespace std::string_literals;

template <class T>
T number_at(const std::string& bytes, size_t offset) {
  T number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

uint32_t unmasked(uint32_t crc) { return std::rotl(crc - 0xA282EAD8U, 15); }

/// The records of a file, each without its wall time, which comes first and takes nine bytes.
std::vector<std::string> events_in(const fs::path& path) {
  const std::string bytes = read_text(path);
  std::vector<std::string> events;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, at);
    EXPECT_EQ(unmasked(number_at<uint32_t>(bytes, at + 8)), crc32c(bytes.substr(at, 8)));
    const std::string record = bytes.substr(at + 12, length);
    EXPECT_EQ(record.size(), length);
    EXPECT_EQ(unmasked(number_at<uint32_t>(bytes, at + 12 + length)), crc32c(record));
    EXPECT_EQ(record.front(), '\x09');
    EXPECT_GT(number_at<double>(record, 1), 1.6e9);
    events.push_back(record.substr(9));
    at += 16 + length;
  }
  return events;
}

class TensorBoard : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(folder_); }
  void TearDown() override { fs::remove_all(folder_); }
  fs::path folder_ = fs::path(testing::TempDir()) / ("tensorboard_" + std::to_string(::getpid()));
};

const std::string version =
    "\x1a\x0d"
    "brain.Event:2";

TEST(Crc32c, KnownAnswers) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(""), 0U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43U);
}

TEST_F(TensorBoard, WritesScalars) {
  TensorBoardWriter writer(folder_);
  writer.add_scalar("acc", 0.5, 0);
  writer.add_scalar("loss", -2.0, 300);
  writer.flush();
  EXPECT_EQ(events_in(writer.path()),
            (std::vector<std::string>{version,
                                      "\x2a\x0c\x0a\x0a\x0a\x03"
                                      "acc\x15\x00\x00\x00\x3f"s,
                                      "\x10\xac\x02\x2a\x0d\x0a\x0b\x0a\x04loss\x15\x00\x00\x00\xc0"s}));
}

TEST_F(TensorBoard, WritesImages) {
  TensorBoardWriter writer(folder_);
  writer.add_image("c", {.width = 2, .height = 3, .png = "PNG"}, 1);
  writer.flush();
  EXPECT_EQ(events_in(writer.path()).at(1),
            "\x10\x01\x2a\x12\x0a\x10\x0a\x01"
            "c\x22\x0b\x08\x03\x10\x02\x18\x01\x22\x03PNG");
}

TEST_F(TensorBoard, WritesHyperParameters) {
  TensorBoardWriter writer(folder_);
  writer.add_hyper_parameters({{"a", Value(true)}, {"b", Value(std::string("x"))}});
  writer.flush();
  const std::string event = events_in(writer.path()).at(1);
  EXPECT_NE(event.find("_hparams_/session_start_info"), std::string::npos);
  EXPECT_NE(event.find("\x0a\x07\x0a\x01"
                       "a\x12\x02\x20\x01"),
            std::string::npos);
  EXPECT_NE(event.find("\x0a\x08\x0a\x01"
                       "b\x12\x03\x1a\x01x"),
            std::string::npos);
}

TEST(ConfusionImage, IsAPictureOfWholeCells) {
  const auto image = confusion_image({{3, 1, 0}, {0, 4, 0}, {0, 0, 0}});
  EXPECT_EQ(image.width, 318);
  EXPECT_EQ(image.png.substr(0, 8), "\x89PNG\r\n\x1a\n");
}

TEST_F(TensorBoard, StartsAResumedFileWithThePurgeStep) {
  const TensorBoardWriter writer(folder_, 7);
  EXPECT_EQ(events_in(writer.path()), (std::vector<std::string>{version, "\x10\x07\x3a\x02\x08\x01"}));
}

TEST_F(TensorBoard, FlushesAtTheEnd) {
  fs::path path;
  {
    TensorBoardWriter writer(folder_);
    writer.add_scalar("acc", 1, 1);
    path = writer.path();
  }
  EXPECT_EQ(events_in(path).size(), 2U);
}

TEST_F(TensorBoard, NamesFilesInTheOrderTheyWereMade) {
  const TensorBoardWriter first(folder_);
  const TensorBoardWriter second(folder_);
  const TensorBoardWriter third(folder_);
  EXPECT_LT(first.path().string(), second.path().string());
  EXPECT_LT(second.path().string(), third.path().string());
  const std::string name = first.path().filename().string();
  EXPECT_TRUE(name.starts_with("events.out.tfevents.") && name.ends_with(".fedgrab")) << name;
  EXPECT_EQ(name.size(), "events.out.tfevents.1234567890.fedgrab"s.size());
}

TEST_F(TensorBoard, SaysWhichFileCannotBeWritten) {
  try {
    const TensorBoardWriter writer(folder_ / "missing");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_TRUE(std::string_view(error.what()).starts_with((folder_ / "missing").string())) << error.what();
  }
}

}  // namespace fedgrab::tensorboard_test
