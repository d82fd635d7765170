/// train.mixup and train.cutmix in the engines.
#include <gtest/gtest.h>

#include "engine/cohort.h"
#include "fedgrab/core/error.h"
#include "fedgrab/data/batch.h"
#include "fedgrab/data/batch_mixer.h"
#include "fedgrab/data/load.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/model/network.h"
#include "tests/engine/compose.h"

namespace fedgrab::mixing_test {

/// Clients of 7, 6 and 1 samples of the built-in set.
struct World {
  Dataset data = make_shapes(2, 3, 1);
  Partition partition{{0, 1, 2, 3, 4, 5, 6}, {7, 8, 9, 10, 11, 12}, {13}};
  Composition method;
  std::shared_ptr<const Model> model;
  TrainParams train{.local_epochs = 1, .batch = 100, .lr = 0.1, .momentum = 0};
  State global;

  explicit World(double mixup, double cutmix, const PartSettings& settings = {})
      : method(config_of("fedavg", settings)) {
    data.augmentation = {};
    model = method.model(make_architecture("cnn", data.shape()), data.classes());
    std::vector<int64_t> counts(10, 2);
    counts[3] = 40;
    method.learn_counts(counts);
    global = initial_state(model, 1);
    train.mixup = mixup;
    train.cutmix = cutmix;
  }
};

struct Outcome {
  torch::Tensor state;
  std::vector<ClientReport> reports;
};

Outcome train_round(const World& world, const std::vector<int64_t>& clients, const EngineParams& params,
                    int64_t round = 1) {
  const Federation federation{world.data, world.partition, world.model, world.train};
  const TensorMap server;
  const auto context =
      world.method.begin_round(round, 1, clients, sizes_of(world.partition, clients), 3, world.global, server);
  Sums sums;
  ClientStore store;
  Outcome outcome;
  outcome.reports = make_engine(params, federation)
                        ->train({.round = context, .method = world.method, .clients = clients}, sums, store);
  outcome.state = sums["state"];
  return outcome;
}

const EngineParams on_cpu{.device = Device::cpu, .workers = 1};

class MixedStep : public testing::TestWithParam<std::pair<double, double>> {};

TEST_P(MixedStep, IsTheGradientStepByHand) {
  const auto [mixup, cutmix] = GetParam();
  const World world(mixup, cutmix);
  const auto& data = world.data;
  TensorMap memory, server;
  const auto context = world.method.begin_round(1, 1, {0}, {7}, 3, world.global, server);
  const std::vector<int64_t> counts(10);
  const Federation federation{data, world.partition, world.model, world.train};
  const auto order = sample_order(federation, {context, 0, 1, counts, memory}, 0);
  auto images = torch::empty({7, 3, 32, 32}), answers = torch::zeros({7, 10});
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < 7; ++i) {
    samples.push_back(world.partition[0][static_cast<size_t>(order[static_cast<size_t>(i)])]);
    answers[i][data.train.labels[static_cast<size_t>(samples.back())]] = 1;
  }
  write_batch(data.train.images, samples, data.normalisation, images.data_ptr<float>());
  const Mix mix = BatchMixer(mixup, cutmix).choose(Random(1, Purpose::mix, 0, 1, 0), 7, data.shape());
  const double share = mix.share;
  EXPECT_LT(share, 1);
  EXPECT_EQ(mix.cut, cutmix > 0);
  const auto others = images.roll(-1, 0);
  if (mix.cut) {
    using torch::indexing::Slice;
    const auto rows = Slice(mix.top, mix.bottom), columns = Slice(mix.left, mix.right);
    images.index_put_({Slice(), Slice(), rows, columns}, others.index({Slice(), Slice(), rows, columns}));
  } else {
    images = share * images + (1 - share) * others;
  }
  answers = share * answers + (1 - share) * answers.roll(-1, 0);

  Network network(world.model);
  network.load(world.global);
  const auto output = network.forward_training(images);
  const auto logits = output.logits.front().detach();
  network.backward(output, {(logits.softmax(1) - answers) / 7});
  const State expected{world.model, world.global.flat - 0.1 * network.gradient()};

