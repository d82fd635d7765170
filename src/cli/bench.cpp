#include <fmt/format.h>

#include "commands.h"
#include "config_flags.h"
#include "fedgrab/experiment/benchmark.h"
#include "fedgrab/record/table.h"

namespace fedgrab::cli {
namespace {

struct BenchFlags {
  std::shared_ptr<ConfigFlags> config;
  double seconds = 5;
  bool json = false, resnet18 = false;
};

void bench(const BenchFlags& flags) {
  const BenchReport r = run_benchmark(flags.config->resolve(), flags.seconds, flags.resnet18);
  if (flags.json) {
    fmt::print("{}\n", to_json(r).dump(1));
    return;
  }
  fmt::print("{} ({} parameters, {} classes), {}, batch {}, {}\n\n", r.model, r.parameters, r.classes, r.method,
             r.batch, r.device);
  Table table({{"workers"}, {"client-steps/s"}, {"samples/s"}, {"rounds/s"}});
  for (const auto& s : r.speeds)
    table.add_row({fmt::format("{}", s.workers), fmt::format("{:.1f}", s.steps_per_second),
                   fmt::format("{:.0f}", s.samples_per_second), fmt::format("{:.2f}", s.rounds_per_second)});
  fmt::print("{}\n", table.to_text());
  fmt::print("all workers over one: {:.2f} x\n", r.speedup);
  fmt::print("one step: {:.3f} ms; LibTorch's eager loop on a ready batch: {:.3f} ms; ours on top: {:+.1f} %\n",
             r.step_ms, r.eager_step_ms, 100 * r.overhead);
  fmt::print("one SGB step at batch 32 and 1,000 classes: {:.0f} us", r.balancer_us);
  if (r.resnet18_step_ms > 0)
    fmt::print(", {:.2f} % of a ResNet-18 step at batch 32 ({:.0f} ms)", 100 * r.balancer_us / 1e3 / r.resnet18_step_ms,
               r.resnet18_step_ms);
  fmt::print("\npeak memory: {} MiB\n", r.peak_memory_bytes >> 20);
}

}  // namespace

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "How fast this machine trains, beside LibTorch's eager loop");
  auto flags = std::make_shared<BenchFlags>();
  flags->config = add_config_flags(*command);
  command->add_option("--seconds", flags->seconds, "Time for each measurement")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  command->add_flag("--resnet18", flags->resnet18, "Also time a ResNet-18 step, to compare a balancer step with");
  command->add_flag("--json", flags->json, "Print JSON");
  command->callback([flags] { bench(*flags); });
}

}  // namespace fedgrab::cli
