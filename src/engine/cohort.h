/// What every engine does with a cohort of clients, whatever trains them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/engine/engine.h"

namespace fedgrab {

/// Positions in the cohort, the largest clients first, so that no worker starts a long one when the others are done.
std::vector<size_t> by_size(const std::vector<int64_t>& clients, const Partition& partition);

/// The context of a client of the cohort; `counts` and `state` must outlive it.
ClientContext context_of(const RoundContext& round, int64_t client, std::span<const int64_t> counts, TensorMap& state);

/// Positions in a client's own list of samples, in the order in which it trains on them.
std::vector<int64_t> sample_order(const Federation& federation, const ClientContext& client, int64_t epoch);

/// Adds the payloads of a trained client to the sums, and completes its report.
void send_update(const Federation& federation, const RoundTask& task, const ClientContext& client, const State& local,
                 ClientReport& report, Sums& sums);

/// Share of right answers by class.
std::vector<double> class_accuracy(std::span<const int32_t> answers, std::span<const int32_t> labels, int64_t classes);

[[noreturn]] void throw_bad_loss(double loss, const ClientContext& client, int64_t step);

}  // namespace fedgrab
