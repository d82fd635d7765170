#include "reproduction_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

const std::string seed_parameter = "train.seed";
const std::string not_run = "–";

/// A number column of the paper: where it is in a summary.json, and how many digits it has.
struct NumberColumn {
  std::string pointer;
  int digits;
};
std::optional<NumberColumn> measure_of(const std::string& column) {
  static const std::map<std::string, NumberColumn> known{{"All", {"/mean_last_10/all", 3}},
                                                         {"Many", {"/mean_last_10/many", 3}},
                                                         {"Med", {"/mean_last_10/med", 3}},
                                                         {"Few", {"/mean_last_10/few", 3}},
                                                         {"Few 0.55", {"/few_reached_0.55", 0}}};
  const auto found = known.find(column);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

/// The parameter a column names, if it does; "IF=longtail.factor" is shown as IF.
std::string key_of(const std::string& column) {
  const std::string key = column.substr(column.find('=') + 1);
  return key.find('.') != std::string::npos && !measure_of(column) ? key : "";
}

/// Words, and parameters that have a name to be shown under.
bool is_shown(const std::string& column) {
  return !measure_of(column) && !column.ends_with("±") &&
         (key_of(column).empty() || column.find('=') != std::string::npos);
}

std::optional<double> number_at(const Json& json, const std::string& pointer, int64_t of_class = -1) {
  const Json::json_pointer where(pointer);
  if (!json.contains(where)) return std::nullopt;
  const Json* value = &json[where];
  if (value->is_array() && of_class >= 0 && of_class < static_cast<int64_t>(value->size()))
    value = &(*value)[static_cast<size_t>(of_class)];
  return value->is_number() ? std::optional(value->get<double>()) : std::nullopt;
}

std::vector<const ShownCell*> finished(const std::vector<const ShownCell*>& cells) {
  std::vector<const ShownCell*> done;
  std::copy_if(cells.begin(), cells.end(), std::back_inserter(done),
               [](const auto* c) { return c->summary.has_value(); });
  return done;
}

int64_t fewest_rounds(const std::vector<const ShownCell*>& done) {
  auto rounds = std::numeric_limits<int64_t>::max();
  for (const auto* cell : done) rounds = std::min(rounds, cell->summary->value("rounds", int64_t{0}));
  return rounds;
}

/// Seeds may have been run for longer by another command.
std::string rounds_text(const std::vector<const ShownCell*>& done, int64_t paper_rounds) {
  if (done.empty()) return not_run;
  const int64_t fewest = fewest_rounds(done);
  int64_t most = fewest;
  for (const auto* cell : done) most = std::max(most, cell->summary->value("rounds", int64_t{0}));
  const std::string rounds = fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
  return fewest == paper_rounds && most == paper_rounds ? rounds : fmt::format("{} of {}", rounds, paper_rounds);
}

std::string state_of(const std::vector<const ShownCell*>& cells) {
  for (const auto* cell : cells)
    if (!cell->state.empty()) return cell->state;
  return not_run;
}

/// Ours, the paper's and the difference, as texts.
std::vector<std::string> compared(const NumberColumn& measure, const std::vector<const ShownCell*>& done,
                                  const std::string& state, const std::string& theirs, const std::string& deviation,
                                  bool comparable) {
  std::vector<double> values;
  for (const auto* cell : done)
    if (const auto value = number_at(*cell->summary, measure.pointer)) values.push_back(*value);
  const std::string paper = theirs.empty() ? not_run : deviation.empty() ? theirs : theirs + " ± " + deviation;
  if (done.empty()) return {state, paper, not_run};
  if (values.size() < done.size())  // a group without classes, or a target that some seeds did not reach
    return {measure.digits > 0 ? not_run
            : values.empty()   ? fmt::format("not in {}", fewest_rounds(done))
                               : fmt::format("{} of {} reached", values.size(), done.size()),
            paper, not_run};
  double number = 0;
  const bool printed = comparable && !theirs.empty() &&
                       std::from_chars(theirs.data(), theirs.data() + theirs.size(), number).ec == std::errc{};
  return {mean_std(values, measure.digits), paper,
          printed ? fmt::format("{:+.{}f}", mean_of(values) - number, measure.digits) : not_run};
}

/// Cells that differ in nothing but the seed and what is on the x axis: a line, or the bars of one colour.
struct Group {
  std::string label;
  std::vector<const ShownCell*> cells;
};
std::vector<Group> groups_of(const Reproduction& what, const std::vector<ShownCell>& cells) {
  std::vector<Group> groups;
  for (const auto& shown : cells) {
    const std::string name = shown.cell.name_without({seed_parameter, what.figure.x});
    const auto label = what.labels.find(name);
    const std::string text = label == what.labels.end() ? name : label->second;
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& g) { return g.label == text; });
    if (group == groups.end()) group = groups.insert(groups.end(), {text, {}});
    group->cells.push_back(&shown);
  }
  return groups;
}

