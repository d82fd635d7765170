/// A composition by a preset and a few settings, a model of a few numbers, and a federation to try it on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fedgrab/data/partition.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/method/presets.h"

namespace fedgrab {

using Values = std::vector<std::pair<std::string, std::string>>;

/// What presets set and compositions look at beside the parameters of the parts; the engine declares it.
struct TinyTrainParams {
  std::string sampling = "shuffled";
  double mixup = 0, cutmix = 0;
  template <class Visitor>
  void describe(Visitor& v) {
    v.param("sampling", sampling, "");
    v.param("mixup", mixup, "");
    v.param("cutmix", cutmix, "");
  }
};

inline Config config_of(const std::string& preset, const Values& settings = {}) {
  Schema schema;
  schema.add<PartitionParams>("partition");
  schema.add<TinyTrainParams>("train");
  declare_parts(schema);
  Config config(schema);
  for (const auto& [key, text] : find_preset(preset).values)
    if (schema.contains(key)) config.set_text(key, text);
  for (const auto& [key, text] : settings) config.set_text(key, text);
  return config;
}

inline Composition compose(const std::string& preset, const Values& settings = {}) {
  return Composition(config_of(preset, settings));
}

/// `features` numbers an image, normalised (bn1).
inline Architecture tiny_architecture(int64_t features) {
  const Layer norm{.kind = LayerKind::batch_norm, .name = "bn1", .in = features, .out = features};
  return {"tiny", {features, 1, 1}, {norm, Layer{LayerKind::flatten, "", 0}}, features};
}

inline std::shared_ptr<const Model> tiny_model(std::vector<Head> heads, int64_t features, int64_t classes) {
  return make_model(tiny_architecture(features), std::move(heads), classes);
}

struct TinyClient {
  int64_t samples = 1;
  std::vector<int64_t> counts{};
  TensorMap state{};
};

/// Server and clients of a composition; a round as engines and the round loop do it.
class TinyFederation {
 public:
  TinyFederation(Composition composition, std::shared_ptr<const Model> given, std::vector<TinyClient> members = {{}})
      : method(std::move(composition)),
        model(std::move(given)),
        global(initial_state(model, seed)),
        clients(std::move(members)) {
    method.initialise(global, seed);
  }
  TinyFederation(Composition composition, int64_t features, int64_t classes, std::vector<TinyClient> members = {{}})
      : method(std::move(composition)),
        model(method.model(tiny_architecture(features), classes)),
        global(initial_state(model, seed)),
        clients(std::move(members)) {
    method.initialise(global, seed);
  }

  /// An empty cohort: all clients.
  RoundContext begin(int64_t round = 1, std::vector<int64_t> cohort = {}) const {
    if (cohort.empty())
      for (size_t k = 0; k < clients.size(); ++k) cohort.push_back(static_cast<int64_t>(k));
    std::vector<int64_t> sizes;
    for (const int64_t k : cohort) sizes.push_back(clients[static_cast<size_t>(k)].samples);
    return method.begin_round(round, seed, std::move(cohort), std::move(sizes), static_cast<int64_t>(clients.size()),
                              global, server);
  }
  /// The client at this place of the cohort.
  ClientContext client(const RoundContext& round, size_t place = 0) {
    auto& own = clients[static_cast<size_t>(round.cohort[place])];
    return {round, round.cohort[place], round.weights[place], own.counts, own.state};
  }
  LocalProblem configure(int64_t round = 1) {
    const auto context = begin(round);
    return method.configure(client(context));
  }
  std::vector<Payload> send(const ClientContext& client, const LocalResult& result, Sums& sums) {
    auto sent = method.after_training(client, result);
    for (const auto& payload : sent) {
      const double weight = payload.weighting == Weighting::none ? 1.0
                            : payload.weighting == Weighting::server_weights
                                ? client.weight
                                : 1.0 / static_cast<double>(clients.size());
      sums.add(payload.name, payload.values, weight);
      bytes_up += payload.bytes;
    }
    return sent;
  }
  /// `train` changes the client's copy of the global model.
  using Train = std::function<void(const ClientContext& client, const LocalProblem& problem, State& local)>;
  void round(int64_t index, const Train& train, const std::vector<int64_t>& cohort = {}) {
    const auto context = begin(index, cohort);
    Sums sums;
    for (size_t place = 0; place < context.cohort.size(); ++place) {
      const auto own = client(context, place);
      State local = global.clone();
      method.before_training(own, local, nullptr);
      train(own, method.configure(own), local);
      send(own, {local, 1, 0.1, 0.0}, sums);
    }
    global = method.aggregate(context, sums, server);
  }

  static constexpr uint64_t seed = 11;
  Composition method;
  std::shared_ptr<const Model> model;
  State global;
  TensorMap server;
  std::vector<TinyClient> clients;
  int64_t bytes_up = 0;
};

/// Adds `value` to all that a client trains.
inline void add_to_trained(const State& local, double value) {
  for (const auto& p : local.model->parameters)
    if (p.trained()) local.view(p).add_(value);
}

}  // namespace fedgrab
