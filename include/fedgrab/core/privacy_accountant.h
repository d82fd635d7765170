/// How much the rounds of a federation reveal about one client, where updates are clipped and Gaussian noise is added
/// to their sum: Rényi differential privacy (Mironov 2017), composed over the rounds and converted to (ε, δ).
#pragma once

#include <cstdint>
#include <vector>

#include "fedgrab/core/enums.h"

namespace fedgrab {

/// How the clients of a round are chosen, and with it what two neighbouring federations are.
/// fixed: always the same number, drawn without replacement, or all of them; one client is replaced by another.
/// poisson: each by an independent coin; one client is added or removed.
enum class ClientSampling { fixed, poisson };
template <>
inline constexpr auto enum_names<ClientSampling> = names("fixed", "poisson");

struct PrivateRounds {
  double noise = 0;  // standard deviation of the noise in the sum of a round's updates, over the clipping norm
  int64_t clients = 1, per_round = 1;  // poisson: per_round on average
  ClientSampling sampling = ClientSampling::fixed;
};

class PrivacyAccountant {
 public:
  /// Throws a usage Error where no such rounds exist.
  explicit PrivacyAccountant(const PrivateRounds& rounds);
  /// Infinite without noise; 0 before the first round.
  double epsilon(int64_t rounds, double delta) const;

 private:
  std::vector<double> divergences_;  // of one round, by order
};

}  // namespace fedgrab
