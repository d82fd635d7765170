#include "fedgrab/core/error.h"
#include "mpi_launch.h"
#include "mpi_session.h"

namespace fedgrab::cli {

MpiSession::MpiSession() {
  if (started_by_launcher())
    throw Error(Fault::usage, "mpirun", "this fedgrab was built without MPI",
                "install libopenmpi-dev, configure and build again");
}

MpiSession::~MpiSession() = default;
void MpiSession::abort(int /*code*/) const {}

}  // namespace fedgrab::cli
