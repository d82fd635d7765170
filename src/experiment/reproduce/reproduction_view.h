/// What is made of the runs of a reproduction.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "fedgrab/experiment/reproduction.h"
#include "fedgrab/record/plot.h"

namespace fedgrab {

/// A cell as far as it is known.
struct ShownCell {
  SweepCell cell;
  RunDirectory directory;
  bool asked = true;              // by --cells
  std::string state{};            // "needs data", "failed"; empty: nothing to say
  std::optional<Json> summary{};  // of a finished run with these very settings
};

/// Ours beside the paper's, a row per row of the paper, or per row that was requested or run; the difference only where
/// they are `comparable`.
Table comparison(const Reproduction& what, const std::vector<ShownCell>& cells, int64_t paper_rounds, bool comparable,
                 bool without_others = false);

std::vector<Panel> figure_panels(const Reproduction& what, const std::vector<ShownCell>& cells);
/// What the figure was made of, a row per series.
Table figure_runs(const Reproduction& what, const std::vector<ShownCell>& cells, int64_t paper_rounds);

/// Accuracy by run and round. A cell whose rounds cannot be read is damaged from then on.
Table curves(std::vector<ShownCell>& cells);

/// Whether a row of the paper's numbers is about this cell.
bool is_about(const PaperNumbers& paper, const std::vector<std::string>& row, const SweepCell& cell);

}  // namespace fedgrab
