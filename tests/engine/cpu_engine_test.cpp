#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <numeric>
#include <thread>

#include "fedgrab/core/interrupt.h"
#include "fedgrab/data/batch.h"
#include "fedgrab/data/load.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/model/network.h"
#include "tests/data/scratch_folder.h"
#include "tests/engine/compose.h"

namespace fedgrab::cpu_engine_test {

/// Random 4 x 4 images: so small that the last stage of a ResNet is one pixel.
Dataset tiny_images(int64_t samples) {
  Dataset data;
  data.class_names = {"a", "b", "c"};
  data.normalisation = {{0.5F}, {0.25F}};
  Random random(1, Purpose::synthetic);
  std::vector<uint8_t> bytes(static_cast<size_t>(samples) * 16);
  for (auto& byte : bytes) byte = static_cast<uint8_t>(random.below(256));
  data.train.images = Images::own({1, 4, 4}, bytes);
  for (int64_t i = 0; i < samples; ++i) data.train.labels.push_back(static_cast<int32_t>(i % 3));
  data.test = data.train;
  return data;
}

/// Everything an engine needs, small enough for a test.
struct World {
  Dataset data;
  Partition partition;
  std::shared_ptr<const Model> model;
  TrainParams train;
  State global;
  std::unique_ptr<Composition> method;

  World(Dataset set, Partition split, const std::string& network, const std::string& method_name)
      : data(std::move(set)),
        partition(std::move(split)),
        method(std::make_unique<Composition>(config_of(method_name))) {
    model = method->model(make_architecture(network, data.shape()), data.classes());
    global = initial_state(model, 1);
    train.local_epochs = 2;
    train.batch = 3;
    train.lr = 0.01;
  }
  Federation federation() const { return {data, partition, model, train}; }
};

/// Clients of 7, 3, 1 and 9 samples of the built-in set, which draws twenty in two per class.
World shapes_world(const std::string& method = "fedavg") {
  Partition partition(4);
  const std::vector<size_t> sizes{7, 3, 1, 9};
  int64_t next = 0;
  for (size_t k = 0; k < sizes.size(); ++k)
    for (size_t i = 0; i < sizes[k]; ++i) partition[k].push_back(next++);
  return {make_shapes(2, 3, 1), partition, "cnn", method};
}

struct Outcome {
  torch::Tensor state;
  std::vector<ClientReport> reports;
};

Outcome train_round(const World& world, const Federation& federation, int64_t workers,
                    const std::vector<int64_t>& clients, ClientStore& store, int64_t round = 1, bool evaluate = false) {
  const auto engine = make_engine({.device = Device::cpu, .workers = workers}, federation);
  const TensorMap server;
  const auto context =
      world.method->begin_round(round, 1, clients, sizes_of(world.partition, clients), 4, world.global, server);
  Sums sums;
  Outcome outcome;
  outcome.reports = engine->train(
      {.round = context, .method = *world.method, .clients = clients, .evaluate_clients = evaluate}, sums, store);
  store.commit();
  outcome.state = sums["state"];
  return outcome;
}

Outcome train_round(const World& world, const std::vector<int64_t>& clients, int64_t round = 1, bool evaluate = false) {
  ClientStore store;
  const auto federation = world.federation();
  return train_round(world, federation, 1, clients, store, round, evaluate);
}

bool same_bits(const TensorMap& a, const TensorMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && torch::equal(x.second, y.second);
  });
}

// --- What a round computes ---

