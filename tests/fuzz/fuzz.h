/// What the fuzz targets share. A target is a file with LLVMFuzzerTestOneInput: it gives the input to one parser.
/// Whatever the parser refuses must be an Error of one printable line; any other exception, a memory error and
/// undefined behaviour end the process, and libFuzzer keeps the input.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <string_view>

#include "fedgrab/core/error.h"

namespace fedgrab::fuzz {

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// As error_test says: one line that does nothing to a terminal.
inline void check_message(std::string_view message) {
  for (const char c : message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) std::abort();
}

template <class Read>
void value_or_error(Read read) {
  try {
    read();
  } catch (const Error& error) {
    check_message(error.what());
  }
}

/// Of this process, in memory where the system has such a folder; removed at the end.
class Scratch {
 public:
  Scratch() {
    const bool shared = ::access("/dev/shm", W_OK) == 0;
    std::string name =
        ((shared ? std::filesystem::path("/dev/shm") : std::filesystem::temp_directory_path()) / "fuzz-XXXXXX")
            .string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    root_ = name;
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  const std::filesystem::path& path() const { return root_; }

  std::filesystem::path write(const std::string& name, std::string_view bytes) const {
    const auto path = root_ / name;
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (file < 0 || ::write(file, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) std::abort();
    ::close(file);
    return path;
  }

  /// Several files in one input, between lines of "====". A file without a piece is not there.
  void write_pieces(std::initializer_list<const char*> names, std::string_view input) const {
    constexpr std::string_view separator = "\n====\n";
    bool ended = false;
    for (const char* name : names) {
      if (ended) {
        ::unlink((root_ / name).c_str());
        continue;
      }
      const size_t end = input.find(separator);
      write(name, input.substr(0, end));
      ended = end == std::string_view::npos;
      if (!ended) input.remove_prefix(end + separator.size());
    }
  }

 private:
  std::filesystem::path root_;
};

inline const Scratch& scratch() {
  static const Scratch folder;
  return folder;
}

}  // namespace fedgrab::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
