#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "accuracy_table.h"
#include "commands.h"
#include "config_flags.h"
#include "fedgrab/core/file.h"
#include "fedgrab/experiment/preparation.h"

namespace fedgrab::cli {
namespace {

constexpr size_t most_columns = 20, most_rows = 60;

std::string shape_text(const ImageShape& s) { return fmt::format("{}x{}x{}", s.channels, s.height, s.width); }

void info(const ConfigFlags& flags) {
  const Settings settings = read_settings(flags.resolve());
  const Preparation p = prepare(settings);
  const auto full = class_counts(p.data.train.labels, p.data.classes());
  const auto test = class_counts(p.data.test.labels, p.data.classes());
  const auto [least, most] = std::minmax_element(p.counts.begin(), p.counts.end());
  fmt::print("{}: {} classes, images {}, {} training images of {} available, {} test images\n", p.data.name,
             p.data.classes(), shape_text(p.data.shape()), p.samples.size(), p.data.train.count(), p.data.test.count());
  fmt::print("largest class {}, smallest {}, imbalance factor {:.1f}\n\n", *most, *least,
             static_cast<double>(*most) / static_cast<double>(std::max<int64_t>(*least, 1)));
  Table table({{"class"}, {"name", Align::left}, {"training"}, {"available"}, {"test"}});
  for (size_t c = 0; c < p.counts.size(); ++c)
    table.add_row({fmt::format("{}", c), p.data.class_names[c], fmt::format("{}", p.counts[c]),
                   fmt::format("{}", full[c]), fmt::format("{}", test[c])});
  fmt::print("{}\n{}", table.to_text(), groups_text(p.groups, p.data.class_names));
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
  const Partition clients = partition_samples(settings, p, false);
  const auto counts = partition_table(clients, p.data.train.labels, p.data.classes());
  print_clients(counts, p.data.class_names);
  if (!json.empty()) save_partition(json, clients);
  write_atomically(svg, partition_picture(counts, p.data.class_names));
  fmt::print("{}: the picture of it{}\n", svg,
             json.empty()
                 ? ""
                 : fmt::format("; {}: reuse it with --set partition.kind=file --set partition.file={}", json, json));
}

}  // namespace

void add_data(CLI::App& app) {
  auto* command = app.add_subcommand("data", "Look at a data set and how it is spread over clients");
  command->require_subcommand(1);

  auto* info_command = command->add_subcommand("info", "Classes, counts, imbalance, groups");
  auto info_flags = add_config_flags(*info_command);
  info_command->callback([info_flags] { info(*info_flags); });

  auto* partition_command = command->add_subcommand("partition", "The client x class table and its picture");
  auto partition_flags = add_config_flags(*partition_command);
  auto svg = std::make_shared<std::string>("partition.svg");
  auto json = std::make_shared<std::string>();
  partition_command->add_option("--svg", *svg, "Where the picture goes")->type_name("FILE")->capture_default_str();
  partition_command->add_option("--json", *json, "Save the partition for reuse")->type_name("FILE");
  partition_command->callback([=] { partition(*partition_flags, *svg, *json); });
}

}  // namespace fedgrab::cli
