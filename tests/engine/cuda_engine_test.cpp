/// The CUDA engine against the CPU engine, both in one process. Without a CUDA device these tests skip and say so.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/core/error.h"
#include "fedgrab/data/load.h"
#include "fedgrab/engine/engine.h"
#include "tests/engine/compose.h"

namespace fedgrab::cuda_engine_test {

struct Case {
  std::string name, model, method = "fedavg";
  PartSettings settings;
  double weight_decay = 0, clip = 0;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

/// Proximal term, correction and weights of samples at once. The correction is −feddyn.pull.
const PartSettings all_terms{
    {"client.algorithm", "dyn"}, {"client.dyn.alpha", "0.5"}, {"objective.reweight", "importance"}};

struct World {
  Dataset data = make_shapes(20, 10, 1);
  Partition partition;
  std::shared_ptr<Composition> method;
  std::shared_ptr<const Model> model;
  State global;
  TrainParams train{.local_epochs = 2, .batch = 10, .lr = 0.005, .momentum = 0.5};
  TensorMap client_state;  // before the first round, as a checkpoint has it

  /// With a `margin`, the model sees less of the images than is stored.
  World(const Case& c, const std::vector<size_t>& sizes, int64_t margin = 0) {
    const Config config = config_of(c.method, c.settings);
    method = std::make_shared<Composition>(config);
    if (method->needs().global_counts) method->learn_counts(std::vector<int64_t>{50, 40, 30, 20, 10, 9, 8, 7, 6, 5});
    data.augmentation = {crop(4), flip()};
    for (Split* split : {&data.train, &data.test}) {
      split->images.shape.height -= 2 * margin;
      split->images.shape.width -= 2 * margin;
      split->images.margin = margin;
    }
    int64_t next = 0;
    for (const size_t size : sizes) {
      partition.emplace_back(size);
      for (auto& sample : partition.back()) sample = (next++ * 37) % data.train.count();
    }
    model = method->model(make_architecture(c.model, data.shape()), data.classes());
    global = initial_state(model, 1);
    method->initialise(global, 1);
    train.sampling = config.read<TrainParams>("train").sampling;
    train.decay_norms = config.read<TrainParams>("train").decay_norms;
    if (c.settings == all_terms)
      for (size_t k = 0; k < sizes.size(); ++k)
        client_state.emplace("client/" + std::to_string(k) + "/feddyn.pull",
                             torch::full_like(global.flat, -1e-3 * static_cast<double>(k + 1)));
    train.weight_decay = c.weight_decay;
    train.clip = c.clip;
  }
};

struct Outcome {
  torch::Tensor update;
  std::vector<ClientReport> reports;
  TensorMap client_state;
  State global;
};

/// One round of all clients.
std::vector<ClientReport> train_round(const World& world, Engine& engine, const RoundContext& round, Sums& sums,
                                      ClientStore& store) {
  return engine.train({.round = round, .method = *world.method, .clients = round.cohort}, sums, store);
}

RoundContext begin_round(const World& world, int64_t round, const State& global, const TensorMap& server) {
  std::vector<int64_t> clients(world.partition.size());
  std::iota(clients.begin(), clients.end(), 0);
  const auto sizes = sizes_of(world.partition, clients);
  return world.method->begin_round(round, 1, clients, sizes, static_cast<int64_t>(sizes.size()), global, server);
}

Outcome train(const World& world, const EngineParams& params, int64_t rounds = 1) {
  const Federation federation{world.data, world.partition, world.model, world.train};
  const auto engine = make_engine(params, federation);
  State global = world.global.clone();
  ClientStore store;
  store.restore(world.client_state, {}, "");
  Outcome outcome;
  TensorMap server;
  for (int64_t round = 1; round <= rounds; ++round) {
    Sums sums;
    const auto context = begin_round(world, round, global, server);
    outcome.reports = train_round(world, *engine, context, sums, store);
    store.commit();
    TensorMap next = server;
    State trained = world.method->aggregate(context, sums, next);
    global = std::move(trained);
    server = std::move(next);
  }
  outcome.update = global.flat - world.global.flat;
  outcome.client_state = store.in_memory();
  outcome.global = global;
  return outcome;
}

/// 0 where both are 0, as the state of balancers that were exempt in every step.
double relative(const torch::Tensor& a, const torch::Tensor& b) {
  const auto difference = (a - b).norm().item<double>();
  return difference == 0 ? 0 : difference / b.norm().item<double>();
}

/// Error of what an optimiser moves, and of BatchNorm's statistics, which are larger by far.
double update_error(const World& world, const torch::Tensor& a, const torch::Tensor& b) {
  double worst = 0;
  for (const bool buffers : {false, true})
    for (const auto& [offset, size] :
         world.model->ranges([&](const auto& p) { return p.buffer() == buffers && p.role != Role::frozen; }))
      worst = std::max(worst, relative(a.narrow(0, offset, size), b.narrow(0, offset, size)));
  return worst;
}

/// The same with another start: each value is moved by `distance` of itself, about.
World started_beside(const World& world, double distance, uint64_t seed) {
  World noisy = world;
  torch::manual_seed(seed);
  noisy.global.flat = world.global.flat * (1 + distance * torch::randn(world.global.flat.sizes()));
  return noisy;
}

/// How far apart CPU runs end that start 1e-7 apart: no engine can follow the CPU more closely than that. A ResNet-18
/// at its random start turns rounding into chaos within a few steps. The worst of three, since a single start may miss
/// what tips (a ReLU of a ResNet-50: 0.001 from one start, 0.009 to 0.016 from five others).
double sensitivity(const World& world, const torch::Tensor& update) {
  double worst = 0;
  for (const uint64_t seed : {1, 2, 3}) {
    const World noisy = started_beside(world, 1e-7, seed);
    worst = std::max(worst, update_error(world, train(noisy, {.device = Device::cpu, .workers = 4}).update, update));
  }
  return worst;
}

bool cuda_engine_there() {
  const World world(Case{"", "cnn"}, {1});
  const Federation federation{world.data, world.partition, world.model, world.train};
  try {
    return make_engine({.device = Device::cuda}, federation) != nullptr;
  } catch (const Error&) {  // built without, or no device for it
    return false;
  }
}

/// Rounding grows from step to step, so that a mistake shows best in the first: a full batch, a partial one, one
/// sample.
void expect_first_step_of_cpu(const Case& c, const std::vector<size_t>& sizes = {10, 7, 1}) {
  World world(c, sizes);
  world.train.local_epochs = 1;
  const auto cpu = train(world, {.device = Device::cpu, .workers = 4});
  const auto cuda = train(world, {.device = Device::cuda, .precision = Precision::fp32});
  EXPECT_LT(update_error(world, cuda.update, cpu.update), std::max(1e-4, 3 * sensitivity(world, cpu.update)));
  for (size_t i = 0; i < cpu.reports.size(); ++i) {
    EXPECT_EQ(cuda.reports[i].steps, 1);
    EXPECT_EQ(cuda.reports[i].samples, cpu.reports[i].samples);
    EXPECT_NEAR(cuda.reports[i].loss, cpu.reports[i].loss, 1e-5);
  }
  ASSERT_EQ(cuda.client_state.size(), cpu.client_state.size());
  for (const auto& [name, state] : cpu.client_state)
    EXPECT_TRUE(torch::allclose(cuda.client_state.at(name), state, 1e-4, 1e-6)) << name;
}

class CudaEngine : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (!cuda_engine_there()) GTEST_SKIP() << "no CUDA device, or built without";
  }
};

