/// Runs side by side as a table for a paper: those that differ in nothing but the seed are one row, mean ± std over
/// those that have ended; "0 of 2" where none has, with numbers of those in progress.
#pragma once

#include <span>

#include "fedgrab/record/table.h"
#include "fedgrab/report/run.h"

namespace fedgrab {

/// `measures` have columns after those of the groups.
Table run_table(std::span<const Run> runs, std::span<const Measure> measures = {});
/// The same for programs: a number a cell, the deviation in a column of its own.
Table run_numbers(std::span<const Run> runs, std::span<const Measure> measures = {});

}  // namespace fedgrab