  const auto [state, reports] = train_round(world, {0}, on_cpu);
  for (const auto& p : world.model->parameters)
    if (p.trained())
      EXPECT_TRUE(torch::allclose(State({world.model, state}).view(p), expected.view(p), 1e-4, 1e-6)) << p.name;
  EXPECT_NEAR(reports[0].loss, -(logits.log_softmax(1) * answers).sum().item<double>() / 7, 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Operations, MixedStep, testing::Values(std::pair{0.8, 0.0}, std::pair{0.0, 0.8}));

TEST(Mixing, LeavesABatchOfOneImageAlone) {
  EXPECT_TRUE(torch::equal(train_round(World(1, 1), {2}, on_cpu).state, train_round(World(0, 0), {2}, on_cpu).state));
}

TEST(Mixing, IsTheSameWithAnyNumberOfWorkersAndAnotherInEachRound) {
  const World world(1, 1);
  const EngineParams three{.device = Device::cpu, .workers = 3};
  const auto one = train_round(world, {0, 1, 2}, on_cpu).state;
  EXPECT_TRUE(torch::equal(train_round(world, {0, 1, 2}, three).state, one));
  EXPECT_FALSE(torch::equal(train_round(world, {0, 1, 2}, on_cpu, 2).state, one));
}

struct Refusal {
  std::string key, reason;
  PartSettings settings;
};

TEST(Mixing, IsRefusedInOneLineWithTheReason) {
  const std::vector<Refusal> refusals{
      {"train.mixup",
       "objective.name = \"sgb\" tells positive from negative gradients by their sign",
       {{"objective.name", "sgb"}, {"objective.sgb.gate", "off"}, {"train.mixup", "0.2"}}},
      {"train.cutmix",
       "objective.name = \"focal\" is defined for one label per image",
       {{"objective.name", "focal"}, {"train.cutmix", "1"}}},
      {"train.cutmix",
       "objective.collect tells positive from negative gradients by their sign",
       {{"objective.collect", "true"}, {"train.cutmix", "1"}}},
      {"train.mixup",
       "client.algorithm = \"moon\" compares the features of whole images",
       {{"client.algorithm", "moon"}, {"train.mixup", "0.2"}}},
  };
  for (const auto& [key, reason, settings] : refusals) {
    try {
      const Composition made(config_of("fedavg", settings));
      ADD_FAILURE() << reason;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(key), std::string::npos) << text;
      EXPECT_NE(text.find(reason), std::string::npos) << text;
      EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    }
  }
  for (const char* name : {"softmax", "sigmoid", "balanced-softmax", "fedlc"})
    EXPECT_NO_THROW(Composition(config_of("fedavg", {{"objective.name", name}, {"train.mixup", "0.2"}}))) << name;
}

struct Case {
  std::string name;
  double mixup = 0, cutmix = 0;
  PartSettings settings{};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class CudaMixing : public testing::TestWithParam<Case> {};

/// A wrong partner, share or box would show as 1e-2.
TEST_P(CudaMixing, TakesTheStepOfTheCpu) {
  EngineParams cuda{.device = Device::cuda, .precision = Precision::fp32};
  const auto& [name, mixup, cutmix, settings] = GetParam();
  for (const int64_t round : {1, 2, 3}) {
    const World world(mixup, cutmix, settings);
    const auto cpu = train_round(world, {0, 1, 2}, on_cpu, round);
    Outcome device;
    try {
      device = train_round(world, {0, 1, 2}, cuda, round);
    } catch (const Error&) {
      GTEST_SKIP() << "no CUDA device, or built without";
    }
    const auto moved = cpu.state - world.global.flat;
    EXPECT_LT(((device.state - cpu.state).norm() / moved.norm()).item<double>(), 1e-3) << "round " << round;
    for (size_t i = 0; i < cpu.reports.size(); ++i)
      EXPECT_NEAR(device.reports[i].loss, cpu.reports[i].loss, 1e-4) << "client " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CudaMixing,
    testing::Values(Case{"mixup", 0.8}, Case{"cutmix", 0, 1}, Case{"both", 1, 1},
                    Case{"sigmoid", 1, 1, {{"objective.name", "sigmoid"}}},
                    Case{"balanced_softmax", 1, 1, {{"objective.name", "balanced-softmax"}}},
                    Case{"fedlc", 1, 1, {{"objective.name", "fedlc"}}},
                    Case{"balanced_softmax_alone", 0, 0, {{"objective.name", "balanced-softmax"}}},
                    Case{"fedlc_alone", 0, 0, {{"objective.name", "fedlc"}}},
                    Case{"importance", 1, 1, {{"objective.reweight", "importance"}}},
                    Case{"auxiliary_head", 1, 1, {{"prior.source", "dpa"}, {"prior.dpa.head", "auxiliary"}}}),
    [](const auto& one) { return one.param.name; });

}  // namespace fedgrab::mixing_test
