"""The server of a federation."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._compiled import _core
from ._config import Config, resolve

Weights = Mapping[str, ArrayLike] | Sequence[ArrayLike]


def named(weights: Weights, names: Sequence[str]) -> dict[str, ArrayLike]:
    """Arrays by name; a list has the order of the model."""
    if isinstance(weights, Mapping):
        return dict(weights)
    if len(weights) != len(names):
        raise ValueError(f"weights: {len(weights)} arrays where the model has {len(names)}")
    return dict(zip(names, weights))


class Server:
    """The server: initial weights, and the server step after averaging. It needs no data. `shape` is (channels, height, width) of an image.

    Methods whose clients send more than averaged weights (SCAFFOLD, FedNova, …) are refused.
    """

    def __init__(self, config: Config = {}, *, classes: int, shape: tuple[int, int, int]) -> None:  # noqa: B006
        self._core = _core.Server(resolve(config), classes, list(shape))

    def weights(self) -> dict[str, NDArray[np.float32]]:
        """The global model, without frozen weights. Clients initialise those themselves."""
        return self._core.weights()

    def finish(self, average: Weights, round: int) -> dict[str, NDArray[np.float32]]:
        """Returns the new global model, given the average of the clients' weights. For most methods it equals the average."""
        return self._core.finish(named(average, list(self._core.weights())), round)
