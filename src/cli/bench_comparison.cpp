#include "bench_comparison.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <vector>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/record/table.h"

namespace fedgrab::cli {
namespace {

double steps_per_second(const Json& report) { return report.at("speeds").back().at("client_steps_per_second"); }

/// A number at a path of keys; NaN where it is not there.
double number_at(const Json& report, const std::vector<std::string>& keys) {
  const Json* value = &report;
  for (const auto& key : keys) {
    if (!value->is_object() || !value->contains(key)) return std::nan("");
    value = &value->at(key);
  }
  return value->is_number() ? value->get<double>() : std::nan("");
}

struct Quantity {
  const char* title;
  std::function<double(const Json&)> of;
};

std::vector<Quantity> quantities() {
  const auto at = [](std::vector<std::string> keys) {
    return [keys](const Json& report) { return number_at(report, keys); };
  };
  return {{"client-steps/s", steps_per_second},
          {"ms per client-step", at({"step_ms"})},
          {"ms per step of LibTorch's eager loop", at({"eager_step_ms"})},
          {"TFLOP/s", at({"tera_flops"})},
          {"share of the arithmetic floor", at({"floors", "share_of_arithmetic"})},
          {"share of the memory floor", at({"floors", "share_of_memory"})},
          {"peak memory, bytes", at({"peak_memory_bytes"})},
          {"device memory, bytes", at({"device_memory_bytes"})}};
}

}  // namespace

Json read_benchmark(const std::string& file) {
  const std::string text = read_text(file);
  const Json report = Json::parse(shallow_json(text, file), nullptr, false);
  try {
    if (steps_per_second(report) > 0) return report;
  } catch (const Json::exception&) {  // no such entry
  }
  throw Error(Fault::data, file, "is no measurement", "write one with fedgrab bench --json > FILE");
}

double speed_ratio(const Json& earlier, const Json& now) { return steps_per_second(now) / steps_per_second(earlier); }

std::string comparison_text(const Json& earlier, const Json& now) {
  std::string text;
  for (const char* setting : {"workload", "model", "method", "device", "batch", "clients", "parameters"}) {
    const Json before = earlier.value(setting, Json()), after = now.value(setting, Json());
    if (before != after) text += fmt::format("{}: {} earlier, {} now\n", setting, before.dump(), after.dump());
  }
  if (!text.empty()) text = "The settings differ:\n" + text + "\n";
  Table table({{"quantity", Align::left}, {"earlier"}, {"now"}, {"ratio"}});
  for (const auto& quantity : quantities()) {
    const double before = quantity.of(earlier), after = quantity.of(now);
    if (before > 0 && after > 0)
      table.add_row({quantity.title, fmt::format("{:.4g}", before), fmt::format("{:.4g}", after),
                     fmt::format("{:.2f}", after / before)});
  }
  return text + table.to_text() +
         fmt::format("\n{:.2f} times the speed of the earlier measurement\n", speed_ratio(earlier, now));
}

}  // namespace fedgrab::cli
