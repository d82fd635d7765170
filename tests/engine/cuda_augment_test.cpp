/// Batches made by the CUDA kernels against write_batch(): the same floats, since both look up the same bytes.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <numeric>

#include "engine/cuda/device_images.h"
#include "engine/cuda/kernels.h"
#include "fedgrab/data/batch.h"

namespace fedgrab::cuda_augment_test {

struct Look {
  std::string name;
  std::vector<std::string> augment;
  ImageShape shape{3, 32, 32};
  int64_t margin = 0;
};
void PrintTo(const Look& look, std::ostream* out) { *out << look.name; }

constexpr uint64_t seed = 11;
constexpr int64_t batch = 300, epochs = 2, round_index = 4, step = 1;
const std::vector<int32_t> clients{5, 9}, samples{300, 170};

/// Smooth with some noise, so that every operation changes something.
Split make_split(const Look& look) {
  constexpr int64_t count = 400;
  Images of{look.shape, {}, {}, look.margin};
  const ImageShape stored = of.stored();
  const Random random(1, Purpose::synthetic);
  std::vector<uint8_t> bytes;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < stored.channels; ++c)
      for (int64_t y = 0; y < stored.height; ++y)
        for (int64_t x = 0; x < stored.width; ++x) {
          const uint32_t noise = random.block(static_cast<uint32_t>(bytes.size()))[0] % 40;
          bytes.push_back(static_cast<uint8_t>((i * 7 + c * 31 + 3 * y + 2 * x + noise) % (100 + i % 150)));
        }
  Split split{Images::own(stored, std::move(bytes)), std::vector<int32_t>(count)};
  split.images.shape = look.shape;
  split.images.margin = look.margin;
  std::iota(split.labels.begin(), split.labels.end(), 0);
  return split;
}

int64_t sample_at(size_t slot, int64_t epoch, int64_t i) {
  return (i * 37 + epoch * 11 + static_cast<int64_t>(slot)) % 400;
}

class CudaAugment : public testing::TestWithParam<Look> {
 protected:
  Split split = make_split(GetParam());
  Normalisation normalisation{{0.4F, 0.5F, 0.6F}, {0.2F, 0.25F, 0.3F}};

  Augmentation augmentation() const {
    const auto& shape = split.images.shape;
    const OperationSetup setup{
        static_cast<int32_t>(shape.height), static_cast<int32_t>(shape.width), 4, 0, {102, 128, 153}};
    Augmentation made = make_augmentation(GetParam().augment, {}, setup);
    made.second = make_augmentation({"flip", "cutout"}, {}, setup).operations;
    return made;
  }

  /// [slot][sample][channel][row][column]
  torch::Tensor on_device(uint32_t view) const {
    const auto slots = static_cast<int64_t>(clients.size());
    std::vector<int32_t> order;
    for (size_t slot = 0; slot < clients.size(); ++slot)
      for (int64_t epoch = 0; epoch < epochs; ++epoch)
        for (int64_t i = 0; i < batch; ++i) order.push_back(static_cast<int32_t>(sample_at(slot, epoch, i)));
    const auto there = [](const std::vector<int32_t>& values) { return torch::tensor(values, torch::kInt).cuda(); };
    const auto order_there = there(order), samples_there = there(samples), clients_there = there(clients),
               step_there = there({step}), round_there = there({round_index});
    const cuda::RoundPlan plan{order_there.data_ptr<int32_t>(),
                               samples_there.data_ptr<int32_t>(),
                               clients_there.data_ptr<int32_t>(),
                               step_there.data_ptr<int32_t>(),
                               reinterpret_cast<const uint32_t*>(round_there.data_ptr<int32_t>()),
                               Random(seed, Purpose::augment).key(),
                               0,
                               0,
                               0,
                               static_cast<int>(slots),
                               static_cast<int>(batch),
                               static_cast<int>(epochs),
                               static_cast<int>(batch)};
    const auto [channels, height, width] = split.images.shape;
    const auto options = torch::dtype(torch::kFloat).device(torch::kCUDA);
    auto images = torch::zeros({slots, batch, height, width, cuda::channel_padding}, options);
    auto labels = torch::zeros({slots, batch}, options.dtype(torch::kLong)),
         mask = torch::zeros({slots, batch}, options);
    auto counts = torch::zeros({slots}, options.dtype(torch::kInt));
    const cuda::DeviceImages data(split, normalisation, augmentation(), false);
    cuda::gather_batch(Precision::fp32, data.of_view(view), plan, images.data_ptr(), labels.data_ptr<int64_t>(),
                       mask.data_ptr<float>(), counts.data_ptr<int32_t>(), at::cuda::getCurrentCUDAStream().stream());
    return images.narrow(-1, 0, channels).permute({0, 1, 4, 2, 3}).contiguous().cpu();
  }

  torch::Tensor on_cpu(uint32_t view) const {
    const auto [channels, height, width] = split.images.shape;
    auto images = torch::zeros({static_cast<int64_t>(clients.size()), batch, channels, height, width});
    for (size_t slot = 0; slot < clients.size(); ++slot) {
      std::vector<int64_t> indices;  // the second epoch: an epoch has one step
      for (int64_t i = 0; i < samples[slot]; ++i) indices.push_back(sample_at(slot, 1, i));
      write_batch(split.images, indices, augmentation(), normalisation,
                  Random(seed, Purpose::augment, static_cast<uint32_t>(clients[slot]), round_index),
                  static_cast<uint32_t>(samples[slot]), images[static_cast<int64_t>(slot)].data_ptr<float>(), view);
    }
    return images;
  }
};

TEST_P(CudaAugment, GivesTheBytesOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or built without";
  for (const uint32_t view : {0U, 1U}) {
    const auto expected = on_cpu(view), actual = on_device(view);
    EXPECT_EQ((expected != actual).sum().item<int64_t>(), 0) << "of " << expected.numel() << " in view " << view;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Looks, CudaAugment,
    testing::Values(Look{"none", {}}, Look{"crop_flip", {"crop", "flip"}}, Look{"resized", {"resized-crop", "flip"}},
                    Look{"cutout", {"crop", "flip", "cutout"}},
                    Look{"trivial_augment", {"crop", "flip", "trivial-augment", "cutout"}},
                    Look{"behind", {"trivial-augment", "flip", "crop"}}, Look{"rand_augment", {"crop", "rand-augment"}},
                    Look{"auto_augment", {"flip", "auto-augment"}},
                    Look{"grey", {"trivial-augment", "cutout"}, {1, 28, 28}},
                    Look{"odd_with_margin", {"crop", "trivial-augment", "trivial-augment"}, {3, 17, 23}, 3},
                    Look{"resized_trivial_augment", {"resized-crop", "flip", "trivial-augment"}, {3, 24, 24}, 4},
                    Look{"beyond_shared_memory", {"resized-crop", "trivial-augment", "cutout"}, {3, 96, 96}, 8}),
    [](const auto& one) { return one.param.name; });

}  // namespace fedgrab::cuda_augment_test