TEST(CpuEngine, OneStepIsTheGradientStepByHand) {
  World world = shapes_world();
  world.data.augmentation = {};
  world.train = {.local_epochs = 1, .batch = 100, .lr = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  const auto& own = world.partition[0];

  Network network(world.model);
  network.load(world.global);
  auto images = torch::empty({7, 3, 32, 32});
  write_batch(world.data.train.images, own, world.data.normalisation, images.data_ptr<float>());
  auto answers = torch::zeros({7, 10});
  for (int64_t i = 0; i < 7; ++i)
    answers[i][world.data.train.labels[static_cast<size_t>(own[static_cast<size_t>(i)])]] = 1;
  const auto output = network.forward_training(images);
  const auto logits = output.logits.front().detach();
  network.backward(output, {(logits.softmax(1) - answers) / 7});
  const auto expected = world.global.flat - 0.1 * (network.gradient() + 0.01 * world.global.flat);

  const auto [state, reports] = train_round(world, {0});
  for (const auto& p : world.model->parameters) {
    const auto trained = State{world.model, state}.view(p);
    // The running statistics the forward pass above has moved alike.
    const auto by_hand = p.buffer() ? network.state().view(p) : State{world.model, expected}.view(p);
    EXPECT_TRUE(torch::allclose(trained, by_hand, 1e-4, 1e-5)) << p.name;
    EXPECT_FALSE(torch::equal(trained, world.global.view(p))) << p.name;
  }
  EXPECT_NEAR(reports[0].loss, -(logits.log_softmax(1) * answers).sum().item<double>() / 7, 1e-5);
}

TEST(CpuEngine, WeighsClientsByTheirSamples) {
  const World world = shapes_world();
  const auto both = train_round(world, {0, 1}).state;
  const auto first = train_round(world, {0}).state, second = train_round(world, {1}).state;
  EXPECT_LT((both - (0.7 * first + 0.3 * second)).abs().max().item<double>(), 1e-6);
}

TEST(CpuEngine, KeepsTheLastPartialBatch) {
  const auto reports = train_round(shapes_world(), {0, 2, 3}).reports;  // 7, 1 and 9 samples, twice, in batches of 3
  EXPECT_EQ(reports[0].client, 0);
  EXPECT_EQ(reports[0].steps, 2 * 3);
  EXPECT_EQ(reports[0].samples, 14);
  EXPECT_EQ(reports[1].client, 2);
  EXPECT_EQ(reports[1].steps, 2);
  EXPECT_EQ(reports[1].samples, 2);
  EXPECT_EQ(reports[2].client, 3);
  EXPECT_EQ(reports[2].steps, 2 * 3);
  EXPECT_EQ(reports[2].samples, 18);
}

TEST(CpuEngine, CountsTheBytesOfBothWays) {
  const World world = shapes_world("fedgrab");
  const auto report = train_round(world, {1}).reports.front();
  EXPECT_EQ(report.bytes_up, shared_bytes(*world.model));
  EXPECT_EQ(report.bytes_down, shared_bytes(*world.model));
  EXPECT_LT(report.bytes_up, 4 * world.model->size);  // the head is frozen and stays where it is
}

TEST(CpuEngine, RoundsDiffer) {  // in shuffling and augmentation
  const World world = shapes_world();
  EXPECT_TRUE(torch::equal(train_round(world, {0}, 1).state, train_round(world, {0}, 1).state));
  EXPECT_FALSE(torch::equal(train_round(world, {0}, 1).state, train_round(world, {0}, 2).state));
}

TEST(CpuEngine, TheScheduleSetsTheRateOfTheRound) {
  World world = shapes_world();
  world.train.schedule = Schedule::step;
  world.train.lr_milestones = {1};
  world.train.lr_decay = 1e-6;
  const auto moved = [&](int64_t round) {
    const State trained{world.model, train_round(world, {0}, round).state};
    return (trained.view("conv1.weight") - world.global.view("conv1.weight")).abs().max().item<double>();
  };
  EXPECT_GT(moved(1), 1e-4);
  EXPECT_LT(moved(2), 1e-6);
}

TEST(CpuEngine, TestsClientsWhereAsked) {
  World world = shapes_world();
  world.train.lr = 0;  // every client's model is the global one
  const auto federation = world.federation();
  const auto predictions =
      make_engine({.device = Device::cpu, .workers = 1}, federation)->predict(world.global, world.data.test);
  std::vector<double> right(10);
  for (size_t i = 0; i < predictions.classes.size(); ++i)
    if (predictions.classes[i] == world.data.test.labels[i]) right[static_cast<size_t>(world.data.test.labels[i])] += 1;
  for (auto& share : right) share /= 3;
  EXPECT_EQ(train_round(world, {0}, 1, true).reports.front().accuracy, right);
  EXPECT_TRUE(train_round(world, {0}, 1, false).reports.front().accuracy.empty());
}

// --- Independence of the number of workers ---

class WorkerCounts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Methods, WorkerCounts, testing::Values("fedavg", "fedgrab"));

TEST_P(WorkerCounts, LeaveNoTraceInSumsReportsAndState) {
  const World world = shapes_world(GetParam());
  const auto federation = world.federation();
  const std::vector<int64_t> clients{0, 1, 2, 3};
  std::vector<Outcome> outcomes;
  std::vector<TensorMap> memories;
  for (const int64_t workers : {1, 2, 3}) {
    ClientStore store;
    train_round(world, federation, workers, clients, store, 1);
    outcomes.push_back(train_round(world, federation, workers, clients, store, 2));
    memories.push_back(store.in_memory());
  }
  for (size_t i = 1; i < outcomes.size(); ++i) {
    EXPECT_TRUE(torch::equal(outcomes[i].state, outcomes[0].state));
    EXPECT_TRUE(same_bits(memories[i], memories[0]));
    for (size_t k = 0; k < clients.size(); ++k) {
      const auto &report = outcomes[i].reports[k], &expected = outcomes[0].reports[k];
      EXPECT_EQ(report.client, clients[k]);
      EXPECT_EQ(report.steps, expected.steps);
      EXPECT_EQ(report.samples, expected.samples);
      EXPECT_EQ(report.loss, expected.loss);
      EXPECT_EQ(report.bytes_up, expected.bytes_up);
      EXPECT_EQ(report.diagnostics, expected.diagnostics);
    }
  }
}

