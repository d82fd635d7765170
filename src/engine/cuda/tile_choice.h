/// Which tile shape each convolution runs with: the usual one, or the fastest by measurement on this device. What was
/// measured is remembered in a file, so that a machine does not measure twice. The choice decides how sums of norms are
/// rounded: where bits matter, take the usual ones.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "kernels.h"

namespace fedgrab::cuda {

class TileChoice {
 public:
  /// `measure` false: always the usual tiles.
  TileChoice(Precision precision, bool measure);

  /// How many such convolutions share the device, one for each group of slots: it is measured under that load.
  void share(int64_t groups) { groups_ = static_cast<int>(groups); }
  int operator()(Pass pass, const ConvolutionShape& shape);
  /// Writes down what was measured since the last time.
  void remember();

 private:
  int fastest(Pass pass, ConvolutionShape shape) const;
  void read_remembered();

  Precision precision_;
  bool measure_;
  int groups_ = 1;
  std::filesystem::path file_;         // empty: nowhere to remember
  std::map<std::string, int> chosen_;  // by pass and shape
  bool news_ = false;
};

}  // namespace fedgrab::cuda
