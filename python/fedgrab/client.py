"""One place of a federation."""

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._compiled import _core
from ._config import Config, resolve
from ._memory import from_bytes, to_bytes
from .server import Weights, named


class Trained(NamedTuple):
    weights: dict[str, NDArray[np.float32]]
    samples: int  # the client's; the average is weighted by it
    metrics: dict[str, float]  # "loss", its mean over the samples, and "steps"


class _Place:
    def __init__(self, config: Config, client: int, own_data: bool, classes: Sequence[str]) -> None:
        self._core = _core.Client(resolve(config), client, own_data, list(classes))
        self._names = list(self._core.initial_weights())

    def _named(self, weights: Weights) -> dict[str, ArrayLike]:
        return named(weights, self._names)

    def initial_weights(self) -> dict[str, NDArray[np.float32]]:
        """Where a run with these parameters starts: everything that is sent, in the order that `train` takes in a list."""
        return self._core.initial_weights()

    def evaluate(self, weights: Weights) -> dict[str, Any]:
        """Accuracy on the test images as in metrics.jsonl (all, many, med, few, per_class), with `loss` and `samples`."""
        accuracy, loss, samples = self._core.evaluate(self._named(weights))
        return {**json.loads(accuracy), "loss": loss, "samples": samples}

    def save_model(self, weights: Weights, path: str | os.PathLike[str]) -> None:
        """A safetensors file for `fedgrab predict`, `eval` and `export`."""
        self._core.save_model(self._named(weights), os.fspath(path))

    @property
    def class_names(self) -> list[str]:
        return self._core.class_names

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of an image: channels, height, width."""
        return self._core.shape


class Client(_Place):
    """Trains on weights it is given. Its images, labels, counts and balancers stay inside.

    config: as for `run`. client: its number, which chooses its part of the partition and its random numbers.
    own_data: everything in data.path is this client's, nothing is partitioned.
    classes: the names of all classes of the federation, where this place may lack some.
    """

    def __init__(self, config: Config = {}, client: int = 0, *, own_data: bool = False,  # noqa: B006
                 classes: Sequence[str] = ()) -> None:
        if client < 0:
            raise ValueError(f"client: expected 0 or more, got {client}")
        super().__init__(config, client, own_data, classes)

    def train(self, weights: Weights, round: int) -> Trained:
        """One round of local training, from 1. `weights` by name, or as a list in the order of `initial_weights`.

        The same round of `run` does the same: a server that averages the results by `samples` and lets `Server.finish` see to the
        rest repeats it.
        """
        return Trained(*self._core.train(self._named(weights), round))

    @property
    def samples(self) -> int:
        return self._core.samples

    def save(self) -> bytes:
        """What the client keeps from round to round: the state of its balancers, where the method has any."""
        return to_bytes(self._core.state())

    def restore(self, state: bytes) -> None:
        self._core.set_state(from_bytes(state))


class Evaluator(_Place):
    """Knows a test set and no training: for a server that has one."""

    def __init__(self, config: Config = {}, *, classes: Sequence[str] = ()) -> None:  # noqa: B006
        super().__init__(config, -1, False, classes)
