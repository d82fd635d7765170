/// How fast this machine trains, in comparison with LibTorch's eager mode in the same process.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

/// Settings by name, for `fedgrab bench --workload NAME`. Images are the built-in ones: speed does not depend on them.
struct BenchWorkload {
  std::string name, summary;
  Assignments settings;
};
const std::vector<BenchWorkload>& bench_workloads();
const BenchWorkload& find_workload(const std::string& name);

struct EngineSpeed {
  int64_t workers = 1;
  double steps_per_second = 0;  // client-steps
  double samples_per_second = 0;
  double rounds_per_second = 0;  // of the configured federation, by its number of steps
};

/// Measured limits of a device.
struct DeviceFloors {
  double tera_flops = 0;        // of a large bf16 matrix product
  double bytes_per_second = 0;  // of a large copy, read and written
  /// Milliseconds per client-step: all multiplications at that speed; reading and writing every weight and its
  /// momentum.
  double arithmetic_ms = 0, memory_ms = 0;
};

struct BenchReport {
  std::string workload, model, device, method;
  int64_t batch = 0, classes = 0, parameters = 0, clients = 0;
  std::vector<EngineSpeed> speeds;  // cpu: one worker, then all; cuda: the engine
  double speedup = 1;               // cpu: of all workers over one
  double step_ms = 0;               // cpu: one worker; cuda: all slots together, per client-step
  double eager_step_ms = 0;         // torch::nn and torch::optim on a ready batch, on the same device
  double overhead = 0;              // step over eager step, minus 1
  double balancer_us = 0;           // cpu: one SGB step at batch 32 and 1,000 classes
  double resnet18_step_ms = 0;      // at batch 32, eager; only if requested
  double tera_flops = 0;            // multiplications and additions of forward and backward pass, per second, in 10¹²
  double run_peta_flops = 0;        // of all rounds of the configured run, in 10¹⁵
  /// Weights and momentum, each read and written once: what a client-step moves at least.
  int64_t step_bytes = 0;
  DeviceFloors floors;                          // cuda
  std::map<std::string, double> phase_seconds;  // cuda: of a round
  int64_t peak_memory_bytes = 0, device_memory_bytes = 0;
};

/// Takes about `seconds` for each of its measurements.
BenchReport run_benchmark(const Config& config, double seconds, bool with_resnet18);
Json to_json(const BenchReport& report);

}  // namespace fedgrab
