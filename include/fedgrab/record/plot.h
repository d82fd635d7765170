/// Small figures as SVG: lines with bands, and bars. The colours can be distinguished with colour blindness, and the
/// white background suits light and dark pages.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace fedgrab {

struct Series {
  std::string name;
  std::vector<double> x, y;
  std::vector<double> band{};  // deviation around y; empty: none
};

/// By x, what several seeds gave.
using Values = std::map<double, std::vector<double>>;

/// The mean at each x; its band is the mean of `bands` there, else the deviation where anything was repeated.
Series mean_series(const std::string& name, const Values& values, const Values& bands = {});

struct Panel {
  std::string x_label, y_label;
  std::vector<Series> series{};
  std::vector<std::string> categories{};  // of bars: x is a place in here
  bool share = false;                     // y stays within 0 and 1, and so do bands
  bool positive = false;                  // the same for 0 alone
};

/// Panels side by side under one title, the legend of their series below it. Where a panel has categories its series
/// are bars, else lines. What is not finite is left out.
std::string plot(const std::string& title, const std::vector<Panel>& panels);

/// The same as text: panel, series, x, y, band.
std::string plot_csv(const std::vector<Panel>& panels);

}  // namespace fedgrab
