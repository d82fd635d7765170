#include "fedgrab/report/figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>

#include "fedgrab/data/partition.h"
#include "fedgrab/record/heat_map.h"
#include "fedgrab/record/plot.h"
#include "fedgrab/report/experiments.h"
#include "numbers.h"
#include "thinning.h"

namespace fedgrab {
namespace {

constexpr size_t longest_name = 100;
constexpr size_t most_columns = 60;  // of a map over rounds: more are too narrow for their labels

/// A name for the files of each run, which every file system takes and no other run has.
std::vector<std::string> file_names(std::span<const Run> runs) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const auto& run : runs) {
    std::string name = run.name.substr(0, longest_name);
    for (char& c : name)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.') c = '-';
    std::string free = name;
    for (int copy = 2; !taken.insert(free).second; ++copy) free = fmt::format("{}-{}", name, copy);
    names.push_back(free);
  }
  return names;
}

/// What has a line or a colour of its own: the seeds of an experiment together, as far as they have ended, or a run
/// where none was repeated.
struct Shown {
  std::string name;
  std::vector<const Run*> runs;
};
std::vector<Shown> shown_of(std::span<const Run> runs) {
  const Experiments experiments = experiments_of(runs);
  const bool repeated = experiments.all.size() < runs.size();
  std::vector<Shown> all;
  for (const auto& experiment : experiments.all) {
    Shown& shown = all.emplace_back();
    for (const size_t i : counted(runs, experiment)) shown.runs.push_back(&runs[i]);
    shown.name = repeated ? experiments.name(experiment) : shown.runs.front()->name;
  }
  return all;
}

/// At the rounds that all of its runs have that have any.
Series over_rounds(const Shown& shown, const Number& number) {
  Values values;
  std::set<const Run*> having;
  for (const auto* run : shown.runs)
    for (const auto& record : run->records)
      if (const auto value = number(record)) {
        values[static_cast<double>(record.round)].push_back(*value);
        having.insert(run);
      }
  std::erase_if(values, [&](const auto& round) { return round.second.size() < having.size(); });
  return mean_series(shown.name, values);
}

/// Everything has its series, so that panels and their one legend agree on the colours.
Panel by_round(const std::vector<Shown>& all, const std::string& label, bool share, const Number& number) {
  Panel panel{.x_label = "round", .y_label = label, .share = share};
  for (const auto& shown : all) panel.series.push_back(over_rounds(shown, number));
  return panel;
}

std::string accuracy(const std::vector<Shown>& all) {
  return plot("Accuracy by round",
              {by_round(all, "All", true, of_accuracy([](const Accuracy& a) { return std::optional(a.all); })),
               by_round(all, "Many", true, of_accuracy([](const Accuracy& a) { return a.many; })),
               by_round(all, "Med", true, of_accuracy([](const Accuracy& a) { return a.med; })),
               by_round(all, "Few", true, of_accuracy([](const Accuracy& a) { return a.few; }))});
}

bool reaches_target(const Run* run) { return run->summary && run->summary->few_round; }

/// Over the seeds that reach it. What never does has no bar.
std::string rounds_to_target(const std::vector<Shown>& all) {
  Panel panel{.y_label = "round", .positive = true};
  Values reached;
  for (const auto& shown : all) {
    std::vector<double> rounds;
    for (const auto* run : shown.runs)
      if (reaches_target(run)) rounds.push_back(static_cast<double>(*run->summary->few_round));
    if (!rounds.empty()) reached[static_cast<double>(panel.categories.size())] = rounds;
    panel.categories.push_back(shown.name + (rounds.empty() ? " (never)"
                                             : rounds.size() < shown.runs.size()
                                                 ? fmt::format(" ({} of {})", rounds.size(), shown.runs.size())
                                                 : ""));
  }
  panel.series = {mean_series("first of two evaluations in a row with Few at 0.55", reached)};
  return plot("Rounds to the target", {panel});
}

bool has_prior(const Run& run) {
  return std::any_of(run.records.begin(), run.records.end(), [](const auto& r) { return r.prior.has_value(); });
}

std::string prior_scores(std::vector<Shown> all) {
  std::erase_if(all, [](const Shown& shown) {
    return std::none_of(shown.runs.begin(), shown.runs.end(), [](const Run* run) { return has_prior(*run); });
  });
  const auto of = [](auto pick) {
    return [pick](const RoundRecord& r) { return r.prior ? std::optional(pick(*r.prior)) : std::nullopt; };
  };
  return plot("The prior over rounds",
              {by_round(all, "distance to the truth (L2)", false, of([](const PriorRecord& p) { return p.l2; })),
               by_round(all, "share of Few found", true, of([](const PriorRecord& p) { return p.tail_hit; }))});
}

std::vector<std::string> names_by_size(const Run& run) {
  std::vector<std::string> names;
  for (const size_t c : run.classes_by_size()) names.push_back(run.population->class_names[c]);
  return names;
}

