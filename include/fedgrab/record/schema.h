/// What a run records: one record a round, one summary at the end. Plain values; the JSON form is a contract.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fedgrab/record/json.h"
#include "fedgrab/record/measures.h"

namespace fedgrab {

/// Class lists of the three groups; together they cover every class once.
struct Groups {
  std::vector<int64_t> many, med, few;
  bool thirds = false;  // of the classes by size, because the thresholds leave Many or Few empty
};

/// Shares of right answers; a group without test samples has none.
struct Accuracy {
  double all = 0;
  std::optional<double> many, med, few;
  std::vector<double> per_class;
  double f1 = 0;  // macro
  MeasureValues measures{};
};

/// Wherever the accuracy holds it; none where it was not measured.
std::optional<double> value_of(const Accuracy& accuracy, Measure measure);

/// Mean and deviation over clients of a number per class.
struct PerClass {
  std::vector<double> mean, std;
};

/// Classes, their sizes, and the class counts of the clients; known before the first round.
struct Population {
  std::vector<std::string> class_names;
  std::vector<int64_t> class_counts;  // training samples
  Groups groups;
  std::vector<std::map<int64_t, int64_t>> clients;  // samples by class, where there are any; no longer than the data
};

Json to_json(const Population& population);
Population population_from_json(const Json& json);

struct PriorRecord {
  std::vector<double> p;
  double l2 = 0, tail_hit = 0;
};

struct RoundRecord {
  int64_t round = 0;
  std::optional<Accuracy> accuracy;    // on the test set, where this round was evaluated
  std::optional<Accuracy> validation;  // where a split is held out
  double loss = 0;                     // training, mean over samples
  std::optional<double> test_loss;
  double lr = 0;
  int64_t clients = 0, steps = 0, samples = 0, bytes_up = 0, bytes_down = 0;
  std::map<std::string, PerClass> diagnostics;  // "delta", "beta_pos", "beta_neg"
  std::optional<PriorRecord> prior;
  std::vector<std::vector<double>> client_accuracy;  // [client][class], if requested
  std::optional<double> personal;                    // the same by each client's own class shares, mean over clients
  std::optional<double> epsilon;                     // spent so far, where updates are clipped; infinite without noise
  double seconds = 0;
  std::map<std::string, double> phase_seconds;
};

Json to_json(const Accuracy& accuracy);
Json to_json(const RoundRecord& record);
RoundRecord round_from_json(const Json& json);

/// The classifier that was deployed: its part, the images it was fitted on ("" for none), and the numbers found.
struct PosthocRecord {
  std::string kind = "none", fitted_on;
  std::map<std::string, std::vector<double>> numbers;
};

Json to_json(const PosthocRecord& record);

/// The differential privacy of the global models of a run, each of them seen: of one client, replaced by another, in
/// rounds of a fixed number of clients.
struct PrivacyRecord {
  double clip = 0, noise = 0, delta = 0;
  double epsilon = 0;  // infinite without noise
  int64_t clients = 0, per_round = 0;
};

Json to_json(const PrivacyRecord& record);

/// Summary of the accuracies of a run.
struct Summary {
  int64_t rounds = 0;
  Accuracy last, mean_last_10;
  int64_t averaged = 0;  // evaluations in the mean: ten, or fewer in a short run
  int64_t best_round = 0;
  Accuracy best;                     // of best_round, on the test set
  bool best_by_validation = false;   // else it was chosen on the test set, and says so
  std::string criterion = "all";     // by which it was chosen
  std::optional<int64_t> few_round;  // the first of two evaluations in a row in which Few reached 0.55
  Groups groups;
  std::vector<std::string> class_names;
  std::vector<int64_t> class_counts;
  PosthocRecord posthoc;
  std::optional<PrivacyRecord> privacy;         // where updates are clipped
  std::vector<std::vector<int64_t>> confusion;  // of the last round: [truth][answer]; left out above 200 classes
  /// On the test set, with intervals: of the last model, and of the best where a validation split chose it.
  std::optional<MeasureReport> last_measures, best_measures;
  double seconds = 0;
  int64_t peak_memory_bytes = 0;
};

/// With the version and revision of this program.
Json to_json(const Summary& summary);

}  // namespace fedgrab
