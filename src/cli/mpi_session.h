/// MPI for the life of the process, where a launcher started several and the program was built with MPI.
#pragma once

#include <memory>

#include "fedgrab/core/communicator.h"

namespace fedgrab::cli {

/// Throws a usage Error where a launcher started a program that was built without MPI.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

  /// All ranks, or this process alone.
  Communicator& communicator() { return *communicator_; }
  /// Ends all ranks at once, where the others wait for this one and would wait for ever.
  void abort(int code) const;

 private:
  std::unique_ptr<Communicator> communicator_ = std::make_unique<Communicator>();
};

}  // namespace fedgrab::cli
