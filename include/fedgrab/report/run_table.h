/// Runs side by side as a table for a paper: those that differ in nothing but the seed are one row, mean ± std.
#pragma once

#include <span>

#include "fedgrab/record/table.h"
#include "fedgrab/report/run.h"

namespace fedgrab {

Table run_table(std::span<const Run> runs);

}  // namespace fedgrab
