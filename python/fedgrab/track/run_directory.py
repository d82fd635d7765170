"""A run directory as a tracker wants it: parameters, measures by round, a summary. Nothing that should not leave the machine is among
them: no path, no class counts, no confusion matrix, no model, no data."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PRIVATE = {"counts", "confusion"}  # words of keys whose values stay
PATHS = {"path", "file", "images", "cache", "init"}  # likewise where the value is a text

NOT_PATHS = {"head.init"}  # the name of an initialisation


class ExportError(Exception):
    """One line for the user."""


class Round(NamedTuple):
    number: int
    time: float  # seconds since the epoch at its end, as far as the files tell
    measures: dict[str, float]


class RunDirectory:
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name = self.path.resolve().name
        for name in ("config.toml", "metrics.jsonl"):
            if not (self.path / name).is_file():
                raise ExportError(f"{path}: not a run: there is no {name} (name the folder that `fedgrab run --out` wrote)")

    @property
    def parameters(self) -> dict[str, str]:
        """Resolved parameters by dotted key; those that hold a path are left out."""
        try:
            import tomllib
        except ModuleNotFoundError:
            raise ExportError("python: reading config.toml needs Python 3.11 or newer") from None
        try:
            config = tomllib.loads(self._text("config.toml"))
        except tomllib.TOMLDecodeError as error:
            raise ExportError(f"{self.path / 'config.toml'}: {error}") from None
        return {key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
                for key, value in _leaves(config, ".") if _may_leave(key.rsplit(".", 1)[-1], value) or key in NOT_PATHS}

    @property
    def summary(self) -> dict[str, Any] | None:
        """None while the run has not finished."""
        return _without_private(self._json("summary.json")) if (self.path / "summary.json").is_file() else None

    @property
    def class_names(self) -> list[str]:
        return self._json("classes.json").get("class_names", []) if (self.path / "classes.json").is_file() else []

    def rounds(self) -> list[Round]:
        """Every number of each line of metrics.jsonl, by its place in the object: `acc/few`, `acc/per_class/heart`."""
        lines = self._text("metrics.jsonl").splitlines(keepends=True)
        try:
            records = [json.loads(line) for line in lines if line.endswith("\n")]  # the last one may be half written
        except json.JSONDecodeError as error:
            raise ExportError(f"{self.path / 'metrics.jsonl'}: {error}") from None
        end = (self.path / "metrics.jsonl").stat().st_mtime
        rounds = []
        for record in reversed(records):
            rounds.append(Round(record["round"], end, dict(self._measures(record))))
            end -= record.get("seconds", 0)
        return rounds[::-1]

    def _measures(self, record: dict[str, Any]) -> Iterator[tuple[str, float]]:
        names = self.class_names
        for key, value in _leaves(record, "/"):
            last = key.rsplit("/", 1)[-1]
            if last == "per_class" and isinstance(value, list) and len(value) == len(names):
                yield from ((f"{key}/{name.replace('/', '_')}", share) for name, share in zip(names, value) if _is_number(share))
            elif key != "round" and _is_number(value) and _may_leave(last, value):
                yield key, value

    def _text(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExportError(f"{self.path / name}: {error}") from None

    def _json(self, name: str) -> dict[str, Any]:
        try:
            return json.loads(self._text(name))
        except json.JSONDecodeError as error:
            raise ExportError(f"{self.path / name}: {error}") from None


def _leaves(tree: dict[str, Any], separator: str, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, separator, f"{prefix}{key}{separator}")
        else:
            yield prefix + key, value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _may_leave(key: str, value: Any) -> bool:
    """By its name, and by its look: a path in a parameter that nobody thought of stays, too."""
    words = set(key.split("_"))
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    return not (words & PRIVATE or texts and words & PATHS or any("/" in text or "\\" in text for text in texts))


def _without_private(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_private(item) for key, item in value.items() if _may_leave(key, item) or key == "class_names"}
    return [_without_private(item) for item in value] if isinstance(value, list) else value
