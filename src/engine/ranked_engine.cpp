/// Clients spread over the ranks of mpirun. What they send is added up in integers, so that the bits do not depend on
/// the number of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cohort.h"
#include "engines.h"
#include "fedgrab/core/ranks.h"

namespace fedgrab {
namespace {

using Json = nlohmann::json;

Json to_json(const ClientReport& r) {
  return {r.client, r.steps, r.samples, r.loss, r.bytes_up, r.bytes_down, r.diagnostics, r.accuracy};
}

ClientReport report_from(const Json& json) {
  return {json[0], json[1], json[2], json[3], json[4], json[5], json[6].get<Diagnostics>(), json[7]};
}

class RankedEngine : public Engine {
 public:
  RankedEngine(std::unique_ptr<Engine> own, const Federation& federation)
      : own_(std::move(own)), owners_(owners_of(federation.partition, ranks().count())) {}

  std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) override;
  Predictions predict(const State& state, const Split& split) override;
  std::string describe() const override { return fmt::format("{} ranks, each {}", ranks().count(), own_->describe()); }
  std::map<std::string, double> phase_seconds() const override { return own_->phase_seconds(); }
  int64_t peak_device_bytes() const override { return own_->peak_device_bytes(); }

 private:
  std::unique_ptr<Engine> own_;
  std::vector<int> owners_;  // by client
};

/// A rank none of whose clients take part has no sums: it learns from the others which there are.
void add_up(Sums& sums) {
  Json own = Json::object();
  for (const auto& name : sums.names()) own[name] = sums.fixed_point(name).size();
  std::map<std::string, size_t> sizes;
  for (const auto& theirs : ranks().exchange(own.dump()))
    sizes.merge(Json::parse(theirs).get<std::map<std::string, size_t>>());
  for (const auto& [name, size] : sizes) {
    auto total = sums.contains(name) ? sums.fixed_point(name) : std::vector<int64_t>(size);
    ranks().add_up(total);
    sums.set_fixed_point(name, std::move(total));
  }
}

std::vector<ClientReport> RankedEngine::train(const RoundTask& task, Sums& sums, ClientStore& store) {
  std::vector<int64_t> mine;
  for (const int64_t client : task.clients)
    if (owners_[static_cast<size_t>(client)] == ranks().rank()) mine.push_back(client);
  std::vector<ClientReport> own;
  ranks().together([&] {
    if (mine.empty()) return;
    own = own_->train({.round = task.round,
                       .clients = mine,
                       .global = task.global,
                       .method = task.method,
                       .server = task.server,
                       .evaluate_clients = task.evaluate_clients,
                       .cohort = &task.clients},
                      sums, store);
  });
  add_up(sums);

  Json told = Json::array();
  for (const auto& report : own) told.push_back(to_json(report));
  std::map<int64_t, ClientReport> reports;
  for (const auto& theirs : ranks().exchange(told.dump()))
    for (const auto& json : Json::parse(theirs)) {
      auto report = report_from(json);
      reports.emplace(report.client, std::move(report));
    }
  std::vector<ClientReport> ordered;
  for (const int64_t client : task.clients) ordered.push_back(std::move(reports.at(client)));
  return ordered;
}

Predictions RankedEngine::predict(const State& state, const Split& split) {
  const int64_t rank = ranks().rank(), count = ranks().count();
  const int64_t batches = (split.count() + evaluation_batch - 1) / evaluation_batch;
  const auto start = [&](int64_t r) { return std::min(split.count(), batches * r / count * evaluation_batch); };
  Predictions part;
  ranks().together([&] { part = own_->predict_part(state, split, start(rank), start(rank + 1) - start(rank)); });

  std::string told(sizeof(double) + part.classes.size() * sizeof(int32_t), '\0');
  std::memcpy(told.data(), &part.loss_sum, sizeof(double));
  std::memcpy(told.data() + sizeof(double), part.classes.data(), part.classes.size() * sizeof(int32_t));
  Predictions all;
  for (const auto& theirs : ranks().exchange(told)) {
    double loss = 0;
    std::memcpy(&loss, theirs.data(), sizeof(double));
    all.loss_sum += loss;
    const size_t before = all.classes.size();
    all.classes.resize(before + (theirs.size() - sizeof(double)) / sizeof(int32_t));
    std::memcpy(all.classes.data() + before, theirs.data() + sizeof(double), theirs.size() - sizeof(double));
  }
  return all;
}

}  // namespace

std::vector<int> owners_of(const Partition& partition, int ranks) {
  std::vector<int64_t> clients(partition.size());
  std::iota(clients.begin(), clients.end(), int64_t{0});
  std::vector<size_t> load(static_cast<size_t>(ranks));
  std::vector<int> owners(partition.size());
  for (const size_t client : by_size(clients, partition)) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += partition[client].size();
    owners[client] = static_cast<int>(least - load.begin());
  }
  return owners;
}

std::unique_ptr<Engine> make_ranked_engine(std::unique_ptr<Engine> own, const Federation& federation) {
  return std::make_unique<RankedEngine>(std::move(own), federation);
}

}  // namespace fedgrab
