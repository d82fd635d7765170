#include "fedgrab/report/run_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace fedgrab {
namespace {

const std::string method_key = "method.name", seed_key = "train.seed";

std::string value_of(const Run& run, const std::string& key) {
  const auto found = run.config.find(key);
  return found == run.config.end() ? "–" : found->second;
}

/// What tells the rows apart. How a run was executed and recorded is no part of the experiment.
std::vector<std::string> differing_keys(std::span<const Run> runs) {
  std::set<std::string> keys;
  for (const auto& run : runs)
    for (const auto& [key, value] : run.config) keys.insert(key);
  std::erase_if(keys, [&](const std::string& key) {
    return key == method_key || key == seed_key || key.starts_with("engine.") || key.starts_with("record.") ||
           key.starts_with("checkpoint.") || std::all_of(runs.begin(), runs.end(), [&](const Run& run) {
             return value_of(run, key) == value_of(runs.front(), key);
           });
  });
  // A method's own preset follows from its name.
  std::erase_if(keys, [&](const std::string& key) {
    std::map<std::string, std::set<std::string>> by_method;
    for (const auto& run : runs) by_method[value_of(run, method_key)].insert(value_of(run, key));
    return std::all_of(by_method.begin(), by_method.end(), [](const auto& entry) { return entry.second.size() == 1; });
  });
  return {keys.begin(), keys.end()};
}

}  // namespace

Table run_table(std::span<const Run> runs) {
  std::vector<std::string> keys{method_key};
  for (const auto& key : differing_keys(runs)) keys.push_back(key);
  std::vector<Column> columns;
  for (const auto& key : keys) columns.push_back({key == method_key ? "method" : key, Align::left});
  for (const char* title : {"All", "Many", "Med", "Few", "runs"}) columns.push_back({title});
  Table table(columns);

  std::vector<std::vector<std::string>> rows;  // in order of appearance
  std::map<std::vector<std::string>, std::vector<const Run*>> members;
  for (const auto& run : runs) {
    std::vector<std::string> row;
    for (const auto& key : keys) row.push_back(value_of(run, key));
    if (!members.contains(row)) rows.push_back(row);
    members[row].push_back(&run);
  }
  for (auto row : rows) {
    const auto& own = members.at(row);
    std::vector<std::vector<double>> values(4);
    for (const Run* run : own) {
      if (!run->summary) continue;
      const auto& a = run->summary->mean_last_10;
      const std::optional<double> groups[] = {a.all, a.many, a.med, a.few};
      for (size_t g = 0; g < values.size(); ++g)
        if (groups[g]) values[g].push_back(*groups[g]);
    }
    for (const auto& group : values) row.push_back(group.empty() ? "–" : mean_std(group));
    row.push_back(fmt::format("{}", own.size()));
    table.add_row(row);
  }
  return table;
}

}  // namespace fedgrab
