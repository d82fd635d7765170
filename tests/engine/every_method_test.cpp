/// Every preset on the CPU engine: that it trains and is deployed, that a checkpoint holds all of its state, and what
/// only shows in training.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "fedgrab/data/batch.h"
#include "fedgrab/data/load.h"
#include "fedgrab/engine/engine.h"
#include "fedgrab/model/network.h"
#include "fedgrab/model/safetensors.h"
#include "method/posthoc/creff.h"
#include "tests/data/scratch_folder.h"
#include "tests/engine/compose.h"

namespace fedgrab::every_method_test {

bool finite(const torch::Tensor& t) { return t.isfinite().all().item<bool>(); }

bool same_bits(const TensorMap& a, const TensorMap& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
    return x.first == y.first && torch::equal(x.second, y.second);
  });
}

/// Three images of each class of the built-in set, but none of the last class: nobody has it.
struct World {
  Dataset data = make_shapes(3, 2, 1);
  Partition several{3}, one{1};

  World() {
    for (int64_t i = 0; i < data.train.count(); ++i) {
      const int32_t label = data.train.labels[static_cast<size_t>(i)];
      if (label == 9) continue;
      one[0].push_back(i);
      // Client 0 has the classes 0 to 4, client 1 the others; one image of class 1 makes client 2.
      several[label == 1 && several[2].empty() ? 2 : label < 5 ? 0 : 1].push_back(i);
    }
  }
};

/// What the server does takes no part of a second, and is still done.
PartSettings short_training(const PartSettings& settings) {
  PartSettings all{{"head.steps", "20"},
                   {"posthoc.creff.features", "5"},
                   {"posthoc.creff.match_steps", "5"},
                   {"posthoc.creff.retrain_epochs", "5"},
                   {"train.local_epochs", "1"},
                   {"train.batch", "4"},
                   {"train.lr", "0.02"}};
  all.insert(all.end(), settings.begin(), settings.end());
  return all;
}

/// A federation in training: all that a run has, and all that a checkpoint keeps of it.
class Trial {
 public:
  Trial(const World& world, const std::string& name, const PartSettings& settings = {})
      : Trial(world, config_of(name, short_training(settings))) {}

  explicit Trial(const World& world, const Config& config)
      : central(config.read<PartitionParams>("partition").kind == PartitionKind::central), method(config) {
    const Partition& partition = central ? world.one : world.several;
    const auto model = method.model(make_architecture("cnn", world.data.shape()), world.data.classes());
    federation =
        std::make_unique<Federation>(Federation{world.data, partition, model, config.read<TrainParams>("train")});
    engine = make_engine({.device = Device::cpu, .workers = 1}, *federation);
    global = initial_state(model, 1);
    method.initialise(global, 1);
    if (method.needs().global_counts) method.learn_counts(class_counts(world.data.train.labels, world.one[0], 10));
  }

  RoundContext begin(int64_t index, const std::vector<int64_t>& clients) const {
    return method.begin_round(index, 1, clients, sizes_of(federation->partition, clients),
                              static_cast<int64_t>(federation->partition.size()), global, server);
  }
  /// In round 1 the clients 0 and 1 take part, in round 2 the clients 1 and 2.
  void round(int64_t index) {
    const auto clients = central ? std::vector<int64_t>{0} : std::vector<int64_t>{index - 1, index};
    const auto context = begin(index, clients);
    sums = std::make_unique<Sums>();
    reports =
        engine->train({.round = context, .method = method, .clients = clients, .evaluate_clients = true}, *sums, store);
    store.commit();
    TensorMap next;
    for (const auto& [name, tensor] : server) next.emplace(name, tensor.clone());
    State trained = method.aggregate(context, *sums, next);
    global = std::move(trained);
    server = std::move(next);
  }
  State deployed() const { return method.deploy(global, server); }

  bool central;
  Composition method;
  std::unique_ptr<Federation> federation;
  std::unique_ptr<Engine> engine;
  State global;
  TensorMap server;
  ClientStore store;
  std::unique_ptr<Sums> sums;
  std::vector<ClientReport> reports;
};

