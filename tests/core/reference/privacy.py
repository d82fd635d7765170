"""Writes privacy.csv: ε of Google's dp-accounting (PyPI) on the grid that privacy_accountant_test.cpp compares with.

    pip install dp-accounting && python3 tests/core/reference/privacy.py > tests/core/reference/privacy.csv

Columns: `same` has the orders of src/core/privacy_accountant.cpp, `default` those of dp-accounting. Without replacement one client
replaces another, and the sensitivity is twice the clipping norm; where no sampling gives the smaller bound, it is taken. With
Poisson sampling dp-accounting 0.6 overestimates the divergence of fractional orders, or leaves them out, which shows where ε is above
15; there `tight` is the ε of its PLD accountant, which no valid ε is below.
"""

import functools
import logging

import dp_accounting
from dp_accounting import pld, rdp

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


def epsilon(composed, rounds, delta):
    return min(float(rdp.rdp_privacy_accountant.compute_epsilon(a.orders, a.rdp * rounds, delta)[0]) for a in composed)


@functools.cache
def tight(noise, cohort, rounds):
    interval = 1e-2 if rounds * cohort / CLIENTS / noise > 100 else 1e-3
    return pld.PLDAccountant(ADD_OR_REMOVE, value_discretization_interval=interval).compose(poisson(noise, cohort), rounds)


def main():
    logging.disable(logging.WARNING)
    print("sampling,noise,clients,per_round,rounds,delta,same,default,tight")
    for sampling in ("fixed", "poisson"):
        for noise in NOISES:
            for cohort in COHORTS:
                same, default = (accountants(sampling, noise, cohort, orders) for orders in (ORDERS, None))
                for rounds in ROUNDS:
                    for delta in DELTAS:
                        values = [epsilon(composed, rounds, delta) for composed in (same, default)]
                        least = ""
                        if sampling == "poisson" and values[0] > OVERESTIMATED:
                            least = f"{tight(noise, cohort, rounds).get_epsilon(delta):.8g}"
                        print(sampling, noise, CLIENTS, cohort, rounds, delta, *(f"{v:.8g}" for v in values), least, sep=",")


if __name__ == "__main__":
    main()
