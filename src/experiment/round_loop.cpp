#include "fedgrab/experiment/round_loop.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>

#include "checkpoint_store.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/parallel.h"
#include "fedgrab/core/privacy_accountant.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/random.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/evaluation.h"
#include "fedgrab/experiment/federation_run.h"
#include "fedgrab/experiment/majority_baseline.h"
#include "fedgrab/experiment/posthoc_fit.h"
#include "fedgrab/prior/prior.h"
#include "fedgrab/record/summary.h"
#include "run_recorder.h"
#include "sample_images.h"

namespace fedgrab {
namespace {

constexpr int64_t largest_confusion = 200;
constexpr int64_t confusion_every = 10;                    // TensorBoard itself keeps ten images
constexpr int64_t most_sampled_logits = int64_t{1} << 26;  // of all test images: 256 MiB

int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

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

bool holds_any(const Split& split, const std::vector<int64_t>& classes) {
  return std::any_of(split.labels.begin(), split.labels.end(),
                     [&](int32_t label) { return std::find(classes.begin(), classes.end(), label) != classes.end(); });
}

/// Of the global models of a run, where updates are clipped.
class RunPrivacy {
 public:
  RunPrivacy(const Config& config, int64_t clients) : params_(config.read<ServerParams>("server")) {
    if (params_.clip == 0) return;
    rounds_ = {params_.noise, clients, clients_per_round(clients, config.read<TrainParams>("train").participation)};
    accountant_.emplace(rounds_);
    if (params_.noise > 0 && params_.delta * static_cast<double>(clients) >= 1)
      warn(fmt::format(
          "server.delta = {:g}: a guarantee that may fail for one of {} clients is none (set it below {:g})",
          params_.delta, clients, 1 / static_cast<double>(clients)));
  }
  std::optional<double> epsilon(int64_t round) const {
    return accountant_ ? std::optional(accountant_->epsilon(round, params_.delta)) : std::nullopt;
  }
  std::optional<PrivacyRecord> record(int64_t round) const {
    if (!accountant_) return std::nullopt;
    return PrivacyRecord{params_.clip,    params_.noise,   params_.delta,
                         *epsilon(round), rounds_.clients, rounds_.per_round};
  }

 private:
  ServerParams params_;
  PrivateRounds rounds_;
  std::optional<PrivacyAccountant> accountant_;
};

/// One run in progress. Everything it needs to continue after a crash is in the checkpoint and in metrics.jsonl.
class RoundLoop {
 public:
  RoundLoop(const Config& config, const RunOptions& options, Communicator& ranks);
  Summary run();

 private:
  void start();
  std::string resumption_text() const;
  RoundRecord train_round(int64_t round);
  RoundRecord record_training(const RoundContext& context, const std::vector<ClientReport>& reports) const;
  /// A client's accuracy on a test set that looks like its own data.
  double by_own_shares(const ClientReport& report) const;
  void record_diagnostics(RoundRecord& record, const RoundContext& context,
                          const std::vector<ClientReport>& reports) const;
  void evaluate(RoundRecord& record, const State& model);
  void check_agreement(const State& model) const;
  bool samples_wanted() const;
  void write(const RoundRecord& record);
  bool out_of_patience() const;
  void save();
  Summary finish();
  MeasureReport measure_on_test(const Predictions& test) const;
  /// Of best.safetensors, where a validation split chose it and it is not the last model. The engine is gone after it.
  std::optional<MeasureReport> measure_best();
  int workers() const {
    const int64_t wanted = settings_.engine.workers;
    return wanted > 0 ? static_cast<int>(wanted) : available_cores();
  }
  State deployed() const { return run_.method.deploy(state_.global, state_.server); }
  ModelCard card(const State& model) const { return card_of(config_, run_.prepared.data, *model.model, state_.round); }
  std::string progress_detail(const RoundRecord& record) const;

