"""Data sets and partitions of a run."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._compiled import _core
from ._config import Config, resolve


class Split(NamedTuple):
    images: NDArray[np.uint8]  # [count, channels, height, width], read-only, not copied
    labels: NDArray[np.int32]


class Data(NamedTuple):
    name: str
    train: Split
    test: Split
    validation: Split  # empty without data.validation
    samples: NDArray[np.int64]  # indices into train, after the long tail is created and validation images are held out
    class_names: list[str]
    mean: list[float]  # normalisation by channel, for pixels from 0 to 1
    std: list[float]


def load_data(config: Config = {}) -> Data:  # noqa: B006
    """The data set that `data.*` and `longtail.*` define; `config` as for `run`."""
    read = _core.load_data(resolve(config))
    for name in ("train", "test", "validation"):
        read[name] = Split(**read[name])
    return Data(**read)


def partition(config: Config = {}, *, labels: ArrayLike | None = None) -> list[NDArray[np.int64]]:  # noqa: B006
    """Indices of the training samples by client, equal to those of `run` with the same parameters.

    If `labels` are given, they are partitioned by `partition.*` and `train.seed`, and no data set is read.
    """
    if labels is None:
        return _core.partition(resolve(config))
    return _core.partition_labels(resolve(config), labels)
