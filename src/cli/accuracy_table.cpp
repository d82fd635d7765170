#include "accuracy_table.h"

#include <fmt/format.h>

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
  return fmt::format("Many: {}\nMed:  {}\nFew:  {}\n", list_names(groups.many, names), list_names(groups.med, names),
                     list_names(groups.few, names));
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
  add(fmt::format("best (round {}, chosen {}on the {})", summary.best_round,
                  summary.criterion == name_of(Criterion::all) ? "" : fmt::format("by {} ", summary.criterion),
                  summary.best_by_validation ? "validation split" : "test set"),
      summary.best);
  std::string text = table.to_text() + "\n" + groups_text(summary.groups, summary.class_names);
  text += summary.few_round ? fmt::format("Few reached 0.55 in round {}.\n", *summary.few_round)
                            : "Few did not reach 0.55.\n";
  return text;
}

}  // namespace fedgrab::cli