  Config config_;
  RunOptions options_;
  Communicator& ranks_;
  FederationRun run_;
  const Settings& settings_;
  std::unique_ptr<Engine> engine_;
  Checkpoint state_;
  RunPrivacy privacy_;
  RunRecorder recorder_;  // its lock outlives the clients' files
  CheckpointStore checkpoints_;
  LastEvaluation evaluation_;          // its samples are filled in when it is written
  std::vector<SampleChoice> samples_;  // of the same round
};

RoundLoop::RoundLoop(const Config& config, const RunOptions& options, Communicator& ranks)
    : config_(with_absolute_paths(config)),
      options_(options),
      ranks_(ranks),
      run_(config_),
      settings_(run_.settings),
      privacy_(config_, static_cast<int64_t>(run_.partition.size())),
      recorder_(options.directory, ranks.first()),
      checkpoints_(options.directory, ranks, settings_.checkpoint, settings_.engine) {
  if (settings_.eval.patience > 0 && run_.prepared.validation.count() == 0)
    throw Error(Fault::usage, "eval.patience", "needs a validation split to watch", "set data.validation, 0.1 say");
  const auto& prepared = run_.prepared;
  const Split& judged = prepared.validation.count() > 0 ? prepared.validation : prepared.data.test;
  if (settings_.eval.criterion == Criterion::few && !holds_any(judged, prepared.groups.few))
    throw Error(Fault::usage, "eval.criterion", "the images that choose the best round have none of a Few class",
                "enlarge data.validation, or choose macro-f1");
  require_fit_images(run_.method, prepared);
  engine_ = make_engine(settings_.engine, *run_.federation, ranks);
  state_.global = run_.initial.clone();
}

Summary RoundLoop::run() {
  start();
  Progress progress(options_.label, settings_.train.rounds, state_.round, options_.quiet);
  try {
    while (state_.round < settings_.train.rounds && !out_of_patience()) {
      ranks_.collective([] { throw_if_interrupted(); });
      const RoundRecord record = train_round(state_.round + 1);
      ranks_.collective([&] { write(record); });
      if (checkpoints_.due(record.round)) save();
      progress.update(record.round, progress_detail(record));
    }
  } catch (const Interrupted&) {
    progress.finish();
    save();
    throw;
  }
  progress.finish();
  return finish();
}

void RoundLoop::start() {
  bool resumed = false;
  const auto restore = [&] {
    resumed = options_.resume && options_.directory.exists();
    recorder_.lock();
    recorder_.check_partition(run_.partition, resumed);
    if (resumed) checkpoints_.restore(config_, state_, owners_of(run_.partition, ranks_.size()));
    if (resumed && ranks_.first() && !options_.quiet) note(resumption_text());
    recorder_.start(config_, run_.prepared, run_.partition, state_.round, resumed);
  };
  // Only the first rank writes; the others read what it found.
  ranks_.collective([&] {
    if (ranks_.first()) restore();
  });
  ranks_.collective([&] {
    if (!ranks_.first()) restore();
  });
}

std::string RoundLoop::resumption_text() const {
  const std::string run = options_.directory.root.string();
  if (state_.round > 0) return fmt::format("resuming {} after round {}", run, state_.round);
  return fmt::format("{} has no checkpoint: restarting from round 1", run);
}

RoundRecord RoundLoop::train_round(int64_t round) {
  Stopwatch watch;
  checkpoints_.clients().discard();  // what an interrupted round left
  const auto& train = settings_.train;
  const bool last = round == train.rounds;
  const int64_t client_every = settings_.record.client_accuracy_every;
  const auto clients =
      choose_clients(static_cast<int64_t>(run_.partition.size()), train.participation, round, settings_.seed());
  const auto context = run_.begin_round(round, clients, state_.global, state_.server);
  Sums sums;
  const auto reports = engine_->train({.round = context,
                                       .method = run_.method,
                                       .clients = clients,
                                       .evaluate_clients = client_every > 0 && (round % client_every == 0 || last)},
                                      sums, checkpoints_.clients());
  const double train_seconds = watch.lap();
  // Interrupted before the end of this function, the run is as it was before the round.
  Checkpoint next{round, {}, {}};
  for (const auto& [name, tensor] : state_.server) next.server.emplace(name, tensor.clone());
  next.global = run_.method.aggregate(context, sums, next.server);
  check_agreement(next.global);
  const double aggregate_seconds = watch.lap();

  auto record = record_training(context, reports);
  if (round % settings_.eval.every == 0 || last) {
    fit_posthoc(*engine_, run_.method, run_.prepared, next.global, next.server);
    evaluate(record, run_.method.deploy(next.global, next.server));
  }
  record.phase_seconds = {{"train", train_seconds}, {"aggregate", aggregate_seconds}, {"evaluate", watch.lap()}};
  for (const auto& [phase, seconds] : record.phase_seconds) record.seconds += seconds;
  state_ = std::move(next);
  checkpoints_.clients().commit();
  return record;
}

RoundRecord RoundLoop::record_training(const RoundContext& context, const std::vector<ClientReport>& reports) const {
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
    record.personal = record.personal.value_or(0) + by_own_shares(report) / static_cast<double>(reports.size());
  }
  if (context.round == 1 && run_.method.needs().global_counts) {  // every client's counts up, their sum down, once
    const int64_t counts = run_.prepared.data.classes() * static_cast<int64_t>(sizeof(float) * run_.partition.size());
    record.bytes_up += counts;
    record.bytes_down += counts;
  }
  record.clients = static_cast<int64_t>(reports.size());
  record.loss = loss_sum / static_cast<double>(std::max<int64_t>(record.samples, 1));
  record.lr = learning_rate(settings_.train, context.round);
  record.epsilon = privacy_.epsilon(context.round);
  record_diagnostics(record, context, reports);
  return record;
}

double RoundLoop::by_own_shares(const ClientReport& report) const {
  const auto& own = run_.partition[static_cast<size_t>(report.client)];
  const auto counts = class_counts(run_.prepared.data.train.labels, own, run_.prepared.data.classes());
  double right = 0;
  for (size_t j = 0; j < counts.size(); ++j) right += static_cast<double>(counts[j]) * report.accuracy[j];
  return right / static_cast<double>(own.size());
}

void RoundLoop::record_diagnostics(RoundRecord& record, const RoundContext& context,
                                   const std::vector<ClientReport>& reports) const {
  int64_t every = settings_.record.diagnostics_every;
  if (every > 0 && run_.prepared.data.classes() > 1000) every = std::max<int64_t>(every, 10);
  if (every == 0 || record.round % every != 0) return;
  record.diagnostics = over_clients(reports);
  auto prior = run_.method.recorded_prior(context);
  if (!prior.defined() && settings_.record.prior) {
    const auto& head = context.global.model->heads.front().name;
    prior = prior_from_weights(context.global.view(head + ".weight"), PriorScale::share);
  }
  if (!prior.defined()) return;
  const auto truth = score_prior(prior, run_.prepared.counts, static_cast<int64_t>(run_.prepared.groups.few.size()));
  record.prior = PriorRecord{to_vector(prior), truth.l2, truth.tail_hit};
}

void RoundLoop::evaluate(RoundRecord& record, const State& model) {
  const auto& [data, samples, validation, counts, groups] = run_.prepared;
  const auto test =
      engine_->predict(model, data.test, samples_wanted() || measures_every_round(data.test, data.classes()));
  record.accuracy = score(test.classes, data.test.labels, groups, data.classes());
  record.accuracy->measures =
      measures_of(outputs_of(test, data.test, data.classes()), settings_.eval.specificity, workers());
  record.accuracy->measures.erase(Measure::macro_f1);  // it has a field of its own
  record.test_loss = test.loss();
  if (!std::isfinite(test.loss()) && ranks_.first())
    warn(fmt::format("round {}: predictions on the test images contain NaN", record.round));
  if (validation.count() > 0) {
    const auto held = engine_->predict(model, validation);
    record.validation = score(held.classes, validation.labels, groups, data.classes());
  }
  if (!recorder_.writes()) return;
  evaluation_ = {.round = record.round};
  if (data.classes() <= largest_confusion)
    evaluation_.confusion = confusion_matrix(test.classes, data.test.labels, data.classes());
  if (samples_wanted()) samples_ = choose_samples(test, data.test, settings_.record.samples);
}

/// The same on every rank, as they predict together.
bool RoundLoop::samples_wanted() const {
  const auto& data = run_.prepared.data;
  return settings_.record.samples > 0 && data.test.count() * data.classes() <= most_sampled_logits;
}

/// Every rank computes the server's step for itself. On other processors, or with another LibTorch, the bits could
/// differ without a sign.
void RoundLoop::check_agreement(const State& model) const {
  if (ranks_.size() == 1) return;
  const auto bits = model.flat.cpu().view(torch::kInt).to(torch::kLong).sum().item<int64_t>();
  const auto all = ranks_.all_gather(std::to_string(bits));
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end())
    throw Error(Fault::other, "mpirun", fmt::format("the ranks have different models after round {}", state_.round + 1),
                "run them on machines of one kind, with the same program");
}

