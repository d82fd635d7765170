#include "fedgrab/core/ranks.h"

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"

namespace fedgrab {
namespace {

std::unique_ptr<Ranks>& all_ranks() {
  static std::unique_ptr<Ranks> all = std::make_unique<Ranks>();
  return all;
}

// What a rank tells of its work: nothing, that it was interrupted, or its fault and message.
const std::string interruption = "interrupted";

}  // namespace

Ranks& ranks() { return *all_ranks(); }
void use_ranks(std::unique_ptr<Ranks> all) { all_ranks() = std::move(all); }

void Ranks::together(const std::function<void()>& work) {
  if (count() == 1) return work();
  std::string outcome;
  try {
    work();
  } catch (const Interrupted&) {
    outcome = interruption;
  } catch (const Error& error) {
    outcome = std::to_string(error.exit_code()) + error.what();
  } catch (const std::exception& error) {
    outcome = std::to_string(static_cast<int>(Fault::other)) + error.what();
  }
  const auto outcomes = exchange(outcome);
  failed_together_ = std::any_of(outcomes.begin(), outcomes.end(), [](const auto& text) { return !text.empty(); });
  if (std::find(outcomes.begin(), outcomes.end(), interruption) != outcomes.end()) throw Interrupted{};
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    if (!outcomes[rank].empty())
      throw Error(static_cast<Fault>(outcomes[rank].front() - '0'), "rank " + std::to_string(rank),
                  outcomes[rank].substr(1));
}

}  // namespace fedgrab
