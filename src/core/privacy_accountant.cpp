#include "fedgrab/core/privacy_accountant.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "fedgrab/core/error.h"

namespace fedgrab {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr int largest_order = 1024;
constexpr int largest_exact = 256;  // order up to which the bound without replacement is taken with its moments

/// Dense where the best order usually is. Any order gives a valid ε; the least of all is reported.
const std::vector<double>& orders() {
  static const std::vector<double> all = [] {
    std::vector<double> some;
    for (int tenth = 11; tenth < 110; ++tenth) some.push_back(tenth / 10.0);
    for (int order = 11; order < 64; ++order) some.push_back(order);
    for (int order = 64; order < 128; order += 8) some.push_back(order);
    for (int order = 128; order < 256; order += 32) some.push_back(order);
    for (const int order : {256, 384, 512, 768, largest_order}) some.push_back(order);
    return some;
  }();
  return all;
}

double log_add(double a, double b) {
  const double high = std::max(a, b);
  return high == -infinite ? high : high + std::log1p(std::exp(std::min(a, b) - high));
}

double log_choose(int n, int k) { return std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0); }

/// (order − 1) times the Rényi divergence of N(1, σ²) from N(0, σ²): log E[(p/q)^order] under q.
double log_moment(double order, double sigma) { return order * (order - 1) / (2 * sigma * sigma); }

/// log E[exp(f(t))], t = log p(x)/q(x) = (2x − 1)/2σ², x from N(0, σ²), where f grows at most like order · t. The
/// trapezoid rule converges geometrically for such integrands.
double log_expectation(const std::function<double(double)>& f, double order, double sigma) {
  constexpr double tail = 14, steps = 16;  // in σ; of a σ
  const double h = sigma / steps;
  const auto first = static_cast<int64_t>(-tail * steps);
  const auto last = static_cast<int64_t>((order + tail * sigma) / h) + 1;
  double sum = -infinite;
  for (int64_t i = first; i <= last; ++i) {
    const double x = static_cast<double>(i) * h;
    sum = log_add(sum, f((2 * x - 1) / (2 * sigma * sigma)) - x * x / (2 * sigma * sigma));
  }
  return sum - std::log(steps) - 0.5 * std::log(2 * M_PI);
}

/// Of the sampled Gaussian mechanism (Mironov, Talwar and Zhang 2019): log E[(1 − q + q p/q₀)^order].
double poisson_moment(double q, double sigma, double order) {
  const double out = std::log1p(-q), in = std::log(q);
  if (order != std::floor(order))
    return log_expectation([&](double t) { return order * log_add(out, in + t); }, order, sigma);
  double sum = -infinite;
  const int whole = static_cast<int>(order);
  for (int k = 0; k <= whole; ++k)
    sum = log_add(sum, log_choose(whole, k) + (whole - k) * out + k * in + log_moment(k, sigma));
  return sum;
}

/// log E[(p/q − 1)^l] by l; only even ones are needed, and none where σ is so small that they are no use.
std::vector<double> central_moments(double sigma) {
  std::vector<double> moments(largest_exact + 2, infinite);
  if (sigma < 0.2) return moments;
  for (int l = 2; l < static_cast<int>(moments.size()); l += 2)
    moments[static_cast<size_t>(l)] = log_expectation(
        [&](double t) { return l * (t > 0 ? t + std::log(-std::expm1(-t)) : std::log(-std::expm1(t))); }, l, sigma);
  return moments;
}

/// Sampling without replacement, a whole order (Wang, Balle and Kasiviswanathan 2019, Thm. 27): a bound on (order − 1)
/// times the divergence.
double fixed_moment(double q, double sigma, int order, const std::vector<double>& central) {
  const auto even = [&](int l) { return central[static_cast<size_t>(l) / 2 * 2]; };
  double sum = 0;
  for (int j = 2; j <= order; ++j) {
    double term = std::log(2) + log_moment(j, sigma);
    if (order <= largest_exact || j == 2) term = std::min(term, std::log(4) + 0.5 * (even(j) + even(j + 1)));
    sum = log_add(sum, log_choose(order, j) + j * std::log(q) + term);
  }
  return sum;
}

/// Divergences of one round by order, where the noise has σ in units of the sensitivity.
std::vector<double> poisson_divergences(double q, double sigma) {
  std::vector<double> divergences;
  for (const double order : orders())
    divergences.push_back(q == 1 ? log_moment(order, sigma) / (order - 1)
                                 : poisson_moment(q, sigma, order) / (order - 1));
  return divergences;
}

std::vector<double> fixed_divergences(double q, double sigma) {
  const auto central = q == 1 ? std::vector<double>{} : central_moments(sigma);
  const auto moment = [&](int order) { return order == 1 ? 0 : fixed_moment(q, sigma, order, central); };
  std::vector<double> divergences;
  for (const double order : orders()) {
    double bound = log_moment(order, sigma);  // sampling never reveals more than no sampling
    if (q < 1) {
      // Between whole orders the logarithm of the moment is convex.
      const int below = static_cast<int>(std::floor(order));
      const double share = order - below;
      bound = std::min(bound, share == 0 ? moment(below) : (1 - share) * moment(below) + share * moment(below + 1));
    }
    divergences.push_back(bound / (order - 1));
  }
  return divergences;
}

/// Canonne, Kamath and Steinke (2020), Prop. 12.
double epsilon_of(double divergence, double order, double delta) {
  if (-std::expm1(-divergence) < delta * delta) return 0;  // the total variation is below δ (Bretagnolle and Huber)
  return divergence + std::log1p(-1 / order) - std::log(delta * order) / (order - 1);
}

void check(const PrivateRounds& rounds) {
  if (!(rounds.noise >= 0) || std::isinf(rounds.noise))
    throw Error(Fault::usage, "noise", fmt::format("expected 0 or more, got {}", rounds.noise));
  if (rounds.clients < 1 || rounds.per_round < 1 || rounds.per_round > rounds.clients)
    throw Error(Fault::usage, "clients of a round", fmt::format("{} of {}", rounds.per_round, rounds.clients),
                "expected at least 1 and not more than there are");
}

}  // namespace

PrivacyAccountant::PrivacyAccountant(const PrivateRounds& rounds) {
  check(rounds);
  const double q = static_cast<double>(rounds.per_round) / static_cast<double>(rounds.clients);
  if (rounds.noise == 0)
    divergences_.assign(orders().size(), infinite);
  else if (rounds.sampling == ClientSampling::poisson)
    divergences_ = poisson_divergences(q, rounds.noise);
  else  // a client replaced by another moves the sum by twice the clipping norm
    divergences_ = fixed_divergences(q, rounds.noise / 2);
}

double PrivacyAccountant::epsilon(int64_t rounds, double delta) const {
  if (rounds < 0) throw Error(Fault::usage, "rounds", fmt::format("expected 0 or more, got {}", rounds));
  if (!(delta > 0 && delta < 1))
    throw Error(Fault::usage, "delta", fmt::format("expected between 0 and 1, got {}", delta));
  if (rounds == 0) return 0;
  double least = infinite;
  for (size_t i = 0; i < divergences_.size(); ++i)
    least = std::min(least, epsilon_of(static_cast<double>(rounds) * divergences_[i], orders()[i], delta));
  return std::max(least, 0.0);
}

}  // namespace fedgrab
