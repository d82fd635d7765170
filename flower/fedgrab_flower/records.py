"""Weights as Flower carries them, and back."""

from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord


def to_record(weights: Mapping[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(values) for name, values in weights.items()})


def to_weights(record: ArrayRecord) -> dict[str, np.ndarray]:
    return {name: array.numpy() for name, array in record.items()}
