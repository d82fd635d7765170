#include "fedgrab/record/tensorboard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "fedgrab/core/error.h"
#include "fedgrab/core/protobuf.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

// Field numbers of tensorflow.Event and what it holds (event.proto, summary.proto).
namespace event_field {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace summary_field {
constexpr int value = 1, value_tag = 1, value_simple = 2, value_image = 4, value_metadata = 9;
constexpr int image_height = 1, image_width = 2, image_colours = 3, image_bytes = 4;
constexpr int metadata_plugin = 1, plugin_name = 1, plugin_content = 2;
}  // namespace summary_field
// tensorboard.hparams.HParamsPluginData and google.protobuf.Value (plugins/hparams/plugin_data.proto, struct.proto).
namespace hparams_field {
constexpr int session_start = 3, session_hparams = 1, map_key = 1, map_value = 2;
constexpr int value_number = 2, value_text = 3, value_bool = 4;
}  // namespace hparams_field
namespace session_log_field {
constexpr int status = 1, status_start = 1;
}

using protobuf::bytes_field, protobuf::double_field, protobuf::float_field, protobuf::integer_field,
    protobuf::little_endian;

std::string hyper_parameter(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return integer_field(hparams_field::value_bool, *flag ? 1 : 0);
  if (const auto* whole = std::get_if<int64_t>(&value))
    return double_field(hparams_field::value_number, static_cast<double>(*whole));
  if (const auto* number = std::get_if<double>(&value)) return double_field(hparams_field::value_number, *number);
  const auto* text = std::get_if<std::string>(&value);
  return bytes_field(hparams_field::value_text, text != nullptr ? *text : to_text(value));
}

// ---- TFRecord

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}

/// TensorFlow masks checksums so that a checksum of data with checksums inside stays useful.
std::string masked_crc(std::string_view bytes) { return little_endian(std::rotr(crc32c(bytes), 15) + 0xA282EAD8U); }

std::string frame(std::string_view record) {
  const std::string length = little_endian(static_cast<uint64_t>(record.size()));
  return (length + masked_crc(length)).append(record) + masked_crc(record);
}

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const fs::path& path) {
  throw Error(Fault::other, path.string(), std::string("cannot write: ") + std::strerror(errno));
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr auto table = make_crc_table();
  uint32_t crc = ~0U;
  for (const char byte : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xFFU];
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const fs::path& folder, std::optional<int64_t> purge_step) {
  // TensorBoard reads the files of a folder in the order of their names, so a name must sort after the older ones.
  const std::string name = fmt::format("events.out.tfevents.{:010}.fedgrab", static_cast<int64_t>(unix_seconds()));
  for (int suffix = 0; descriptor_ < 0; ++suffix) {
    path_ = folder / (suffix == 0 ? name : fmt::format("{}.{}", name, suffix));
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (descriptor_ < 0 && errno != EEXIST) fail(path_);
  }
  // The version comes first: without it a reader falls back to rules that ignore the purge step.
  add_event(0, bytes_field(event_field::file_version, "brain.Event:2"));
  if (purge_step)
    add_event(*purge_step, bytes_field(event_field::session_log,
                                       integer_field(session_log_field::status, session_log_field::status_start)));
  try {
    flush();
  } catch (...) {
    ::close(descriptor_);  // no destructor runs for a half-made object
    throw;
  }
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error&) {  // said in the header: flush() reports, this does not
  }
  ::close(descriptor_);
}

void TensorBoardWriter::add_scalar(std::string_view tag, double value, int64_t step) {
  add_summary(step, tag, float_field(summary_field::value_simple, static_cast<float>(value)));
}

void TensorBoardWriter::add_image(std::string_view tag, const EncodedImage& image, int64_t step) {
  constexpr int64_t grey = 1;
  add_summary(step, tag,
              bytes_field(summary_field::value_image, integer_field(summary_field::image_height, image.height) +
                                                          integer_field(summary_field::image_width, image.width) +
                                                          integer_field(summary_field::image_colours, grey) +
                                                          bytes_field(summary_field::image_bytes, image.png)));
}

void TensorBoardWriter::add_hyper_parameters(const std::map<std::string, Value>& values) {
  std::string session;
  for (const auto& [name, value] : values)
    session +=
        bytes_field(hparams_field::session_hparams, bytes_field(hparams_field::map_key, name) +
                                                        bytes_field(hparams_field::map_value, hyper_parameter(value)));
  const std::string plugin =
      bytes_field(summary_field::plugin_name, "hparams") +
      bytes_field(summary_field::plugin_content, bytes_field(hparams_field::session_start, session));
  add_summary(0, "_hparams_/session_start_info",
              bytes_field(summary_field::value_metadata, bytes_field(summary_field::metadata_plugin, plugin)));
}

void TensorBoardWriter::add_summary(int64_t step, std::string_view tag, std::string_view content) {
  const std::string value = bytes_field(summary_field::value_tag, tag).append(content);
  add_event(step, bytes_field(event_field::summary, bytes_field(summary_field::value, value)));
}

void TensorBoardWriter::add_event(int64_t step, std::string_view content) {
  std::string event = double_field(event_field::wall_time, unix_seconds());
  if (step != 0) event += integer_field(event_field::step, step);  // proto3 leaves zeros out
  pending_ += frame(event.append(content));
}

void TensorBoardWriter::flush() {
  const off_t before = ::lseek(descriptor_, 0, SEEK_END);
  for (size_t done = 0; done < pending_.size();) {
    const ssize_t written = ::write(descriptor_, pending_.data() + done, pending_.size() - done);
    if (written >= 0) {
      done += static_cast<size_t>(written);
    } else if (errno != EINTR) {
      const int code = errno;
      // A full disk must not leave half a record; if even the cut fails, the write error is what matters.
      const bool cut = ::ftruncate(descriptor_, before) == 0;
      errno = cut ? code : errno;
      fail(path_);
    }
  }
  pending_.clear();
}

}  // namespace fedgrab
