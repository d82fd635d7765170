#include "fedgrab/experiment/sweep.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <sstream>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/progress.h"
#include "fedgrab/experiment/experiment.h"

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

/// Visits key and value of every entry, dotted keys through tables.
template <class Visit>
void for_each_entry(const toml::table& table, const std::string& prefix, const Schema& schema, Visit visit) {
  for (const auto& [name, node] : table) {
    const std::string key = prefix + std::string(name.str());
    if (const auto* inner = node.as_table())
      for_each_entry(*inner, key + ".", schema, visit);
    else
      visit(schema.find(key).key, node);
  }
}

std::string short_value(const std::string& key, const std::string& value) {
  const std::string text = key == method_key ? value : key.substr(key.rfind('.') + 1) + value;
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
  for (const auto& [key, value] : cell.values) {
    cell.name += (cell.name.empty() ? "" : "-") + short_value(key, value);
    const auto more = key == method_key ? grid.with.find(value) : grid.with.end();
    if (more != grid.with.end()) cell.all.insert(cell.all.end(), more->second.begin(), more->second.end());
  }
  return cell;
}

/// The run of a cell as far as it is known.
struct Outcome {
  std::optional<Json> summary;
  std::string error;
};

Table table_of(const Grid& grid, const std::vector<SweepCell>& cells, const std::vector<Outcome>& outcomes) {
  std::vector<Column> columns;
  for (const auto& axis : grid.axes)
    if (axis.key != seed_key) columns.push_back({axis.key == method_key ? "method" : axis.key, Align::left});
  static const std::vector<std::pair<const char*, const char*>> groups{
      {"All", "all"}, {"Many", "many"}, {"Med", "med"}, {"Few", "few"}};
  for (const auto& [title, key] : groups) columns.push_back({title});
  columns.push_back({"runs"});
  columns.push_back({"seconds"});
  Table table(columns);
  std::vector<std::vector<std::string>> rows;  // without seed, in order of appearance
  std::map<std::vector<std::string>, std::vector<size_t>> members;
  for (size_t i = 0; i < cells.size(); ++i) {
    std::vector<std::string> row;
    for (const auto& [key, value] : cells[i].values)
      if (key != seed_key) row.push_back(value);
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

bool complete(const RunDirectory& directory, const Config& config) {
  if (!directory.finished()) return false;
  const auto done = static_cast<int64_t>(directory.read_metrics().size());
  const auto asked = std::get<int64_t>(config.get("train.rounds"));
  if (done > asked)
    throw Error(Fault::usage, directory.root.string(),
                fmt::format("has {} rounds already, {} are asked for", done, asked),
                "one table must not mix them: choose another --out");
  Config saved{full_schema()};
  saved.load_toml(directory.config());
  return saved.get("train.rounds") == config.get("train.rounds");
}

const Axis* axis_of(const Grid& grid, const std::string& key) {
  const auto found =
      std::find_if(grid.axes.begin(), grid.axes.end(), [&](const Axis& axis) { return axis.key == key; });
  return found == grid.axes.end() ? nullptr : &*found;
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

}  // namespace

Grid read_grid(const fs::path& file) {
  const auto fault = [&](const std::string& why, const std::string& hint) {
    return Error(Fault::usage, file.string(), why, hint);
  };
  toml::table table;
  try {
    table = toml::parse(read_text(file, Fault::usage), file.string());
  } catch (const toml::parse_error& error) {
    throw fault(std::string(error.description()), fmt::format("line {}", error.source().begin.line));
  }
  const auto* sweep = table["sweep"].as_table();
  if (sweep == nullptr) throw fault("has no [sweep] table", "for example: [sweep] method = [\"fedavg\", \"fedgrab\"]");
  Grid grid;
  const Schema schema = full_schema();
  toml::table axes = *sweep;
  axes.erase("with");
  // toml++ keeps tables sorted; the order of the file is that of its lines.
  std::vector<std::pair<toml::source_position, Axis>> found;
  for_each_entry(axes, "", schema, [&](const std::string& key, const toml::node& node) {
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
  if (const auto* with = (*sweep)["with"].as_table())
    for (const auto& [method, values] : *with) {
      const auto* inner = values.as_table();
      if (inner == nullptr) throw fault("[sweep.with] holds a table per method", "[sweep.with.fedgrab]");
      for_each_entry(
          *inner, "", schema,
          [&, name = find_method(std::string(method.str())).name](const std::string& key, const toml::node& node) {
            grid.with[name].emplace_back(key, spelled(node));
          });
    }
  check_overrides(grid, fault);
  return grid;
}

std::vector<SweepCell> cells_of(const Grid& grid) {
  size_t count = 1;
  for (const auto& axis : grid.axes) count *= axis.values.size();
  std::vector<SweepCell> cells;
  std::set<std::string> names;
  for (size_t i = 0; i < count; ++i) {
    cells.push_back(make_cell(grid, i));
    if (!names.insert(cells.back().name).second)
      throw Error(Fault::usage, "sweep", fmt::format("two cells would be called {}", cells.back().name),
                  "remove the value that is given twice");
  }
  return cells;
}

SweepResult run_sweep(const SweepOptions& options) {
  const Grid grid = read_grid(options.file);
  const auto cells = cells_of(grid);
  const Schema schema = full_schema();
  for (const auto& [key, value] : options.flags)
    if (axis_of(grid, schema.find(key).key) != nullptr)
      throw Error(Fault::usage, key, fmt::format("is varied by {}", options.file.string()),
                  "leave it out, or edit the file");
  std::vector<Config> configs;
  for (const auto& cell : cells) {  // all of them first: a typing error shows at once and not after a night
    Assignments values = options.flags;
    values.insert(values.end(), cell.all.begin(), cell.all.end());
    configs.push_back(resolve_config(options.file, values));
    read_settings(configs.back());
    find_method(configs.back().read<MethodParams>("method").name).make(configs.back());
  }
  make_folder(options.out);
  std::vector<Outcome> outcomes(cells.size());
  SweepResult result;
  const auto tabulate = [&] {
    result.table = table_of(grid, cells, outcomes);
    write_atomically(options.out / "table.md", result.table.to_markdown());
    write_atomically(options.out / "table.csv", result.table.to_csv());
  };
  for (size_t i = 0; i < cells.size(); ++i) {
    const RunDirectory directory{options.out / cells[i].name};
    try {
      if (!complete(directory, configs[i])) {
        const bool begun = directory.exists();
        run_experiment(begun ? resumed_config(directory.config(), configs[i]) : configs[i],
                       {.directory = directory,
                        .resume = begun,
                        .quiet = options.quiet,
                        .label = fmt::format("[{}/{}] {} round", i + 1, cells.size(), cells[i].name)});
      }
      outcomes[i].summary = directory.read_summary();
    } catch (const Error& error) {
      if (error.fault() == Fault::usage) throw;  // it would befall every cell
      outcomes[i].error = error.what();
      result.failed.push_back(fmt::format("{}: {}", cells[i].name, error.what()));
      warn(result.failed.back());
    }
    tabulate();
  }
  return result;
}

}  // namespace fedgrab
