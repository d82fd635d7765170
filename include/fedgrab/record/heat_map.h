/// A matrix as shades of one hue, as SVG.
#pragma once

#include <string>
#include <vector>

namespace fedgrab {

struct HeatMap {
  std::string title, row_label, column_label;
  std::vector<std::string> rows, columns;
  std::vector<std::vector<double>> shares;  // [row][column], 0 … 1
};

std::string heat_map(const HeatMap& map);

}  // namespace fedgrab
