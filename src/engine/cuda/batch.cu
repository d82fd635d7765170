/// Batches made on the device: the same samples and augmentations as write_batch() on the CPU, from the same numbers.
#include "augment.cuh"
#include "device.cuh"
#include "resized_crop.cuh"

namespace fedgrab::cuda {
namespace {

constexpr int threads = 256;
constexpr int scratch_blocks = 256;  // at work at a time where images are in the scratch memory

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

/// The sample at a place of a slot's batch, and the Philox counter of its augmentation.
struct Sample {
  bool present;
  int64_t image = 0;
  uint4 counter{};

  /// By the whole block, which writes what belongs to the sample beside its image.
  __device__ Sample(const BatchSource& source, const RoundPlan& plan, int slot, int at, int64_t* labels, float* mask,
                    int32_t* counts) {
    const Place place(plan, slot);
    present = at < place.count;
    if (present) image = plan.order[(int64_t{slot} * plan.epochs + place.epoch) * plan.longest + place.first + at];
    if (threadIdx.x == 0) {
      const int64_t item = int64_t{slot} * plan.batch + at;
      labels[item] = present ? source.labels[image] : 0;
      mask[item] = present ? 1 : 0;
      if (at == 0) counts[slot] = place.count;
    }
    if (source.window > 0) image = (int64_t{*plan.step} % (2 * source.window) * plan.slots + slot) * plan.batch + at;
    const auto position = static_cast<uint32_t>(place.epoch * plan.samples[slot] + place.first + at);
    counter = {position, source.view, *plan.round, static_cast<uint32_t>(plan.clients[slot])};
  }
};

/// Pixels on their way to a network. put(pixel, byte_of) takes byte_of(channel).
template <class T>
struct NetworkInput {
  const float* table;
  int channels;
  T* out;

