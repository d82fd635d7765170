"""What `[tool.flwr.app.config]` says, as fedgrab's parameters."""

import shlex
from typing import Any

from flwr.app import Context


def parameters(context: Context) -> dict[str, Any]:
    pairs = shlex.split(str(context.run_config["parameters"]))
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"parameters: {pair} is not of the form key=value")
    return dict(pair.split("=", 1) for pair in pairs) | {"train.rounds": context.run_config["rounds"]}


def listed(context: Context, key: str) -> list[str]:
    return [item.strip() for item in str(context.run_config[key]).split(",") if item.strip()]
