// decode_bench FOLDER [SIDE]: the JPEG files of a folder on all cores, in images per second of a core's time, so that a
// busy machine does not blur it: libjpeg-turbo alone, our decoding, decoding into the cache, delivery from the cache.
#include <fmt/format.h>
#include <jpeglib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>  // jpeglib.h uses FILE without including it
#include <ctime>
#include <functional>

#include "data/image_cache.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/data/batch.h"
#include "fedgrab/data/image.h"

namespace fs = std::filesystem;
using namespace fedgrab;  // NOLINT: a program of one file

namespace {

/// What any program must do: read the file, decode it to rows of pixels at the same scale.
void libjpeg_alone(const fs::path& file, int64_t enough) {
  const auto bytes = read_bytes(file);
  jpeg_error_mgr errors;
  jpeg_decompress_struct codec;
  codec.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&codec);
  jpeg_mem_src(&codec, bytes.data(), bytes.size());
  jpeg_read_header(&codec, TRUE);
  codec.out_color_space = JCS_RGB;
  const int64_t shorter = std::min(codec.image_height, codec.image_width);
  while (codec.scale_denom < 8 && shorter / (2 * codec.scale_denom) >= enough) codec.scale_denom *= 2;
  jpeg_start_decompress(&codec);
  std::vector<uint8_t> pixels(size_t{codec.output_width} * codec.output_height * 3);
  while (codec.output_scanline < codec.output_height) {
    JSAMPROW row = pixels.data() + size_t{codec.output_scanline} * codec.output_width * 3;
    jpeg_read_scanlines(&codec, &row, 1);
  }
  jpeg_finish_decompress(&codec);
  jpeg_destroy_decompress(&codec);
}

/// The best of five.
double measure(const char* what, size_t images, const std::function<void()>& work) {
  double best = 0;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const std::clock_t began = std::clock();  // of all threads
    work();
    const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    best = std::max(best, static_cast<double>(images) / seconds);
  }
  fmt::print("{:<40} {:>10.0f} images/s\n", what, best);
  return best;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return fmt::print(stderr, "usage: decode_bench FOLDER [SIDE]\n"), 2;
  const int64_t side = count > 2 ? std::stoll(arguments[2]) : 256;
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(arguments[1]))
    if (looks_like_image(entry.path())) files.push_back(entry.path());
  const auto each = [&](const std::function<void(const fs::path&)>& work) {
    parallel_for(static_cast<int64_t>(files.size()), available_cores(),
                 [&](int64_t i, int) { work(files[static_cast<size_t>(i)]); });
  };
  const double alone =
      measure("libjpeg-turbo alone", files.size(), [&] { each([&](const fs::path& f) { libjpeg_alone(f, side); }); });
  const double decoding =
      measure("decoding to planes", files.size(), [&] { each([&](const fs::path& f) { read_image(f, side); }); });

  const fs::path folder = fs::temp_directory_path() / fmt::format("decode-bench-{}", ::getpid());
  const CacheRules rules{folder, "bench", side, 3};
  const double pipeline = measure("decoding, resizing, caching", files.size(), [&] {
    fs::remove_all(folder);
    cache_images(files, rules);
  });
  const Images images = cache_images(files, rules).images;
  const int64_t delivered = images.count();
  std::vector<std::vector<float>> buffers(static_cast<size_t>(available_cores()));
  for (auto& buffer : buffers) buffer.resize(static_cast<size_t>(images.shape.size()));
  const double delivery = measure("cached bytes as normalised floats", files.size(), [&] {
    parallel_for(delivered, available_cores(), [&](int64_t i, int worker) {
      write_batch(images, {&i, 1}, imagenet_normalisation(), buffers[static_cast<size_t>(worker)].data());
    });
  });
  const double bytes = measure("cached bytes, copied", files.size(), [&] {
    parallel_for(delivered, available_cores(), [&](int64_t i, int worker) {
      const auto image = images.at(i);
      std::copy(image.begin(), image.end(), reinterpret_cast<uint8_t*>(buffers[static_cast<size_t>(worker)].data()));
    });
  });
  fs::remove_all(folder);
  fmt::print(
      "decoding is {:.0f} % of libjpeg-turbo alone, the pipeline {:.0f} %; cached bytes come {:.0f} times as fast "
      "as decoding, as floats {:.0f} times\n",
      100 * decoding / alone, 100 * pipeline / alone, bytes / decoding, delivery / decoding);
}
