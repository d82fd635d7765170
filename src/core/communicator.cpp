#include "fedgrab/core/communicator.h"

#include <algorithm>

#include "fedgrab/core/error.h"
#include "fedgrab/core/interrupt.h"

namespace fedgrab {
namespace {

// The outcome of a rank as text: empty, that it was interrupted, or its fault and message.
const std::string interruption = "interrupted";

}  // namespace

void Communicator::collective(const std::function<void()>& work) {
  if (size() == 1) return work();
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
  const auto outcomes = all_gather(outcome);
  failed_ = std::any_of(outcomes.begin(), outcomes.end(), [](const auto& text) { return !text.empty(); });
  if (std::find(outcomes.begin(), outcomes.end(), interruption) != outcomes.end()) throw Interrupted{};
  for (size_t rank = 0; rank < outcomes.size(); ++rank)
    if (!outcomes[rank].empty())
      throw Error(static_cast<Fault>(outcomes[rank].front() - '0'), "rank " + std::to_string(rank),
                  outcomes[rank].substr(1));
}

}  // namespace fedgrab
