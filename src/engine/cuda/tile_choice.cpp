#include "tile_choice.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"

namespace fedgrab::cuda {
namespace {

constexpr int kernels_revision = 2;  // raise it when tiles change their meaning or their speed
constexpr int turns = 3, launches = 4;

/// Where the measurements of this device and precision are kept.
std::filesystem::path remembered_in(Precision precision) {
  const auto path_in = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  auto folder = path_in("XDG_CACHE_HOME");
  if (!folder.is_absolute()) folder = path_in("HOME") / ".cache";
  if (!folder.is_absolute()) return {};
  std::string device = at::cuda::getCurrentDeviceProperties()->name;
  for (auto& c : device)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '-';
  return folder / "fedgrab" / fmt::format("tiles-{}-{}-{}.txt", device, static_cast<int>(precision), kernels_revision);
}

std::string key_of(Pass pass, const ConvolutionShape& s, int groups) {
  return fmt::format("{}:{}x{}x{}:{}x{}x{}:{}x{}x{}:{}:{}:{}", static_cast<int>(pass), groups, s.slots, s.batch,
                     s.height, s.width, s.in, s.out_height, s.out_width, s.out, s.kernel, s.stride, s.padding);
}

/// One process at a time.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (descriptor_ < 0 || ::flock(descriptor_, LOCK_EX) != 0) throw Error(Fault::other, path, "cannot be locked");
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock() { ::close(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

TileChoice::TileChoice(Precision precision, bool measure) : precision_(precision), measure_(measure) {
  if (!measure) return;
  file_ = remembered_in(precision);
  read_remembered();
}

void TileChoice::read_remembered() {
  std::ifstream lines(file_);
  std::string key;
  for (int tile = 0; lines >> key >> tile;) chosen_.emplace(key, tile);
}

void TileChoice::remember() {
  if (!std::exchange(news_, false) || file_.empty()) return;
  try {  // a home that cannot be written costs a second next time, no more
    make_folder(file_.parent_path());
    const FileLock lock(file_.string() + ".lock");
    read_remembered();  // what another process found meanwhile
    std::string text;
    for (const auto& [key, tile] : chosen_) text += fmt::format("{} {}\n", key, tile);
    write_atomically(file_, text);
  } catch (const Error&) {
    file_.clear();
  }
}

int TileChoice::operator()(Pass pass, const ConvolutionShape& shape) {
  if (!measure_) return usual_tile(pass, shape);
  const auto key = key_of(pass, shape, groups_);
  if (const auto found = chosen_.find(key); found != chosen_.end() && tile_fits(precision_, pass, shape, found->second))
    return found->second;
  try {
    chosen_[key] = fastest(pass, shape);
    news_ = true;
  } catch (const c10::OutOfMemoryError&) {  // no room to measure in
    c10::cuda::CUDACachingAllocator::emptyCache();
    chosen_[key] = usual_tile(pass, shape);
  }
  return chosen_[key];
}

int TileChoice::fastest(Pass pass, ConvolutionShape s) const {
  s.slots *= groups_;
  const auto type = precision_ == Precision::bf16 ? torch::kBFloat16 : torch::kFloat;
  const auto zeros = [](int64_t size, torch::ScalarType dtype) {
    return torch::zeros({size}, torch::dtype(dtype).device(torch::kCUDA));
  };
  const int64_t weights = int64_t{s.out} * s.in * s.kernel * s.kernel;
  auto input = zeros(int64_t{s.slots} * s.batch * s.height * s.width * s.in, type);
  auto output = zeros(int64_t{s.slots} * s.batch * s.out_height * s.out_width * s.out, type);
  auto values = zeros(s.slots * weights, torch::kFloat), velocity = zeros(s.slots * weights, torch::kFloat);
  auto copy = zeros(s.slots * weights, type);
  const auto counts = torch::full({s.slots}, s.batch, torch::dtype(torch::kInt).device(torch::kCUDA));
  const auto lr = zeros(1, torch::kFloat);
  const auto stream = c10::cuda::getCurrentCUDAStream();
  const auto launch = [&](int tile) {
    const auto* const samples = counts.data_ptr<int32_t>();
    switch (pass) {
      case Pass::forward:
        return convolve(precision_, s, samples, input.data_ptr(), copy.data_ptr(), weights, output.data_ptr(), nullptr,
                        tile, stream);
      case Pass::input_gradient:
        return convolve_input_gradient(precision_, s, samples, output.data_ptr(), copy.data_ptr(), weights,
                                       input.data_ptr(), false, nullptr, tile, stream);
      case Pass::weight_gradient:
        return convolve_and_step(precision_, s, samples, input.data_ptr(), output.data_ptr(),
                                 {values.data_ptr<float>(), velocity.data_ptr<float>(),
                                  precision_ == Precision::bf16 ? copy.data_ptr() : nullptr, nullptr, nullptr, weights},
                                 {lr.data_ptr<float>(), 0, 0, 0}, tile, stream);
    }
  };
  // In turns, the best of each: whatever else happens meets all alike.
  std::vector<float> best(static_cast<size_t>(tiles_of(precision_)), std::numeric_limits<float>::max());
  for (int turn = 0; turn < turns; ++turn)
    for (size_t tile = 0; tile < best.size(); ++tile) {
      if (!tile_fits(precision_, pass, s, static_cast<int>(tile))) continue;
      launch(static_cast<int>(tile));
      at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
      begin.record(stream);
      for (int i = 0; i < launches; ++i) launch(static_cast<int>(tile));
      end.record(stream);
      end.synchronize();
      best[tile] = std::min(best[tile], begin.elapsed_time(end));
    }
  // The usual one unless another is clearly faster: noise should not decide.
  const int usual = usual_tile(pass, s);
  const auto fastest = static_cast<int>(std::min_element(best.begin(), best.end()) - best.begin());
  return best[static_cast<size_t>(fastest)] < 0.97F * best[static_cast<size_t>(usual)] ? fastest : usual;
}

}  // namespace fedgrab::cuda
