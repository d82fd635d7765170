"""The accountant of differential privacy."""

from . import _core


def privacy_spent(noise_multiplier: float, clients: int, per_round: int, rounds: int, delta: float, *,
                  sampling: str = "fixed") -> float:
    """ε for a given δ after `rounds` rounds of clipped updates and Gaussian noise, by Rényi differential privacy; inf without noise.

    noise_multiplier: standard deviation of the noise in the sum of a round's updates, divided by the clipping norm. The noise in the
    mean has the standard deviation noise_multiplier · clip / per_round, as with `server.noise` and Flower's strategies.
    sampling: `fixed`, as in the simulation and in Flower's strategies: `per_round` clients without replacement, or all. The guarantee
    is for one client replaced by another. `poisson`: each client with the same probability, `per_round` on average, and the sum
    divided by that number. The guarantee is for one client added or removed.
    """
    return _core.privacy_spent(float(noise_multiplier), int(clients), int(per_round), int(rounds), float(delta), sampling)
