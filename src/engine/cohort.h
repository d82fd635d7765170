/// What every engine does with a cohort of clients, whatever trains them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "fedgrab/engine/engine.h"

namespace fedgrab {

/// Positions in the cohort, the largest clients first, so that no worker starts a long one when the others are done.
std::vector<size_t> by_size(const std::vector<int64_t>& clients, const Partition& partition);
int64_t total_samples(const std::vector<int64_t>& clients, const Partition& partition);

/// What a client of the task sees; `total` are the cohort's samples, `counts` and `memory` must outlive it.
ClientView view_of(const Federation& federation, const RoundTask& task, int64_t client, int64_t total,
                   std::span<const int64_t> counts, TensorMap& memory);

/// Positions in a client's own list of samples, in the order in which it trains on them.
std::vector<int64_t> sample_order(const Federation& federation, const ClientView& view, int64_t epoch);

/// Folds what a trained client sends into the sums, and completes its report.
void contribute(const Federation& federation, const RoundTask& task, const ClientView& view, const State& local,
                ClientReport& report, Sums& sums);

/// Share of right answers by class.
std::vector<double> class_accuracy(std::span<const int32_t> answers, std::span<const int32_t> labels, int64_t classes);

[[noreturn]] void throw_bad_loss(double loss, const ClientView& view, int64_t step);

}  // namespace fedgrab
