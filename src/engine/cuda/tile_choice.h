/// Which tile shape each convolution runs with: the usual one, or the fastest by measurement on this device. What was
/// measured is remembered in a file, so that a machine does not measure twice and chooses the same every time (the
/// choice decides how sums of norms are rounded).
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "kernels.h"

namespace fedgrab::cuda {

class TileChoice {
 public:
  /// `measure` false: always the usual tiles. `groups`: how many such convolutions share the device, one for each
  /// group of slots; it is measured under that load.
  TileChoice(Precision precision, bool measure, int groups);

  int operator()(Pass pass, const ConvolutionShape& shape);

 private:
  int fastest(Pass pass, ConvolutionShape shape) const;

  Precision precision_;
  bool measure_;
  int groups_;
  std::filesystem::path file_;         // empty: nowhere to remember
  std::map<std::string, int> chosen_;  // by pass and shape
};

}  // namespace fedgrab::cuda