void RoundLoop::write(const RoundRecord& record) {
  const bool shown = record.accuracy && (record.round % confusion_every == 0 || record.round == settings_.train.rounds);
  recorder_.append(record, shown ? evaluation_.confusion : std::vector<std::vector<int64_t>>());
  if (!record.validation) return;
  if (summarise(recorder_.records(), settings_.eval.criterion).best_round != record.round) return;
  const State model = deployed();
  recorder_.save_best(card(model), model);
}

bool RoundLoop::out_of_patience() const {
  const auto& records = recorder_.records();
  if (settings_.eval.patience == 0 || records.empty()) return false;
  const auto best = summarise(records, settings_.eval.criterion).best_round;
  const auto since =
      std::count_if(records.begin(), records.end(), [&](const RoundRecord& r) { return r.accuracy && r.round > best; });
  return since >= settings_.eval.patience;
}

void RoundLoop::save() {
  evaluation_.samples = sample_images(samples_, run_.prepared.data.test);
  ranks_.collective([&] {
    if (evaluation_.round > 0) recorder_.save_evaluation(evaluation_);
  });
  const State model = deployed();
  checkpoints_.save(state_, card(model), model);
}

std::string RoundLoop::progress_detail(const RoundRecord& record) const {
  std::string text;
  if (record.accuracy) {
    text = fmt::format("All {:.3f}", record.accuracy->all);
    if (record.accuracy->few) text += fmt::format(" Few {:.3f}", *record.accuracy->few);
    text += " · ";
  }
  if (record.epsilon) text += std::isinf(*record.epsilon) ? "ε ∞ · " : fmt::format("ε {:.3g} · ", *record.epsilon);
  const double seconds = std::max(record.phase_seconds.at("train"), 1e-9);
  return text + fmt::format("loss {:.3f} · {:.0f} steps/s", record.loss, static_cast<double>(record.steps) / seconds);
}

