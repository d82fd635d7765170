#include "fedgrab/experiment/round_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "checkpoint_store.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/federation_run.h"
#include "fedgrab/experiment/majority_baseline.h"
#include "fedgrab/experiment/participation.h"
#include "fedgrab/experiment/posthoc_fit.h"
#include "final_report.h"
#include "run_evaluation.h"
#include "run_privacy.h"
#include "run_recorder.h"
#include "training_record.h"

namespace fedgrab {
namespace {

constexpr int64_t confusion_every = 10;  // TensorBoard itself keeps ten images

bool holds_any(const Split& split, const std::vector<int64_t>& classes) {
  return std::any_of(split.labels.begin(), split.labels.end(),
                     [&](int32_t label) { return std::find(classes.begin(), classes.end(), label) != classes.end(); });
}

/// The validation images must exist.
void require_judged_images(const EvalParams& eval, const Preparation& prepared) {
  const bool held_out = prepared.validation.count() > 0;
  if (eval.patience > 0 && !held_out)
    throw Error(Fault::usage, "eval.patience", "needs a validation split to watch", "set data.validation, 0.1 say");
  const Split& judged = held_out ? prepared.validation : prepared.data.test;
  if (eval.criterion == Criterion::few && !holds_any(judged, prepared.groups.few))
    throw Error(Fault::usage, "eval.criterion", "the images that choose the best round have none of a Few class",
                "enlarge data.validation, or choose macro-f1");
}

std::string progress_detail(const RoundRecord& record) {
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

/// One run in progress. Everything it needs to continue after a crash is in the checkpoint and in metrics.jsonl.
class RoundLoop {
 public:
  RoundLoop(const Config& config, const RunOptions& options, Communicator& ranks);
  Summary run();

 private:
  void start();
  std::string resumption_text() const;
  RoundRecord run_round(int64_t round);
  bool last(int64_t round) const { return round == settings_.train.rounds; }
  std::vector<ClientReport> train(const RoundContext& context, Sums& sums);
  Checkpoint aggregate(const RoundContext& context, const Sums& sums) const;
  void check_agreement(const State& model) const;
  void evaluate(Checkpoint& next, RoundRecord& record);
  void write(const RoundRecord& record);
  bool out_of_patience() const;
  void save();
  Summary finish();
  State deployed() const { return run_.method.deploy(state_.global, state_.server); }
  ModelCard card(const State& model) const { return card_of(config_, run_.prepared.data, *model.model, state_.round); }

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
  RunEvaluation evaluation_;
};

RoundLoop::RoundLoop(const Config& config, const RunOptions& options, Communicator& ranks)
    : config_(with_absolute_paths(config)),
      options_(options),
      ranks_(ranks),
      run_(config_),
      settings_(run_.settings),
      privacy_(config_, static_cast<int64_t>(run_.partition.size())),
      recorder_(options.directory, ranks.first()),
      checkpoints_(options.directory, ranks, settings_.checkpoint, settings_.engine),
      evaluation_(run_, recorder_.writes()) {
  require_judged_images(settings_.eval, run_.prepared);
  require_fit_images(run_.method, run_.prepared);
  engine_ = make_engine(settings_.engine, *run_.federation, ranks);
  state_.global = run_.initial.clone();
}

Summary RoundLoop::run() {
  start();
  Progress progress(options_.label, settings_.train.rounds, state_.round, options_.quiet);
  try {
    while (state_.round < settings_.train.rounds && !out_of_patience()) {
      ranks_.collective([] { throw_if_interrupted(); });
      const RoundRecord record = run_round(state_.round + 1);
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

/// Interrupted before its end, the run is as it was before the round.
RoundRecord RoundLoop::run_round(int64_t round) {
  Stopwatch watch;
  const auto clients = choose_clients(static_cast<int64_t>(run_.partition.size()), settings_.train.participation, round,
                                      settings_.seed());
  const auto context = run_.begin_round(round, clients, state_.global, state_.server);
  Sums sums;
  const auto reports = train(context, sums);
  const double train_seconds = watch.lap();

  Checkpoint next = aggregate(context, sums);
  const double aggregate_seconds = watch.lap();

  auto record = record_of_training(run_, context, reports);
  record.epsilon = privacy_.epsilon(round);
  if (round % settings_.eval.every == 0 || last(round)) evaluate(next, record);
  record.phase_seconds = {{"train", train_seconds}, {"aggregate", aggregate_seconds}, {"evaluate", watch.lap()}};
  for (const auto& [phase, seconds] : record.phase_seconds) record.seconds += seconds;

  state_ = std::move(next);
  checkpoints_.clients().commit();
  return record;
}

std::vector<ClientReport> RoundLoop::train(const RoundContext& context, Sums& sums) {
  checkpoints_.clients().discard();  // what an interrupted round left
  const int64_t every = settings_.record.client_accuracy_every;
  return engine_->train({.round = context,
                         .method = run_.method,
                         .clients = context.cohort,
                         .evaluate_clients = every > 0 && (context.round % every == 0 || last(context.round))},
                        sums, checkpoints_.clients());
}

Checkpoint RoundLoop::aggregate(const RoundContext& context, const Sums& sums) const {
  Checkpoint next{context.round, {}, {}};
  for (const auto& [name, tensor] : state_.server) next.server.emplace(name, tensor.clone());
  next.global = run_.method.aggregate(context, sums, next.server);
  check_agreement(next.global);
  return next;
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

void RoundLoop::evaluate(Checkpoint& next, RoundRecord& record) {
  fit_posthoc(*engine_, run_.method, run_.prepared, next.global, next.server);
  evaluation_.evaluate(*engine_, run_.method.deploy(next.global, next.server), record);
  if (!std::isfinite(*record.test_loss) && ranks_.first())
    warn(fmt::format("round {}: predictions on the test images contain NaN", record.round));
}

void RoundLoop::write(const RoundRecord& record) {
  const bool shown = record.accuracy && (record.round % confusion_every == 0 || last(record.round));
  recorder_.append(record, shown ? evaluation_.confusion() : std::vector<std::vector<int64_t>>());
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
  const auto evaluation = evaluation_.last();
  ranks_.collective([&] {
    if (evaluation.round > 0) recorder_.save_evaluation(evaluation);
  });
  const State model = deployed();
  checkpoints_.save(state_, card(model), model);
}

Summary RoundLoop::finish() {
  save();
  const State model = deployed();
  Summary summary = final_report({.run = run_,
                                  .config = config_,
                                  .ranks = ranks_,
                                  .evaluation = evaluation_,
                                  .records = recorder_.records(),
                                  .deployed = model,
                                  .server = state_.server,
                                  .best = options_.directory.best()},
                                 std::move(engine_));
  summary.privacy = privacy_.record(state_.round);
  ranks_.collective([&] { recorder_.finish(card(model), model, summary); });
  if (const auto warning = majority_warning(summary.last, run_.prepared.data, settings_);
      !warning.empty() && ranks_.first())
    warn(warning);
  return summary;
}

}  // namespace

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
