/// Event files as TensorBoard reads them: TFRecord frames around protobuf events, which are few enough to encode here.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "fedgrab/core/parameters.h"
#include "fedgrab/record/confusion_image.h"

namespace fedgrab {

/// CRC-32C (Castagnoli), the checksum of the frames before TensorFlow's masking.
uint32_t crc32c(std::string_view bytes);

class TensorBoardWriter {
 public:
  /// Starts a new file in an existing folder. With a purge step, TensorBoard drops that step and every later one that
  /// earlier files in the folder hold: what a resumed run is about to write again.
  explicit TensorBoardWriter(const std::filesystem::path& folder, std::optional<int64_t> purge_step = std::nullopt);
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;
  /// Flushes, but cannot report a failure: call flush() where one matters.
  ~TensorBoardWriter();

  const std::filesystem::path& path() const { return path_; }

  void add_scalar(std::string_view tag, double value, int64_t step);
  void add_image(std::string_view tag, const EncodedImage& image, int64_t step);
  /// The row of this run on the page of hyper-parameters, where TensorBoard sets it beside the scalars.
  void add_hyper_parameters(const std::map<std::string, Value>& values);
  /// Writes what was added since the last time; the file holds whole records only.
  void flush();

 private:
  void add_summary(int64_t step, std::string_view tag, std::string_view content);
  void add_event(int64_t step, std::string_view content);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string pending_;
};

}  // namespace fedgrab