Summary RoundLoop::finish() {
  save();
  const auto& data = run_.prepared.data;
  const State model = deployed();
  Summary summary = summarise(recorder_.records(), settings_.eval.criterion);
  summary.groups = run_.prepared.groups;
  summary.class_names = data.class_names;
  summary.class_counts = run_.prepared.counts;
  const auto kind = std::get<std::string>(config_.get("posthoc.kind"));
  summary.posthoc = posthoc_record(kind, run_.method, run_.prepared, state_.server);
  summary.privacy = privacy_.record(state_.round);
  const auto test = engine_->predict(model, data.test, measures_probabilities(data.test, data.classes()));
  if (data.classes() <= largest_confusion)
    summary.confusion = confusion_matrix(test.classes, data.test.labels, data.classes());
  summary.last_measures = measure_on_test(test);
  if (summary.best_by_validation)
    summary.best_measures = summary.best_round == summary.rounds ? summary.last_measures : measure_best();
  summary.peak_memory_bytes = peak_memory();
  ranks_.collective([&] { recorder_.finish(card(model), model, summary); });
  if (const auto warning = majority_warning(summary.last, data, settings_); !warning.empty() && ranks_.first())
    warn(warning);
  return summary;
}

MeasureReport RoundLoop::measure_on_test(const Predictions& test) const {
  const auto& data = run_.prepared.data;
  return measures_with_intervals(
      outputs_of(test, data.test, data.classes()), settings_.eval.specificity,
      {.resamples = settings_.eval.resamples, .seed = settings_.seed(), .workers = workers()});
}

