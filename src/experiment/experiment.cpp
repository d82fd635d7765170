#include "fedgrab/experiment/experiment.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/interrupt.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/core/random.h"
#include "fedgrab/core/ranks.h"
#include "fedgrab/core/stopwatch.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/evaluation.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/experiment/summary.h"
#include "fedgrab/model/safetensors.h"
#include "fedgrab/prior/prior.h"
#include "fedgrab/record/tensorboard.h"
#include "run_events.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr int64_t largest_confusion = 200;
constexpr int64_t confusion_every = 10;  // TensorBoard itself keeps ten images

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

std::map<std::string, Value> values_of(const Config& config) {
  std::map<std::string, Value> values;
  for (const auto& parameter : config.schema().all()) values[parameter.key] = config.get(parameter.key);
  return values;
}

/// One run in progress. Everything it needs to go on after a crash is in the checkpoint and in metrics.jsonl.
class Experiment {
 public:
  Experiment(const Config& config, const RunOptions& options);
  Summary run();

 private:
  void start_files();
  /// Only the first rank writes; the others read what it found.
  void start_own_files();
  void follow_files();
  void restore();
  RoundRecord train_round(int64_t round);
  /// The same; interrupted, it leaves everything as it was before the round.
  RoundRecord train_or_take_back(int64_t round);
  void evaluate(RoundRecord& record);
  /// A client's accuracy on a test set that looks like its own data.
  double by_own_shares(const ClientReport& report) const;
  void record_diagnostics(RoundRecord& record, const std::vector<ClientReport>& reports, const torch::Tensor& prior);
  void write(const RoundRecord& record);
  void save();
  /// What the clients of the other ranks keep comes to the first one through files in the run directory.
  void hand_in_clients() const;
  void take_in_clients();
  void check_agreement() const;
  bool out_of_patience() const;
  void save_best(const RoundRecord& record);
  Summary finish();
  State deployed() const { return method_->deployed(state_.global, state_.server); }
  ModelCard card(const State& deployed) const {
    return card_of(config_, prepared_.data, *deployed.model, state_.round);
  }
  Population population() const;
  std::string progress_detail(const RoundRecord& record) const;

  Config config_;
  RunOptions options_;
  Settings settings_;
  std::unique_ptr<Method> method_;
  Preparation prepared_;
  Partition partition_;
  std::unique_ptr<Federation> federation_;
  std::unique_ptr<Engine> engine_;
  Checkpoint state_;
  int64_t saved_round_ = -1;
  std::unique_ptr<LineLog> metrics_;  // also the lock on the directory: outlives the clients' files
  ClientStore clients_;
  std::vector<RoundRecord> records_;
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  std::vector<std::vector<int64_t>> confusion_;  // of the round just evaluated, where it is to be shown
};

Experiment::Experiment(const Config& config, const RunOptions& options)
    : config_(with_absolute_paths(config)),
      options_(options),
      settings_(read_settings(config)),
      clients_(options.directory.root / (ranks().first() ? "clients" : fmt::format("clients-{}", ranks().rank())),
               static_cast<int64_t>(settings_.engine.client_memory * 0x1.0p30)) {
  if (settings_.eval.patience > 0 && settings_.data.validation <= 0)
    throw Error(Fault::usage, "eval.patience", "needs a validation split to watch", "set data.validation, 0.1 say");
  method_ = find_method(settings_.method).make(config_);
  prepared_ = prepare(settings_);
  const Split& judged = prepared_.validation.count() > 0 ? prepared_.validation : prepared_.data.test;
  if (settings_.eval.criterion == "few" && !holds_any(judged, prepared_.groups.few))
    throw Error(Fault::usage, "eval.criterion", "the images that choose the best round have none of a Few class",
                "enlarge data.validation, or choose macro-f1");
  partition_ = partition_samples(settings_, prepared_, method_->centralised());
  auto model = make_model(make_architecture(settings_.model.name, prepared_.data.shape()), method_->heads(),
                          prepared_.data.classes());
  federation_ = std::make_unique<Federation>(Federation{prepared_.data, partition_, model, settings_.train});
  engine_ = make_engine(settings_.engine, *federation_);
  state_.global = initial_state(model, settings_.seed());
  method_->initialise(state_.global, settings_.seed());
  if (method_->wants_counts()) method_->learn_counts(prepared_.counts);
  if (!settings_.model.init.empty()) initialise_from_file(state_.global, settings_.model.init);
}

