/// Clients distributed over ranks. Payloads are summed in integers, so that the bits do not depend on the number of
/// ranks.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cohort.h"
#include "engines.h"

namespace fedgrab {
namespace {

using Json = nlohmann::json;

Json to_json(const ClientReport& r) {
  return {r.client, r.steps, r.samples, r.loss, r.bytes_up, r.bytes_down, r.diagnostics, r.accuracy};
}

ClientReport report_from(const Json& json) {
  return {json[0], json[1], json[2], json[3], json[4], json[5], json[6].get<Diagnostics>(), json[7]};
}

class DistributedEngine : public Engine {
 public:
  DistributedEngine(std::unique_ptr<Engine> own, const Federation& federation, Communicator& ranks)
      : own_(std::move(own)), ranks_(ranks), owners_(owners_of(federation.partition, ranks.size())) {}

  std::vector<ClientReport> train(const RoundTask& task, Sums& sums, ClientStore& store) override;
  Predictions predict_part(const State& state, const Split& split, int64_t first, int64_t count, bool logits) override;
  std::string describe() const override { return fmt::format("{} ranks, each {}", ranks_.size(), own_->describe()); }
  std::map<std::string, double> phase_seconds() const override { return own_->phase_seconds(); }
  int64_t peak_device_bytes() const override { return own_->peak_device_bytes(); }

 private:
  void all_reduce(Sums& sums);

  std::unique_ptr<Engine> own_;
  Communicator& ranks_;
  std::vector<int> owners_;  // by client
};

/// A rank none of whose clients take part has no sums: it learns their names and sizes from the others.
void DistributedEngine::all_reduce(Sums& sums) {
  Json own = Json::object();
  for (const auto& name : sums.names()) own[name] = sums.fixed_point(name).size();
  std::map<std::string, size_t> sizes;
  for (const auto& other : ranks_.all_gather(own.dump()))
    sizes.merge(Json::parse(other).get<std::map<std::string, size_t>>());
  for (const auto& [name, size] : sizes) {
    auto total = sums.contains(name) ? sums.fixed_point(name) : std::vector<int64_t>(size);
    ranks_.all_reduce(total);
    sums.set_fixed_point(name, std::move(total));
  }
}

std::vector<ClientReport> DistributedEngine::train(const RoundTask& task, Sums& sums, ClientStore& store) {
  std::vector<int64_t> mine;
  for (const int64_t client : task.clients)
    if (owners_[static_cast<size_t>(client)] == ranks_.rank()) mine.push_back(client);
  std::vector<ClientReport> own;
  ranks_.collective([&] {
    if (!mine.empty()) own = own_->train({task.round, task.method, mine, task.evaluate_clients}, sums, store);
  });
  all_reduce(sums);

  Json sent = Json::array();
  for (const auto& report : own) sent.push_back(to_json(report));
  std::map<int64_t, ClientReport> reports;
  for (const auto& other : ranks_.all_gather(sent.dump()))
    for (const auto& json : Json::parse(other)) {
      auto report = report_from(json);
      reports.emplace(report.client, std::move(report));
    }
  std::vector<ClientReport> ordered;
  for (const int64_t client : task.clients) ordered.push_back(std::move(reports.at(client)));
  return ordered;
}

Predictions DistributedEngine::predict_part(const State& state, const Split& split, int64_t first, int64_t count,
                                            bool logits) {
  const int64_t rank = ranks_.rank(), size = ranks_.size();
  const int64_t batches = (count + evaluation_batch - 1) / evaluation_batch;
  const auto start = [&](int64_t r) { return first + std::min(count, batches * r / size * evaluation_batch); };
  Predictions part;
  ranks_.collective(
      [&] { part = own_->predict_part(state, split, start(rank), start(rank + 1) - start(rank), logits); });

  std::string sent(sizeof(double) + part.classes.size() * sizeof(int32_t), '\0');
  std::memcpy(sent.data(), &part.loss_sum, sizeof(double));
  std::memcpy(sent.data() + sizeof(double), part.classes.data(), part.classes.size() * sizeof(int32_t));
  Predictions all;
  for (const auto& other : ranks_.all_gather(sent)) {
    double loss = 0;
    std::memcpy(&loss, other.data(), sizeof(double));
    all.loss_sum += loss;
    const size_t before = all.classes.size();
    all.classes.resize(before + (other.size() - sizeof(double)) / sizeof(int32_t));
    std::memcpy(all.classes.data() + before, other.data() + sizeof(double), other.size() - sizeof(double));
  }
  if (logits) {
    const auto own = part.logits.contiguous();
    const std::string bytes(static_cast<const char*>(own.data_ptr()), own.nbytes());
    std::vector<torch::Tensor> rows;
    for (const auto& other : ranks_.all_gather(bytes)) {
      const auto samples = static_cast<int64_t>(other.size() / sizeof(float)) / state.model->classes;
      rows.push_back(torch::empty({samples, state.model->classes}));
      std::memcpy(rows.back().data_ptr(), other.data(), other.size());
    }
    all.logits = torch::cat(rows);
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

std::unique_ptr<Engine> make_distributed_engine(std::unique_ptr<Engine> own, const Federation& federation,
                                                Communicator& ranks) {
  return std::make_unique<DistributedEngine>(std::move(own), federation, ranks);
}

}  // namespace fedgrab
