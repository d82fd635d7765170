"""What a balancer or a client remembers, as bytes: numpy's own archive, nothing executable in it."""

import io
import zipfile

import numpy as np


def to_bytes(arrays: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def from_bytes(state: bytes) -> dict[str, np.ndarray]:
    """Nothing is remembered where there are no bytes."""
    if not state:
        return {}
    try:
        with np.load(io.BytesIO(state), allow_pickle=False) as arrays:
            return dict(arrays)
    except (ValueError, TypeError, OSError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"state: not what save() gave ({error})") from None
