/// What clients keep for themselves from round to round (balancer state, control variates, private heads). A client
/// that never trained takes no room.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "fedgrab/model/tensor_map.h"

namespace fedgrab {

class ClientStore {
 public:
  /// A copy to train on: an interrupted round must leave no trace.
  TensorMap read(int64_t client) const;
  void write(int64_t client, TensorMap memory);

  /// For checkpoints: "client/<k>/<name>".
  TensorMap all() const;
  /// Passes over tensors of other names. Throws Error(Fault::checkpoint) with `source` as the file at fault.
  void restore(const TensorMap& tensors, const std::string& source);

 private:
  mutable std::mutex guard_;
  std::map<int64_t, TensorMap> memories_;
};

}  // namespace fedgrab