void save(const Trial& run, const std::string& path) {
  TensorFile file{run.store.in_memory(), {}};
  for (const auto& [name, tensor] : run.server) file.tensors.emplace("server/" + name, tensor);
  file.tensors.merge(run.global.named());
  save_safetensors(path, file);
}

void load(Trial& run, const std::string& path) {
  const auto tensors = load_safetensors(path).tensors;
  run.global.assign(tensors, path);
  run.store.restore(tensors, {}, path);
  for (const auto& [name, tensor] : tensors)
    if (name.starts_with("server/")) run.server[name.substr(7)] = tensor;
}

// ---- all of them

std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const auto& entry : presets()) names.push_back(entry.name);
  return names;
}

class EveryMethod : public testing::TestWithParam<std::string> {
 protected:
  const World world_;
};
INSTANTIATE_TEST_SUITE_P(Methods, EveryMethod, testing::ValuesIn(all_names()), [](const auto& entry) {
  std::string name = entry.param;
  std::replace(name.begin(), name.end(), '-', '_');
  std::replace(name.begin(), name.end(), '+', 'p');
  return name;
});

TEST_P(EveryMethod, TrainsToFiniteWeightsThatMove) {
  Trial run(world_, GetParam());
  const State start = run.global.clone();
  for (const int64_t round : {1, 2}) {
    const State before = run.global.clone();
    run.round(round);
    EXPECT_TRUE(finite(run.global.flat));
    EXPECT_FALSE(torch::equal(run.global.view("conv1.weight"), before.view("conv1.weight")));
    EXPECT_TRUE(finite(run.deployed().flat));
    for (const auto& [name, tensor] : run.server) EXPECT_TRUE(finite(tensor)) << name;
    for (const auto& [name, tensor] : run.store.in_memory()) EXPECT_TRUE(finite(tensor)) << name;
    for (const auto& report : run.reports) {
      EXPECT_TRUE(std::isfinite(report.loss));
      EXPECT_EQ(report.bytes_up > 0, !run.central);  // where all data are, nothing is sent
      EXPECT_EQ(report.bytes_down > 0, !run.central);
    }
  }
  for (const auto& p : run.global.model->parameters)  // what is frozen is frozen, but for the mean of round 1
    if (p.role == Role::frozen && GetParam() != "fedgrab-published") {
      EXPECT_TRUE(torch::equal(run.global.view(p), start.view(p))) << p.name;
    }
}

TEST_P(EveryMethod, GoesOnFromACheckpointToTheBit) {
  const ScratchFolder scratch;
  Trial whole(world_, GetParam());
  whole.round(1);
  save(whole, scratch.path("round-1.safetensors"));
  whole.round(2);

  Trial resumed(world_, GetParam());  // as a new process would make it
  load(resumed, scratch.path("round-1.safetensors"));
  resumed.round(2);
  EXPECT_TRUE(torch::equal(resumed.global.flat, whole.global.flat));
  EXPECT_TRUE(same_bits(resumed.server, whole.server));
  EXPECT_TRUE(same_bits(resumed.store.in_memory(), whole.store.in_memory()));
  EXPECT_TRUE(torch::equal(resumed.deployed().flat, whole.deployed().flat));
  for (size_t k = 0; k < whole.reports.size(); ++k) {
    EXPECT_EQ(resumed.reports[k].loss, whole.reports[k].loss);
    EXPECT_EQ(resumed.reports[k].accuracy, whole.reports[k].accuracy);
  }
}

/// The methods that keep state from round to round: clients, server, or both.
struct Stateful {
  const char* name;
  bool clients, server;
};
class KeptState : public testing::TestWithParam<Stateful> {};
INSTANTIATE_TEST_SUITE_P(Methods, KeptState,
                         testing::Values(Stateful{"scaffold", true, true}, Stateful{"feddyn", true, true},
                                         Stateful{"moon", true, false}, Stateful{"fedloge", true, false},
                                         Stateful{"creff", false, true}, Stateful{"fedavgm", false, true},
                                         Stateful{"fedyogi", false, true}, Stateful{"fedgrab", true, false}));

