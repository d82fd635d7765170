/// Whether mpirun started this process, told without MPI.
#pragma once

#include <cstdlib>

namespace fedgrab::cli {

inline bool started_by_mpirun() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name); size != nullptr && std::atoi(size) > 1) return true;
  return false;
}

}  // namespace fedgrab::cli
