#include "fedgrab/experiment/reproduction.h"

#include <fmt/format.h>
#include <toml++/toml.h>

#include <algorithm>

#include "fedgrab/core/error.h"
#include "reproduction_view.h"
#include "split.h"

namespace fedgrab {

/// By name: configs/reproduce/, built in.
const std::map<std::string, std::string>& reproduction_files();

namespace {

namespace fs = std::filesystem;

PaperNumbers read_numbers(const std::string& csv) {
  PaperNumbers numbers;
  for (const auto& line : split(csv, '\n')) {
    if (line.empty()) continue;
    (numbers.columns.empty() ? numbers.columns : numbers.rows.emplace_back()) = split(line, ',');
  }
  return numbers;
}

std::vector<std::string> texts(const toml::node_view<toml::node>& node) {
  std::vector<std::string> all;
  if (const auto* list = node.as_array())
    for (const auto& text : *list) all.push_back(text.value_or(std::string{}));
  return all;
}

Reproduction read_reproduction(const std::string& name, const std::string& text) {
  toml::table file = toml::parse(text, name + ".toml");
  const auto table = file["reproduce"];
  const auto word = [&](const char* key) { return table[key].value_or(std::string{}); };
  Reproduction what{.name = name,
                    .title = word("title"),
                    .needs = word("needs"),
                    .claim = word("claim"),
                    .note = word("note"),
                    .view = enum_named<View>(word("view")).value(),  // the files are our own
                    .runs = word("runs"),
                    .grid = text};
  what.figure = {.axis = enum_named<FigureAxis>(word("x")).value_or(FigureAxis::parameter),
                 .x = word("x"),
                 .x_label = word("x_label"),
                 .band = word("band"),
                 .y = texts(table["y"]),
                 .y_label = texts(table["y_label"]),
                 .of_class = table["class"].value_or(int64_t{-1})};
  if (const auto* labels = table["labels"].as_table())
    for (const auto& [key, label] : *labels) what.labels[std::string(key.str())] = label.value_or(std::string{});
  if (what.runs.empty()) what.runs = name;
  what.grid = reproduction_files().at(what.runs + ".toml");
  if (const auto numbers = reproduction_files().find(name + ".csv"); numbers != reproduction_files().end())
    what.paper = read_numbers(numbers->second);
  return what;
}

}  // namespace

std::vector<std::string> reproduction_names() {
  std::vector<std::string> names;
  for (const auto& [file, text] : reproduction_files())
    if (file.ends_with(".toml")) names.push_back(fs::path(file).stem().string());
  // Tables first, as in the paper's abstract of itself.
  std::stable_partition(names.begin(), names.end(), [](const std::string& name) { return name.starts_with("table"); });
  return names;
}

Reproduction find_reproduction(const std::string& name) {
  const auto found = reproduction_files().find(name + ".toml");
  if (found != reproduction_files().end()) return read_reproduction(name, found->second);
  const std::string near = nearest(name, reproduction_names());
  throw Error(Fault::usage, name, "no table or figure is called so",
              near.empty() ? "`fedgrab reproduce --list`" : fmt::format("did you mean {}?", near));
}

std::vector<SweepCell> cells_of(const Reproduction& what, const std::vector<int64_t>& seeds) {
  auto grids = read_grids(TomlText{what.runs + ".toml", what.grid});
  for (auto& grid : grids)
    for (auto& axis : grid.axes) {
      if (axis.key != "train.seed" || seeds.empty()) continue;
      axis.values.clear();
      for (const int64_t seed : seeds) axis.values.push_back(fmt::format("{}", seed));
    }
  auto cells = cells_of(grids);
  if (!what.paper.rows.empty())  // of another reproduction's runs, those it names
    std::erase_if(cells, [&](const SweepCell& cell) {
      return std::none_of(what.paper.rows.begin(), what.paper.rows.end(),
                          [&](const auto& row) { return is_about(what.paper, row, cell); });
    });
  return cells;
}

}  // namespace fedgrab
