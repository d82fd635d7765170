#include "final_report.h"

#include <algorithm>

#include "fedgrab/core/peak_memory.h"
#include "fedgrab/experiment/checkpoint.h"
#include "fedgrab/experiment/posthoc_fit.h"

namespace fedgrab {
namespace {

std::optional<MeasureReport> measure_best(const FinishedRun& finished, std::unique_ptr<Engine> last) {
  // Removed by hand, or not on a file system of every rank: all of them predict, or none.
  const auto there = finished.ranks.all_gather(std::filesystem::exists(finished.best) ? "yes" : "no");
  if (std::find(there.begin(), there.end(), "no") != there.end()) return std::nullopt;
  last.reset();  // the memory of the device is for one
  const FederationRun& run = finished.run;
  LoadedModel best;
  const Partition nobody;
  std::optional<Federation> federation;
  std::unique_ptr<Engine> engine;  // of the deployed model, which lacks the heads that training alone uses
  finished.ranks.collective([&] {
    best = load_model(finished.best);
    federation.emplace(Federation{run.prepared.data, nobody, best.state.model, run.settings.train});
    engine = make_engine(run.settings.engine, *federation, finished.ranks);
  });
  return finished.evaluation.measure(finished.evaluation.predict_test(*engine, best.state));
}

}  // namespace

Summary final_report(const FinishedRun& finished, std::unique_ptr<Engine> engine) {
  const FederationRun& run = finished.run;
  Summary summary = summarise(finished.records, run.settings.eval.criterion);
  summary.groups = run.prepared.groups;
  summary.class_names = run.prepared.data.class_names;
  summary.class_counts = run.prepared.counts;
  const auto kind = std::get<std::string>(finished.config.get("posthoc.kind"));
  summary.posthoc = posthoc_record(kind, run.method, run.prepared, finished.server);
  const auto test = finished.evaluation.predict_test(*engine, finished.deployed);
  summary.confusion = finished.evaluation.confusion_of(test);
  summary.last_measures = finished.evaluation.measure(test);
  if (summary.best_by_validation)
    summary.best_measures =
        summary.best_round == summary.rounds ? summary.last_measures : measure_best(finished, std::move(engine));
  summary.peak_memory_bytes = peak_memory_bytes();
  return summary;
}

}  // namespace fedgrab
