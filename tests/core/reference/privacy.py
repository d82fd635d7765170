"""Writes privacy.csv: ε of Google's dp-accounting (PyPI) on the grid that privacy_accountant_test.cpp compares with.

    pip install dp-accounting && python3 tests/core/reference/privacy.py > tests/core/reference/privacy.csv

Columns: `same` has the orders of src/core/privacy_accountant.cpp, `default` those of dp-accounting. Without replacement one client
replaces another, and the sensitivity is twice the clipping norm; where no sampling gives the smaller bound, it is taken. With
Poisson sampling dp-accounting 0.6 overestimates the divergence of fractional orders, or leaves them out, which shows where ε is above
15; there `tight` is the ε of its PLD accountant, which no valid ε is below. `exact` has the divergence of fractional orders by
integrating its definition with scipy, for Poisson sampling; whole orders and the conversion to ε are those of dp-accounting.
"""

import functools
import logging
import math

import dp_accounting
import numpy
from dp_accounting import pld, rdp
from scipy import integrate

ORDERS = [x / 10 for x in range(11, 110)] + list(range(11, 64)) + list(range(64, 128, 8)) + list(range(128, 256, 32)) + \
    [256, 384, 512, 768, 1024]
NOISES = (0.5, 0.7, 1.0, 2.0, 5.0)
CLIENTS = 10000
COHORTS = (10, 100, 1000, 5000, 10000)
ROUNDS = (1, 10, 100, 1000, 10000)
DELTAS = (1e-5, 1e-6, 1e-8)
OVERESTIMATED = 15
REPLACE = dp_accounting.NeighboringRelation.REPLACE_ONE
ADD_OR_REMOVE = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE


def poisson(noise, cohort):
    return dp_accounting.PoissonSampledDpEvent(cohort / CLIENTS, dp_accounting.GaussianDpEvent(noise))


def accountants(sampling, noise, cohort, orders):
    """Each has composed one round."""
    if sampling == "poisson":
        return [rdp.RdpAccountant(orders, ADD_OR_REMOVE).compose(poisson(noise, cohort))]
    gaussian = dp_accounting.GaussianDpEvent(noise / 2)
    sampled = dp_accounting.SampledWithoutReplacementDpEvent(CLIENTS, cohort, gaussian)
    return [rdp.RdpAccountant(orders, REPLACE).compose(event) for event in (gaussian, sampled)]


def divergence(rate, noise, order):
    """Of the Poisson-sampled Gaussian mechanism (Mironov, Talwar and Zhang 2019, equation 3), by adaptive quadrature."""
    def log_integrand(x):
        ratio = numpy.logaddexp(math.log1p(-rate), math.log(rate) + (2 * x - 1) / (2 * noise**2))
        return order * ratio - x**2 / (2 * noise**2) - math.log(noise * math.sqrt(2 * math.pi))

    edges = numpy.arange(-15 * noise, order + 15 * noise, noise)
    peak = log_integrand(numpy.linspace(edges[0], edges[-1], 20001)).max()
    parts = [integrate.quad(lambda x: math.exp(log_integrand(x) - peak), a, b, epsabs=1e-14, epsrel=1e-10)[0]
             for a, b in zip(edges, edges[1:])]
    return (math.log(math.fsum(parts)) + peak) / (order - 1)


def exact_divergences(noise, cohort):
    (composed,) = accountants("poisson", noise, cohort, ORDERS)
    if cohort == CLIENTS:
        return composed.rdp
    return numpy.array([known if order == int(order) else divergence(cohort / CLIENTS, noise, order)
                        for order, known in zip(composed.orders, composed.rdp)])


def epsilon(divergences, orders, rounds, delta):
    return float(rdp.rdp_privacy_accountant.compute_epsilon(orders, divergences * rounds, delta)[0])


def least_epsilon(composed, rounds, delta):
    return min(epsilon(a.rdp, a.orders, rounds, delta) for a in composed)


@functools.cache
def tight(noise, cohort, rounds):
    interval = 1e-2 if rounds * cohort / CLIENTS / noise > 100 else 1e-3
    return pld.PLDAccountant(ADD_OR_REMOVE, value_discretization_interval=interval).compose(poisson(noise, cohort), rounds)


def main():
    logging.disable(logging.WARNING)
    print("sampling,noise,clients,per_round,rounds,delta,same,default,exact,tight")
    for sampling in ("fixed", "poisson"):
        for noise in NOISES:
            for cohort in COHORTS:
                same, default = (accountants(sampling, noise, cohort, orders) for orders in (ORDERS, None))
                divergences = exact_divergences(noise, cohort) if sampling == "poisson" else None
                for rounds in ROUNDS:
                    for delta in DELTAS:
                        values = [f"{least_epsilon(composed, rounds, delta):.8g}" for composed in (same, default)]
                        exact = least = ""
                        if sampling == "poisson":
                            exact = f"{epsilon(divergences, ORDERS, rounds, delta):.8g}"
                            if float(values[0]) > OVERESTIMATED:
                                least = f"{tight(noise, cohort, rounds).get_epsilon(delta):.8g}"
                        print(sampling, noise, CLIENTS, cohort, rounds, delta, *values, exact, least, sep=",")


if __name__ == "__main__":
    main()
