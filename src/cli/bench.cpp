#include <fmt/format.h>

#include "bench_comparison.h"
#include "commands.h"
#include "config_flags.h"
#include "fedgrab/experiment/benchmark.h"
#include "fedgrab/record/table.h"

namespace fedgrab::cli {
namespace {

struct BenchFlags {
  std::shared_ptr<ConfigFlags> config;
  std::string workload, compare;
  double seconds = 5;
  bool json = false, resnet18 = false;
};

void print_speeds(const BenchReport& r, bool by_workers) {
  std::vector<Column> columns{{"client-steps/s"}, {"samples/s"}, {"rounds/s"}};
  if (by_workers) columns.insert(columns.begin(), {"workers"});
  Table table(columns);
  for (const auto& s : r.speeds) {
    std::vector<std::string> row{fmt::format("{:.1f}", s.steps_per_second), fmt::format("{:.0f}", s.samples_per_second),
                                 fmt::format("{:.2f}", s.rounds_per_second)};
    if (by_workers) row.insert(row.begin(), fmt::format("{}", s.workers));
    table.add_row(row);
  }
  fmt::print("{}\n", table.to_text());
}

void print_cuda(const BenchReport& r) {
  print_speeds(r, false);
  fmt::print("one client-step: {:.3f} ms; LibTorch's eager loop on a ready batch: {:.2f} ms, {:.0f} x as long\n",
             r.step_ms, r.eager_step_ms, r.eager_step_ms / r.step_ms);
  const auto& f = r.floors;
  fmt::print(
      "floors: memory {:.3f} ms ({:.0f} % reached; {:.2f} TB/s measured), arithmetic {:.3f} ms ({:.0f} %; {:.0f} "
      "TFLOP/s "
      "bf16)\n",
      f.memory_ms, 100 * f.memory_ms / r.step_ms, f.bytes_per_second * 1e-12, f.arithmetic_ms,
      100 * f.arithmetic_ms / r.step_ms, f.tera_flops);
  fmt::print("{:.1f} TFLOP/s; device memory: {:.2f} GiB; a round:", r.tera_flops,
             static_cast<double>(r.device_memory_bytes) * 0x1.0p-30);
  for (const auto& [phase, seconds] : r.phase_seconds) fmt::print(" {} {:.3f} s", phase, seconds);
  fmt::print("\n");
}

void print_cpu(const BenchReport& r) {
  print_speeds(r, true);
  fmt::print("all workers over one: {:.2f} x\n", r.speedup);
  fmt::print("one step: {:.3f} ms; LibTorch's eager loop on a ready batch: {:.3f} ms; ours on top: {:+.1f} %\n",
             r.step_ms, r.eager_step_ms, 100 * r.overhead);
  fmt::print("one SGB step at batch 32 and 1,000 classes: {:.0f} us", r.balancer_us);
  if (r.resnet18_step_ms > 0)
    fmt::print(", {:.2f} % of a ResNet-18 step at batch 32 ({:.0f} ms)", 100 * r.balancer_us / 1e3 / r.resnet18_step_ms,
               r.resnet18_step_ms);
  fmt::print("\n{:.3f} TFLOP/s; peak memory: {} MiB\n", r.tera_flops, r.peak_memory_bytes >> 20);
}

Config config_of(const BenchFlags& flags) {
  const std::string file = flags.config->config_file();
  Assignments values = flags.workload.empty() ? Assignments{} : find_workload(flags.workload).settings;
  for (const auto& given : flags.config->assignments()) values.push_back(given);
  return resolve_config(file.empty() ? std::nullopt : std::optional<std::filesystem::path>(file), values);
}

void bench(const BenchFlags& flags) {
  const Json earlier = flags.compare.empty() ? Json() : read_benchmark(flags.compare);  // before the time is spent
  BenchReport r = run_benchmark(config_of(flags), flags.seconds, flags.resnet18);
  r.workload = flags.workload;
  Json json = to_json(r);
  if (flags.json) {
    if (!earlier.is_null()) json["times_as_fast"] = speed_ratio(earlier, json);
    fmt::print("{}\n", json.dump(1));
    return;
  }
  fmt::print("{} ({} parameters, {} classes), {}, batch {}, {} clients, {}\n\n", r.model, r.parameters, r.classes,
             r.method, r.batch, r.clients, r.device);
  r.floors.tera_flops > 0 ? print_cuda(r) : print_cpu(r);
  fmt::print("all rounds of this run: {:.3g} PFLOP; a client-step moves at least {:.3g} MB, weights and momentum\n",
             r.run_peta_flops, static_cast<double>(r.step_bytes) * 1e-6);
  if (!earlier.is_null()) fmt::print("\n{}", comparison_text(earlier, json));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Measure training speed, in comparison with LibTorch's eager mode");
  auto flags = std::make_shared<BenchFlags>();
  flags->config = add_config_flags(*command);
  std::string names;
  for (const auto& workload : bench_workloads()) names += fmt::format("\n{}: {}", workload.name, workload.summary);
  command->add_option("--workload", flags->workload, "Settings by name, which other flags override:" + names)
      ->type_name("NAME");
  command->add_option("--seconds", flags->seconds, "Time for each measurement")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--resnet18", flags->resnet18, "Also time a ResNet-18 step, for comparison with a balancer step");
  command->add_option("--compare", flags->compare, "Compare with an earlier measurement, written by --json")
      ->type_name("FILE.json");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { bench(*flags); });
}

}  // namespace fedgrab::cli
