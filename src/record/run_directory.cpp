#include "fedgrab/record/run_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"

namespace fedgrab {
namespace fs = std::filesystem;
namespace {

Json read_json(const fs::path& path) {
  try {
    const std::string text = read_text(path);
    return Json::parse(shallow_json(text, path.string()));
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::data, path.string(), error.what());
  }
}

void check_round(const RoundRecord& record, int64_t line, const fs::path& file) {
  if (record.round != line)
    throw Error(Fault::data, file.string(), fmt::format("line {} is of round {}", line, record.round),
                "was it changed by hand?");
}

/// What is computed of several rounds needs the same of each that was evaluated.
void check_evaluations(const std::vector<RoundRecord>& records, const fs::path& file) {
  const RoundRecord* first = nullptr;
  for (const auto& record : records) {
    if (!record.accuracy) continue;
    if (first == nullptr) first = &record;
    if (record.accuracy->per_class.size() != first->accuracy->per_class.size())
      throw Error(Fault::data, file.string(),
                  fmt::format("rounds {} and {} differ in their number of classes", first->round, record.round),
                  "was it changed by hand?");
    if (record.validation.has_value() != first->validation.has_value())
      throw Error(Fault::data, file.string(),
                  fmt::format("of rounds {} and {}, one has a validation accuracy and one has none", first->round,
                              record.round),
                  "was it changed by hand?");
  }
}

}  // namespace

fs::path RunDirectory::checkpoint(int64_t round) const {
  return checkpoints() / fmt::format("round-{:06}.safetensors", round);
}

void RunDirectory::remove_checkpoint(int64_t round) const {
  fs::remove(checkpoint(round));  // first: one that exists is complete
  fs::remove_all(clients_of(checkpoint(round)));
}

std::vector<int64_t> RunDirectory::checkpoint_rounds() const {
  std::vector<int64_t> rounds;
  std::error_code code;
  for (const auto& entry : fs::directory_iterator(checkpoints(), code)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("round-") || !name.ends_with(".safetensors")) continue;
    int64_t round = 0;
    std::from_chars(name.data() + 6, name.data() + name.size(), round);
    if (checkpoint(round).filename() == name) rounds.push_back(round);  // a user's copy beside it is not ours
  }
  std::sort(rounds.begin(), rounds.end());
  return rounds;
}

std::vector<RoundRecord> RunDirectory::read_metrics() const {
  std::vector<RoundRecord> records;
  if (!fs::exists(metrics())) return records;
  const std::string text = read_text(metrics());
  size_t start = 0;
  for (size_t end = text.find('\n'); end != std::string::npos; start = end + 1, end = text.find('\n', start)) {
    try {
      const auto line = std::string_view(text).substr(start, end - start);
      records.push_back(round_from_json(Json::parse(shallow_json(line, metrics().string()))));
    } catch (const nlohmann::json::exception& error) {
      throw Error(Fault::data, metrics().string(),
                  fmt::format("line {} is not a record: {}", records.size() + 1, error.what()));
    }
    check_round(records.back(), static_cast<int64_t>(records.size()), metrics());
  }
  check_evaluations(records, metrics());
  return records;
}

std::optional<RoundRecord> RunDirectory::last_round() const {
  if (!fs::exists(metrics())) return std::nullopt;
  std::string text = read_text(metrics());
  text.erase(text.rfind('\n') + 1);
  if (text.empty()) return std::nullopt;
  const auto start = text.rfind('\n', text.size() - 2) + 1;
  try {
    RoundRecord record =
        round_from_json(Json::parse(shallow_json(std::string_view(text).substr(start), metrics().string())));
    check_round(record, std::count(text.begin(), text.end(), '\n'), metrics());
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::data, metrics().string(), fmt::format("its last line is not a record: {}", error.what()));
  }
}

Json RunDirectory::read_summary() const { return read_json(summary()); }

std::optional<Population> RunDirectory::read_population() const {
  const fs::path file = fs::exists(classes()) ? classes() : summary();
  if (!fs::exists(file)) return std::nullopt;
  try {
    return population_from_json(read_json(file));
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::data, file.string(), error.what());
  }
}

}  // namespace fedgrab
