// A run directory as `report`, `table` and `watch` read it: configuration, records, classes and summary together.
#include "fedgrab/report/report_data.h"
#include "fedgrab/report/run.h"
#include "fedgrab/report/run_table.h"
#include "fuzz.h"

using namespace fedgrab;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto& folder = fuzz::scratch();
  folder.write_pieces({"config.toml", "metrics.jsonl", "classes.json", "summary.json"}, fuzz::text_of(data, size));
  fuzz::value_or_error([&] {
    const std::vector<Run> runs{read_run({"run", {folder.path()}})};
    report_data(runs).dump(-1, ' ', false, Json::error_handler_t::replace);
    run_table(runs).to_csv();
    run_numbers(runs).to_latex();
  });
  return 0;
}
