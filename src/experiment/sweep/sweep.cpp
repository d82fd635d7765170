#include "fedgrab/experiment/sweep.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/preparation.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/method/moved_parameters.h"
#include "fedgrab/method/presets.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
const std::string seed_key = "train.seed", method_key = "method.name";

/// As --set would spell it.
std::string spelled(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());  // the shortest form
  std::ostringstream out;
  if (const auto* list = node.as_array()) {
    for (const auto& element : *list) out << (&element == &list->front() ? "" : ",") << spelled(element);
  } else {
    node.visit([&](const auto& value) {
      if constexpr (toml::is_value<decltype(value)>) out << value;
    });
  }
  return out.str();
}

const std::string own_values = "with";  // the table of values for one method

/// Visits key and value of every entry, dotted keys through tables.
template <class Visit>
void for_each_entry(const toml::table& table, const std::string& prefix, const Schema& schema, Visit visit) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (key == own_values) continue;
    if (const auto* inner = node.as_table())
      for_each_entry(*inner, key + ".", schema, visit);
    else
      visit(is_moved(key, spelled(node)) && !schema.contains(key) ? key : schema.find(key).key, node);
  }
}

std::string short_value(const std::string& key, const std::string& value) {
  const std::string text = key.ends_with(".name") ? value : key.substr(key.rfind('.') + 1) + value;
  std::string safe;
  for (const char c : text) safe += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' ? c : '_';
  return safe;
}

SweepCell make_cell(const Grid& grid, size_t index) {
  SweepCell cell;
  for (auto axis = grid.axes.rbegin(); axis != grid.axes.rend(); ++axis) {
    cell.values.insert(cell.values.begin(), {axis->key, axis->values[index % axis->values.size()]});
    index /= axis->values.size();
  }
  cell.all = cell.values;
  cell.name = cell.name_without({});
  for (const auto& [key, value] : cell.values) {
    const auto more = key == method_key ? grid.with.find(value) : grid.with.end();
    if (more != grid.with.end()) cell.all.insert(cell.all.end(), more->second.begin(), more->second.end());
  }
  return cell;
}

/// All axes but the seed, in order of appearance.
std::vector<std::string> row_keys(const std::vector<Grid>& grids) {
  std::vector<std::string> keys;
  for (const auto& grid : grids)
    for (const auto& axis : grid.axes)
      if (axis.key != seed_key && std::find(keys.begin(), keys.end(), axis.key) == keys.end()) keys.push_back(axis.key);
  return keys;
}

/// The run of a cell as far as it is known.
struct Outcome {
  std::optional<Json> summary;
  std::string error;
};

Table table_of(const std::vector<Grid>& grids, const std::vector<SweepCell>& cells,
               const std::vector<Outcome>& outcomes) {
  const auto keys = row_keys(grids);
  std::vector<Column> columns;
  columns.reserve(keys.size() + 6);
  for (const auto& key : keys) columns.push_back({key == method_key ? "method" : key, Align::left});
  static const std::vector<std::pair<const char*, const char*>> groups{
      {"All", "all"}, {"Many", "many"}, {"Med", "med"}, {"Few", "few"}};
  for (const auto& [title, key] : groups) columns.push_back({title});
  columns.push_back({"runs"});
  columns.push_back({"seconds"});
  Table table(columns);
  std::vector<std::vector<std::string>> rows;  // without seed, in order of appearance
  std::map<std::vector<std::string>, std::vector<size_t>> members;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::vector<std::string> row(keys.size());
    std::transform(keys.begin(), keys.end(), row.begin(),
                   [&](const std::string& key) { return cells[i].value(key).value_or(""); });
    if (members[row].empty()) rows.push_back(row);
    members[row].push_back(i);
  }
  for (auto& row : rows) {
    const auto& own = members.at(row);
    size_t done = 0, failed = 0;
    double seconds = 0;
    std::map<std::string, std::vector<double>> values;
    for (const size_t i : own) {
      failed += outcomes[i].error.empty() ? 0 : 1;
      if (!outcomes[i].summary) continue;
      ++done;
      seconds += outcomes[i].summary->value("seconds", 0.0);
      const auto& accuracy = outcomes[i].summary->at("mean_last_10");
      for (const auto& [title, key] : groups)
        if (accuracy.contains(key) && accuracy[key].is_number()) values[key].push_back(accuracy[key].get<double>());
    }
    for (const auto& [title, key] : groups)
      row.push_back(values[key].empty() ? (failed > 0 ? "failed" : "–") : mean_std(values[key]));
    row.push_back(fmt::format("{}/{}", done, own.size()));
    row.push_back(fmt::format("{:.0f}", seconds));
    table.add_row(row);
  }
  return table;
}