std::optional<MeasureReport> RoundLoop::measure_best() {
  const auto& data = run_.prepared.data;
  const auto file = options_.directory.root / "best.safetensors";
  // Removed by hand, or not on a file system of every rank: all of them predict, or none.
  const auto there = ranks_.all_gather(std::filesystem::exists(file) ? "yes" : "no");
  if (std::find(there.begin(), there.end(), "no") != there.end()) return std::nullopt;
  engine_.reset();  // the memory of the device is for one
  LoadedModel best;
  const Partition nobody;
  std::optional<Federation> federation;
  std::unique_ptr<Engine> engine;  // of the deployed model, which lacks the heads that training alone uses
  ranks_.collective([&] {
    best = load_model(file);
    federation.emplace(Federation{data, nobody, best.state.model, settings_.train});
    engine = make_engine(settings_.engine, *federation, ranks_);
  });
  return measure_on_test(engine->predict(best.state, data.test, measures_probabilities(data.test, data.classes())));
}

}  // namespace

int64_t clients_per_round(int64_t clients, double participation) {
  return std::clamp<int64_t>(std::llround(participation * static_cast<double>(clients)), 1, clients);
}

std::vector<int64_t> choose_clients(int64_t clients, double participation, int64_t round, uint64_t seed) {
  const int64_t wanted = clients_per_round(clients, participation);
  auto order = permutation_start(clients, wanted, Random(seed, Purpose::cohort, 0, static_cast<uint32_t>(round)));
  std::sort(order.begin(), order.end());
  return order;
}

RunDirectory new_run_directory(const std::string& wanted, const Settings& settings) {
  if (!wanted.empty()) {
    RunDirectory directory{wanted};
    if (directory.exists() && directory.checkpoint_rounds().empty() && directory.read_metrics().empty())
      throw Error(Fault::usage, wanted, "holds a run that has not finished a round",
                  "continue it unchanged with --resume, remove it to start over, or choose another --out");
    if (directory.exists())
      throw Error(Fault::usage, wanted, "holds a run already", "continue it with --resume, or choose another --out");
    return directory;
  }
  const std::string base = fmt::format("runs/{}-{}-seed{}", settings.method, settings.data.name, settings.train.seed);
  RunDirectory directory{base};
  for (int copy = 2; directory.exists(); ++copy) directory.root = fmt::format("{}-{}", base, copy);
  return directory;
}

Summary run_experiment(const Config& config, const RunOptions& options, Communicator& ranks) {
  std::unique_ptr<RoundLoop> loop;
  ranks.collective([&] { loop = std::make_unique<RoundLoop>(config, options, ranks); });
  return loop->run();
}

Summary run_experiment(const Config& config, const RunOptions& options) {
  Communicator alone;
  return run_experiment(config, options, alone);
}

}  // namespace fedgrab
