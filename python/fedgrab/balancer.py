"""SGB, the self-adjusting gradient balancer, and DPA, the direct prior analyzer."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._compiled import _core
from ._config import text_of
from ._memory import from_bytes, to_bytes


class Balancer:
    """SGB: one PID controller per class re-weights the positive and negative logit gradients (paper, Sec. 3.3).

    `parameters` are those of `fedgrab params sgb`: form, kp, ki, kd (K_P, K_I, K_D), gamma, delta, zeta (γ, δ, ζ of φ), target (z),
    clamp, conditional_integration, mount, mount_classes. `seed` is the seed of the gate.
    """

    def __init__(self, classes: int, *, seed: int = 1, **parameters: Any) -> None:
        self._core = _core.Balancer(classes, [(key, text_of(key, value)) for key, value in parameters.items()], seed)

    def step(self, logits: ArrayLike, labels: ArrayLike, *, prior: ArrayLike | None = None,
             exempt: ArrayLike | None = None) -> tuple[float, NDArray[Any]]:
        """Returns the base loss of a batch and the re-weighted gradient of its logits. Backpropagation starts from this gradient.

        logits: [batch, classes], float32 or float64, not copied. labels: [batch], integers.
        prior: one probability per class that the class is exempt in this step. exempt: one bool per class, which replaces the
        random gate. Without either, no class is exempt.
        """
        return self._core.step(logits, labels, prior, exempt)

    @property
    def positive(self) -> NDArray[np.float64]:
        """G⁺, the accumulated magnitudes of the re-weighted positive gradients, by class."""
        return self._core.positive

    @property
    def negative(self) -> NDArray[np.float64]:
        """G⁻, the accumulated magnitudes of the re-weighted negative gradients, by class."""
        return self._core.negative

    @property
    def delta(self) -> NDArray[np.float64]:
        """Δ = G⁺ − G⁻."""
        return self._core.delta

    @property
    def output(self) -> NDArray[np.float64]:
        """u, the controller outputs of the last step, by class."""
        return self._core.output

    @property
    def beta(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """β⁺ = φ(u) and β⁻ = φ(−u), the weights of the last step before the gate."""
        return self._core.beta

    @property
    def classes(self) -> int:
        return self._core.classes

    @property
    def steps(self) -> int:
        """Number of steps so far."""
        return self._core.steps

    def save(self) -> bytes:
        """The state as bytes. A balancer with the same parameters and seed that restores it continues to the same bits."""
        return to_bytes(self._core.state())

    def restore(self, state: bytes) -> None:
        self._core.set_state(from_bytes(state))


def prior(weight: ArrayLike, scale: str = "span", *, span_min: float = 0.1) -> NDArray[Any]:
    """DPA: the class prior P_j = h(‖w_j‖₂) from the weight vectors of a classifier, [classes, features] (paper, Sec. 3.2).

    scale: `share` sums to 1, `span` is linear onto [span_min, 1], `rank` is geometric from 1 to span_min.
    """
    return _core.prior(weight, scale, span_min)
