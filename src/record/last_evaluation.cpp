#include "fedgrab/record/last_evaluation.h"

#include <algorithm>
#include <cctype>

#include "fedgrab/core/error.h"
#include "fedgrab/core/file.h"
#include "fedgrab/core/nesting.h"
#include "fedgrab/record/json_integer.h"

namespace fedgrab {
namespace {

namespace fs = std::filesystem;
constexpr size_t longest_png = 100'000;  // of a thumbnail, as base64

bool is_base64(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '+' || c == '/' || c == '='; });
}

SampleImage sample_from_json(const Json& json, const fs::path& file) {
  SampleImage sample;
  sample.truth = integer_from_json(json.at("truth"));
  sample.answer = integer_from_json(json.at("answer"));
  json.at("confidence").get_to(sample.confidence);
  json.at("png").get_to(sample.png);
  if (sample.png.size() > longest_png || !is_base64(sample.png))
    throw Error(Fault::data, file.string(), "holds what is no small image", "was it changed by hand?");
  return sample;
}

/// Calls `take` with the content, where the file is there.
template <class Take>
void read_json(const fs::path& file, Take take) {
  if (!fs::exists(file)) return;
  try {
    const std::string text = read_text(file);
    take(Json::parse(shallow_json(text, file.string())));
  } catch (const nlohmann::json::exception& error) {
    throw Error(Fault::data, file.string(), error.what());
  }
}

}  // namespace

fs::path evaluation_file(const RunDirectory& directory) { return directory.root / "evaluation.json"; }
fs::path samples_file(const RunDirectory& directory) { return directory.root / "samples.json"; }

void write_last_evaluation(const RunDirectory& directory, const LastEvaluation& evaluation) {
  Json json{{"round", evaluation.round}};
  if (!evaluation.confusion.empty()) json["confusion"] = evaluation.confusion;
  write_atomically(evaluation_file(directory), json.dump() + "\n");
  if (evaluation.samples.empty()) {
    fs::remove(samples_file(directory));
    return;
  }
  Json samples{{"round", evaluation.round}, {"samples", Json::array()}};
  for (const auto& [truth, answer, confidence, png] : evaluation.samples)
    samples["samples"].push_back({{"truth", truth}, {"answer", answer}, {"confidence", confidence}, {"png", png}});
  write_atomically(samples_file(directory), samples.dump() + "\n");
}

LastEvaluation read_last_evaluation(const RunDirectory& directory) {
  LastEvaluation evaluation;
  read_json(evaluation_file(directory), [&](const Json& json) {
    evaluation.round = integer_from_json(json.at("round"));
    if (json.contains("confusion"))
      for (const Json& row : json["confusion"]) evaluation.confusion.push_back(integers_from_json(row));
  });
  read_json(samples_file(directory), [&](const Json& json) {
    evaluation.round = integer_from_json(json.at("round"));
    for (const auto& sample : json.at("samples"))
      evaluation.samples.push_back(sample_from_json(sample, samples_file(directory)));
  });
  return evaluation;
}

void remove_last_evaluation(const RunDirectory& directory) {
  fs::remove(evaluation_file(directory));
  fs::remove(samples_file(directory));
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8U | (k < count ? static_cast<uint8_t>(bytes[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? digits[bits >> (18 - 6 * k) & 63U] : '=';
  }
  return text;
}

}  // namespace fedgrab
