/// The kernel that mixes batches against mix_batch(): the same floats.
#include <ATen/cuda/CUDAContext.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "engine/cuda/kernels.h"
#include "fedgrab/data/batch_mixer.h"

namespace fedgrab::cuda_mix_test {

constexpr uint64_t seed = 11;
constexpr int64_t batch = 9;
const std::vector<int32_t> clients{5, 9, 2, 7}, counts{9, 4, 1, 0};

struct Alphas {
  double mixup, cutmix;
};

class CudaMix : public testing::TestWithParam<Alphas> {};

TEST_P(CudaMix, GivesTheFloatsOfTheCpu) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or built without";
  const ImageShape shape{3, 17, 23};
  const BatchMixer mixer(GetParam().mixup, GetParam().cutmix);
  const auto slots = static_cast<int64_t>(clients.size());
  const auto mixup = torch::tensor(mixer.mixup()).cuda(), cutmix = torch::tensor(mixer.cutmix()).cuda();
  const MixTables tables{mixer.mixup().empty() ? nullptr : mixup.data_ptr<float>(),
                         mixer.cutmix().empty() ? nullptr : cutmix.data_ptr<float>()};
  const auto there = [](const std::vector<int32_t>& values) { return torch::tensor(values, torch::kInt).cuda(); };
  const auto clients_there = there(clients), counts_there = there(counts);
  torch::manual_seed(1);
  for (int32_t step = 0; step < 20; ++step) {
    const auto step_there = there({step}), round_there = there({4});
    cuda::RoundPlan plan{};
    plan.clients = clients_there.data_ptr<int32_t>();
    plan.step = step_there.data_ptr<int32_t>();
    plan.round = reinterpret_cast<const uint32_t*>(round_there.data_ptr<int32_t>());
    plan.mix_key = Random(seed, Purpose::mix).key();
    plan.slots = static_cast<int>(slots);
    plan.batch = static_cast<int>(batch);
    auto expected = torch::randn({slots, batch, shape.channels, shape.height, shape.width});
    const auto labels = torch::randint(10, {slots, batch}, torch::kLong);
    auto images = torch::zeros({slots, batch, shape.height, shape.width, cuda::channel_padding}, torch::kCUDA);
    images.narrow(-1, 0, shape.channels).copy_(expected.permute({0, 1, 3, 4, 2}));
    const auto labels_there = labels.cuda();
    auto other_labels = torch::zeros_like(labels_there);
    auto share = torch::zeros({slots, 1}, torch::kCUDA);
    cuda::mix_images(Precision::fp32, tables, plan, counts_there.data_ptr<int32_t>(), static_cast<int>(shape.height),
                     static_cast<int>(shape.width), images.data_ptr(), labels_there.data_ptr<int64_t>(),
                     other_labels.data_ptr<int64_t>(), share.data_ptr<float>(),
                     at::cuda::getCurrentCUDAStream().stream());
    for (int64_t slot = 0; slot < slots; ++slot) {
      const auto at = static_cast<size_t>(slot);
      const Random random(seed, Purpose::mix, static_cast<uint32_t>(clients[at]), 4, static_cast<uint32_t>(step));
      const Mix mix = mixer.choose(random, counts[at], shape);
      mix_batch(mix, counts[at], shape, expected[slot].data_ptr<float>());
      EXPECT_EQ(share[slot][0].item<float>(), mix.share) << "slot " << slot << ", step " << step;
      for (int64_t i = 0; i < counts[at]; ++i)
        EXPECT_EQ(other_labels[slot][i].item<int64_t>(), labels[slot][(i + 1) % counts[at]].item<int64_t>());
    }
    const auto actual = images.narrow(-1, 0, shape.channels).permute({0, 1, 4, 2, 3}).cpu();
    EXPECT_EQ((actual != expected).sum().item<int64_t>(), 0) << "step " << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Alphas, CudaMix, testing::Values(Alphas{0.2, 0}, Alphas{0, 1}, Alphas{1, 1}));

}  // namespace fedgrab::cuda_mix_test