TEST_P(CudaEngine, FirstStepIsTheCpus) { expect_first_step_of_cpu(GetParam()); }

/// bf16, the default, against fp32 on the same device. A layer that computes something else moves the update by as much
/// as its length. Rounding moves it by 0.03 (cnn) to 0.09 (resnet8), and by a third in a ResNet-18, which amplifies it
/// at its random start. That each convolution is right to rounding is what cuda_convolution_test.cpp checks.
TEST_P(CudaEngine, Bf16TakesTheFirstStepOfFp32) {
  World world(GetParam(), {10, 7, 10});
  world.train.local_epochs = 1;
  const auto update_in = [&](Precision precision) {
    return train(world, {.device = Device::cuda, .precision = precision}).update;
  };
  const double error = update_error(world, update_in(Precision::bf16), update_in(Precision::fp32));
  EXPECT_LT(error, GetParam().model == "resnet18" ? 0.5 : 0.15);
  std::cout << GetParam().name << ": bf16 differs by " << error << "\n";
}

TEST_P(CudaEngine, FollowsTheCpuForTwentySteps) {
  World world(GetParam(), {100});
  world.train.lr = 1e-3;
  const auto cpu = train(world, {.device = Device::cpu, .workers = 4});
  const auto cuda = train(world, {.device = Device::cuda, .precision = Precision::fp32});
  EXPECT_EQ(cuda.reports.front().steps, 20);
  const double bound = std::max(1e-2, 3 * sensitivity(world, cpu.update));
  EXPECT_LT(update_error(world, cuda.update, cpu.update), bound);
  std::cout << GetParam().name << ": bound " << bound << ", update differs by "
            << update_error(world, cuda.update, cpu.update) << ", tf32 by "
            << update_error(world, train(world, {.device = Device::cuda, .precision = Precision::tf32}).update,
                            cpu.update)
            << ", bf16 by "
            << update_error(world, train(world, {.device = Device::cuda, .precision = Precision::bf16}).update,
                            cpu.update)
            << "\n";
}

