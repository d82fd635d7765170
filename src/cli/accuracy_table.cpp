#include "accuracy_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure_table.h"

namespace fedgrab::cli {
namespace {

constexpr size_t most_names = 12;

std::string list_names(const std::vector<int64_t>& classes, const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < classes.size() && i < most_names; ++i)
    text += (i == 0 ? "" : ", ") + names[static_cast<size_t>(classes[i])];
  if (classes.size() > most_names) text += fmt::format(" and {} more", classes.size() - most_names);
  return text.empty() ? "none" : text;
}

}  // namespace

std::string percent(const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : "–"; }

std::vector<std::string> accuracy_cells(const Accuracy& a) {
  return {percent(a.all), percent(a.many), percent(a.med), percent(a.few)};
}

std::string groups_text(const Groups& groups, const std::vector<std::string>& names) {
  const char* why = groups.thirds ? "(thirds of the classes by size: eval.thresholds leaves Many or Few empty)\n" : "";
  return fmt::format("Many: {}\nMed:  {}\nFew:  {}\n{}", list_names(groups.many, names), list_names(groups.med, names),
                     list_names(groups.few, names), why);
}

std::string posthoc_text(const PosthocRecord& record) {
  std::string text = record.kind;
  if (!record.fitted_on.empty()) text += fmt::format(", fitted on {} images", record.fitted_on);
  const char* before = ": ";
  for (const auto& [name, values] : record.numbers) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    text += values.size() == 1 ? fmt::format("{}{} {:.3f}", before, name, *low)
                               : fmt::format("{}{} {:.2f} to {:.2f}", before, name, *low, *high);
    before = ", ";
  }
  return text;
}

std::string privacy_text(const PrivacyRecord& p) {
  if (std::isinf(p.epsilon)) return "ε = ∞: updates are clipped, but without server.noise nobody is protected";
  return fmt::format(
      "ε = {:.3g} at δ = {:g} for one client replaced by another, {} of {} clients a round without replacement; "
      "simulated: whoever has train.seed can subtract the noise",
      p.epsilon, p.delta, p.per_round, p.clients);
}

std::string summary_text(const Summary& summary) {
  Table table({{"accuracy", Align::left}, {"All"}, {"Many"}, {"Med"}, {"Few"}, {"macro F1"}});
  const auto add = [&](const std::string& name, const Accuracy& a) {
    auto cells = accuracy_cells(a);
    cells.insert(cells.begin(), name);
    cells.push_back(percent(a.f1));
    table.add_row(cells);
  };
  add(fmt::format("last (round {})", summary.rounds), summary.last);
  add(fmt::format("mean of the last {}", summary.averaged), summary.mean_last_10);
  add(fmt::format("best (round {}, chosen {}on the {})", summary.best_round, fmt::format("by {} ", summary.criterion),
                  summary.best_by_validation ? "validation split" : "test set"),
      summary.best);
  std::string text = table.to_text() + "\n";
  if (summary.last_measures) {
    std::vector<NamedReport> reports{{"last", &*summary.last_measures}};
    if (summary.best_measures) reports.push_back({"best", &*summary.best_measures});
    text += measures_text(reports) + "\n";
  }
  text += groups_text(summary.groups, summary.class_names);
  text += fmt::format("Post-hoc classifier: {}\n", posthoc_text(summary.posthoc));
  text += summary.few_round ? fmt::format("Few reached 0.55 in round {}.\n", *summary.few_round)
                            : "Few did not reach 0.55 in two evaluations in a row.\n";
  if (summary.privacy) text += fmt::format("Privacy: {}\n", privacy_text(*summary.privacy));
  return text;
}

}  // namespace fedgrab::cli