TEST_P(KeptState, ThatIsLostShowsInTheNextRound) {  // or the test above would prove nothing
  const auto& [name, clients, server] = GetParam();
  const World world;
  Trial whole(world, name);
  whole.round(1);
  EXPECT_EQ(!whole.store.in_memory().empty(), clients);
  EXPECT_EQ(!whole.server.empty(), server);
  whole.round(2);
  for (const bool of_clients : {true, false}) {
    if (of_clients ? !clients : !server) continue;
    Trial forgetful(world, name);
    forgetful.round(1);
    if (of_clients)
      forgetful.store.restore({}, {}, "");
    else
      forgetful.server.clear();
    forgetful.round(2);
    EXPECT_FALSE(torch::equal(forgetful.deployed().flat, whole.deployed().flat) &&
                 same_bits(forgetful.store.read(1), whole.store.read(1)))
        << (of_clients ? "clients" : "server");
  }
}

// ---- drift

TEST(MoonInTraining, WithoutWeightIsFedAvgToTheBit) {
  const World world;
  Trial plain(world, "fedavg"), moon(world, "moon", {{"client.moon.mu", "0"}});
  for (const int64_t round : {1, 2}) {
    plain.round(round);
    moon.round(round);
    EXPECT_TRUE(torch::equal(moon.global.flat, plain.global.flat));
  }
}

TEST(MoonInTraining, HasNoSlopeUntilAClientComesBack) {
  const World world;
  Trial plain(world, "fedavg"), moon(world, "moon");
  plain.round(1);
  moon.round(1);
  EXPECT_TRUE(torch::equal(moon.global.flat, plain.global.flat));
  EXPECT_GT(moon.reports[0].loss, plain.reports[0].loss);  // log 2 is in it all the same
  plain.round(2);
  moon.round(2);
  EXPECT_FALSE(torch::equal(moon.global.flat, plain.global.flat));
}

TEST(MoonInTraining, OneStepIsAutogradsOfThePapersLoss) {
  World world;
  world.data.augmentation = {};
  Trial run(world, "moon", {{"train.batch", "100"}, {"train.lr", "0.1"}, {"client.moon.mu", "5"}});
  const auto& own = world.several[0];
  const auto n = static_cast<int64_t>(own.size());
  const State previous = initial_state(run.global.model, 77);
  run.store.restore({{"client/0/moon.previous", previous.flat}}, {}, "");

  auto images = torch::empty({n, 3, 32, 32});
  write_batch(world.data.train.images, own, world.data.normalisation, images.data_ptr<float>());
  std::vector<int64_t> labels;
  for (const int64_t i : own) labels.push_back(world.data.train.labels[static_cast<size_t>(i)]);
  Network network(run.global.model), other(run.global.model);
  const auto features_of = [&](const State& state) {
    other.load(state);
    return other.forward(images).features;
  };
  const auto theirs = features_of(run.global), last = features_of(previous);
  network.load(run.global);
  const auto output = network.forward_training(images);
  namespace F = torch::nn::functional;
  const auto similar = [&](const torch::Tensor& to) {
    return F::cosine_similarity(output.features, to, F::CosineSimilarityFuncOptions().dim(1)) / 0.5;
  };
  const auto contrast =
      F::cross_entropy(torch::stack({similar(theirs), similar(last)}, 1), torch::zeros({n}, torch::kLong));
  (F::cross_entropy(output.logits[0], torch::tensor(labels)) + 5 * contrast).backward();
  const State expected{run.global.model, run.global.flat - 0.1 * network.gradient()};

  const std::vector<int64_t> clients{0};
  Sums sums;
  const auto context = run.begin(1, clients);
  run.engine->train({.round = context, .method = run.method, .clients = clients}, sums, run.store);
  const State trained{run.global.model, sums["state"]};
  for (const auto& p : run.global.model->parameters)
    if (!p.buffer()) {
      EXPECT_TRUE(torch::allclose(trained.view(p), expected.view(p), 1e-4, 1e-5)) << p.name;
    }
}

