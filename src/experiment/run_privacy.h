/// The differential privacy of a run's global models, where updates are clipped.
#pragma once

#include <optional>

#include "fedgrab/core/parameters.h"
#include "fedgrab/core/privacy_accountant.h"
#include "fedgrab/method/server_params.h"
#include "fedgrab/record/schema.h"

namespace fedgrab {

class RunPrivacy {
 public:
  /// Warns where server.delta is too large to mean anything.
  RunPrivacy(const Config& config, int64_t clients);
  /// Spent after a round; none where nothing is clipped.
  std::optional<double> epsilon(int64_t round) const;
  std::optional<PrivacyRecord> record(int64_t round) const;

 private:
  ServerParams params_;
  PrivateRounds rounds_;
  std::optional<PrivacyAccountant> accountant_;
};

}  // namespace fedgrab