TEST_P(CudaEngine, AnswersAsTheCpu) {
  const World world(GetParam(), {50});
  const auto trained = train(world, {.device = Device::cpu, .workers = 4}).global;
  const Federation federation{world.data, world.partition, world.model, world.train};
  auto shifted = std::make_shared<Model>(*world.model);  // as some versions deployed it
  for (int64_t c = 0; c < world.data.classes(); ++c)
    shifted->heads.front().shift.push_back(0.1F * static_cast<float>(c));
  for (const State& model : {trained, State{shifted, trained.flat}}) {
    const auto cpu = make_engine({.device = Device::cpu, .workers = 4}, federation)->predict(model, world.data.test);
    const auto cuda = make_engine({.device = Device::cuda, .precision = Precision::fp32}, federation)
                          ->predict(model, world.data.test);
    EXPECT_EQ(cuda.classes, cpu.classes);
    EXPECT_NEAR(cuda.loss(), cpu.loss(), 1e-4 * cpu.loss());
  }
}

TEST_P(CudaEngine, GivesTheSameBitsTwice) {
  const World world(GetParam(), {50, 33, 9, 1});
  const EngineParams params{.device = Device::cuda};
  EXPECT_TRUE(torch::equal(train(world, params, 2).update, train(world, params, 2).update));
}

TEST_P(CudaEngine, WavesChangeNothingButRounding) {
  World world(GetParam(), {10, 7, 5, 1});
  world.train.local_epochs = 1;
  const auto one = train(world, {.device = Device::cuda, .precision = Precision::fp32, .slots = 1});
  const auto three = train(world, {.device = Device::cuda, .precision = Precision::fp32, .slots = 3});
  // Other slots may be fastest with other tiles, which round otherwise.
  const auto cpu = train(world, {.device = Device::cpu, .workers = 4});
  EXPECT_LT(update_error(world, three.update, one.update), std::max(1e-4, 3 * sensitivity(world, cpu.update)));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CudaEngine,
    testing::Values(Case{"cnn", "cnn"}, Case{"resnet8", "resnet8"}, Case{"resnet18", "resnet18"},
                    Case{"pfl", "pfl-cnn"}, Case{"decay_and_clip", "cnn", "fedavg", {}, 1e-3, 0.5},
                    Case{"spared_norms", "resnet8", "fedavg", {{"train.decay_norms", "false"}}, 0.5},
                    Case{"spared_norms_clip", "resnet8", "fedavg", {{"train.decay_norms", "false"}}, 0.5, 0.5},
                    Case{"terms", "resnet8", "fedavg", all_terms}, Case{"fedgrab", "cnn", "fedgrab"},
                    Case{"fedgrab_resnet18", "resnet18", "fedgrab"},
                    Case{"fedgrab_cosine", "cnn", "fedgrab", {{"head.kind", "cosine"}, {"head.scale", "8"}}},
                    Case{"fedgrab_frozen_mean", "cnn", "fedgrab", {{"head.init", "client-mean"}}}),
    [](const auto& one) { return one.param.name; });

