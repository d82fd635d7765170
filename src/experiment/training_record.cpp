#include "training_record.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/prior/prior.h"

namespace fedgrab {
namespace {

constexpr int64_t many_classes = 1000;  // above it, records of every round would be large

/// Mean and deviation over the clients that report a number, added in the order of the cohort.
std::map<std::string, PerClass> over_clients(const std::vector<ClientReport>& reports) {
  std::map<std::string, PerClass> result;
  std::map<std::string, double> reporting;
  for (const auto& report : reports)
    for (const auto& [name, values] : report.diagnostics) {
      auto& [mean, std] = result[name];
      mean.resize(values.size());
      std.resize(values.size());
      reporting[name] += 1;
      for (size_t j = 0; j < values.size(); ++j) {
        mean[j] += values[j];
        std[j] += values[j] * values[j];
      }
    }
  for (auto& [name, per_class] : result)
    for (size_t j = 0; j < per_class.mean.size(); ++j) {
      per_class.mean[j] /= reporting[name];
      per_class.std[j] =
          std::sqrt(std::max(0.0, per_class.std[j] / reporting[name] - per_class.mean[j] * per_class.mean[j]));
    }
  return result;
}

/// A client's accuracy on a test set that looks like its own data.
double by_own_shares(const FederationRun& run, const ClientReport& report) {
  const auto& own = run.partition[static_cast<size_t>(report.client)];
  const auto counts = class_counts(run.prepared.data.train.labels, own, run.prepared.data.classes());
  double right = 0;
  for (size_t j = 0; j < counts.size(); ++j) right += static_cast<double>(counts[j]) * report.accuracy[j];
  return right / static_cast<double>(own.size());
}

bool diagnostics_due(const FederationRun& run, int64_t round) {
  int64_t every = run.settings.record.diagnostics_every;
  if (every > 0 && run.prepared.data.classes() > many_classes) every = std::max<int64_t>(every, 10);
  return every > 0 && round % every == 0;
}

std::optional<PriorRecord> prior_record(const FederationRun& run, const RoundContext& context) {
  auto prior = run.method.recorded_prior(context);
  if (!prior.defined() && run.settings.record.prior) {
    const auto& head = context.global.model->heads.front().name;
    prior = prior_from_weights(context.global.view(head + ".weight"), PriorScale::share);
  }
  if (!prior.defined()) return std::nullopt;
  const auto few = static_cast<int64_t>(run.prepared.groups.few.size());
  const auto truth = score_prior(prior, run.prepared.counts, few);
  return PriorRecord{to_vector(prior), truth.l2, truth.tail_hit};
}

}  // namespace

RoundRecord record_of_training(const FederationRun& run, const RoundContext& context,
                               const std::vector<ClientReport>& reports) {
  RoundRecord record{.round = context.round};
  double loss_sum = 0;
  for (const auto& report : reports) {
    record.steps += report.steps;
    record.samples += report.samples;
    record.bytes_up += report.bytes_up;
    record.bytes_down += report.bytes_down;
    loss_sum += report.loss * static_cast<double>(report.samples);
    if (report.accuracy.empty()) continue;
    record.client_accuracy.push_back(report.accuracy);
    record.personal = record.personal.value_or(0) + by_own_shares(run, report) / static_cast<double>(reports.size());
  }
  if (context.round == 1 && run.method.needs().global_counts) {  // every client's counts up, their sum down, once
    const int64_t counts = run.prepared.data.classes() * static_cast<int64_t>(sizeof(float) * run.partition.size());
    record.bytes_up += counts;
    record.bytes_down += counts;
  }
  record.clients = static_cast<int64_t>(reports.size());
  record.loss = loss_sum / static_cast<double>(std::max<int64_t>(record.samples, 1));
  record.lr = learning_rate(run.settings.train, context.round);
  if (diagnostics_due(run, context.round)) {
    record.diagnostics = over_clients(reports);
    record.prior = prior_record(run, context);
  }
  return record;
}

}  // namespace fedgrab
