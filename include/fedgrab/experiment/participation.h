/// Which clients take part in a round.
#pragma once

#include <cstdint>
#include <vector>

namespace fedgrab {

/// At least one.
int64_t clients_per_round(int64_t clients, double participation);
/// The clients of a round, ascending.
std::vector<int64_t> choose_clients(int64_t clients, double participation, int64_t round, uint64_t seed);

}  // namespace fedgrab
