/// What a run shows of its last evaluation, whether it has ended or not: written with every checkpoint. The images are
/// in a file of their own, so that whoever passes the run on can leave them out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fedgrab/record/run_directory.h"

namespace fedgrab {

struct SampleImage {
  int64_t truth = 0, answer = 0;
  double confidence = 0;  // of the answer
  std::string png;        // base64
};

struct LastEvaluation {
  int64_t round = 0;                            // 0: nothing was evaluated yet
  std::vector<std::vector<int64_t>> confusion;  // [truth][answer]; left out above 200 classes
  std::vector<SampleImage> samples;
};

std::filesystem::path evaluation_file(const RunDirectory& directory);
std::filesystem::path samples_file(const RunDirectory& directory);

/// Where there are no samples, there is no samples.json either.
void write_last_evaluation(const RunDirectory& directory, const LastEvaluation& evaluation);
/// As far as it was written. Throws a data Error naming the file that does not hold what it should.
LastEvaluation read_last_evaluation(const RunDirectory& directory);
void remove_last_evaluation(const RunDirectory& directory);

std::string base64(std::string_view bytes);

}  // namespace fedgrab