Series by_class(const std::string& name, const Run& run, const std::vector<double>& values) {
  Series series{name, {}, {}};
  for (const size_t c : run.classes_by_size()) {
    series.x.push_back(static_cast<double>(series.x.size()));
    series.y.push_back(c < values.size() ? values[c] : 0);
  }
  return series;
}

/// Runs on the classes of the first one, from common to rare.
std::string per_class(const std::vector<Shown>& all, const Run& first) {
  Panel panel{.y_label = "accuracy", .categories = names_by_size(first), .share = true};
  for (const auto& shown : all) {
    Values values;
    for (const auto* run : shown.runs) {
      if (!run->summary || !run->population || run->population->class_names != first.population->class_names) continue;
      const Series own = by_class(shown.name, first, run->summary->last.per_class);
      for (size_t i = 0; i < own.x.size(); ++i) values[own.x[i]].push_back(own.y[i]);
    }
    if (!values.empty()) panel.series.push_back(mean_series(shown.name, values));
  }
  return plot("Accuracy of each class, from common to rare", {panel});
}

std::string confusion(const Run& run) {
  const auto order = run.classes_by_size();
  HeatMap map{"Confusion, shares of each class from 0 (light) to 1 (dark): " + run.name,
              "truth",
              "answer",
              names_by_size(run),
              names_by_size(run),
              {}};
  for (const size_t truth : order) {
    const auto& counts = run.confusion.at(truth);
    const auto all = std::max<int64_t>(1, std::accumulate(counts.begin(), counts.end(), int64_t{0}));
    auto& row = map.shares.emplace_back();
    for (const size_t answer : order) row.push_back(static_cast<double>(counts.at(answer)) / static_cast<double>(all));
  }
  return heat_map(map);
}

/// What `pick` gives of some rounds, a column each, classes from common to rare; `range` says what the shades mean.
template <class Pick>
std::string over_time(const Run& run, const std::string& title, double low, double high, Pick pick) {
  std::vector<std::pair<int64_t, const std::vector<double>*>> rounds;
  for (const auto& record : run.records)
    if (const std::vector<double>* values = pick(record)) rounds.emplace_back(record.round, values);
  HeatMap map{fmt::format("{}, from {:.3g} (light) to {:.3g} (dark): {}", title, low, high, run.name),
              "class",
              "round",
              names_by_size(run),
              {},
              {}};
  map.shares.resize(map.rows.size());
  const auto order = run.classes_by_size();
  for (const size_t i : thin(rounds.size(), most_columns).kept) {
    map.columns.push_back(std::to_string(rounds[i].first));
    for (size_t row = 0; row < order.size(); ++row)
      map.shares[row].push_back(((*rounds[i].second)[order[row]] - low) / std::max(high - low, 1e-12));
  }
  return heat_map(map);
}

const std::vector<double>* per_class_of(const RoundRecord& record) {
  return record.accuracy && !record.accuracy->per_class.empty() ? &record.accuracy->per_class : nullptr;
}

std::string balancers_over_time(const Run& run, const std::string& key, const std::string& label) {
  const auto pick = [&](const RoundRecord& record) {
    const auto found = record.diagnostics.find(key);
    return found == record.diagnostics.end() ? nullptr : &found->second.mean;
  };
  double reach = 0;
  for (const auto& record : run.records)
    if (const auto* values = pick(record))
      for (const double value : *values) reach = std::max(reach, std::abs(value));
  return over_time(run, label + " of each class, mean over clients", key == "delta" ? -reach : 0, reach, pick);
}

std::string client_map(const Population& population) {
  std::vector<std::vector<int64_t>> table;
  for (const auto& client : population.clients) {
    auto& row = table.emplace_back(population.class_names.size());
    for (const auto& [label, count] : client) row.at(static_cast<size_t>(label)) = count;
  }
  return partition_picture(table, population.class_names);
}

/// The commonest, the middle and the rarest class.
Panel balancer(const Run& run, const std::string& key, const std::string& label) {
  Panel panel{.x_label = "round", .y_label = label};
  const auto order = run.classes_by_size();
  for (const size_t c : {order.front(), order[order.size() / 2], order.back()}) {
    Series series{run.population->class_names[c], {}, {}};
    for (const auto& record : run.records)
      if (const auto found = record.diagnostics.find(key); found != record.diagnostics.end()) {
        series.x.push_back(static_cast<double>(record.round));
        series.y.push_back(found->second.mean.at(c));
        if (!found->second.std.empty()) series.band.push_back(found->second.std.at(c));
      }
    panel.series.push_back(series);
  }
  return panel;
}

std::vector<double> normalised(std::vector<double> values) {
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  for (double& value : values) value /= sum;
  return values;
}

std::string prior(const Run& run, const PriorRecord& prior) {
  const auto& counts = run.population->class_counts;
  const auto truth = normalised({counts.begin(), counts.end()}), shares = normalised(prior.p);
  return plot("Prior against the truth: " + run.name,
              {{.y_label = "share of the class",
                .series = {by_class("truth", run, truth), by_class("prior", run, shares)},
                .categories = names_by_size(run)}});
}