  template <class ByteOf>
  __device__ void operator()(int pixel, const ByteOf& byte_of) const {
    for (int c = 0; c < channel_padding; ++c)
      out[int64_t{pixel} * channel_padding + c] = from_float<T>(c < channels ? table[c * 256 + byte_of(c)] : 0);
  }
};

/// Pixel (y, x) as the model sees the image; black where nothing is stored.
template <class Put>
__device__ void read_pixel(const BatchSource& source, int64_t image, int y, int x, int pixel, const Put& put) {
  const Stored stored(source);
  y += source.margin;
  x += source.margin;
  const bool inside = y >= 0 && x >= 0 && y < stored.height && x < stored.width;
  const uint8_t* const from = source.pixels + image * source.channels * stored.plane() + int64_t{y} * stored.width + x;
  put(pixel, [&](int c) { return inside ? from[c * stored.plane()] : uint8_t{0}; });
}

/// The crop and the flip that the augmentation begins with, from one block of random words; by the whole block.
template <class Put>
__device__ void read_sample(const BatchSource& source, int64_t image, uint4 words, uint8_t* memory, const Put& put) {
  if (source.leading.resized_crop) {
    read_resized_crop(source, image, words, memory, put);
    return;
  }
  const uint32_t choices = 2 * source.leading.crop_padding + 1;
  const int dy = static_cast<int>(words.x % choices) - source.leading.crop_padding;
  const int dx = static_cast<int>(words.y % choices) - source.leading.crop_padding;
  const bool flip = source.leading.flip && (words.z & 1U) != 0;
  for (int pixel = threadIdx.x; pixel < source.height * source.width; pixel += threads) {
    const int y = pixel / source.width, x = pixel % source.width;
    read_pixel(source, image, y + dy, (flip ? source.width - 1 - x : x) + dx, pixel, put);
  }
}

template <class T>
__device__ NetworkInput<T> network_input(const BatchSource& source, T* images, int64_t item) {
  return {source.table, source.channels, images + item * source.height * source.width * channel_padding};
}

template <class T>
__global__ void gather(BatchSource source, RoundPlan plan, T* images, int64_t* labels, float* mask, int32_t* counts) {
  extern __shared__ uint8_t memory[];
  const int slot = blockIdx.y, at = blockIdx.x;
  const Sample sample(source, plan, slot, at, labels, mask, counts);
  if (!sample.present) return;
  read_sample(source, sample.image, philox(sample.counter, plan.augment_key), memory,
              network_input(source, images, int64_t{slot} * plan.batch + at));
}

/// With operations behind crop and flip: the image stays in memory of the block until the last is done.
template <class T>
__global__ void __launch_bounds__(threads) gather_augmented(BatchSource source, RoundPlan plan, size_t filters,
                                                            T* images, int64_t* labels, float* mask, int32_t* counts) {
  extern __shared__ uint8_t memory[];
  const int plane = source.height * source.width, size = source.channels * plane;
  auto* const bins = reinterpret_cast<uint32_t*>(memory);
  uint8_t* const filter_memory = memory + source.channels * 256 * sizeof(uint32_t);
  uint8_t* const buffers =
      source.scratch == nullptr ? filter_memory + filters : source.scratch + int64_t{blockIdx.x} * 2 * size;
  for (int item = static_cast<int>(blockIdx.x); item < plan.slots * plan.batch; item += static_cast<int>(gridDim.x)) {
    const Sample sample(source, plan, item / plan.batch, item % plan.batch, labels, mask, counts);
    if (!sample.present) continue;
    Canvas canvas{source.channels, source.height, source.width, buffers, buffers + size, bins};
    read_sample(source, sample.image, philox(sample.counter, plan.augment_key), filter_memory,
                [&](int pixel, const auto& byte_of) {
                  for (int c = 0; c < source.channels; ++c) canvas.pixels[c * plane + pixel] = byte_of(c);
                });
    __syncthreads();
    const auto words_at = [&](uint32_t counter) {
      const uint4 words = philox({sample.counter.x, counter, sample.counter.z, sample.counter.w}, plan.augment_key);
      return OperationWords{{words.x, words.y, words.z, words.w}};
    };
    apply_operations(Block{}, canvas, source.operations, source.leading.operations, source.view, words_at);
    const auto input = network_input(source, images, item);
    for (int pixel = threadIdx.x; pixel < plane; pixel += threads)
      input(pixel, [&](int c) { return canvas.pixels[c * plane + pixel]; });
    __syncthreads();
  }
}

/// A thread for a few values of every image of the batch: it goes from one to the next, so that nothing is overwritten
/// before it is read.
template <class T>
__global__ void __launch_bounds__(threads)
    mix_slots(MixTables tables, RoundPlan plan, const int32_t* counts, int height, int width, T* images,
              const int64_t* labels, int64_t* other_labels, float* share) {
  constexpr int pieces = channel_padding / chunk<T>;  // of a pixel
  const int slot = blockIdx.y, count = counts[slot];
  Mix mix;
  if (count > 1) {
    const uint4 block = philox(
        {0, static_cast<uint32_t>(*plan.step), *plan.round, static_cast<uint32_t>(plan.clients[slot])}, plan.mix_key);
    mix = choose_mix(tables, {block.x, block.y, block.z, block.w}, height, width);
  }
  if (blockIdx.x == 0) {
    const int64_t* const own = labels + int64_t{slot} * plan.batch;
    for (int i = threadIdx.x; i < plan.batch; i += threads)
      other_labels[int64_t{slot} * plan.batch + i] = i < count ? own[(i + 1) % count] : 0;
    if (threadIdx.x == 0) share[slot] = mix.share;
  }
  const int item = static_cast<int>(blockIdx.x) * threads + static_cast<int>(threadIdx.x);
  if (mix.share == 1.0F || item >= height * width * pieces) return;
  const int pixel = item / pieces;
  if (mix.cut && !mix.inside(pixel / width, pixel % width)) return;
  const int stride = height * width * pieces;
  auto* const at = reinterpret_cast<Vector<T>*>(images) + int64_t{slot} * plan.batch * stride + item;
  const Vector<T> first = at[0];
  Vector<T> own = first;
  for (int i = 0; i < count; ++i) {
    const Vector<T> other = i + 1 < count ? at[int64_t{i + 1} * stride] : first;
    Vector<T> mixed = other;
    if (!mix.cut)
      for (int v = 0; v < chunk<T>; ++v)
        mixed.values[v] = from_float<T>(mix.blend(to_float(own.values[v]), to_float(other.values[v])));
    at[int64_t{i} * stride] = mixed;
    own = other;
  }
}

template <class T>
__global__ void gather_range(BatchSource source, const int32_t* indices, int64_t first, T* images) {
  const int64_t image = indices == nullptr ? first + blockIdx.x : indices[first + blockIdx.x];
  const auto input = network_input(source, images, blockIdx.x);
  for (int pixel = threadIdx.x; pixel < source.height * source.width; pixel += threads)
    read_pixel(source, image, pixel / source.width, pixel % source.width, pixel, input);
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

size_t gather_memory(const BatchSource& source) {
  const AugmentationMemory memory(source);
  return source.augments() ? memory.shared_bytes() : memory.filters;
}

size_t augmentation_scratch(const BatchSource& source) {
  const AugmentationMemory memory(source);
  return source.augments() && !memory.shared ? scratch_blocks * 2 * memory.image : 0;
}

void gather_batch(Precision precision, const BatchSource& source, const RoundPlan& plan, void* images, int64_t* labels,
                  float* mask, int32_t* counts, cudaStream_t stream) {
  const AugmentationMemory memory(source);
  const size_t shared = gather_memory(source);
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    auto* const out = static_cast<T*>(images);
    if (source.augments()) {
      BatchSource of_blocks = source;
      if (memory.shared) of_blocks.scratch = nullptr;
      const int blocks = memory.shared ? plan.slots * plan.batch : min(plan.slots * plan.batch, scratch_blocks);
      gather_augmented<T>
          <<<blocks, threads, shared, stream>>>(of_blocks, plan, memory.filters, out, labels, mask, counts);
    } else {
      gather<T><<<dim3(plan.batch, plan.slots), threads, shared, stream>>>(source, plan, out, labels, mask, counts);
    }
    check_launch("gather");
  });
}

void mix_images(Precision precision, const MixTables& tables, const RoundPlan& plan, const int32_t* counts, int height,
                int width, void* images, const int64_t* labels, int64_t* other_labels, float* share,
                cudaStream_t stream) {
  by_precision(precision, [&](auto zero) {
    using T = decltype(zero);
    const dim3 blocks(ceil_div(int64_t{height} * width * (channel_padding / chunk<T>), threads), plan.slots);
    mix_slots<T><<<blocks, threads, 0, stream>>>(tables, plan, counts, height, width, static_cast<T*>(images), labels,
                                                 other_labels, share);
    check_launch("mix_slots");
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
