/// Persistent state of the clients (balancer state, control variates, private heads). A client that has not trained
/// uses no memory. Up to `memory` bytes are kept in RAM; the state of further clients is stored in `folder`, one file
/// per client.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <string>

#include "fedgrab/engine/packed_tensors.h"
#include "fedgrab/model/tensor_map.h"

namespace fedgrab {

class ClientStore {
 public:
  explicit ClientStore(std::filesystem::path folder = {}, int64_t memory = std::numeric_limits<int64_t>::max())
      : folder_(std::move(folder)), memory_(memory) {}
  ClientStore(const ClientStore&) = delete;
  ClientStore& operator=(const ClientStore&) = delete;
  ~ClientStore();  // removes its files: what is to stay is linked by a checkpoint

  /// A copy to train on, as of the last commit().
  TensorMap read(int64_t client) const;
  /// Takes effect with commit(): an interrupted round must change nothing. Both are safe from several threads.
  void write(int64_t client, TensorMap memory);
  void commit();
  void discard();

  /// What is in RAM as "client/<k>/<name>".
  TensorMap in_memory() const;
  /// For checkpoints: what is in RAM, the clients with the same tensors together: "clients/<group>/<name>" has a row
  /// for each number in "clients/<group>". A tensor for each client would take more memory than its values.
  TensorMap stacked() const;
  /// What is on disk as links in a folder of the checkpoint's own (none is made where there is nothing to link).
  void link_files(const std::filesystem::path& folder) const;
  /// The reverse of all three. Ignores tensors of other names. Throws Error(Fault::checkpoint) with `source` as the
  /// file at fault.
  void restore(const TensorMap& tensors, const std::filesystem::path& folder, const std::string& source);
  /// Removes the state of all others.
  void keep_only(const std::function<bool(int64_t client)>& wanted);
  /// What another store gave by in_memory() and link_files(), over what is here of the same clients.
  void merge(const TensorMap& tensors, const std::filesystem::path& folder);

 private:
  struct Kept {
    PackedTensors tensors;       // in RAM, or else
    std::filesystem::path file;  // on disk
    int64_t bytes = 0;           // of RAM
  };
  void drop(Kept& kept);
  void put(int64_t client, const TensorMap& tensors);
  void put_stacked(const TensorMap& tensors, const std::string& source);

  std::filesystem::path folder_;
  int64_t memory_, used_ = 0;
  int64_t files_ = 0;                           // written so far: every version has a name of its own
  std::shared_ptr<const TensorLayout> layout_;  // of the tensors that were packed last
  mutable std::mutex guard_;
  std::map<int64_t, Kept> committed_, pending_;
};

}  // namespace fedgrab