using Total = std::function<double(const RoundRecord&)>;

/// Sums over all rounds, of several seeds their mean, a group of bars each.
std::string totals(const std::string& title, const std::string& label, const std::vector<Shown>& all,
                   const std::vector<std::pair<std::string, Total>>& parts) {
  Panel panel{.y_label = label, .positive = true};
  for (const auto& shown : all) panel.categories.push_back(shown.name);
  for (const auto& [name, total] : parts) {
    Values sums;
    for (size_t i = 0; i < all.size(); ++i)
      for (const auto* run : all[i].runs)
        sums[static_cast<double>(i)].push_back(
            std::accumulate(run->records.begin(), run->records.end(), 0.0,
                            [&total = total](double sum, const RoundRecord& r) { return sum + total(r); }));
    panel.series.push_back(mean_series(name, sums));
  }
  return plot(title, {panel});
}

std::string phases(const std::vector<Shown>& all) {
  std::vector<std::pair<std::string, Total>> parts;
  for (const std::string phase : {"train", "aggregate", "evaluate"})
    parts.emplace_back(phase, [phase](const RoundRecord& r) {
      const auto found = r.phase_seconds.find(phase);
      return found == r.phase_seconds.end() ? 0 : found->second;
    });
  return totals("Time by phase", "seconds", all, parts);
}

void add_details(const Run& run, const std::string& name, std::map<std::string, std::string>& files) {
  if (!run.population || run.population->class_names.empty()) return;
  const std::string end = "-" + name + ".svg";
  if (std::any_of(run.records.begin(), run.records.end(), [](const auto& r) { return per_class_of(r) != nullptr; }))
    files["classes" + end] = over_time(run, "Accuracy of each class", 0, 1, per_class_of);
  if (!run.confusion.empty()) files["confusion" + end] = confusion(run);
  if (!run.population->clients.empty()) files["clients" + end] = client_map(*run.population);
  for (const auto& [key, label] : {std::pair("delta", "Δ"), {"beta_pos", "β⁺"}, {"beta_neg", "β⁻"}})
    if (std::any_of(run.records.begin(), run.records.end(),
                    [&, key = key](const auto& r) { return r.diagnostics.contains(key); })) {
      files[key + end] =
          plot(std::string(label) + " over clients, mean ± deviation: " + run.name, {balancer(run, key, label)});
      files[std::string(key) + "_classes" + end] = balancers_over_time(run, key, label);
    }
  const auto last =
      std::find_if(run.records.rbegin(), run.records.rend(), [](const auto& r) { return r.prior.has_value(); });
  if (last != run.records.rend()) files["prior" + end] = prior(run, *last->prior);
}

}  // namespace

std::map<std::string, std::string> figures(std::span<const Run> runs) {
  std::map<std::string, std::string> files;
  const auto all = shown_of(runs);
  const auto evaluated = std::find_if(runs.begin(), runs.end(), [](const Run& r) { return r.summary && r.population; });
  if (std::any_of(runs.begin(), runs.end(), [](const Run& r) { return r.summary.has_value(); })) {
    files["accuracy.svg"] = accuracy(all);
    files["macro_f1.svg"] =
        plot("Macro F1",
             {by_round(all, "macro F1", true, of_accuracy([](const Accuracy& a) { return std::optional(a.f1); }))});
    files["test_loss.svg"] =
        plot("Test loss", {by_round(all, "loss", false, [](const RoundRecord& r) { return r.test_loss; })});
  }
  if (std::any_of(all.begin(), all.end(),
                  [](const Shown& shown) { return std::any_of(shown.runs.begin(), shown.runs.end(), reaches_target); }))
    files["rounds_to_target.svg"] = rounds_to_target(all);
  if (evaluated != runs.end()) files["per-class.svg"] = per_class(all, *evaluated);
  if (std::any_of(runs.begin(), runs.end(), [](const Run& r) { return !r.records.empty(); })) {
    files["loss.svg"] = plot(
        "Training loss", {by_round(all, "loss", false, [](const RoundRecord& r) { return std::optional(r.loss); })});
    files["bytes.svg"] =
        totals("Bytes sent", "MB", all,
               {{"to the server", [](const RoundRecord& r) { return static_cast<double>(r.bytes_up) / 1e6; }},
                {"to the clients", [](const RoundRecord& r) { return static_cast<double>(r.bytes_down) / 1e6; }}});
    files["phases.svg"] = phases(all);
  }
  if (std::any_of(runs.begin(), runs.end(), has_prior)) files["prior_scores.svg"] = prior_scores(all);
  const auto names = file_names(runs);
  for (size_t i = 0; i < runs.size(); ++i) add_details(runs[i], names[i], files);
  return files;
}

}  // namespace fedgrab