TEST(CpuEngine, PredictsTheSameWithAnyNumberOfWorkers) {
  World world = shapes_world();
  world.data.test = make_shapes(1, 52, 2).test;  // 520 images: more than two batches, the last one partial
  const auto federation = world.federation();
  const auto expected =
      make_engine({.device = Device::cpu, .workers = 1}, federation)->predict(world.global, world.data.test);
  for (const int64_t workers : {2, 3}) {
    const auto predictions =
        make_engine({.device = Device::cpu, .workers = workers}, federation)->predict(world.global, world.data.test);
    EXPECT_EQ(predictions.classes, expected.classes);
    EXPECT_EQ(predictions.loss(), expected.loss());
  }

  std::vector<int64_t> everything(520);
  std::iota(everything.begin(), everything.end(), int64_t{0});
  auto images = torch::empty({520, 3, 32, 32});
  write_batch(world.data.test.images, everything, world.data.normalisation, images.data_ptr<float>());
  Network network(world.model);
  network.load(world.global);
  const auto logits = network.forward(images).logits.front();
  double loss = 0;
  for (int64_t i = 0; i < 520; ++i) {
    const auto at = static_cast<size_t>(i);
    EXPECT_EQ(expected.classes[at], logits[i].argmax().item<int32_t>()) << "image " << i;
    loss -= logits[i].log_softmax(0)[world.data.test.labels[at]].item<double>() / 520;
  }
  EXPECT_NEAR(expected.loss(), loss, 1e-5);
}

TEST(CpuEngine, AnswersAsTheModelItIsGivenAndNotAsTheOneItTrains) {
  const World world = shapes_world();
  const auto federation = world.federation();
  auto deployed = std::make_shared<Model>(*world.model);
  auto& shift = deployed->heads.front().shift;
  shift.assign(static_cast<size_t>(world.data.classes()), 0);
  shift.back() = 10;  // times the distance of one class alone from the others
  const State favours_the_last{deployed, world.global.flat};
  const auto engine = make_engine({.device = Device::cpu, .workers = 2}, federation);
  for (const auto answer : engine->predict(favours_the_last, world.data.test).classes)
    EXPECT_EQ(answer, world.data.classes() - 1);
}

TEST(CpuEngine, PredictingBetweenRoundsChangesNothing) {
  const World world = shapes_world();
  const auto federation = world.federation();
  const auto engine = make_engine({.device = Device::cpu, .workers = 1}, federation);
  ClientStore store;
  const std::vector<int64_t> clients{0};
  engine->predict(initial_state(world.model, 99), world.data.test);
  const TensorMap server;
  const auto context = world.method->begin_round(1, 1, clients, {7}, 4, world.global, server);
  Sums sums;
  engine->train({.round = context, .method = *world.method, .clients = clients}, sums, store);
  EXPECT_TRUE(torch::equal(sums["state"], train_round(world, {0}).state));
}

// --- Client state ---

TEST(CpuEngine, ClientsKeepTheirStateFromRoundToRound) {
  const World world = shapes_world("fedgrab");
  const auto federation = world.federation();
  ClientStore store;
  train_round(world, federation, 1, {0, 3}, store, 1);
  const auto after_one = store.in_memory();
  EXPECT_FALSE(store.read(0).empty());
  EXPECT_TRUE(store.read(1).empty());  // did not take part
  train_round(world, federation, 1, {0}, store, 2);
  EXPECT_TRUE((store.read(0).at("sgb.positive") >= after_one.at("client/0/sgb.positive")).all().item<bool>());
  EXPECT_FALSE(torch::equal(store.read(0).at("sgb.positive"), after_one.at("client/0/sgb.positive")));
  EXPECT_TRUE(torch::equal(store.read(3).at("sgb.positive"), after_one.at("client/3/sgb.positive")));
}

TensorMap copy_of(const TensorMap& tensors) {
  TensorMap copies;
  for (const auto& [name, tensor] : tensors) copies.emplace(name, tensor.clone());
  return copies;
}