Series over_rounds(const FigureView& figure, const std::string& y, const Group& group) {
  Values values, bands;
  for (const auto* cell : finished(group.cells))
    for (const auto& record : cell->directory.read_metrics()) {
      const Json json = to_json(record);
      const auto x = static_cast<double>(record.round);
      if (const auto value = number_at(json, y, figure.of_class)) values[x].push_back(*value);
      if (figure.band.empty()) continue;
      if (const auto value = number_at(json, figure.band, figure.of_class)) bands[x].push_back(*value);
    }
  return mean_series(group.label, values, bands);
}

/// By class, of the last round that recorded it. A list of clients gives their mean and deviation.
Series over_classes(const FigureView& figure, const std::string& y, const Group& group) {
  Values values, bands;
  for (const auto* cell : finished(group.cells)) {
    const auto records = cell->directory.read_metrics();
    const Json::json_pointer where(y);
    Json found;
    for (auto record = records.rbegin(); record != records.rend() && found.is_null(); ++record)
      if (const Json json = to_json(*record); json.contains(where)) found = json;
    if (found.is_null()) continue;
    const Json& list = found[where];
    const bool by_client = !list.empty() && list[0].is_array();
    for (size_t c = 0; c < (by_client ? list[0].size() : list.size()); ++c) {
      const auto x = static_cast<double>(c);
      if (by_client) {
        std::vector<double> clients;
        for (const auto& client : list) clients.push_back(client[c].get<double>());
        values[x].push_back(mean_of(clients));
        bands[x].push_back(deviation_of(clients));
      } else {
        values[x].push_back(list[c].get<double>());
        if (!figure.band.empty())
          bands[x].push_back(number_at(found, figure.band, static_cast<int64_t>(c)).value_or(0));
      }
    }
  }
  return mean_series(group.label, values, bands);
}

Series over_axis(const FigureView& figure, const std::string& y, const Group& group) {
  Values values;
  for (const auto* cell : finished(group.cells))
    if (const auto value = number_at(*cell->summary, y))
      values[std::stod(cell->cell.value(figure.x).value())].push_back(*value);
  return mean_series(group.label, values, {});
}

std::vector<std::string> class_names(const std::vector<Group>& groups) {
  for (const auto& group : groups)
    for (const auto* cell : finished(group.cells))
      return cell->summary->at("class_names").get<std::vector<std::string>>();
  return {"not run"};
}

bool is_share(const std::string& pointer) {
  return pointer.find("acc") != std::string::npos || pointer.starts_with("/mean_last_10") ||
         pointer == "/prior/tail_hit";
}

/// A bar for every cell, a colour for every measure.
Panel over_cells(const FigureView& figure, const std::vector<Group>& groups) {
  static const std::map<std::string, std::string> titles{
      {"all", "All"}, {"many", "Many"}, {"med", "Med"}, {"few", "Few"}};
  Panel panel{.x_label = figure.x_label, .y_label = figure.y_label.front(), .series = {}, .share = true};
  for (const auto& group : groups) panel.categories.push_back(group.label);
  for (const auto& y : figure.y) {
    Values values;
    for (size_t i = 0; i < groups.size(); ++i)
      for (const auto* cell : finished(groups[i].cells))
        if (const auto value = number_at(*cell->summary, y)) values[static_cast<double>(i)].push_back(*value);
    panel.series.push_back(mean_series(titles.at(y.substr(y.rfind('/') + 1)), values, {}));
  }
  return panel;
}

}  // namespace

bool is_about(const PaperNumbers& paper, const std::vector<std::string>& row, const SweepCell& cell) {
  for (size_t i = 0; i < row.size(); ++i)
    if (const std::string key = key_of(paper.columns[i]); !key.empty() && cell.value(key).value_or("") != row[i])
      return false;
  return true;
}

