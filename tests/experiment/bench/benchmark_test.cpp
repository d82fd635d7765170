#include "fedgrab/experiment/benchmark.h"

#include <gtest/gtest.h>

#include "tests/data/scratch_folder.h"

namespace fedgrab::benchmark_test {

TEST(Workloads, AreValidSettings) {
  ASSERT_FALSE(bench_workloads().empty());
  for (const auto& workload : bench_workloads()) {
    SCOPED_TRACE(workload.name);
    resolve_config(std::nullopt, workload.settings);
    EXPECT_EQ(find_workload(workload.name).summary, workload.summary);
  }
  expect_error(Fault::usage, [] { find_workload("papr"); }, {"papr"});
}

TEST(Benchmark, MeasuresOneWorkerAndAllOfThem) {
  const Config config = resolve_config(std::nullopt, {{"data.per_class", "20"},
                                                      {"data.test_per_class", "3"},
                                                      {"partition.clients", "3"},
                                                      {"engine.device", "cpu"},
                                                      {"engine.workers", "2"},
                                                      {"train.batch", "4"}});
  const BenchReport report = run_benchmark(config, 0.01, false);
  ASSERT_EQ(report.speeds.size(), 2U);
  EXPECT_EQ(report.speeds[0].workers, 1);
  EXPECT_EQ(report.speeds[1].workers, 2);
  for (const auto& speed : report.speeds) {
    EXPECT_GT(speed.steps_per_second, 0);
    EXPECT_NEAR(speed.samples_per_second / speed.steps_per_second, 4, 1e-6);  // whole batches alone are timed
  }
  EXPECT_GT(report.eager_step_ms, 0);
  EXPECT_GT(report.balancer_us, 0);
  EXPECT_EQ(report.batch, 4);
  EXPECT_EQ(report.classes, 10);
  EXPECT_EQ(report.method, "fedgrab+");
  const Json json = to_json(report);
  EXPECT_EQ(json["speeds"].size(), 2U);
  EXPECT_TRUE(json.contains("overhead"));
}

}  // namespace fedgrab::benchmark_test
