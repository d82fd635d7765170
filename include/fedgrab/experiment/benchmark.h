/// How fast this machine trains, with LibTorch's own eager loop beside it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fedgrab/experiment/settings.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

struct EngineSpeed {
  int64_t workers = 1;
  double steps_per_second = 0;  // client-steps
  double samples_per_second = 0;
  double rounds_per_second = 0;  // of the configured federation, by its number of steps
};

struct BenchReport {
  std::string model, device, method;
  int64_t batch = 0, classes = 0, parameters = 0;
  std::vector<EngineSpeed> speeds;  // one worker, then all
  double speedup = 1;               // of all workers over one
  double step_ms = 0;               // one worker, everything included
  double eager_step_ms = 0;         // torch::nn and torch::optim on a ready batch
  double overhead = 0;              // step over eager step, minus 1
  double balancer_us = 0;           // one SGB step at batch 32 and 1,000 classes
  double resnet18_step_ms = 0;      // at batch 32, eager; only where asked for
  int64_t peak_memory_bytes = 0;
};

/// Takes about `seconds` for each of its measurements.
BenchReport run_benchmark(const Config& config, double seconds, bool with_resnet18);
Json to_json(const BenchReport& report);

}  // namespace fedgrab
