"""Which strategies of Flower's a run may use, and their options (`strategy-options`)."""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from logging import WARNING
from typing import Any

from flwr.common.logger import log
from flwr.serverapp import strategy
from flwr.serverapp.strategy import FedAvg


@dataclass(frozen=True)
class Option:
    kind: type
    low: float
    below: float


HOSTILE = {"num_malicious_nodes": Option(int, 0, 2**31)}
STRATEGIES: dict[str, dict[str, Option]] = {
    "FedAvg": {},
    "FedMedian": {},
    "FedTrimmedAvg": {"beta": Option(float, 0, 0.5)},
    "Krum": HOSTILE,
    "MultiKrum": HOSTILE | {"num_nodes_to_select": Option(int, 1, 2**31)},
    "Bulyan": HOSTILE,
}
# Flower's server optimisers would also step the statistics of BatchNorm, which are no weights. Its FedProx relies on a ClientApp of its own.
INSTEAD = {"FedAvgM": "server.optimizer=momentum", "FedAdagrad": "server.optimizer=adagrad", "FedAdam": "server.optimizer=adam",
           "FedYogi": "server.optimizer=yogi", "FedProx": "client.algorithm=prox"}


def strategy_class(name: str) -> type[FedAvg]:
    if name in INSTEAD:
        raise ValueError(f"strategy: {name} of Flower does not suit our networks; take FedAvg with parameters=\"{INSTEAD[name]}\"")
    if name not in STRATEGIES:
        hint = "; differential privacy is dp-clip and dp-noise" if name.startswith("DifferentialPrivacy") else ""
        raise ValueError(f"strategy: {name} is none of {', '.join(STRATEGIES)}{hint}")
    return getattr(strategy, name)


def read_options(name: str, text: str) -> dict[str, Any]:
    """`beta=0.34`, TOML with commas between, or a JSON object."""
    strategy_class(name)
    known = STRATEGIES[name]
    given = parse(text.strip())
    for key, value in given.items():
        if key not in known:
            those = f"its options: {', '.join(known)}" if known else "it has none"
            raise ValueError(f"strategy-options: {name} has no option {key!r}; {those}")
        option = known[key]
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or option.kind(value) != value or not option.low <= value < option.below:
            what = "a whole number" if option.kind is int else "a number"
            raise ValueError(f"strategy-options: {key}: expected {what} from {option.low} to below {option.below}, got {value!r}")
    return {key: known[key].kind(value) for key, value in given.items()}


def parse(text: str) -> Mapping[str, Any]:
    if not text:
        return {}
    try:
        return json.loads(text) if text.startswith("{") else tomllib.loads(f"options = {{{text}}}")["options"]
    except (ValueError, RecursionError) as error:
        raise ValueError(f"strategy-options: expected \"key=value, key=value\" or a JSON object, got {text!r} ({error})") from None


def warn_of_sizes(name: str, options: Mapping[str, Any], nodes: int, quorum: int) -> None:
    """What an option does depends on the number of replies; where it cannot hold, Flower says nothing."""
    hostile = options.get("num_malicious_nodes", 0)
    if name == "Bulyan" and nodes < 4 * hostile + 3:
        raise ValueError(f"strategy-options: Bulyan with num_malicious_nodes={hostile} needs {4 * hostile + 3} sites, the run has {nodes}")
    if name in ("Krum", "MultiKrum") and quorum < 2 * hostile + 3:
        log(WARNING, "%s tolerates num_malicious_nodes=%d among %d replies or more, the quorum is %d", name, hostile, 2 * hostile + 3, quorum)
    if name in ("Krum", "MultiKrum", "Bulyan") and not hostile:
        log(WARNING, "%s with num_malicious_nodes=0 expects no hostile site; set it in strategy-options", name)
    beta = options.get("beta", 0.2)
    if name == "FedTrimmedAvg" and int(beta * quorum) == 0:
        more = f"beta above {1 / quorum:.2g} removes one at each end" if quorum > 2 else "it takes three or more"
        log(WARNING, "FedTrimmedAvg with beta=%g removes no value of %d replies, the quorum; %s", beta, quorum, more)
