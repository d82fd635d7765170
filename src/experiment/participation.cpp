#include "fedgrab/experiment/participation.h"

#include <algorithm>
#include <cmath>

#include "fedgrab/core/random.h"

namespace fedgrab {

int64_t clients_per_round(int64_t clients, double participation) {
  return std::clamp<int64_t>(std::llround(participation * static_cast<double>(clients)), 1, clients);
}

std::vector<int64_t> choose_clients(int64_t clients, double participation, int64_t round, uint64_t seed) {
  const int64_t wanted = clients_per_round(clients, participation);
  auto order = permutation_start(clients, wanted, Random(seed, Purpose::cohort, 0, static_cast<uint32_t>(round)));
  std::sort(order.begin(), order.end());
  return order;
}

}  // namespace fedgrab