void Experiment::start_files() {
  ranks().together([&] {
    if (ranks().first()) start_own_files();
  });
  ranks().together([&] {
    if (!ranks().first()) follow_files();
  });
}

void Experiment::follow_files() {
  if (options_.resume) restore();
  // The others' clients go on elsewhere: what they kept here would be handed in as theirs, and be old.
  const auto owners = owners_of(partition_, ranks().count());
  clients_.keep_only([&](int64_t client) { return owners[static_cast<size_t>(client)] == ranks().rank(); });
  records_ = options_.directory.read_metrics();
}

void Experiment::start_own_files() {
  const auto& directory = options_.directory;
  make_folder(directory.root);
  metrics_ = std::make_unique<LineLog>(directory.metrics());  // first: nothing of another process's run is touched
  const bool known = options_.resume && directory.exists();
  if (known && fs::exists(directory.partition())) {
    if (load_partition(directory.partition()) != partition_)
      throw Error(Fault::data, directory.partition().string(), "does not fit the data any more",
                  "was the data set changed since the run began?");
  } else {
    save_partition(directory.partition(), partition_);
  }
  if (known) restore();
  metrics_->keep(state_.round);
  records_ = directory.read_metrics();
  if (static_cast<int64_t>(records_.size()) != state_.round)
    throw Error(Fault::checkpoint, directory.metrics().string(),
                fmt::format("holds {} rounds, the checkpoint is of round {}", records_.size(), state_.round),
                "remove the checkpoints to start over");
  // Only now: a run that cannot be resumed stays as it was.
  write_atomically(directory.classes(), to_json(population()).dump() + "\n");
  write_atomically(directory.config(), config_.to_toml());
  fs::remove(directory.summary());
  if (settings_.record.tensorboard)
    tensorboard_ =
        std::make_unique<TensorBoardWriter>(directory.root, known ? std::optional(state_.round + 1) : std::nullopt);
  if (tensorboard_ && !known) tensorboard_->add_hyper_parameters(values_of(config_));
}

void Experiment::restore() {
  const auto rounds = options_.directory.checkpoint_rounds();
  if (rounds.empty()) return;
  ModelCard card;
  try {
    card = load_checkpoint(options_.directory.checkpoint(rounds.back()), state_, clients_);
  } catch (const Error& error) {
    // Going back by ourselves would cut the record of the rounds between: that is the user's to decide.
    if (rounds.size() == 1) throw;
    throw Error(error.fault(), "--resume", error.what(),
                fmt::format("remove that file to continue from round {}", rounds[rounds.size() - 2]));
  }
  check_resumed_settings(config_, card, options_.directory.checkpoint(rounds.back()));
  saved_round_ = state_.round;
  if (!options_.quiet) note(fmt::format("resuming {} after round {}", options_.directory.root.string(), state_.round));
}

Population Experiment::population() const {
  Population population{prepared_.data.class_names, prepared_.counts, prepared_.groups};
  for (const auto& samples : partition_) {
    auto& counts = population.clients.emplace_back();
    for (const int64_t sample : samples) ++counts[prepared_.data.train.labels[static_cast<size_t>(sample)]];
  }
  return population;
}

void Experiment::save() {
  if (saved_round_ == state_.round) return;
  ranks().together([&] { hand_in_clients(); });
  ranks().together([&] {
    if (!ranks().first()) return;
    take_in_clients();
    const State model = deployed();
    save_checkpoint(options_.directory, card(model), state_, model, clients_, settings_.checkpoint.keep);
  });
  saved_round_ = state_.round;
}

void Experiment::hand_in_clients() const {
  if (ranks().first()) return;
  const fs::path file = options_.directory.of_rank(ranks().rank());
  save_safetensors(file, {clients_.in_memory(), {}});
  clients_.link_files(RunDirectory::clients_of(file));
}

void Experiment::take_in_clients() {
  for (int rank = 1; rank < ranks().count(); ++rank) {
    const fs::path file = options_.directory.of_rank(rank);
    clients_.take_in(load_safetensors(file).tensors, RunDirectory::clients_of(file));
    fs::remove(file);
    fs::remove_all(RunDirectory::clients_of(file));
  }
}

