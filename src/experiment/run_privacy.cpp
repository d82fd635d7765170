#include "run_privacy.h"

#include <fmt/format.h>

#include "fedgrab/core/progress.h"
#include "fedgrab/engine/train_params.h"
#include "fedgrab/experiment/participation.h"

namespace fedgrab {

RunPrivacy::RunPrivacy(const Config& config, int64_t clients) : params_(config.read<ServerParams>("server")) {
  if (params_.clip == 0) return;
  rounds_ = {params_.noise, clients, clients_per_round(clients, config.read<TrainParams>("train").participation)};
  accountant_.emplace(rounds_);
  if (params_.noise > 0 && params_.delta * static_cast<double>(clients) >= 1)
    warn(fmt::format("server.delta = {:g}: a guarantee that may fail for one of {} clients is none (set it below {:g})",
                     params_.delta, clients, 1 / static_cast<double>(clients)));
}

std::optional<double> RunPrivacy::epsilon(int64_t round) const {
  return accountant_ ? std::optional(accountant_->epsilon(round, params_.delta)) : std::nullopt;
}

std::optional<PrivacyRecord> RunPrivacy::record(int64_t round) const {
  if (!accountant_) return std::nullopt;
  return PrivacyRecord{params_.clip, params_.noise, params_.delta, *epsilon(round), rounds_.clients, rounds_.per_round};
}

}  // namespace fedgrab
