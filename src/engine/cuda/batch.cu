/// Batches made on the device: the same samples, crops and flips as write_batch() on the CPU, from the same numbers.
#include "device.cuh"
#include "resized_crop.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 256;

__global__ void keys_of(RoundPlan plan, uint64_t key, int64_t* keys) {
  const int64_t item = int64_t{blockIdx.x} * threads + threadIdx.x;
  if (item >= int64_t{plan.slots} * plan.epochs * plan.longest) return;
  const int i = static_cast<int>(item % plan.longest);
  const auto epoch = static_cast<uint32_t>(item / plan.longest % plan.epochs);
  const int slot = static_cast<int>(item / plan.longest / plan.epochs);
  if (i >= plan.samples[slot]) {
    keys[item] = INT64_MAX;
    return;
  }
  const uint4 block =
      philox({static_cast<uint32_t>(i / 4), epoch, *plan.round, static_cast<uint32_t>(plan.clients[slot])}, key);
  keys[item] = static_cast<int64_t>(uint64_t{word_of(block, i % 4)} << 31 | static_cast<uint32_t>(i));
}

/// Where a slot stands at a step.
struct Place {
  int epoch, first, count;
  __device__ Place(const RoundPlan& plan, int slot) {
    const int samples = plan.samples[slot], step = *plan.step;
    const int per_epoch = (samples + plan.batch - 1) / plan.batch;
    if (samples == 0 || step >= per_epoch * plan.epochs) {
      epoch = first = count = 0;
      return;
    }
    epoch = step / per_epoch;
    first = (step - epoch * per_epoch) * plan.batch;
    count = min(plan.batch, samples - first);
  }
};

/// Pixel (y, x) as the model sees the image; black where nothing is stored.
template <class T>
__device__ void write_pixel(const BatchSource& source, int64_t image, int y, int x, T* out) {
  const Stored stored(source);
  y += source.margin;
  x += source.margin;
  const bool inside = y >= 0 && x >= 0 && y < stored.height && x < stored.width;
  const uint8_t* const from = source.pixels + image * source.channels * stored.plane() + int64_t{y} * stored.width + x;
  for (int c = 0; c < channel_padding; ++c)
    out[c] = from_float<T>(c < source.channels ? source.table[c * 256 + (inside ? from[c * stored.plane()] : 0)] : 0);
}

template <class T>
__global__ void gather(BatchSource source, RoundPlan plan, T* images, int64_t* labels, float* mask, int32_t* counts) {
  const int slot = blockIdx.y, at = blockIdx.x;
  const Place place(plan, slot);
  const bool present = at < place.count;
  int64_t image = 0;
  if (present) image = plan.order[(int64_t{slot} * plan.epochs + place.epoch) * plan.longest + place.first + at];
  if (threadIdx.x == 0) {
    const int64_t item = int64_t{slot} * plan.batch + at;
    labels[item] = present ? source.labels[image] : 0;
    mask[item] = present ? 1 : 0;
    if (at == 0) counts[slot] = place.count;
  }
  if (!present) return;
  if (source.window > 0) image = (int64_t{*plan.step} % (2 * source.window) * plan.slots + slot) * plan.batch + at;
  const auto position = static_cast<uint32_t>(place.epoch * plan.samples[slot] + place.first + at);
  const uint4 words = philox({position, 0, *plan.round, static_cast<uint32_t>(plan.clients[slot])}, plan.augment_key);
  T* const out = images + (int64_t{slot} * plan.batch + at) * source.height * source.width * channel_padding;
  if (source.resized_crop) {
    write_resized_crop(source, image, words, out);
    return;
  }
  const uint32_t choices = 2 * source.crop_padding + 1;
  const int dy = static_cast<int>(words.x % choices) - source.crop_padding;
  const int dx = static_cast<int>(words.y % choices) - source.crop_padding;
  const bool flip = source.flip && (words.z & 1U) != 0;
  for (int pixel = threadIdx.x; pixel < source.height * source.width; pixel += threads) {
    const int y = pixel / source.width, x = pixel % source.width;
    write_pixel(source, image, y + dy, (flip ? source.width - 1 - x : x) + dx, out + int64_t{pixel} * channel_padding);
  }
}

template <class T>
__global__ void gather_range(BatchSource source, const int32_t* indices, int64_t first, T* images) {
  const int64_t image = indices == nullptr ? first + blockIdx.x : indices[first + blockIdx.x];
  T* const out = images + int64_t{blockIdx.x} * source.height * source.width * channel_padding;
  for (int pixel = threadIdx.x; pixel < source.height * source.width; pixel += threads)
    write_pixel(source, image, pixel / source.width, pixel % source.width, out + int64_t{pixel} * channel_padding);
}

__global__ void draw(RoundPlan plan, int n, float* numbers) {
  const int slot = blockIdx.y;
  const int i = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (i >= n) return;
  const uint4 block = philox({static_cast<uint32_t>(i / 4), static_cast<uint32_t>(*plan.step), *plan.round,
                              static_cast<uint32_t>(plan.clients[slot])},
                             plan.gate_key);
  numbers[int64_t{slot} * n + i] = to_unit(word_of(block, i % 4));
}

__global__ void finish(const float* loss, const int32_t* counts, int slots, double* loss_sum, int32_t* first_bad,
                       int32_t* step) {
  for (int slot = threadIdx.x; slot < slots; slot += blockDim.x) {
    if (counts[slot] == 0) continue;
    loss_sum[slot] += static_cast<double>(loss[slot]) * counts[slot];
    if (!isfinite(loss[slot]) && first_bad[slot] == 0) first_bad[slot] = *step + 1;
  }
  __syncthreads();
  if (threadIdx.x == 0) ++*step;
}

}  // namespace

void shuffle_keys(const RoundPlan& plan, uint64_t shuffle_key, int64_t* keys, cudaStream_t stream) {
  keys_of<<<ceil_div(int64_t{plan.slots} * plan.epochs * plan.longest, threads), threads, 0, stream>>>(
      plan, shuffle_key, keys);
  check_launch("keys_of");
}

size_t resized_crop_memory(const BatchSource& source) { return filter_bytes(source); }

void gather_batch(Precision precision, const BatchSource& source, const RoundPlan& plan, void* images, int64_t* labels,
                  float* mask, int32_t* counts, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const size_t shared = source.resized_crop ? resized_crop_memory(source) : 0;
    gather<T><<<dim3(plan.batch, plan.slots), threads, shared, stream>>>(source, plan, static_cast<T*>(images), labels,
                                                                         mask, counts);
    check_launch("gather");
  });
}

void gather_plain(Precision precision, const BatchSource& source, const int32_t* indices, int64_t first, int count,
                  void* images, cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    gather_range<T><<<count, threads, 0, stream>>>(source, indices, first, static_cast<T*>(images));
    check_launch("gather_range");
  });
}

void gate_uniforms(const RoundPlan& plan, int n, float* numbers, cudaStream_t stream) {
  draw<<<dim3(ceil_div(n, threads), plan.slots), threads, 0, stream>>>(plan, n, numbers);
  check_launch("draw");
}

void finish_step(const float* loss, const int32_t* counts, int slots, double* loss_sum, int32_t* first_bad,
                 int32_t* step, cudaStream_t stream) {
  finish<<<1, 256, 0, stream>>>(loss, counts, slots, loss_sum, first_bad, step);
  check_launch("finish");
}

}  // namespace fedgrab::cuda
