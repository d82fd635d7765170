"""The accountant of differential privacy."""

from . import _core


def privacy_spent(noise_multiplier: float, clients: int, per_round: int, rounds: int, delta: float, *,
                  sampling: str = "fixed") -> float:
    """ε for this δ after `rounds` rounds of clipped updates and Gaussian noise, by Rényi differential privacy; inf without noise.

    noise_multiplier: standard deviation of the noise in the sum of a round's updates, over the clipping norm; in the mean it is
    noise_multiplier · clip / per_round, as `server.noise` and Flower's strategies have it.
    sampling: `fixed`, as the simulation and Flower's strategies draw: always `per_round` clients without replacement, or all of them;
    the guarantee is for one client replaced by another. `poisson`: every client by an independent coin, `per_round` of them on
    average, the sum divided by that number; the guarantee is for one client added or removed.
    """
    return _core.privacy_spent(float(noise_multiplier), int(clients), int(per_round), int(rounds), float(delta), sampling)
