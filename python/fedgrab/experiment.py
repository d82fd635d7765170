"""A simulated federation."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from ._compiled import _core
from ._config import Config, resolve


class Run(NamedTuple):
    records: list[dict[str, Any]]  # one per round, the lines of metrics.jsonl
    summary: dict[str, Any]
    directory: Path


def run(config: Config = {}, *, out: str | os.PathLike[str] = "", resume: bool = False, quiet: bool = True) -> Run:  # noqa: B006
    """Trains a simulated federation, as `fedgrab run`.

    config: a dictionary (`{"train": {"rounds": 5}}` or `{"train.rounds": 5}`) or the path of a TOML file.
    out: the run directory; empty: a new one under runs/. Ctrl-C saves the last finished round and raises KeyboardInterrupt;
    `resume=True` continues the run. quiet=False shows progress on stderr.
    """
    directory = Path(_core.run(resolve(config), os.fspath(out), resume, quiet))
    records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    return Run(records, json.loads((directory / "summary.json").read_text()), directory)
