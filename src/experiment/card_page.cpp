#include "fedgrab/experiment/card_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fedgrab/core/version.h"
#include "fedgrab/experiment/settings.h"
#include "fedgrab/method/composition.h"
#include "fedgrab/record/table.h"

namespace fedgrab {
namespace {

constexpr int64_t few_images = 20;     // of a class: what is measured of it is little more than chance
constexpr size_t most_classes = 1000;  // in a table

std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

std::string number(const Json& value) { return fmt::format("{:.4g}", value.get<double>()); }

/// What a summary says of a model, in whatever form it has its measures.
struct Measures {
  std::vector<std::pair<std::string, std::string>> totals;          // name, value
  std::vector<std::pair<std::string, std::vector<Json>>> of_class;  // name, one each
};

/// {"value": 0.9, "low": 0.8, "high": 0.95}, or the last two as a list of another name.
std::string with_interval(const Json& measured) {
  std::string text = number(measured["value"]);
  std::vector<Json> ends;
  for (const auto& [key, value] : measured.items()) {
    if (key == "value") continue;
    if (value.is_number()) ends.push_back(value);
    if (value.is_array() && value.size() == 2) ends = {value[0], value[1]};
  }
  if (ends.size() == 2 && ends[0].is_number() && ends[1].is_number())
    text += fmt::format(" ({} to {})", number(ends[0]), number(ends[1]));
  return text;
}

bool measured(const Json& json) { return json.is_object() && json.contains("value") && json["value"].is_number(); }

std::string cell(const Json& json) {
  if (json.is_number()) return number(json);
  return measured(json) ? with_interval(json) : "–";
}

void collect(const Json& json, size_t classes, Measures& found) {
  static const std::vector<std::string> no_measures{"round", "evaluations"};
  for (const auto& [key, value] : json.items()) {
    if (std::find(no_measures.begin(), no_measures.end(), key) != no_measures.end()) continue;
    const bool known = std::any_of(found.totals.begin(), found.totals.end(),
                                   [&, name = words(key)](const auto& total) { return total.first == name; });
    if ((value.is_number() || measured(value)) && !known)
      found.totals.emplace_back(words(key), cell(value));
    else if (value.is_array() && value.size() == classes)
      found.of_class.emplace_back(key == "per_class" ? "accuracy" : words(key), value.get<std::vector<Json>>());
    else if (value.is_object() && !measured(value))
      collect(value, classes, found);
  }
}

Measures measures_of(const CardSource& source, size_t classes) {
  Measures found;
  if (!source.model || !source.summary.is_object()) return found;
  const std::string section = name_of(*source.model);
  // With intervals first: of two measures of one name, the first counts.
  if (source.summary.contains("measures") && source.summary["measures"].contains(section))
    collect(source.summary["measures"][section], classes, found);
  if (source.summary.contains(section)) collect(source.summary[section], classes, found);
  return found;
}

std::string markdown_rows(const std::vector<std::pair<std::string, std::string>>& rows, const char* left,
                          const char* right) {
  Table table({{left, Align::left}, {right, Align::left}});
  for (const auto& [name, value] : rows) table.add_row({name, value});
  return table.to_markdown() + "\n";
}

std::string posthoc_line(const Config& config, const CardSource& source) {
  std::string text = std::get<std::string>(config.get("posthoc.kind"));
  if (source.model != RunModel::last || !source.summary.contains("posthoc")) return text;
  for (const auto& [key, value] : source.summary["posthoc"].items())
    if (value.is_number())
      text += fmt::format(", {} {}", words(key), number(value));
    else if (key == "fitted_on" && value.is_string())
      text += fmt::format(", fitted on {} images", value.get<std::string>());
  return text;
}

std::string what_it_is(const LoadedModel& model, const Config& config, const CardSource& source) {
  const ModelCard& card = model.card;
  const auto text = [&](const char* key) {
    const Value& value = config.get(key);
    const auto* plain = std::get_if<std::string>(&value);  // to_text() quotes it
    return plain != nullptr ? *plain : to_text(value);
  };
  const ImageShape& in = card.input;
  std::vector<std::pair<std::string, std::string>> rows{
      {"file", source.file},
      {"task", fmt::format("one of {} classes for an image", card.class_names.size())},
      {"network", fmt::format("{}, {} parameters", card.architecture, model.state.model->parameter_count())},
      {"input", fmt::format("float32 [batch, {}, {}, {}], {} values from 0 to 1; the normalisation is inside",
                            in.channels, in.height, in.width, in.channels == 1 ? "grey" : "RGB")},
      {"output", source.outputs},
      {"training",
       fmt::format("simulated federation: {} clients, partition {}, method {}, round {} of {}{}",
                   text("partition.clients"), text("partition.kind"), text("method.name"), card.round,
                   text("train.rounds"), source.model == RunModel::best ? ", the best on the validation split" : "")},
      {"post-hoc classifier", posthoc_line(config, source)},
      {"probabilities", calibrated(card) ? "calibrated: a temperature was fitted on the validation split"
                                         : "not calibrated: the softmax of the logits"},
      {"written by", program_text()}};
  if (card.source)
    rows.emplace_back("training images",
                      fmt::format("half of the files up to {} x {} pixels", card.source->width, card.source->height));
  return markdown_rows(rows, "", "");
}

std::vector<int64_t> counts_of(const CardSource& source, size_t classes) {
  if (!source.counts || !source.summary.is_object()) return {};
  auto counts = source.summary.value("class_counts", std::vector<int64_t>());
  return counts.size() == classes ? counts : std::vector<int64_t>();
}

std::string classes_text(const ModelCard& card, const CardSource& source, const Measures& measures) {
  const auto counts = counts_of(source, card.class_names.size());
  std::vector<Column> columns{{"number"}, {"class", Align::left}};
  if (!counts.empty()) columns.push_back({"training images"});
  for (const auto& [name, values] : measures.of_class) columns.push_back({name});
  Table table(columns);
  const size_t shown = std::min(card.class_names.size(), most_classes);
  for (size_t c = 0; c < shown; ++c) {
    std::vector<std::string> row{fmt::format("{}", c), card.class_names[c]};
    if (!counts.empty()) row.push_back(fmt::format("{}", counts[c]));
    for (const auto& [name, values] : measures.of_class) row.push_back(cell(values[c]));
    table.add_row(std::move(row));
  }
  std::string text = "## Classes\n\n";
  if (!counts.empty())
    text +=
        "The numbers of training images are part of this page because its author exported them. `--no-counts` leaves "
        "them out.\n\n";
  text += table.to_markdown() + "\n";
  if (shown < card.class_names.size()) text += fmt::format("{} more classes.\n\n", card.class_names.size() - shown);
  return text;
}

std::string measures_text(const CardSource& source, const Measures& measures) {
  if (measures.totals.empty())
    return "## Measures\n\nNone are known: the file was not exported from a finished run, or the classifier was "
           "changed "
           "after the run. `fedgrab eval` measures it.\n\n";
  std::string text =
      fmt::format("## Measures\n\nOn the test set of the run, {}.\n\n",
                  source.model == RunModel::best ? "of the round that was the best on the validation split"
                                                 : "after the last round");
  return text + markdown_rows(measures.totals, "measure", "value");
}

std::string limits_text(const ModelCard& card, const CardSource& source) {
  const auto counts = counts_of(source, card.class_names.size());
  std::vector<std::string> limits{
      "It gives one of its classes for every image, also for one that shows none of them.",
      "It was measured on images of the same origin as its training images. Other devices, sites or people may lower "
      "every measure.",
      fmt::format("Images are read at {} x {} pixels. What cannot be seen at that size cannot be recognised.",
                  card.input.width, card.input.height)};
  if (!calibrated(card))
    limits.push_back("A probability of 0.9 does not mean that nine of ten such answers are right.");
  const auto rare = std::count_if(counts.begin(), counts.end(), [](int64_t count) { return count < few_images; });
  if (rare > 0)
    limits.push_back(
        fmt::format("{} of {} classes had fewer than {} training images.", rare, counts.size(), few_images));
  std::string text = "## Limits\n\n";
  for (const auto& limit : limits) text += "- " + limit + "\n";
  return text + "\n";
}

}  // namespace

std::string card_page(const LoadedModel& model, const CardSource& source) {
  const Config config = resolve_config({"the description of the model", model.card.config}, {});
  const Measures measures = measures_of(source, model.card.class_names.size());
  return fmt::format("# Model card: {}\n\n", source.file) + what_it_is(model, config, source) +
         "## Intended use\n\nTo classify images like those it was trained on, after it has been measured on images of "
         "the place where it is used. It is no medical device, and no decision about a person should rest on it "
         "alone.\n\n" +
         classes_text(model.card, source, measures) + measures_text(source, measures) + limits_text(model.card, source);
}

}  // namespace fedgrab
