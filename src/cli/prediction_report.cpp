#include "prediction_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "accuracy_table.h"
#include "fedgrab/experiment/evaluation.h"

namespace fedgrab::cli {
namespace {

namespace fs = std::filesystem;
using Truth = std::vector<std::optional<int32_t>>;

constexpr size_t widest_confusion = 20, most_mistakes = 20;

bool any_known(const Truth& truth) {
  return std::any_of(truth.begin(), truth.end(), [](const auto& label) { return label.has_value(); });
}

std::string count_cell(int64_t count) { return count == 0 ? "·" : fmt::format("{}", count); }

/// Rows are the true classes, columns the predicted ones by number.
std::string confusion_text(const std::vector<std::vector<int64_t>>& confusion, const std::vector<int64_t>& images,
                           const std::vector<std::string>& names) {
  std::vector<Column> columns{{"class"}, {"truth", Align::left}, {"images"}, {"right"}};
  for (size_t c = 0; c < names.size(); ++c) columns.push_back({fmt::format("as {}", c)});
  Table table(columns);
  for (size_t c = 0; c < names.size(); ++c) {
    const auto right = images[c] == 0
                           ? std::nullopt
                           : std::optional(static_cast<double>(confusion[c][c]) / static_cast<double>(images[c]));
    std::vector<std::string> row{fmt::format("{}", c), names[c], count_cell(images[c]), percent(right)};
    for (const int64_t count : confusion[c]) row.push_back(count_cell(count));
    table.add_row(row);
  }
  return table.to_text();
}

/// Of many classes, the pairs that are confused most often.
std::string mistakes_text(const std::vector<std::vector<int64_t>>& confusion, const std::vector<std::string>& names) {
  std::vector<std::tuple<int64_t, size_t, size_t>> mistakes;
  for (size_t truth = 0; truth < confusion.size(); ++truth)
    for (size_t answer = 0; answer < confusion.size(); ++answer)
      if (truth != answer && confusion[truth][answer] > 0)
        mistakes.emplace_back(-confusion[truth][answer], truth, answer);
  std::sort(mistakes.begin(), mistakes.end());
  Table table({{"truth", Align::left}, {"predicted", Align::left}, {"images"}});
  for (size_t i = 0; i < std::min(mistakes.size(), most_mistakes); ++i) {
    const auto& [count, truth, answer] = mistakes[i];
    table.add_row({names[truth], names[answer], fmt::format("{}", -count)});
  }
  std::string text = table.to_text();
  if (mistakes.size() > most_mistakes) text += fmt::format("({} rarer mistakes)\n", mistakes.size() - most_mistakes);
  return text;
}

}  // namespace

Truth truth_of(const std::vector<Classified>& images, const std::vector<std::string>& class_names) {
  std::map<std::string, int32_t> label;
  for (const auto& name : class_names) label.emplace(name, static_cast<int32_t>(label.size()));
  Truth truth;
  for (const auto& image : images) {
    auto& found = truth.emplace_back();
    if (image.file->named) continue;
    for (const auto& folder : fs::path(image.file->shown).parent_path())
      if (const auto known = label.find(folder.string()); known != label.end()) found = known->second;
  }
  return truth;
}

Table prediction_table(const std::vector<Classified>& images, const Truth& truth,
                       const std::vector<std::string>& class_names) {
  const bool with_truth = any_known(truth);
  std::vector<Column> columns{{"file", Align::left}};
  if (with_truth) columns.push_back({"truth", Align::left});
  const size_t shown = images.empty() ? 0 : images.front().classes.size();
  for (size_t rank = 1; rank <= shown; ++rank) {
    const std::string suffix = rank == 1 ? "" : fmt::format(" {}", rank);
    columns.push_back({"class" + suffix, Align::left});
    columns.push_back({"probability" + suffix});
  }
  const auto name = [&](int32_t c) { return class_names[static_cast<size_t>(c)]; };
  Table table(columns);
  for (size_t i = 0; i < images.size(); ++i) {
    std::vector<std::string> row{images[i].file->shown};
    if (with_truth) row.push_back(truth[i] ? name(*truth[i]) : "");
    for (size_t rank = 0; rank < shown; ++rank) {
      row.push_back(name(images[i].classes[rank]));
      row.push_back(fmt::format("{:.6f}", images[i].probabilities[rank]));
    }
    table.add_row(std::move(row));
  }
  return table;
}

std::string truth_text(const std::vector<Classified>& images, const Truth& truth,
                       const std::vector<std::string>& class_names) {
  if (!any_known(truth)) return {};
  std::vector<int32_t> answers, labels;
  for (size_t i = 0; i < images.size(); ++i) {
    if (!truth[i]) continue;
    answers.push_back(images[i].classes.front());
    labels.push_back(*truth[i]);
  }
  const auto confusion = confusion_matrix(answers, labels, static_cast<int64_t>(class_names.size()));
  std::vector<int64_t> counts(class_names.size());
  double right = 0, shares = 0, present = 0;
  for (size_t c = 0; c < confusion.size(); ++c) {
    for (const int64_t count : confusion[c]) counts[c] += count;
    if (counts[c] == 0) continue;
    right += static_cast<double>(confusion[c][c]);
    shares += static_cast<double>(confusion[c][c]) / static_cast<double>(counts[c]);
    ++present;
  }
  std::string text = fmt::format("accuracy {:.3f}, balanced accuracy {:.3f} over {} classes, {} images\n\n",
                                 right / static_cast<double>(labels.size()), shares / present, present, labels.size());
  text += class_names.size() > widest_confusion ? mistakes_text(confusion, class_names)
                                                : confusion_text(confusion, counts, class_names);
  if (labels.size() < images.size())
    text += fmt::format("({} images lie in no folder with the name of a class)\n", images.size() - labels.size());
  return text;
}

}  // namespace fedgrab::cli