Table comparison(const Reproduction& what, const std::vector<ShownCell>& cells, int64_t paper_rounds, bool comparable,
                 bool without_others) {
  const auto& names = what.paper.columns;
  std::vector<Column> columns;
  for (const auto& name : names) {
    if (measure_of(name))
      for (const char* suffix : {"", " paper", " diff"}) columns.push_back({name + suffix});
    else if (is_shown(name))
      columns.push_back({name.substr(0, name.find('=')), Align::left});
  }
  for (const char* name : {"rounds", "seeds"}) columns.push_back({name});
  columns.push_back({"runs", Align::left});
  Table table(columns);
  for (const auto& row : what.paper.rows) {
    std::vector<const ShownCell*> own;
    for (const auto& cell : cells)
      if (is_about(what.paper, row, cell.cell)) own.push_back(&cell);
    if (without_others &&
        std::none_of(own.begin(), own.end(), [](const auto* cell) { return cell->asked || cell->summary; }))
      continue;
    const auto done = finished(own);
    std::vector<std::string> texts;
    for (size_t i = 0; i < names.size(); ++i) {
      if (const auto measure = measure_of(names[i])) {
        const bool spread = i + 1 < names.size() && names[i + 1] == names[i] + " ±";
        for (auto& text : compared(*measure, done, state_of(own), row[i], spread ? row[i + 1] : "", comparable))
          texts.push_back(text);
      } else if (is_shown(names[i])) {
        texts.push_back(row[i]);
      }
    }
    texts.push_back(rounds_text(done, paper_rounds));
    texts.push_back(fmt::format("{}/{}", done.size(), own.size()));
    texts.push_back(own.empty() ? not_run : own.front()->cell.name_without({seed_parameter}));
    table.add_row(texts);
  }
  return table;
}

std::vector<Panel> figure_panels(const Reproduction& what, const std::vector<ShownCell>& cells) {
  const auto& figure = what.figure;
  const auto groups = groups_of(what, cells);
  if (figure.axis == FigureAxis::cells) return {over_cells(figure, groups)};
  std::vector<Panel> panels;
  for (size_t i = 0; i < figure.y.size(); ++i) {
    Panel panel{.x_label = figure.x_label.empty() ? figure.x : figure.x_label,
                .y_label = figure.y_label[i],
                .series = {},
                .share = is_share(figure.y[i])};
    if (figure.axis == FigureAxis::classes) panel.categories = class_names(groups);
    for (const auto& group : groups)
      panel.series.push_back(figure.axis == FigureAxis::round     ? over_rounds(figure, figure.y[i], group)
                             : figure.axis == FigureAxis::classes ? over_classes(figure, figure.y[i], group)
                                                                  : over_axis(figure, figure.y[i], group));
    panels.push_back(std::move(panel));
  }
  return panels;
}

Table figure_runs(const Reproduction& what, const std::vector<ShownCell>& cells, int64_t paper_rounds) {
  const bool over_axis = what.figure.axis == FigureAxis::parameter;
  std::vector<Column> columns{{"series", Align::left}};
  if (over_axis) columns.push_back({what.figure.x_label});
  for (const char* name : {"All", "Few", "rounds", "runs"}) columns.push_back({name});
  Table table(columns);
  for (const auto& group : groups_of(what, cells)) {
    std::vector<std::pair<std::string, std::vector<const ShownCell*>>> by_x;  // in the order of the grid
    for (const auto* cell : group.cells) {
      const std::string x = cell->cell.value(what.figure.x).value_or("");
      if (by_x.empty() || by_x.back().first != x) by_x.push_back({x, {}});
      by_x.back().second.push_back(cell);
    }
    for (const auto& [x, own] : by_x) {
      const auto done = finished(own);
      std::vector<std::string> row{group.label};
      if (over_axis) row.push_back(x);
      for (const char* name : {"All", "Few"})
        row.push_back(compared(*measure_of(name), done, state_of(own), "", "", false).front());
      row.push_back(rounds_text(done, paper_rounds));
      row.push_back(fmt::format("{}/{}", done.size(), own.size()));
      table.add_row(row);
    }
  }
  return table;
}

Table curves(std::vector<ShownCell>& cells) {
  Table table({{"run"}, {"round"}, {"all"}, {"many"}, {"med"}, {"few"}});
  const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{:.4f}", *value) : ""; };
  for (auto& shown : cells) {
    if (!shown.summary) continue;
    try {
      for (const auto& record : shown.directory.read_metrics())
        if (const auto& a = record.accuracy)
          table.add_row({shown.cell.name, fmt::format("{}", record.round), text(a->all), text(a->many), text(a->med),
                         text(a->few)});
    } catch (const Error&) {
      shown.summary.reset();
      shown.state = "damaged";
    }
  }
  return table;
}

}  // namespace fedgrab
