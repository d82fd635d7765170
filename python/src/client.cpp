/// A client of a federation: it trains from given weights and returns new ones.
#include <fmt/format.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <mutex>

#include "arrays.h"
#include "fedgrab/core/error.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/evaluation.h"
#include "fedgrab/experiment/federation_run.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/objective/balancer.h"
#include "interruptible.h"
#include "module.h"
#include "weights.h"

namespace fedgrab::python {
namespace {

/// Finite numbers; of balancers all of them, for this number of classes.
void require_state(const TensorMap& state, int64_t classes) {
  TensorMap balancer;
  BalancedObjective::state_in(balancer, {classes}, torch::kCPU);
  bool balanced = false;
  for (const auto& [name, values] : state) {
    balanced = balanced || balancer.contains(name);
    if (!values.is_floating_point() || !values.isfinite().all().item<bool>())
      throw py::value_error("state: " + name + " is not finite numbers");
  }
  if (!balanced) return;
  for (const auto& [name, own] : balancer)
    if (const auto found = state.find(name); found == state.end() || found->second.sizes() != own.sizes() ||
                                             found->second.scalar_type() != own.scalar_type())
      throw py::value_error(fmt::format("state: not that of a client with {} classes, see {}", classes, name));
}

class Client {
 public:
  /// `own`: all the data are this client's; else it holds its part of the partition. Below 0 it holds nothing and only
  /// evaluates.
  Client(const PythonConfig& given, int64_t client, bool own, const std::vector<std::string>& classes)
      : config_(resolve(given)), settings_(read_settings(config_)), client_(client), method_(config_) {
    interruptible([&] { load(own, classes); });
    names_ = prepared_.data.class_names;
  }

  py::tuple train(const py::dict& weights, int64_t round) {
    if (client_ < 0) throw py::value_error("client: this one only evaluates");
    if (round < 1) throw py::value_error(fmt::format("round: expected 1 or more, got {}", round));
    const auto lock = alone();
    const State global = start_.clone();
    assign_weights(global, weights);
    State trained{global.model, {}};
    const auto report = interruptible([&] {
      const std::vector<int64_t> clients{client_};
      Sums sums;
      store_.discard();  // what an interrupted round left
      // The server weighs; a client's own weight is 1.
      const auto context =
          method_.begin_round(round, settings_.seed(), clients, {samples()}, population_, global, no_tensors);
      auto reports = engine_->train({.round = context, .method = method_, .clients = clients}, sums, store_);
      if (reports.front().bytes_up != shared_bytes(*global.model))
        throw Error(Fault::usage, "method.name", settings_.method + " sends more than its weights",
                    "simulate it with run()");
      store_.commit();
      trained.flat = sums["state"];
      return reports.front();
    });
    py::dict metrics;
    metrics["loss"] = report.loss;
    metrics["steps"] = report.steps;
    return py::make_tuple(shared_weights(trained), samples(), metrics);
  }

  /// The JSON of `acc` in metrics.jsonl, and the loss.
  py::tuple evaluate(const py::dict& weights) {
    const State global = start_.clone();
    assign_weights(global, weights);
    const auto lock = alone();
    const auto& test = prepared_.data.test;
    const auto predicted = interruptible([&] { return engine_->predict(method_.deploy(global, no_tensors), test); });
    const auto accuracy = score(predicted.classes, test.labels, prepared_.groups, prepared_.data.classes());
    return py::make_tuple(to_json(accuracy).dump(), predicted.loss(), test.count());
  }

  /// A file for `fedgrab predict`, `eval` and `export`.
  void save_model(const py::dict& weights, const std::string& path) const {
    const State global = start_.clone();
    assign_weights(global, weights);
    const State deployed = method_.deploy(global, no_tensors);
    fedgrab::save_model(path, card_of(config_, prepared_.data, *deployed.model, settings_.train.rounds), deployed);
  }

  py::dict initial_weights() const { return shared_weights(start_.clone()); }
  py::dict state() const { return to_dict(store_.read(client_)); }
  void set_state(const py::dict& arrays) {
    const auto state = to_tensors(arrays);
    require_state(state, prepared_.data.classes());
    store_.write(client_, state);
    store_.commit();
  }
  int64_t samples() const {
    return client_ < 0 ? 0 : static_cast<int64_t>(partition_[static_cast<size_t>(client_)].size());
  }
  const std::vector<std::string>& class_names() const { return names_; }
  py::tuple shape() const {
    const auto shape = prepared_.data.shape();
    return py::make_tuple(shape.channels, shape.height, shape.width);
  }

 private:
  /// Waiting would have to be done without the GIL, and two rounds of one client at once are a mistake anyway.
  std::unique_lock<std::mutex> alone() {
    std::unique_lock lock(guard_, std::try_to_lock);
    if (!lock) throw Error(Fault::other, "client", "is at work in another thread");
    return lock;
  }
  void load(bool own, const std::vector<std::string>& classes) {
    prepared_ = prepare(settings_, classes);
    require_weights_only(method_, settings_.method);
    start_ = initial_model(settings_, method_, prepared_.data.shape(), prepared_.data.classes());
    if (own && client_ >= 0) {  // its number still chooses its random numbers
      partition_.resize(static_cast<size_t>(client_) + 1);
      partition_.back() = prepared_.samples;
    } else if (client_ >= 0) {
      partition_ = partition_samples(settings_, prepared_);
      if (client_ >= static_cast<int64_t>(partition_.size()))
        throw Error(Fault::usage, "client",
                    fmt::format("{} of a partition over {} clients", client_, partition_.size()),
                    "they are counted from 0");
    }
    population_ = std::max<int64_t>(static_cast<int64_t>(partition_.size()), 1);
    federation_ = std::make_unique<Federation>(Federation{prepared_.data, partition_, start_.model, settings_.train});
    engine_ = make_engine(settings_.engine, *federation_);
  }

  Config config_;
  Settings settings_;
  int64_t client_;
  Composition method_;
  Preparation prepared_;
  std::vector<std::string> names_;
  Partition partition_;
  State start_;
  std::unique_ptr<Federation> federation_;
  std::unique_ptr<Engine> engine_;
  ClientStore store_;
  int64_t population_ = 1;
  std::mutex guard_;
};

}  // namespace

void bind_client(py::module_& module) {
  using namespace py::literals;
  py::class_<Client>(module, "Client")
      .def(py::init<const PythonConfig&, int64_t, bool, const std::vector<std::string>&>(), "config"_a, "client"_a,
           "own"_a, "classes"_a)
      .def("train", &Client::train, "weights"_a, "round"_a)
      .def("evaluate", &Client::evaluate, "weights"_a)
      .def("save_model", &Client::save_model, "weights"_a, "path"_a)
      .def("initial_weights", &Client::initial_weights)
      .def("state", &Client::state)
      .def("set_state", &Client::set_state, "arrays"_a)
      .def_property_readonly("samples", &Client::samples)
      .def_property_readonly("class_names", &Client::class_names)
      .def_property_readonly("shape", &Client::shape);
}

}  // namespace fedgrab::python