/// Every rank applies the server's rule for itself. On other processors, or with another LibTorch, the bits could part
/// without a sign.
void Experiment::check_agreement() const {
  if (ranks().count() == 1) return;
  const auto bits = state_.global.flat.cpu().view(torch::kInt).to(torch::kLong).sum().item<int64_t>();
  const auto all = ranks().exchange(std::to_string(bits));
  if (std::adjacent_find(all.begin(), all.end(), std::not_equal_to<>()) != all.end())
    throw Error(Fault::other, "mpirun", fmt::format("the ranks have different models after round {}", state_.round),
                "run them on machines of one kind, with the same program");
}

RoundRecord Experiment::train_or_take_back(int64_t round) {
  Checkpoint before{state_.round, state_.global.clone(), {}};
  for (const auto& [name, tensor] : state_.server) before.server.emplace(name, tensor.clone());
  try {
    auto record = train_round(round);
    clients_.commit();
    return record;
  } catch (const Interrupted&) {
    // Training may be done and the evaluation half-way: what is saved must be the last round on record.
    state_ = before;
    clients_.discard();
    throw;
  }
}

RoundRecord Experiment::train_round(int64_t round) {
  Stopwatch watch;
  RoundRecord record{.round = round};
  const auto clients =
      choose_clients(static_cast<int64_t>(partition_.size()), settings_.train.participation, round, settings_.seed());
  std::vector<int64_t> sizes;
  sizes.reserve(clients.size());
  for (const int64_t client : clients)
    sizes.push_back(static_cast<int64_t>(partition_[static_cast<size_t>(client)].size()));
  method_->begin_round(round, settings_.seed(), clients, sizes);
  auto prior = method_->shared_prior(state_.global, round);
  if (!prior.defined() && settings_.record.prior)
    prior = prior_from_weights(state_.global.view(state_.global.model->heads.front().name + ".weight"), "share");
  const int64_t client_every = settings_.record.client_accuracy_every;
  const bool last = round == settings_.train.rounds;
  Sums sums;
  const auto reports = engine_->train({.round = round,
                                       .clients = clients,
                                       .global = state_.global,
                                       .method = *method_,
                                       .server = state_.server,
                                       .evaluate_clients = client_every > 0 && (round % client_every == 0 || last)},
                                      sums, clients_);
  record.phase_seconds["train"] = watch.lap();
  method_->server_rule(state_.global, sums, round, state_.server);
  state_.round = round;
  check_agreement();
  record.phase_seconds["aggregate"] = watch.lap();

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
  if (round == 1 && method_->wants_counts()) {  // every client's counts up, their sum down, once
    const int64_t counts = prepared_.data.classes() * static_cast<int64_t>(sizeof(float) * partition_.size());
    record.bytes_up += counts;
    record.bytes_down += counts;
  }
  record.clients = static_cast<int64_t>(reports.size());
  record.loss = loss_sum / static_cast<double>(std::max<int64_t>(record.samples, 1));
  record.lr = learning_rate(settings_.train, round);
  record_diagnostics(record, reports, prior);
  if (round % settings_.eval.every == 0 || last) evaluate(record);
  record.phase_seconds["evaluate"] = watch.lap();
  for (const auto& [phase, seconds] : record.phase_seconds) record.seconds += seconds;
  return record;
}

double Experiment::by_own_shares(const ClientReport& report) const {
  const auto& own = partition_[static_cast<size_t>(report.client)];
  const auto counts = class_counts(prepared_.data.train.labels, own, prepared_.data.classes());
  double right = 0;
  for (size_t j = 0; j < counts.size(); ++j) right += static_cast<double>(counts[j]) * report.accuracy[j];
  return right / static_cast<double>(own.size());
}

void Experiment::record_diagnostics(RoundRecord& record, const std::vector<ClientReport>& reports,
                                    const torch::Tensor& prior) {
  int64_t every = settings_.record.diagnostics_every;
  if (every > 0 && prepared_.data.classes() > 1000) every = std::max<int64_t>(every, 10);
  if (every == 0 || record.round % every != 0) return;
  record.diagnostics = over_clients(reports);
  if (!prior.defined()) return;
  const auto values = prior.to(torch::kDouble).cpu().contiguous();
  const auto truth = score_prior(prior, prepared_.counts, static_cast<int64_t>(prepared_.groups.few.size()));
  record.prior =
      PriorRecord{{values.data_ptr<double>(), values.data_ptr<double>() + values.numel()}, truth.l2, truth.tail_hit};
}

