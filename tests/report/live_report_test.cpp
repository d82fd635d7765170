#include "report/live_report.h"

#include <gtest/gtest.h>

#include <thread>

#include "fedgrab/core/interrupt.h"
#include "fedgrab/record/schema.h"
#include "fedgrab/report/watch.h"
#include "tests/data/scratch_folder.h"

namespace fedgrab::live_report_test {

std::string repeat(const std::string& piece, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += piece;
  return text;
}

Json read(LiveReport& report) {
  std::shared_ptr<const LiveReport::Snapshot> found;
  while (!(found = report.now())) std::this_thread::yield();  // until it has looked at the disk
  return Json::parse(found->json->plain);
}

TEST(LiveReport, LeavesOutRunsWhoseFilesAreNestedWithoutEnd) {
  const ScratchFolder scratch;
  const std::string one_round = "{\"round\":1}\n";
  for (const char* name : {"good", "keys", "lists", "metrics", "classes"}) {
    scratch.write(std::string(name) + "/config.toml", "[train]\nrounds = 3\n");
    scratch.write(std::string(name) + "/metrics.jsonl", one_round);
  }
  scratch.write("keys/config.toml", "a" + repeat(".a", 20000) + " = 1\n");
  scratch.write("lists/config.toml", "a = " + repeat("[", 20000));
  scratch.write("metrics/metrics.jsonl",
                "{\"round\":1,\"client_acc\":" + repeat("[", 20000) + repeat("]", 20000) + "}\n");
  scratch.write("classes/classes.json", repeat("{\"a\":", 20000) + "1" + repeat("}", 20000));
  LiveReport report({scratch.path()});
  const Json json = read(report);
  ASSERT_EQ(json["runs"].size(), 1U);
  EXPECT_EQ(json["runs"][0]["name"], "good");
  ASSERT_EQ(json["left_out"].size(), 4U);
  for (const auto& reason : json["left_out"])
    EXPECT_NE(reason.get<std::string>().find("nested"), std::string::npos) << reason;
}

TEST(WatchServer, EndsWhenAskedToBeforeItListens) {
  const ScratchFolder scratch;
  const std::atomic<bool> stop = true;
  const StopScope scope(&stop);
  for (int time = 0; time < 20; ++time)
    EXPECT_THROW(watch({.folders = {scratch.path()}, .port = 0}, [](const std::string&) {}), Interrupted);
}

}  // namespace fedgrab::live_report_test
