"""Data sets and partitions, as a run sees them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._compiled import _core
from ._config import Config, resolve


class Split(NamedTuple):
    images: NDArray[np.uint8]  # [count, channels, height, width], read-only: the memory training reads
    labels: NDArray[np.int32]


class Data(NamedTuple):
    name: str
    train: Split
    test: Split
    validation: Split  # empty unless data.validation asks for one
    samples: NDArray[np.int64]  # of train, what is left after the long tail is cut and validation held out
    class_names: list[str]
    mean: list[float]  # normalisation by channel, on the scale where a byte is 0 … 1
    std: list[float]


def load_data(config: Config = {}) -> Data:  # noqa: B006
    """The data set of `data.*`, with the tail of `longtail.*`; `config` as for `run`."""
    read = _core.load_data(resolve(config))
    for name in ("train", "test", "validation"):
        read[name] = Split(**read[name])
    return Data(**read)


def partition(config: Config = {}, *, labels: ArrayLike | None = None) -> list[NDArray[np.int64]]:  # noqa: B006
    """Who holds which training sample: indices by client, as `run` with the same parameters has them.

    With `labels` it is those that are spread, by `partition.*` and `train.seed`, and no data set is read.
    """
    if labels is None:
        return _core.partition(resolve(config))
    return _core.partition_labels(resolve(config), labels)
