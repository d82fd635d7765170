// The records of a run: metrics.jsonl, and what is written of them again.
#include "fedgrab/record/run_directory.h"
#include "fedgrab/record/summary.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto& folder = fuzz::scratch();
  folder.write("metrics.jsonl", fuzz::text_of(data, size));
  const RunDirectory run{folder.path()};
  fuzz::value_or_error([&] { run.last_round(); });
  fuzz::value_or_error([&] {
    const auto records = run.read_metrics();
    for (const auto& record : records) round_from_json(to_json(record));
    bool evaluated = false;
    for (const auto& record : records) evaluated = evaluated || record.accuracy;
    if (evaluated) to_json(summarise(records));
  });
  return 0;
}
