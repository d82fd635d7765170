#include "fedgrab/core/error.h"
#include "mpi_launch.h"
#include "mpi_ranks.h"

namespace fedgrab::cli {

MpiSession::MpiSession() {
  if (started_by_mpirun())
    throw Error(Fault::usage, "mpirun", "this fedgrab was built without MPI",
                "install libopenmpi-dev, configure and build again");
}

MpiSession::~MpiSession() = default;
void MpiSession::abandon(int /*code*/) const {}

}  // namespace fedgrab::cli
