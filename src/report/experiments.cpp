#include "fedgrab/report/experiments.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "fedgrab/record/path_keys.h"

namespace fedgrab {
namespace {

const std::string method_key = "method.name", seed_key = "train.seed", unknown = "–";

std::string value_of(const Run& run, const std::string& key) {
  const auto found = run.config.find(key);
  return found == run.config.end() ? unknown : found->second;
}

/// How a run was executed and recorded is no part of the experiment.
bool is_about_execution(const std::string& key) {
  return key == method_key || key == seed_key || key.starts_with("engine.") || key.starts_with("record.") ||
         key.starts_with("checkpoint.");
}

/// A run that does not say what it changed may have changed everything.
bool is_changed(const Run& run, const std::string& key) { return !run.changed || run.changed->contains(key); }

/// Whether the value does not follow from the method's name.
bool tells_apart(std::span<const Run> runs, const std::string& key) {
  std::set<std::string> values;
  std::map<std::string, std::set<std::string>> by_method;
  for (const auto& run : runs) {
    values.insert(value_of(run, key));
    by_method[value_of(run, method_key)].insert(value_of(run, key));
  }
  const auto changed = [&](const Run& run) { return is_changed(run, key); };
  if (values.size() == 1)  // one run has by its preset what another was given
    return std::any_of(runs.begin(), runs.end(), [&](const Run& run) { return run.changed && changed(run); }) &&
           !std::all_of(runs.begin(), runs.end(), changed);
  return std::any_of(runs.begin(), runs.end(), changed) ||
         std::any_of(by_method.begin(), by_method.end(), [](const auto& entry) { return entry.second.size() > 1; });
}

std::vector<std::string> differing_keys(std::span<const Run> runs) {
  std::set<std::string> keys;
  for (const auto& run : runs)
    for (const auto& [key, value] : run.config) keys.insert(key);
  std::erase_if(keys, [&](const std::string& key) { return is_about_execution(key) || !tells_apart(runs, key); });
  return {keys.begin(), keys.end()};
}

bool repeats_a_seed(std::span<const Run> runs, const Experiment& experiment, size_t run) {
  const std::string seed = value_of(runs[run], seed_key);
  return seed != unknown && std::any_of(experiment.runs.begin(), experiment.runs.end(),
                                        [&](size_t other) { return value_of(runs[other], seed_key) == seed; });
}

}  // namespace

std::string shown_value(const std::string& key, const std::string& value) {
  return is_path_key(key) ? std::filesystem::path(value).filename().string() : value;
}

std::string Experiments::name(const Experiment& experiment) const {
  std::string name = experiment.values.front();
  for (size_t i = 1; i < keys.size(); ++i) name += fmt::format(", {} {}", keys[i], experiment.values[i]);
  return name;
}

Experiments experiments_of(std::span<const Run> runs) {
  Experiments experiments{{method_key}, {}};
  for (const auto& key : differing_keys(runs)) experiments.keys.push_back(key);
  for (size_t i = 0; i < runs.size(); ++i) {
    std::vector<std::string> values;
    for (const auto& key : experiments.keys) values.push_back(value_of(runs[i], key));
    const auto place = [&] {
      return std::find_if(experiments.all.begin(), experiments.all.end(),
                          [&](const Experiment& known) { return known.values == values; });
    };
    auto found = place();
    for (int copy = 2; found != experiments.all.end() && repeats_a_seed(runs, *found, i); found = place())
      values.front() = fmt::format("{} ({})", value_of(runs[i], method_key), copy++);
    if (found == experiments.all.end()) found = experiments.all.insert(found, {values, {}});
    found->runs.push_back(i);
  }
  for (auto& experiment : experiments.all)  // last: folders of one name are not one data set
    for (size_t k = 1; k < experiments.keys.size(); ++k)
      experiment.values[k] = shown_value(experiments.keys[k], experiment.values[k]);
  return experiments;
}

std::vector<size_t> counted(std::span<const Run> runs, const Experiment& experiment) {
  std::vector<size_t> ended, evaluated;
  for (const size_t i : experiment.runs) {
    if (!runs[i].summary) continue;
    evaluated.push_back(i);
    if (runs[i].state == RunState::finished) ended.push_back(i);
  }
  return !ended.empty() ? ended : !evaluated.empty() ? evaluated : experiment.runs;
}

}  // namespace fedgrab
