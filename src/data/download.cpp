#include "fedgrab/data/download.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "paths.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;

constexpr int most_tries = 5;  // without a new byte between them

std::string sha256_of(const fs::path& path) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> digest(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr);
  std::ifstream in(path, std::ios::binary);
  std::array<char, 1 << 16> buffer{};
  while (in.read(buffer.data(), buffer.size()) || in.gcount() > 0)
    EVP_DigestUpdate(digest.get(), buffer.data(), static_cast<size_t>(in.gcount()));
  std::array<unsigned char, EVP_MAX_MD_SIZE> sum{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(digest.get(), sum.data(), &size);
  std::string hex;
  for (unsigned int i = 0; i < size; ++i) hex += fmt::format("{:02x}", sum[i]);
  return hex;
}

/// One file on its way: bytes are appended as they come.
class Transfer {
 public:
  Transfer(const RemoteFile& file, fs::path partial) : file_(file), partial_(std::move(partial)) {
    descriptor_ = ::open(partial_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) refuse_disk();
    have_ = ::lseek(descriptor_, 0, SEEK_END);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;
  ~Transfer() { ::close(descriptor_); }

  void run() {
    for (int tries = 0; tries < most_tries; ++tries) {
      const int64_t before = have_;
      const CURLcode code = attempt();
      throw_if_interrupted();
      if (code == CURLE_OK) break;
      if (code == CURLE_WRITE_ERROR) refuse_disk();
      // What lies here is not the beginning of what lies there, or the server only sends whole files.
      const bool no_part = code == CURLE_RANGE_ERROR || status_ == 416;
      if (no_part && before > 0)
        start_again();
      else if (status_ >= 400 || tries + 1 == most_tries)
        throw Error(Fault::data, file_.url,
                    status_ >= 400 ? fmt::format("the server answers {}", status_) : reason(code),
                    have_ > 0 ? fmt::format("{} bytes are kept; the same command continues from there", have_)
                              : "check the address and the connection, and try again");
      if (have_ > before) tries = -1;
    }
    if (::fsync(descriptor_) != 0) refuse_disk();
  }

 private:
  CURLcode attempt() {
    const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(), curl_easy_cleanup);
    CURL* curl = handle.get();
    message_[0] = '\0';
    curl_easy_setopt(curl, CURLOPT_URL, file_.url.c_str());
    curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 30L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);  // a byte a second for a minute
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, 60L);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, message_.data());
    curl_easy_setopt(curl, CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(have_));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
    curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
    curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    curl_easy_setopt(curl, CURLOPT_XFERINFODATA, this);
    const CURLcode code = curl_easy_perform(curl);
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status_);
    return code;
  }

  static size_t on_bytes(const char* bytes, size_t /*one*/, size_t count, void* self_pointer) {
    auto* self = static_cast<Transfer*>(self_pointer);
    for (size_t written = 0; written < count;) {
      const ssize_t some = ::write(self->descriptor_, bytes + written, count - written);
      if (some < 0 && errno == EINTR) continue;
      if (some < 0) {
        self->disk_error_ = errno;
        return 0;
      }
      written += static_cast<size_t>(some);
      self->have_ += some;
    }
    return count;
  }

  static int on_progress(void* self_pointer, curl_off_t total, curl_off_t now, curl_off_t /*sent*/, curl_off_t /*of*/) {
    auto* self = static_cast<Transfer*>(self_pointer);
    constexpr int64_t unit = 1'000'000;
    if (total > 0 && !self->progress_) {
      const int64_t before = self->have_ - now;
      self->progress_.emplace(self->partial_.stem().string() + ", MB", (before + total) / unit, before / unit);
    }
    if (self->progress_) self->progress_->update(self->have_ / unit);
    return interrupted() ? 1 : 0;
  }

  void start_again() {
    if (::ftruncate(descriptor_, 0) != 0) refuse_disk();
    have_ = ::lseek(descriptor_, 0, SEEK_SET);
  }

  std::string reason(CURLcode code) const { return message_[0] != '\0' ? message_.data() : curl_easy_strerror(code); }

  [[noreturn]] void refuse_disk() const {
    throw Error(Fault::other, partial_.string(),
                fmt::format("cannot write: {}", std::strerror(disk_error_ != 0 ? disk_error_ : errno)),
                "free some space or choose another folder with --into; the same command continues from there");
  }

  const RemoteFile& file_;
  const fs::path partial_;
  int descriptor_ = -1, disk_error_ = 0;
  int64_t have_ = 0;
  long status_ = 0;
  std::array<char, CURL_ERROR_SIZE> message_{};
  std::optional<Progress> progress_;
};

}  // namespace

fs::path download(const RemoteFile& file, const fs::path& folder) {
  make_folder(folder);
  fs::path path = folder / fs::path(file.url).filename();
  if (is_file(path) && sha256_of(path) == file.sha256) return path;
  const fs::path partial = path.string() + ".partial";
  Transfer(file, partial).run();
  if (const std::string sum = sha256_of(partial); sum != file.sha256) {
    fs::remove(partial);
    throw Error(Fault::data, file.url, fmt::format("its SHA-256 is {}, not {}", sum, file.sha256),
                "it was damaged in transit or is another file, and was removed");
  }
  fs::rename(partial, path);
  return path;
}

}  // namespace fedgrab
