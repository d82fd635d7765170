"""From what Python people write to the parameters of `fedgrab params`."""

import numbers
import os
from collections.abc import Mapping
from typing import Any

from ._compiled import _core

Config = Mapping[str, Any] | str | os.PathLike[str]


def text_of(key: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, numbers.Real):
        return repr(float(value))
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return ",".join(text_of(key, item) for item in value)
    if hasattr(value, "tolist"):  # numpy
        return text_of(key, value.tolist())
    raise TypeError(f"{key}: a parameter cannot be a {type(value).__name__}")


def _flat(config: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    pairs = []
    for key, value in config.items():
        pairs += _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else [(prefix + key, text_of(prefix + key, value))]
    return pairs


def resolve(config: Config) -> "_core.Config":
    """A dictionary, nested or with dotted keys, or the path of a TOML file."""
    if isinstance(config, Mapping):
        return _core.Config("", _flat(config))
    return _core.Config(os.fspath(config), [])
