"""A reply of a site, read into values that can be averaged, or refused with the reason. Somebody else wrote it: every value is checked, and
no text of it reaches a log."""

import hashlib
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from .records import to_record
from .run_config import Limits

Weights = dict[str, np.ndarray]
CLIENT_APP_RAISED = 2  # of Flower's error codes
HEADER_BYTES = 4096  # of an array as numpy stores it, at most
UNCHANGED = 1e-9  # of the norm of a model: an update this small is none
LARGEST_NUMBER = 2**31


class Flaw(Exception):
    """Why a reply is left out, as the end of a sentence that begins with its site."""


@dataclass(frozen=True)
class Update:
    """What a site sent after training."""

    reply: Message
    number: int  # of the site; replies are averaged in this order
    weights: Weights
    examples: int
    loss: float | None  # with differential privacy a site sends none

    @property
    def node(self) -> int:
        return self.reply.metadata.src_node_id

    @cached_property
    def digest(self) -> bytes:
        return digest(self.weights)

    def message(self, weight: int) -> Message:
        """As Flower's strategies take it. Its content is made anew: nothing that the site sent beside checked values goes further."""
        metrics = {"num-examples": weight} | ({} if self.loss is None else {"loss": self.loss})
        self.reply.content = RecordDict({"arrays": to_record(self.weights), "metrics": MetricRecord(metrics)})
        return self.reply


def require_content(reply: Message, records: Mapping[str, type]) -> RecordDict:
    if reply.has_error():
        raise Flaw("reports an error, which is in its own log" if reply.error.code == CLIENT_APP_RAISED else "did not answer")
    content = reply.content
    if missing := [name for name, kind in records.items() if not isinstance(content.get(name), kind)]:
        raise Flaw(f"sent no record of {' and '.join(missing)}")
    if len(content) > len(records):
        raise Flaw(f"sent {len(content)} records where {len(records)} were expected")
    return content


def read_numbers(record: MetricRecord, names: tuple[str, ...]) -> list[float]:
    """Finite numbers by these names, and nothing else."""
    if set(record) != set(names):
        raise Flaw(f"sent other metrics than {' and '.join(names)}")
    for name in names:
        value = record[name]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Flaw(f"sent a {name} that is not a number")
        if not math.isfinite(value):
            raise Flaw(f"sent a {name} that is not finite")
    return [record[name] for name in names]


def read_examples(value: float, limits: Limits) -> int:
    if not isinstance(value, int) or value < 1:
        raise Flaw("claims a num-examples that is not a whole number above 0")
    if value > limits.max_examples:
        raise Flaw(f"claims more samples than max-examples={limits.max_examples} allows")
    return value


def read_array(name: str, array: Array, shape: tuple[int, ...]) -> np.ndarray:
    if len(array.data) > 4 * math.prod(shape) + HEADER_BYTES:
        raise Flaw(f"sent more bytes for {name} than it has")
    values = array.numpy()  # of bytes; never a pickle
    if values.dtype != np.float32:
        raise Flaw(f"sent {name} as {values.dtype.name} instead of float32")
    if values.shape != shape:
        raise Flaw(f"sent weights of another network, see {name}")
    if not np.isfinite(values).all():
        raise Flaw(f"sent weights that are not finite, see {name}")
    if name.endswith("running_var") and (values < 0).any():
        raise Flaw(f"sent negative variances, see {name}")
    return values


def read_weights(record: ArrayRecord, model: Weights) -> Weights:
    if set(record) != set(model):
        raise Flaw("sent weights of another network: their names differ")
    return {name: read_array(name, record[name], values.shape) for name, values in model.items()}


def norm(weights: Mapping[str, np.ndarray]) -> float:
    return math.sqrt(sum(float(np.sum(np.square(values, dtype=np.float64))) for values in weights.values()))


def require_step(weights: Weights, model: Weights, limits: Limits) -> None:
    """An update has to be one, and of sensible size."""
    change = norm({name: values.astype(np.float64) - model[name] for name, values in weights.items()})
    length = norm(model)
    if change <= UNCHANGED * length:
        raise Flaw("sent back the model that it was given")
    if limits.max_update and change > limits.max_update * length:
        raise Flaw(f"changed the model by {change / length:.3g} of its norm, more than max-update={limits.max_update:g} allows")


def read_site_number(record: ConfigRecord) -> int:
    value = record.get("number")
    if set(record) != {"number"} or isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < LARGEST_NUMBER:
        raise Flaw("sent no usable site number")
    return value


def read_update(reply: Message, model: Weights, limits: Limits, *, private: bool) -> Update:
    try:
        content = require_content(reply, {"arrays": ArrayRecord, "metrics": MetricRecord, "site": ConfigRecord})
        number = read_site_number(content["site"])
        names = ("num-examples",) if private else ("num-examples", "loss")
        examples, *loss = read_numbers(content["metrics"], names)
        weights = read_weights(content["arrays"], model)
        require_step(weights, model, limits)
        return Update(reply, number, weights, read_examples(examples, limits), float(loss[0]) if loss else None)
    except Flaw:
        raise
    except Exception as error:  # whatever numpy or Flower have against these bytes
        raise Flaw(f"sent what cannot be read ({type(error).__name__})") from None


def read_evaluation(reply: Message, limits: Limits) -> Message:
    """The same, with checked numbers for its content."""
    try:
        names = ("num-examples", "accuracy", "loss")
        examples, accuracy, loss = read_numbers(require_content(reply, {"metrics": MetricRecord})["metrics"], names)
        if not 0 <= accuracy <= 1:
            raise Flaw("sent an accuracy outside 0 to 1")
        checked = {"num-examples": read_examples(examples, limits), "accuracy": float(accuracy), "loss": float(loss)}
        reply.content = RecordDict({"metrics": MetricRecord(checked)})
        return reply
    except Flaw:
        raise
    except Exception as error:
        raise Flaw(f"sent what cannot be read ({type(error).__name__})") from None


def bounded_weights(updates: list[Update], limits: Limits) -> list[int]:
    """Samples by site, cut to a multiple of their median: what a site claims cannot be checked."""
    if not updates or not limits.max_weight:
        return [update.examples for update in updates]
    most = max(1, int(limits.max_weight * statistics.median(update.examples for update in updates)))
    return [min(update.examples, most) for update in updates]


@dataclass
class History:
    """What sites sent before: a reply counts once. A failed round leaves the model, and what is sent for it, as they were."""

    rounds: dict[bytes, int] = field(default_factory=dict)  # by digest of weights
    numbers: dict[int, int] = field(default_factory=dict)  # of sites, by node

    def require_new(self, update: Update) -> None:
        if self.numbers.setdefault(update.node, update.number) != update.number:
            raise Flaw(f"says that it is site {update.number} now")
        if (before := self.rounds.get(update.digest)) is not None:
            raise Flaw(f"sent weights of round {before} again")

    def add(self, server_round: int, seen: bytes) -> None:
        self.rounds.setdefault(seen, server_round)

    def name(self, node: int) -> str:
        return f"node {node} (site {self.numbers[node]})" if node in self.numbers else f"node {node}"


def digest(weights: Weights) -> bytes:
    total = hashlib.sha256()
    for name in sorted(weights):
        total.update(np.ascontiguousarray(weights[name]).tobytes())
    return total.digest()