TEST(CpuEngine, AFailedRoundLeavesTheStateOfItsClientsAlone) {
  const World world = shapes_world("fedgrab");
  const auto federation = world.federation();
  for (const int64_t workers : {1, 2}) {
    ClientStore store;
    train_round(world, federation, workers, {0, 1, 2, 3}, store, 1);
    // The last client to train, the smallest, has a state that belongs to another number of classes.
    auto damaged = store.read(2);
    damaged["sgb.positive"] = torch::zeros({3});
    store.write(2, damaged);
    store.commit();
    const auto before = copy_of(store.in_memory());
    EXPECT_THROW(train_round(world, federation, workers, {0, 1, 2, 3}, store, 2), std::exception);
    store.discard();
    EXPECT_TRUE(same_bits(store.in_memory(), before));
  }
}

TEST(CpuEngineDeathTest, AnInterruptedRoundLeavesTheStateOfItsClientsAlone) {
  // The signal's flag stays up for good, so this runs in a process of its own.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto interrupted_round = [] {
    catch_interrupts();
    const World world = shapes_world("fedgrab");
    const auto federation = world.federation();
    const ScratchFolder scratch;
    const std::filesystem::path folder = scratch.path("clients");
    ClientStore store(folder, 0);  // a file per client
    train_round(world, federation, 1, {0, 1, 2, 3}, store, 1);
    std::vector<TensorMap> before;
    for (const int64_t client : {0, 1, 2, 3}) before.push_back(copy_of(store.read(client)));
    const auto files = [&] {
      return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator());
    };
    // When the first client of the second round has left its file, many are still to come.
    std::thread([&files, first = files()] {
      while (files() == first) std::this_thread::yield();
      std::raise(SIGTERM);
    }).detach();
    std::vector<int64_t> clients{0, 1, 2};
    clients.resize(500, 3);
    int code = 2;
    try {
      train_round(world, federation, 1, clients, store, 2);
    } catch (const Interrupted&) {
      store.discard();
      code = 130;
      for (size_t k = 0; k < before.size(); ++k)
        if (!same_bits(store.read(static_cast<int64_t>(k)), before[k])) code = 1;
    }
    std::filesystem::remove_all(scratch.path());
    std::_Exit(code);
  };
  EXPECT_EXIT(interrupted_round(), testing::ExitedWithCode(130), "");
}

// --- Trouble ---

TEST(CpuEngine, OneSampleABatchTrainsANetworkWithBatchNorm) {
  World world(tiny_images(5), {{0, 1, 2, 3, 4}}, "resnet8", "fedavg");
  world.train.batch = 1;
  const auto [state, reports] = train_round(world, {0});
  EXPECT_EQ(reports[0].steps, 10);
  EXPECT_TRUE(std::isfinite(reports[0].loss));
  EXPECT_TRUE(state.isfinite().all().item<bool>());
  EXPECT_FALSE(torch::equal(state, world.global.flat));
  // The statistics of a stage of one pixel have nothing to learn from one sample.
  const State trained{world.model, state};
  EXPECT_TRUE((trained.view("layer3.0.bn1.running_var") == 1).all().item<bool>());
}

TEST(CpuEngine, ALastBatchOfOneSampleDoesNotSpoilTheStatistics) {
  World world(tiny_images(5), {{0, 1, 2, 3, 4}}, "resnet8", "fedavg");
  world.train.batch = 2;
  const auto state = train_round(world, {0}).state;
  EXPECT_TRUE(state.isfinite().all().item<bool>());
}

TEST(CpuEngine, NamesRoundClientAndStepWhereTheLossTurnsNaN) {
  World world = shapes_world();
  world.train.lr = 1e30;
  expect_error(Fault::other, [&] { train_round(world, {3}, 7); },
               {"training", "round 7", "client 3", "step 2", "train.lr", "train.clip"});
}

TEST(CpuEngine, NamesRoundClientAndStepWhereOnlyTheLastStepBreaksTheWeights) {
  World world = shapes_world();
  world.train.lr = 1e38;
  world.train.local_epochs = 1;
  world.train.batch = 100;
  expect_error(Fault::other, [&] { train_round(world, {1}, 5); },
               {"training", "round 5", "client 1", "step 1", "train.lr"});
}

TEST(CpuEngine, SaysWhatItIs) {
  const World world = shapes_world();
  const auto federation = world.federation();
  EXPECT_EQ(make_engine({.device = Device::cpu, .workers = 1}, federation)->describe(), "cpu, 1 worker");
  EXPECT_EQ(make_engine({.device = Device::cpu, .workers = 3}, federation)->describe(), "cpu, 3 workers");
}

}  // namespace fedgrab::cpu_engine_test
