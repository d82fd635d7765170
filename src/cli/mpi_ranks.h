/// The ranks of mpirun, where it started this process and the program was built with MPI.
#pragma once

namespace fedgrab::cli {

/// Joins them for the life of the process. Without mpirun nothing happens. Throws a usage Error where mpirun started a
/// program that was built without.
class MpiSession {
 public:
  MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  ~MpiSession();

  /// Ends all ranks at once, where the others wait for this one and would wait for ever. Without mpirun nothing
  /// happens.
  void abandon(int code) const;
};

}  // namespace fedgrab::cli