void Experiment::evaluate(RoundRecord& record) {
  const auto& data = prepared_.data;
  const State model = deployed();
  const auto test = engine_->predict(model, data.test);
  record.accuracy = score(test.classes, data.test.labels, prepared_.groups, data.classes());
  record.test_loss = test.loss();
  if (!std::isfinite(test.loss()) && ranks().first())
    warn(fmt::format("round {}: the model answers the test images with what is not a number", record.round));
  const bool shown = record.round % confusion_every == 0 || record.round == settings_.train.rounds;
  confusion_.clear();
  if (tensorboard_ && shown && data.classes() <= largest_confusion)
    confusion_ = confusion_matrix(test.classes, data.test.labels, data.classes());
  if (prepared_.validation.count() == 0) return;
  const auto held = engine_->predict(model, prepared_.validation);
  record.validation = score(held.classes, prepared_.validation.labels, prepared_.groups, data.classes());
}

void Experiment::write(const RoundRecord& record) {
  if (metrics_) metrics_->append(to_json(record).dump());
  records_.push_back(record);
  if (tensorboard_) write_events(*tensorboard_, record, prepared_.data.class_names, confusion_);
}

void Experiment::save_best(const RoundRecord& record) {
  if (!record.validation || !ranks().first()) return;
  if (summarise(records_, settings_.eval.criterion).best_round != record.round) return;
  const State model = deployed();
  save_model(options_.directory.root / "best.safetensors", card(model), model);
}

bool Experiment::out_of_patience() const {
  if (settings_.eval.patience == 0 || records_.empty()) return false;
  const auto best = summarise(records_, settings_.eval.criterion).best_round;
  const auto since = std::count_if(records_.begin(), records_.end(),
                                   [&](const RoundRecord& r) { return r.accuracy && r.round > best; });
  return since >= settings_.eval.patience;
}

std::string Experiment::progress_detail(const RoundRecord& record) const {
  std::string text;
  if (record.accuracy) {
    text = fmt::format("All {:.3f}", record.accuracy->all);
    if (record.accuracy->few) text += fmt::format(" Few {:.3f}", *record.accuracy->few);
    text += " · ";
  }
  const double seconds = std::max(record.phase_seconds.at("train"), 1e-9);
  return text + fmt::format("loss {:.3f} · {:.0f} steps/s", record.loss, static_cast<double>(record.steps) / seconds);
}

Summary Experiment::finish() {
  save();
  const auto& data = prepared_.data;
  const State model = deployed();
  ranks().together([&] {
    if (ranks().first()) save_model(options_.directory.model(), card(model), model);
  });
  Summary summary = summarise(records_, settings_.eval.criterion);
  summary.groups = prepared_.groups;
  summary.class_names = data.class_names;
  summary.class_counts = prepared_.counts;
  if (data.classes() <= largest_confusion)
    summary.confusion = confusion_matrix(engine_->predict(model, data.test).classes, data.test.labels, data.classes());
  summary.peak_memory_bytes = peak_memory();
  ranks().together([&] {
    if (ranks().first()) write_atomically(options_.directory.summary(), to_json(summary).dump(1) + "\n");
  });
  return summary;
}

Summary Experiment::run() {
  start_files();
  Progress progress(options_.label, settings_.train.rounds, state_.round, options_.quiet);
  try {
    while (state_.round < settings_.train.rounds && !out_of_patience()) {
      ranks().together([] { throw_if_interrupted(); });
      const RoundRecord record = train_or_take_back(state_.round + 1);
      ranks().together([&] {
        write(record);
        save_best(record);
      });
      const int64_t every = settings_.checkpoint.every;
      if (every > 0 && record.round % every == 0) save();
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

}  // namespace

std::vector<int64_t> choose_clients(int64_t clients, double participation, int64_t round, uint64_t seed) {
  const auto wanted = std::clamp<int64_t>(std::llround(participation * static_cast<double>(clients)), 1, clients);
  auto order = permutation(clients, Random(seed, Purpose::cohort, 0, static_cast<uint32_t>(round)));
  order.resize(static_cast<size_t>(wanted));
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

Summary run_experiment(const Config& config, const RunOptions& options) {
  std::unique_ptr<Experiment> experiment;
  ranks().together([&] { experiment = std::make_unique<Experiment>(config, options); });
  return experiment->run();
}

}  // namespace fedgrab