TEST(FedIrInTraining, WeightsOfZeroChangeNothing) {
  const World world;
  Trial run(world, "fedir");
  std::vector<int64_t> counts(10);
  counts[9] = 1;  // the federation has only what no client has
  run.method.learn_counts(counts);
  const State before = run.global.clone();
  run.round(1);
  for (const auto& p : run.global.model->parameters)
    if (!p.buffer()) {
      EXPECT_TRUE(torch::allclose(run.global.view(p), before.view(p), 0, 1e-6)) << p.name;
    }
}

TEST(ClassSizes, StandInForTheClientsCounts) {
  const World world;
  const PartSettings balanced{{"objective.name", "balanced-softmax"}};
  PartSettings truth = balanced;
  truth.emplace_back("prior.source", "counts");
  truth.emplace_back("objective.class_sizes", "prior");
  Trial plain(world, "fedavg"), local(world, "fedavg", balanced), shared(world, "fedavg", truth);
  shared.method.learn_counts(std::vector<int64_t>(10, 7));  // all alike: nothing is shifted
  for (auto* run : {&plain, &local, &shared}) run->round(1);
  EXPECT_TRUE(torch::allclose(shared.global.flat, plain.global.flat, 1e-4, 1e-5));
  EXPECT_FALSE(torch::allclose(local.global.flat, plain.global.flat, 1e-4, 1e-5));
}

// ---- heads

TEST(CreffInTraining, ClientsSendGradientsOfTheModelTheyReceived) {
  World world;
  Trial run(world, "creff");
  run.round(1);
  const State received = run.global.clone();
  const Classifier head{run.server.at("creff.weight").clone(), run.server.at("creff.bias").clone()};
  run.round(2);
  auto expected = torch::zeros({10, 10, head.weight.size(1) + 1});
  for (const size_t k : {1, 2}) {
    const auto& own = world.several[k];
    auto images = torch::empty({static_cast<int64_t>(own.size()), 3, 32, 32});
    write_batch(world.data.train.images, own, world.data.normalisation, images.data_ptr<float>());
    std::vector<int64_t> labels;
    for (const int64_t i : own) labels.push_back(world.data.train.labels[static_cast<size_t>(i)]);
    Network network(received.model);
    network.load(received);
    expected += class_gradients(head, network.forward(images).features, torch::tensor(labels));
  }
  EXPECT_TRUE(torch::allclose((*run.sums)["creff.gradients"].view_as(expected), expected, 1e-4, 1e-5));
}

TEST(FedEtfInTraining, MovesTemperatureAndProjectionUnderAFixedSimplex) {
  const World world;
  Trial run(world, "fedetf");
  const State before = run.global.clone();
  run.round(1);
  run.round(2);
  EXPECT_TRUE(torch::equal(run.global.view("fc.weight"), before.view("fc.weight")));
  for (const auto* name : {"fc.temperature", "fc.projection.weight", "fc.projection.bias"})
    EXPECT_FALSE(torch::equal(run.global.view(name), before.view(name))) << name;
}

TEST(FedLogeInTraining, ClientsKeepHeadsThatDifferAndPredictOnlyTheirClasses) {
  const World world;
  Trial run(world, "fedloge");
  const State before = run.global.clone();
  run.round(1);
  const auto first = run.store.read(0).at("fedloge.weight"), second = run.store.read(1).at("fedloge.weight");
  EXPECT_FALSE(torch::equal(first, second));
  EXPECT_FALSE(torch::equal(first, before.view("local.weight")));
  EXPECT_TRUE(torch::equal(run.global.view("local.weight"), before.view("local.weight")));
  EXPECT_FALSE(torch::equal(run.global.view("aux.weight"), before.view("aux.weight")));
  for (size_t j = 5; j < 10; ++j) EXPECT_EQ(run.reports[0].accuracy[j], 0) << j;  // client 0 has never met them
}

}  // namespace fedgrab::every_method_test