const Axis* axis_of(const Grid& grid, const std::string& key) {
  const auto found =
      std::find_if(grid.axes.begin(), grid.axes.end(), [&](const Axis& axis) { return axis.key == key; });
  return found == grid.axes.end() ? nullptr : &*found;
}

/// Whether it has a value for some method alone.
bool sets(const Grid& grid, const std::string& key) {
  return std::any_of(grid.with.begin(), grid.with.end(), [&](const auto& own) {
    return std::any_of(own.second.begin(), own.second.end(), [&](const auto& value) { return value.first == key; });
  });
}

/// A row must have been run with the values it names, and a table of values must be used by some row.
template <class MakeError>
void check_overrides(const Grid& grid, MakeError fault) {
  const Axis* methods = axis_of(grid, method_key);
  for (const auto& [method, values] : grid.with) {
    if (methods == nullptr ||
        std::find(methods->values.begin(), methods->values.end(), method) == methods->values.end())
      throw fault(fmt::format("[sweep.with.{0}], but {0} is not among the methods of [sweep]", method),
                  "add it, or remove this");
    for (const auto& [key, value] : values)
      if (key == method_key || axis_of(grid, key) != nullptr)
        throw fault(fmt::format("[sweep.with.{}] sets {}, which the sweep itself varies", method, key),
                    "remove one of them");
  }
}

template <class MakeError>
Grid grid_of(const toml::table& sweep, MakeError fault) {
  Grid grid;
  const Schema schema = full_schema();
  // toml++ keeps tables sorted; the order of the file is that of its lines, which a copy of the table would not know.
  std::vector<std::pair<toml::source_position, Axis>> found;
  for_each_entry(sweep, "", schema, [&](const std::string& key, const toml::node& node) {
    Axis axis{key, {}};
    if (const auto* list = node.as_array())
      for (const auto& value : *list) axis.values.push_back(spelled(value));
    else
      axis.values.push_back(spelled(node));
    if (axis.values.empty()) throw fault(fmt::format("sweep.{} is empty", key), "give at least one value");
    found.emplace_back(node.source().begin, std::move(axis));
  });
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [position, axis] : found) grid.axes.push_back(std::move(axis));
  if (grid.axes.empty()) throw fault("[sweep] has no values", "for example: method = [\"fedavg\", \"fedgrab\"]");
  if (const auto* with = sweep[own_values].as_table())
    for (const auto& [method, values] : *with) {
      const auto* inner = values.as_table();
      if (inner == nullptr) throw fault("[sweep.with] holds a table per method", "[sweep.with.fedgrab]");
      for_each_entry(
          *inner, "", schema,
          [&, name = find_preset(std::string(method.str())).name](const std::string& key, const toml::node& node) {
            grid.with[name].emplace_back(key, spelled(node));
          });
    }
  check_overrides(grid, fault);
  return grid;
}

/// The parameters that determine whether the data can be used, without the seed.
std::string data_of(const Config& config) {
  std::string text;
  for (const auto& parameter : config.schema().all())
    for (const char* group : {"data.", "longtail.", "partition.", "eval."})
      if (parameter.key.starts_with(group)) text += to_text(config.get(parameter.key)) + "\n";
  return text;
}

}  // namespace

std::vector<Grid> read_grids(const TomlText& file) {
  const auto fault = [&](const std::string& why, const std::string& hint) {
    return Error(Fault::usage, file.name, why, hint);
  };
  toml::table table;
  try {
    table = toml::parse(shallow_toml(file.text, file.name, Fault::usage), file.name);
  } catch (const toml::parse_error& error) {
    throw fault(std::string(error.description()), fmt::format("line {}", error.source().begin.line));
  }
  std::vector<Grid> grids;
  if (const auto* one = table["sweep"].as_table()) grids.push_back(grid_of(*one, fault));
  if (const auto* several = table["sweep"].as_array())
    for (const auto& each : *several)
      if (const auto* one = each.as_table()) grids.push_back(grid_of(*one, fault));
  if (grids.empty()) throw fault("has no [sweep] table", "for example: [sweep] method = [\"fedavg\", \"fedgrab\"]");
  return grids;
}

std::optional<std::string> SweepCell::value(const std::string& key) const {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& entry) { return entry.first == key; });
  return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::string SweepCell::name_without(const std::vector<std::string>& keys) const {
  std::string text;
  for (const auto& [key, value] : values)
    if (std::find(keys.begin(), keys.end(), key) == keys.end())
      text += (text.empty() ? "" : "-") + short_value(key, value);
  return text;
}

std::vector<SweepCell> cells_of(const std::vector<Grid>& grids) {
  std::vector<SweepCell> cells;
  std::set<std::string> names;
  for (const auto& grid : grids) {
    size_t count = 1;
    for (const auto& axis : grid.axes) count *= axis.values.size();
    for (size_t i = 0; i < count; ++i) {
      cells.push_back(make_cell(grid, i));
      if (!names.insert(cells.back().name).second)
        throw Error(Fault::usage, "sweep", fmt::format("two cells would be called {}", cells.back().name),
                    "remove the value that is given twice");
    }
  }
  return cells;
}

