#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "accuracy_table.h"
#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/experiment/preparation.h"

namespace fedgrab::cli {
namespace {

constexpr size_t most_columns = 20, most_rows = 60, most_classes = 100, most_names = 10;

std::string shape_text(const ImageShape& s) { return fmt::format("{}x{}x{}", s.channels, s.height, s.width); }

/// Half the mean difference between two classes, over the mean: 0 when all are equal, near 1 when one has all.
double gini(std::vector<int64_t> counts) {
  std::sort(counts.begin(), counts.end());
  double weighted = 0, sum = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    weighted += static_cast<double>(i + 1) * static_cast<double>(counts[i]);
    sum += static_cast<double>(counts[i]);
  }
  const auto n = static_cast<double>(counts.size());
  return sum == 0 ? 0 : 2 * weighted / (n * sum) - (n + 1) / n;
}

void print_sources(const Dataset& data) {
  if (data.sources)
    fmt::print("files of {}x{} to {}x{} pixels, half of them up to {}x{}\n", data.sources->smallest.width,
               data.sources->smallest.height, data.sources->largest.width, data.sources->largest.height,
               data.sources->median.width, data.sources->median.height);
  for (size_t i = 0; i < data.skipped.size() && i < most_names; ++i)
    fmt::print("cannot be read: {}\n", data.skipped[i]);
  if (data.skipped.size() > most_names) fmt::print("({} more cannot be read)\n", data.skipped.size() - most_names);
}

void print_splits(const Preparation& p) {
  if (p.data.validation.count() > 0)
    fmt::print("{} images are the validation split of the data set\n", p.data.validation.count());
  if (p.data.groups.empty()) return;
  std::set<int32_t> groups;
  for (const int64_t i : p.samples) groups.insert(p.data.groups[static_cast<size_t>(i)]);
  fmt::print("training images are of {} groups; each group stays on one side of a split and with one client\n",
             groups.size());
}

/// All classes, or of very many the largest and the smallest.
void print_classes(const Preparation& p) {
  const auto full = class_counts(p.data.train.labels, p.data.classes());
  const auto test = class_counts(p.data.test.labels, p.data.classes());
  std::vector<size_t> shown(p.counts.size());
  std::iota(shown.begin(), shown.end(), size_t{0});
  const bool many = shown.size() > most_classes;
  if (many) {
    std::stable_sort(shown.begin(), shown.end(), [&](size_t a, size_t b) { return p.counts[a] > p.counts[b]; });
    shown.erase(shown.begin() + most_names, shown.end() - most_names);
  }
  Table table({{"class"}, {"name", Align::left}, {"training"}, {"available"}, {"test"}});
  for (const size_t c : shown)
    table.add_row({fmt::format("{}", c), p.data.class_names[c], fmt::format("{}", p.counts[c]),
                   fmt::format("{}", full[c]), fmt::format("{}", test[c])});
  fmt::print("{}", table.to_text());
  if (many)
    fmt::print("({} classes between the {} largest and the {} smallest)\n", p.counts.size() - shown.size(), most_names,
               most_names);
}

void info(const ConfigFlags& flags) {
  Settings settings = read_settings(flags.resolve());
  settings.data.bad = BadImage::skip;  // to name them all
  const Preparation p = prepare(settings);
  const auto [least, most] = std::minmax_element(p.counts.begin(), p.counts.end());
  fmt::print("{}: {} classes, images {}, {} training images of {} available, {} test images\n", p.data.name,
             p.data.classes(), shape_text(p.data.shape()), p.samples.size(), p.data.train.count(), p.data.test.count());
  fmt::print("largest class {}, smallest {}, imbalance factor {:.1f}, Gini {:.3f}\n", *most, *least,
             static_cast<double>(*most) / static_cast<double>(std::max<int64_t>(*least, 1)), gini(p.counts));
  print_splits(p);
  print_sources(p.data);
  fmt::print("\n");
  print_classes(p);
  fmt::print("\n{}", groups_text(p.groups, p.data.class_names));
}

void check(const ConfigFlags& flags) {
  Settings settings = read_settings(flags.resolve());
  const auto& name = settings.data.name;
  if (const auto files = check_listed_files(settings.data, settings.seed())) {
    fmt::print("{}: {} training and {} test images are listed\n", name, files->train, files->test);
    for (size_t i = 0; i < files->missing.size() && i < most_names; ++i) fmt::print("missing: {}\n", files->missing[i]);
    if (files->missing.size() > most_names) fmt::print("({} more)\n", files->missing.size() - most_names);
    if (!files->missing.empty())
      throw Error(Fault::data, name,
                  fmt::format("{} of {} listed images are missing", files->missing.size(), files->train + files->test),
                  files->obtain.empty()
                      ? "data.images is the folder that the listed paths are below"
                      : fmt::format("data.images is the folder of {}: {}", files->images, files->obtain));
  }
  settings.data.bad = BadImage::skip;
  settings.data.verify = true;
  const Dataset data = load_dataset(settings.data, settings.seed());
  print_sources(data);
  if (!data.skipped.empty())
    throw Error(Fault::data, name, fmt::format("{} images cannot be read", data.skipped.size()),
                "replace them, or train with data.bad = skip");
  const int64_t held = data.validation.count();
  fmt::print("{}: all {} training{} and {} test images can be read\n", name, data.train.count(),
             held > 0 ? fmt::format(", {} validation", held) : "", data.test.count());
}

void print_clients(const std::vector<std::vector<int64_t>>& counts, const std::vector<std::string>& names) {
  const size_t columns = std::min(names.size(), most_columns);
  std::vector<Column> heads{{"client"}, {"all"}};
  for (size_t c = 0; c < columns; ++c) heads.push_back({names[c]});
  Table table(heads);
  const auto add = [&](const std::string& name, const std::vector<int64_t>& row) {
    std::vector<std::string> cells{name, fmt::format("{}", std::accumulate(row.begin(), row.end(), int64_t{0}))};
    for (size_t c = 0; c < columns; ++c) cells.push_back(row[c] == 0 ? "·" : fmt::format("{}", row[c]));
    table.add_row(cells);
  };
  std::vector<int64_t> total(names.size());
  for (const auto& row : counts)
    for (size_t c = 0; c < row.size(); ++c) total[c] += row[c];
  for (size_t k = 0; k < counts.size() && k < most_rows; ++k) add(fmt::format("{}", k), counts[k]);
  add("all", total);
  fmt::print("{}", table.to_text());
  if (counts.size() > most_rows) fmt::print("({} more clients)\n", counts.size() - most_rows);
  if (names.size() > most_columns) fmt::print("({} more classes)\n", names.size() - most_columns);
}

void partition(const ConfigFlags& flags, const std::string& svg, const std::string& json) {
  const Settings settings = read_settings(flags.resolve());
  const Preparation p = prepare(settings);
  const Partition clients = partition_samples(settings, p);
  const auto counts = partition_table(clients, p.data.train.labels, p.data.classes());
  print_clients(counts, p.data.class_names);
  if (!json.empty()) save_partition(json, clients);
  write_atomically(svg, partition_picture(counts, p.data.class_names));
  fmt::print("{}: picture of the table{}\n", svg,
             json.empty()
                 ? ""
                 : fmt::format("; {}: reuse it with --set partition.kind=file --set partition.file={}", json, json));
}

}  // namespace

void add_data(CLI::App& app) {
  auto* command = app.add_subcommand("data", "Inspect, partition, download and check data sets");
  command->require_subcommand(1);

  auto* info_command = command->add_subcommand("info", "Classes, counts, imbalance, groups, sizes, unreadable files");
  auto info_flags = add_config_flags(*info_command);
  info_command->callback([info_flags] { info(*info_flags); });

  auto* check_command = command->add_subcommand("check", "Read all images; list missing and unreadable files");
  auto check_flags = add_config_flags(*check_command);
  check_command->callback([check_flags] { check(*check_flags); });

  add_data_get(*command);

  auto* partition_command =
      command->add_subcommand("partition", "Table and picture of the class counts of each client");
  auto partition_flags = add_config_flags(*partition_command);
  auto svg = std::make_shared<std::string>("partition.svg");
  auto json = std::make_shared<std::string>();
  partition_command->add_option("--svg", *svg, "SVG file to write")->type_name("FILE")->capture_default_str();
  partition_command->add_option("--json", *json, "Save the partition for reuse")->type_name("FILE");
  partition_command->callback([=] { partition(*partition_flags, *svg, *json); });
}

}  // namespace fedgrab::cli
