#include "fedgrab/report/report_data.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "fedgrab/record/sustained.h"
#include "fedgrab/report/experiments.h"
#include "numbers.h"
#include "thinning.h"

namespace fedgrab {
namespace {

constexpr size_t most_points = 500;           // of a curve: more than a screen has pixels to tell apart
constexpr size_t most_class_points = 40'000;  // rounds × classes × runs of each curve per class
constexpr size_t most_lines = 100;            // of the client × class table

/// No chart shows more digits than four, and each costs bytes.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::stod(fmt::format("{:.4g}", value));
}
Json rounded(const std::optional<double>& value) { return value ? rounded(*value) : Json(nullptr); }
Json rounded(const std::vector<double>& values) {
  Json json = Json::array();
  for (const double value : values) json.push_back(rounded(value));
  return json;
}

/// Every number in it.
Json rounded(const Json& json) {
  if (json.is_number_float()) return rounded(json.get<double>());
  if (!json.is_structured()) return json;
  Json copy = json;
  for (auto& value : copy) value = rounded(Json(value));
  return copy;
}

/// Those that have no field of their own in a record.
const std::vector<Measure>& further_measures() {
  static const std::vector measures{Measure::balanced_accuracy, Measure::auroc, Measure::sensitivity, Measure::ece};
  return measures;
}

using Records = std::vector<const RoundRecord*>;

Records records_with(const Run& run, const std::function<bool(const RoundRecord&)>& has) {
  Records found;
  for (const auto& record : run.records)
    if (has(record)) found.push_back(&record);
  return found;
}

Json rounds_of(const Records& records, const Thinning& thinning) {
  Json rounds = Json::array();
  for (const size_t i : thinning.kept) rounds.push_back(records[i]->round);
  return {{"round", rounds}, {"every", thinning.every}};
}

template <class Pick>
Json column(const Records& records, const Thinning& thinning, Pick pick) {
  Json values = Json::array();
  for (const size_t i : thinning.kept) values.push_back(rounded(pick(*records[i])));
  return values;
}

const std::vector<std::pair<const char*, Number>>& group_numbers() {
  static const std::vector<std::pair<const char*, Number>> numbers{
      {"all", of_accuracy([](const Accuracy& a) { return std::optional(a.all); })},
      {"many", of_accuracy([](const Accuracy& a) { return a.many; })},
      {"med", of_accuracy([](const Accuracy& a) { return a.med; })},
      {"few", of_accuracy([](const Accuracy& a) { return a.few; })}};
  return numbers;
}

Json curves(const Run& run) {
  const Records records = records_with(run, [](const RoundRecord&) { return true; });
  const Thinning thinning = thin(records.size(), most_points);
  Json json = rounds_of(records, thinning);
  auto numbers = group_numbers();
  numbers.emplace_back("macro_f1", of_accuracy([](const Accuracy& a) { return std::optional(a.f1); }));
  for (const Measure measure : further_measures())
    numbers.emplace_back(enum_names<Measure>.at(static_cast<size_t>(measure)).data(),
                         of_accuracy([measure](const Accuracy& a) { return value_of(a, measure); }));
  numbers.emplace_back("loss", [](const RoundRecord& r) { return std::optional(r.loss); });
  numbers.emplace_back("test_loss", [](const RoundRecord& r) { return r.test_loss; });
  for (const auto& entry : numbers) {  // no structured binding: clang 14 lets no lambda capture one
    const auto& number = entry.second;
    if (std::any_of(records.begin(), records.end(), [&](const auto* r) { return number(*r).has_value(); }))
      json[entry.first] = column(records, thinning, number);
  }
  return json;
}

/// Each round from which on two evaluations in a row were better than any two before: from these the page finds the
/// first to reach any target.
Json new_bests(const Run& run) {
  Json json = Json::object();
  for (const auto& [name, number] : group_numbers()) {
    std::vector<int64_t> rounds;
    std::vector<double> values;
    for (const auto& record : run.records)
      if (const auto value = number(record)) {
        rounds.push_back(record.round);
        values.push_back(*value);
      }
    const auto lasting = sustained(values);
    double best = -1;
    for (size_t i = 0; i < lasting.size(); ++i)
      if (lasting[i] > best) {
        best = lasting[i];
        json[name].push_back({rounds[i], best});
      }
  }
  return json;
}

Json per_class(const Records& records, size_t points) {
  const Thinning thinning = thin(records.size(), points);
  Json json = rounds_of(records, thinning);
  json["accuracy"] = column(records, thinning, [](const RoundRecord& r) { return r.accuracy->per_class; });
  return json;
}

Json diagnostics(const Records& records, size_t points) {
  const Thinning thinning = thin(records.size(), points);
  Json json = rounds_of(records, thinning);
  for (const auto& [name, first] : records.front()->diagnostics) {
    const auto of = [&name = name](const RoundRecord& r) { return r.diagnostics.at(name); };
    json[name]["mean"] = column(records, thinning, [&](const RoundRecord& r) { return of(r).mean; });
    if (!first.std.empty())
      json[name]["std"] = column(records, thinning, [&](const RoundRecord& r) { return of(r).std; });
  }
  return json;
}

Json prior(const Records& records) {
  const Thinning thinning = thin(records.size(), most_points);
  Json json = rounds_of(records, thinning);
  json["p"] = rounded(records.back()->prior->p);
  json["l2"] = column(records, thinning, [](const RoundRecord& r) { return r.prior->l2; });
  json["tail_hit"] = column(records, thinning, [](const RoundRecord& r) { return r.prior->tail_hit; });
  return json;
}

Json classes(const Population& population) {
  std::vector<const char*> group(population.class_names.size(), "many");
  for (const int64_t c : population.groups.med) group.at(static_cast<size_t>(c)) = "med";
  for (const int64_t c : population.groups.few) group.at(static_cast<size_t>(c)) = "few";
  Json json{{"names", population.class_names}, {"counts", population.class_counts}, {"group", group}};
  if (population.groups.thirds) json["thirds"] = true;
  return json;
}

/// Neighbouring clients and classes are summed where there are too many.
Json clients(const Population& population) {
  const auto step = [](size_t count) { return std::max<size_t>(1, (count + most_lines - 1) / most_lines); };
  const auto groups = [&](size_t count) { return (count + step(count) - 1) / step(count); };
  const size_t client_count = population.clients.size(), class_count = population.class_names.size();
  std::vector<std::vector<int64_t>> counts(groups(client_count), std::vector<int64_t>(groups(class_count)));
  for (size_t k = 0; k < client_count; ++k)
    for (const auto& [label, count] : population.clients[k])
      counts[k / step(client_count)].at(static_cast<size_t>(label) / step(class_count)) += count;
  return {{"counts", counts}, {"client_step", step(client_count)}, {"class_step", step(class_count)}};
}

Json cost(const Run& run) {
  double seconds = 0;
  int64_t up = 0, down = 0;
  std::map<std::string, double> phases;
  for (const auto& record : run.records) {
    seconds += record.seconds;
    up += record.bytes_up;
    down += record.bytes_down;
    for (const auto& [phase, took] : record.phase_seconds) phases[phase] += took;
  }
  Json json{{"seconds", rounded(seconds)}, {"bytes_up", up}, {"bytes_down", down}, {"phases", Json::object()}};
  for (const auto& [phase, took] : phases) json["phases"][phase] = rounded(took);
  if (run.peak_memory_bytes) json["memory"] = *run.peak_memory_bytes;
  return json;
}

/// To the last digit: rounded twice, they would differ from the table's.
Json scores(const Accuracy& a) {
  const auto whole = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  Json json{{"all", a.all}, {"many", whole(a.many)}, {"med", whole(a.med)}, {"few", whole(a.few)}, {"f1", a.f1}};
  for (const Measure measure : further_measures())
    if (const auto value = value_of(a, measure)) json[name_of(measure)] = *value;
  return json;
}

Json samples(const LastEvaluation& evaluation) {
  Json images = Json::array();
  for (const auto& [truth, answer, confidence, png] : evaluation.samples)
    images.push_back({{"truth", truth}, {"answer", answer}, {"confidence", rounded(confidence)}, {"png", png}});
  return {{"round", evaluation.round}, {"images", images}};
}

const char* name_of(RunState state) {
  switch (state) {
    case RunState::waiting: return "waiting";
    case RunState::running: return "running";
    case RunState::stopped: return "stopped";
    case RunState::finished: return "finished";
  }
  return "";
}

Json run_data(const Run& run, size_t points) {
  Json json{{"name", run.name}, {"state", name_of(run.state)}, {"rounds", run.rounds}};
  json["done"] = run.records.empty() ? 0 : run.records.back().round;
  if (const auto left = run.seconds_left()) json["seconds_left"] = std::round(*left);
  json["config"] = Json::object();
  for (const auto& [key, value] : run.config) json["config"][key] = shown_value(key, value);
  if (run.population) json["classes"] = classes(*run.population);
  if (run.population && !run.population->clients.empty()) json["clients"] = clients(*run.population);
  const auto& evaluation = run.evaluation;
  if (!evaluation.confusion.empty())
    json["confusion"] = {{"round", evaluation.round}, {"counts", evaluation.confusion}};
  if (!evaluation.samples.empty()) json["samples"] = samples(evaluation);
  if (!run.measures.empty()) json["measures"] = rounded(run.measures);
  if (run.records.empty()) return json;
  json["curves"] = curves(run);
  json["cost"] = cost(run);
  if (run.summary) {
    json["records"] = new_bests(run);
    json["result"] = {{"last", scores(run.summary->last)},
                      {"mean_last_10", scores(run.summary->mean_last_10)},
                      {"best", scores(run.summary->best)}};
  }
  const auto evaluated =
      records_with(run, [](const RoundRecord& r) { return r.accuracy && !r.accuracy->per_class.empty(); });
  if (!evaluated.empty()) json["per_class"] = per_class(evaluated, points);
  const auto diagnosed = records_with(run, [](const RoundRecord& r) { return !r.diagnostics.empty(); });
  if (!diagnosed.empty()) json["diagnostics"] = diagnostics(diagnosed, points);
  const auto with_prior = records_with(run, [](const RoundRecord& r) { return r.prior.has_value(); });
  if (!with_prior.empty()) json["prior"] = prior(with_prior);
  return json;
}

}  // namespace

Json report_data(std::span<const Run> runs) {
  size_t classes = 1;
  for (const auto& run : runs)
    if (run.population) classes += run.population->class_names.size();
  const size_t points = std::clamp<size_t>(most_class_points / classes, 2, most_points);
  Json json{{"runs", Json::array()}};
  for (const auto& run : runs) json["runs"].push_back(run_data(run, points));
  const Experiments experiments = experiments_of(runs);
  for (const auto& experiment : experiments.all)
    for (const size_t i : experiment.runs) json["runs"][i]["experiment"] = experiments.name(experiment);
  return json;
}

}  // namespace fedgrab
