"""What `[tool.flwr.app.config]` says: fedgrab's parameters, and numbers within their bounds."""

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flwr.app import Context

OWN_PRIVACY = ("server.clip", "server.noise", "server.delta")
EVALUATE = ("server", "clients", "none")


def parameters(context: Context) -> dict[str, Any]:
    pairs = shlex.split(str(context.run_config["parameters"]))
    for pair in pairs:
        if "=" not in pair:
            raise ValueError(f"parameters: {pair} is not of the form key=value")
        if pair.startswith(OWN_PRIVACY):
            raise ValueError(f"parameters: {pair} is for simulations; a deployment has dp-clip, dp-noise and dp-delta")
    return dict(pair.split("=", 1) for pair in pairs) | {"train.rounds": context.run_config["rounds"]}


def listed(context: Context, key: str) -> list[str]:
    return [item.strip() for item in str(context.run_config[key]).split(",") if item.strip()]


def number(config: Mapping[str, Any], key: str, low: float, high: float = math.inf, *, default: float | None = None) -> float:
    given = config.get(key, default)
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not low <= given <= high:
        bounds = f"{low:g} or more" if high == math.inf else f"{low:g} to {high:g}"
        raise ValueError(f"{key}: expected a number, {bounds}, got {given!r}")
    return given


def integer(config: Mapping[str, Any], key: str, low: int, high: float = math.inf) -> int:
    given = number(config, key, low, high)
    if given != int(given):
        raise ValueError(f"{key}: expected a whole number, got {given}")
    return int(given)


@dataclass(frozen=True)
class Privacy:
    """Differential privacy of a run: updates clipped to `clip`, noise of `noise` · clip on their sum."""

    clip: float
    noise: float
    delta: float


def privacy_of(config: Mapping[str, Any]) -> Privacy | None:
    """None where dp-clip is 0."""
    clip = number(config, "dp-clip", 0, 1e9, default=0.0)
    noise = number(config, "dp-noise", 0, 1e6, default=0.0)
    delta = number(config, "dp-delta", 1e-100, 0.5, default=1e-5)
    if clip == 0 and noise > 0:
        raise ValueError("dp-noise: noise without clipping protects nobody; set dp-clip, too")
    return Privacy(float(clip), float(noise), float(delta)) if clip > 0 else None


@dataclass(frozen=True)
class Limits:
    """What a site may claim or change in a round; 0 stands for no limit of the last two."""

    max_examples: int = 1_000_000
    max_weight: float = 10.0  # times the median of the round
    max_update: float = 100.0  # L2, times the norm of the model


@dataclass(frozen=True)
class Plan:
    """The course of a run."""

    rounds: int
    nodes: int
    quorum: int
    failed_rounds: int
    timeout: float
    evaluate: str
    limits: Limits
    privacy: Privacy | None


def plan_of(config: Mapping[str, Any]) -> Plan:
    nodes = integer(config, "nodes", 1)
    if config["evaluate"] not in EVALUATE:
        raise ValueError(f"evaluate: expected {', '.join(EVALUATE[:-1])} or {EVALUATE[-1]}, got {config['evaluate']}")
    limits = Limits(integer(config, "max-examples", 1), float(number(config, "max-weight", 0)), float(number(config, "max-update", 0)))
    plan = Plan(integer(config, "rounds", 1), nodes, integer(config, "quorum", 1, nodes), integer(config, "failed-rounds", 1),
                float(number(config, "round-timeout", 1)), str(config["evaluate"]), limits, privacy_of(config))
    if plan.privacy and plan.privacy.delta * nodes >= 1:
        raise ValueError(f"dp-delta: {plan.privacy.delta:g} means nothing with {nodes} sites; it has to be far below {1 / nodes:.2g}")
    return plan