/// Networks that take the CPU long.
class CudaDepth : public CudaEngine {};

/// Ten samples alone: at one, where the last maps are a single pixel, two CPU runs 1e-7 apart differ by 7 %.
TEST_P(CudaDepth, FirstStepIsTheCpus) { expect_first_step_of_cpu(GetParam(), {10}); }

INSTANTIATE_TEST_SUITE_P(Networks, CudaDepth,
                         testing::Values(Case{"resnet34", "resnet34"}, Case{"resnet50", "resnet50"}),
                         [](const auto& one) { return one.param.name; });

class CudaCohort : public CudaEngine {};

/// Whatever their number, clients find a slot in a group, and the last ones do not see what the first left behind.
TEST_P(CudaCohort, AnyNumberOfClients) {
  for (const size_t count : {5, 8, 10, 13, 17}) {
    std::vector<size_t> sizes(count);
    for (size_t i = 0; i < count; ++i) sizes[i] = i % 7 + 1;
    World world(GetParam(), sizes);
    world.train.local_epochs = 1;
    const auto cpu = train(world, {.device = Device::cpu, .workers = 4});
    for (const int64_t slots : {40, 6}) {
      const auto cuda = train(world, {.device = Device::cuda, .precision = Precision::fp32, .slots = slots});
      EXPECT_LT(update_error(world, cuda.update, cpu.update), std::max(1e-4, 3 * sensitivity(world, cpu.update)))
          << count << " clients, " << slots << " slots";
    }
  }
}

/// More than any client has: the batch is what there is.
TEST_P(CudaCohort, BatchLargerThanAnyClient) {
  World world(GetParam(), {9, 4});
  world.train.batch = 100000;
  world.train.local_epochs = 1;
  const auto cpu = train(world, {.device = Device::cpu, .workers = 4});
  const auto cuda = train(world, {.device = Device::cuda, .precision = Precision::fp32});
  EXPECT_LT(update_error(world, cuda.update, cpu.update), std::max(1e-4, 3 * sensitivity(world, cpu.update)));
}

INSTANTIATE_TEST_SUITE_P(Cohorts, CudaCohort, testing::Values(Case{"fedavg", "cnn"}, Case{"fedgrab", "cnn", "fedgrab"}),
                         [](const auto& one) { return one.param.name; });

class CudaStreaming : public CudaEngine {};

/// Images that come over as they are used are the same images: more steps than the buffer holds, partial batches, fewer
/// slots than clients.
TEST_P(CudaStreaming, GivesTheBitsOfResidentImages) {
  World world(GetParam(), {97, 60, 33, 9, 1});
  world.train.batch = 4;
  const EngineParams params{.device = Device::cuda, .slots = 3, .groups = 2};
  EngineParams streamed = params;
  streamed.data = DeviceData::streamed;
  const auto there = train(world, params, 2), fed = train(world, streamed, 2);
  EXPECT_TRUE(torch::equal(fed.update, there.update));
  const Federation federation{world.data, world.partition, world.model, world.train};
  const auto answers = make_engine(params, federation)->predict(there.global, world.data.test);
  const auto answers_fed = make_engine(streamed, federation)->predict(there.global, world.data.test);
  EXPECT_EQ(answers_fed.classes, answers.classes);
  EXPECT_EQ(answers_fed.loss(), answers.loss());
}

INSTANTIATE_TEST_SUITE_P(Methods, CudaStreaming,
                         testing::Values(Case{"fedgrab", "cnn", "fedgrab"}, Case{"creff", "cnn", "creff"},
                                         Case{"balanced", "cnn", "fedavg", {{"train.sampling", "class-balanced"}}}),
                         [](const auto& one) { return one.param.name; });

struct Look {
  std::string name;
  Augmentation augmentation;
  int64_t margin = 0;
};
void PrintTo(const Look& look, std::ostream* out) { *out << look.name; }