std::vector<Job> jobs_of(const TomlText& file, const std::vector<SweepCell>& cells, const Assignments& flags,
                         const fs::path& out) {
  std::vector<Job> jobs;
  for (const auto& cell : cells) {  // all of them first: a wrong name is reported at once and not after hours
    Assignments values = flags;
    values.insert(values.end(), cell.all.begin(), cell.all.end());
    Config config = resolve_config(file, values);
    read_settings(config);
    Composition{config};
    const RunDirectory directory{out / cell.name};
    std::vector<std::string> command{"run", file.name, "--quiet", "--out", directory.root.string()};
    for (const auto& [key, value] : values) command.insert(command.end(), {"--set", key + "=" + value});
    jobs.push_back({cell.name, std::move(config), directory, std::move(command)});
  }
  return jobs;
}

std::vector<std::string> data_faults(const std::vector<Job>& jobs) {
  std::map<std::string, std::string> known;
  std::vector<std::string> faults;
  for (const auto& job : jobs) {
    const Settings settings = read_settings(job.config);
    const auto [entry, fresh] = known.try_emplace(data_of(job.config));
    try {
      if (fresh) partition_samples(settings, prepare(settings));
    } catch (const Error& error) {
      if (error.fault() != Fault::data) throw;
      entry->second = error.what();
    }
    faults.push_back(entry->second);
  }
  return faults;
}

namespace {

/// The file of a sweep, read and checked.
struct CheckedSweep {
  std::vector<Grid> grids;
  std::vector<SweepCell> cells;
  std::vector<Job> jobs;
};

CheckedSweep check_sweep(const SweepOptions& options) {
  const TomlText file = read_toml(options.file);
  auto grids = read_grids(file);
  auto cells = cells_of(grids);
  const Schema schema = full_schema();
  for (const auto& [key, value] : options.flags)
    for (const auto& grid : grids)
      if (const std::string& parameter = schema.find(key).key;
          axis_of(grid, parameter) != nullptr || sets(grid, parameter))
        throw Error(Fault::usage, key, fmt::format("is varied by {}", options.file.string()),
                    "leave it out, or edit the file");
  auto jobs = jobs_of(file, cells, options.flags, options.out);
  const auto faults = data_faults(jobs);
  for (size_t i = 0; i < jobs.size(); ++i)
    if (!faults[i].empty()) throw Error(Fault::data, jobs[i].name, faults[i]);
  return {std::move(grids), std::move(cells), std::move(jobs)};
}

std::string state_of(const PlannedJob& job) {
  if (job.finished) return "done";
  return job.done == 0 ? "not begun" : fmt::format("{} of {} rounds", job.done, job.rounds);
}

}  // namespace

Table sweep_preview(const SweepOptions& options) {
  const auto jobs = check_sweep(options).jobs;
  const JobPlan plan = plan_jobs(jobs);
  Table table({{"run", Align::left}, {"rounds"}, {"state", Align::left}, {"time left"}});
  double total = 0;
  size_t left = 0, unknown = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const PlannedJob& job = plan.jobs[i];
    left += job.finished ? 0 : 1;
    unknown += job.finished || job.seconds ? 0 : 1;
    total += job.seconds.value_or(0);
    const std::string time = job.finished ? "" : job.seconds ? format_duration(*job.seconds) : "not known";
    table.add_row({jobs[i].name, fmt::format("{}", job.rounds), state_of(job), time});
  }
  table.add_row({fmt::format("{} of {} runs left", left, jobs.size()), "", "",
                 format_duration(total) + (unknown > 0 ? " and more" : "")});
  return table;
}

SweepResult run_sweep(const SweepOptions& options) {
  const auto checked = check_sweep(options);
  const auto& jobs = checked.jobs;
  make_folder(options.out);
  const FolderLock lock(options.out);
  std::vector<Outcome> outcomes(jobs.size());
  SweepResult result;
  run_jobs(jobs, options.jobs, [&](size_t i, const std::string& error) {
    outcomes[i].error = error;
    try {
      if (error.empty()) outcomes[i].summary = read_result(jobs[i]);
    } catch (const Error& damage) {
      outcomes[i].error = damage.what();
    }
    if (!outcomes[i].error.empty()) result.failed.push_back(fmt::format("{}: {}", jobs[i].name, outcomes[i].error));
    result.table = table_of(checked.grids, checked.cells, outcomes);
    write_atomically(options.out / "table.md", result.table.to_markdown());
    write_atomically(options.out / "table.csv", result.table.to_csv());
  });
  return result;
}

}  // namespace fedgrab
