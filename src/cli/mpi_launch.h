/// Whether an MPI launcher (mpirun, srun) started several processes, detected without MPI.
#pragma once

#include <cstdlib>

namespace fedgrab::cli {

inline bool started_by_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
    if (const char* size = std::getenv(name); size != nullptr && std::atoi(size) > 1) return true;
  // PMIx gives a process its rank but not the number of ranks; srun has that in a variable of its own.
  if (std::getenv("PMIX_RANK") == nullptr) return false;
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks == nullptr || std::atoi(tasks) > 1;
}

}  // namespace fedgrab::cli