class CudaCrops : public testing::TestWithParam<Look> {};

/// In one step, before a ReLU or a maximum that rounding turns over grows (2e-4 was seen): one wrong crop would show as
/// 1e-2.
TEST_P(CudaCrops, AreTheCpus) {
  if (!cuda_engine_there()) GTEST_SKIP() << "no CUDA device, or built without";
  World world(Case{"", "cnn"}, {97, 33, 9, 1}, GetParam().margin);
  world.data.augmentation = GetParam().augmentation;
  world.train.batch = 100;
  world.train.local_epochs = 1;
  const auto cpu = train(world, {.device = Device::cpu});
  const EngineParams resident{.device = Device::cuda, .precision = Precision::fp32};
  EngineParams streamed = resident;
  streamed.data = DeviceData::streamed;
  const Federation federation{world.data, world.partition, world.model, world.train};
  const auto expected = make_engine({.device = Device::cpu}, federation)->predict(cpu.global, world.data.test);
  for (const auto& params : {resident, streamed}) {
    EXPECT_LT(update_error(world, train(world, params).update, cpu.update), 1e-3) << name_of(params.data);
    const auto answers = make_engine(params, federation)->predict(cpu.global, world.data.test);
    EXPECT_NEAR(answers.loss(), expected.loss(), 1e-5) << name_of(params.data);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Looks, CudaCrops,
    testing::Values(Look{"from_larger_images", {crop(4), flip()}, 4}, Look{"beyond_the_margin", {crop(6), flip()}, 2},
                    Look{"resized", {resized_crop(), flip()}}, Look{"resized_unflipped", {resized_crop()}},
                    Look{"resized_smaller", {resized_crop(), flip()}, 10},
                    Look{"augmented",
                         make_augmentation({"crop", "flip", "trivial-augment", "cutout"}, {}, {32, 32, 4})}),
    [](const auto& one) { return one.param.name; });

/// What is measured to be fastest computes what the usual tiles compute.
TEST_P(CudaCohort, AnyTilesGiveTheSame) {
  World world(GetParam(), {10, 7});
  world.train.local_epochs = 1;
  const auto usual = train(world, {.device = Device::cuda, .precision = Precision::fp32, .deterministic = true});
  const auto fastest = train(world, {.device = Device::cuda, .precision = Precision::fp32});
  EXPECT_LT(update_error(world, fastest.update, usual.update), 1e-4);
}

class CudaMethods : public CudaEngine {
 protected:
  static World world() { return {GetParam(), {10, 7, 3}}; }
};

/// Two rounds, so that what clients and server keep from the first is used in the second.
TEST_P(CudaMethods, FollowTheCpu) {
  const World tried = world();
  const auto cpu = train(tried, {.device = Device::cpu, .workers = 4}, 2);
  const auto cuda = train(tried, {.device = Device::cuda, .precision = Precision::fp32}, 2);
  const auto error_from = [&](const World& start, const torch::Tensor& update) {
    return update_error(tried, update, train(start, {.device = Device::cpu, .workers = 4}, 2).update);
  };
  const double bound = std::max(1e-3, 5 * error_from(started_beside(tried, 1e-7, 1), cpu.update));
  double error = update_error(tried, cuda.update, cpu.update);
  // Rounding decides where the CPU ends: with local_gate, two of six starts 1e-6 apart move the weights of the backbone
  // by 0.00156 in the second round, and the balancers by 2e-6 only. CUDA has to end where one of the CPU's runs does.
  for (uint64_t seed = 1; error >= bound && seed <= 8; ++seed)
    error = std::min(error, error_from(started_beside(tried, 1e-6, seed), cuda.update));
  EXPECT_LT(error, bound);
  ASSERT_EQ(cuda.client_state.size(), cpu.client_state.size());
  for (const auto& [name, state] : cpu.client_state)
    EXPECT_LT(relative(cuda.client_state.at(name), state), 1e-2) << name;
  for (size_t i = 0; i < cpu.reports.size(); ++i) EXPECT_EQ(cuda.reports[i].bytes_up, cpu.reports[i].bytes_up);
}

TEST_P(CudaMethods, GiveTheSameBitsTwice) {
  const World tried = world();
  EXPECT_TRUE(
      torch::equal(train(tried, {.device = Device::cuda}, 2).update, train(tried, {.device = Device::cuda}, 2).update));
}

std::vector<Case> every_method() {
  std::vector<Case> cases;
  for (const auto& preset : presets()) cases.push_back({preset.name, "cnn", preset.name});
  // Parts that no preset puts together.
  cases.push_back({"trained_head", "cnn", "fedgrab", {{"head.frozen", "false"}, {"head.init", "random"}}});
  cases.push_back({"local_gate", "cnn", "fedgrab", {{"prior.source", "none"}, {"objective.sgb.gate", "local"}}});
  cases.push_back({"scaffold_sgb_adam",
                   "cnn",
                   "scaffold",
                   {{"objective.name", "sgb"}, {"prior.source", "bias-probe"}, {"server.optimizer", "adam"}}});
  for (auto& one : cases) {  // GoogleTest allows letters, digits and _
    std::replace(one.name.begin(), one.name.end(), '-', '_');
    std::replace(one.name.begin(), one.name.end(), '+', 'p');
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(All, CudaMethods, testing::ValuesIn(every_method()),
                         [](const auto& one) { return one.param.name; });

TEST(CudaEngineMemory, TooLittleIsAnErrorThatSaysHowMuch) {
  if (!cuda_engine_there()) GTEST_SKIP() << "no CUDA device, or built without";
  const World world(Case{"", "resnet18"}, {10});
  const Federation federation{world.data, world.partition, world.model, world.train};
  EXPECT_THROW(make_engine({.device = Device::cuda, .memory = 0.01}, federation), std::runtime_error);
}

/// Memory that somebody else takes between the plan and the training.
TEST(CudaEngineMemory, GoesOnWithFewerSlotsWhenItRunsOut) {
  if (!cuda_engine_there()) GTEST_SKIP() << "no CUDA device, or built without";
  World world(Case{"", "resnet18"}, std::vector<size_t>(16, 5));
  world.train.local_epochs = 1;
  const Federation federation{world.data, world.partition, world.model, world.train};
  const auto train_beside = [&](bool deterministic) {
    const auto engine = make_engine({.device = Device::cuda, .slots = 16, .deterministic = deterministic}, federation);
    std::vector<torch::Tensor> taken;
    try {
      for (;;) taken.push_back(torch::empty({int64_t{1} << 29}, torch::dtype(torch::kByte).device(torch::kCUDA)));
    } catch (const c10::Error&) {  // full: one client needs some 0.2 GiB
      taken.resize(taken.size() - 3);
    }
    Sums sums;
    ClientStore store;
    const TensorMap server;
    train_round(world, *engine, begin_round(world, 1, world.global, server), sums, store);
    return std::pair(sums["state"], engine->describe());
  };
  const auto [state, device] = train_beside(false);
  EXPECT_EQ(device.find("16 slots"), std::string::npos) << device;
  const auto free = train(world, {.device = Device::cuda});
  EXPECT_LT(relative(state, free.global.flat), 1e-2);
  EXPECT_THROW(train_beside(true), Error);
}

TEST(CudaEngineMemory, DoesNotGrowWithClients) {
  if (!cuda_engine_there()) GTEST_SKIP() << "no CUDA device, or built without";
  std::vector<int64_t> peaks;
  for (const size_t clients : {8, 80}) {
    World world(Case{"", "resnet8"}, std::vector<size_t>(clients, 800 / clients));
    const Federation federation{world.data, world.partition, world.model, world.train};
    const auto engine = make_engine({.device = Device::cuda, .slots = 8}, federation);
    Sums sums;
    ClientStore store;
    const TensorMap server;
    train_round(world, *engine, begin_round(world, 1, world.global, server), sums, store);
    peaks.push_back(engine->peak_device_bytes());
  }
  EXPECT_LE(static_cast<double>(peaks[1]), 1.05 * static_cast<double>(peaks[0]));
}

}  // namespace fedgrab::cuda_engine_test
