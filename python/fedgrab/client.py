"""A client of a federation, and an evaluator."""

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
    samples: int  # number of the client's samples, its weight in the average
    metrics: dict[str, float]  # "loss": mean over the samples; "steps"


class _Site:
    def __init__(self, config: Config, client: int, own_data: bool, classes: Sequence[str]) -> None:
        self._core = _core.Client(resolve(config), client, own_data, list(classes))
        self._names = list(self._core.initial_weights())

    def _named(self, weights: Weights) -> dict[str, ArrayLike]:
        return named(weights, self._names)

    def initial_weights(self) -> dict[str, NDArray[np.float32]]:
        """The initial weights of a run with these parameters, by name, without frozen weights. `train` accepts a list in the same order."""
        return self._core.initial_weights()

    def evaluate(self, weights: Weights) -> dict[str, Any]:
        """Accuracy on the test images as in metrics.jsonl (all, many, med, few, per_class), with `loss` and `samples`."""
        accuracy, loss, samples = self._core.evaluate(self._named(weights))
        return {**json.loads(accuracy), "loss": loss, "samples": samples}

    def save_model(self, weights: Weights, path: str | os.PathLike[str]) -> None:
        """Writes a safetensors file for `fedgrab predict`, `eval` and `export`."""
        self._core.save_model(self._named(weights), os.fspath(path))

    @property
    def class_names(self) -> list[str]:
        return self._core.class_names

    @property
    def shape(self) -> tuple[int, int, int]:
        """Shape of an image: channels, height, width."""
        return self._core.shape


class Client(_Site):
    """A client. It trains from given weights. Its images, labels, class counts and balancers are not returned.

    config: as for `run`. client: its number, which selects its part of the partition and its random numbers.
    own_data: the client has all data in data.path, without a partition.
    classes: names of all classes of the federation, if this client may lack some.
    """

    def __init__(self, config: Config = {}, client: int = 0, *, own_data: bool = False,  # noqa: B006
                 classes: Sequence[str] = ()) -> None:
        if client < 0:
            raise ValueError(f"client: expected 0 or more, got {client}")
        super().__init__(config, client, own_data, classes)

    def train(self, weights: Weights, round: int) -> Trained:
        """One round of local training. Rounds count from 1. `weights` are given by name, or as a list in the order of `initial_weights`.

        The result equals that of `run`, if the server averages the weights by `samples` and then calls `Server.finish`.
        """
        return Trained(*self._core.train(self._named(weights), round))

    @property
    def samples(self) -> int:
        return self._core.samples

    def save(self) -> bytes:
        """The persistent state of the client as bytes, such as that of its balancers."""
        return to_bytes(self._core.state())

    def restore(self, state: bytes) -> None:
        self._core.set_state(from_bytes(state))


class Evaluator(_Site):
    """Evaluates weights on a test set, without training. For a server with test data."""

    def __init__(self, config: Config = {}, *, classes: Sequence[str] = ()) -> None:  # noqa: B006
        super().__init__(config, -1, False, classes)
