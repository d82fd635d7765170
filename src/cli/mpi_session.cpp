#include "mpi_session.h"

#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>

#include "mpi_launch.h"

namespace fedgrab::cli {
namespace {

constexpr size_t piece = 1 << 26;  // MPI counts in int, and the buffers it copies through are not free

class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator() : Communicator(asked(MPI_Comm_rank), asked(MPI_Comm_size)) {}

  void all_reduce(std::span<int64_t> values) override {
    for (size_t first = 0; first < values.size(); first += piece) {
      const auto count = static_cast<int>(std::min(piece, values.size() - first));
      MPI_Allreduce(MPI_IN_PLACE, values.data() + first, count, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    }
  }

  std::vector<std::string> all_gather(const std::string& bytes) override {
    std::vector<std::string> all(static_cast<size_t>(size()));
    for (int from = 0; from < size(); ++from) {
      auto& text = all[static_cast<size_t>(from)];
      if (from == rank()) text = bytes;
      uint64_t length = text.size();
      MPI_Bcast(&length, 1, MPI_UINT64_T, from, MPI_COMM_WORLD);
      text.resize(length);
      for (size_t first = 0; first < length; first += piece)
        MPI_Bcast(text.data() + first, static_cast<int>(std::min<size_t>(piece, length - first)), MPI_BYTE, from,
                  MPI_COMM_WORLD);
    }
    return all;
  }

 private:
  static int asked(int (*ask)(MPI_Comm, int*)) {
    int answer = 0;
    ask(MPI_COMM_WORLD, &answer);
    return answer;
  }
};

/// One GPU per rank of a machine, before CUDA is initialised.
void choose_gpu() {
  const char* local = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  if (local == nullptr || std::getenv("CUDA_VISIBLE_DEVICES") != nullptr) return;
  int gpus = 0;
  while (std::filesystem::exists("/dev/nvidia" + std::to_string(gpus))) ++gpus;
  if (gpus > 0) ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(std::atoi(local) % gpus).c_str(), 1);
}

}  // namespace

MpiSession::MpiSession() {
  if (!started_by_launcher()) return;
  choose_gpu();
  int given = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &given);
  communicator_ = std::make_unique<MpiCommunicator>();
}

MpiSession::~MpiSession() {
  if (started_by_launcher()) MPI_Finalize();
}

void MpiSession::abort(int code) const {
  if (started_by_launcher()) MPI_Abort(MPI_COMM_WORLD, code);
}

}  // namespace fedgrab::cli
