"""A client of the federation. Its persistent state (balancers) is in Flower's context. It sends what `trained` and `evaluated` return,
and nothing else."""

import json
from collections.abc import Callable
from functools import lru_cache
from logging import ERROR
from typing import Any

import fedgrab
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.logger import log

from .records import to_record, to_weights
from .run_config import listed, parameters, privacy_of

app = ClientApp()
MEMORY = "fedgrab-memory"

# What the server may set of a site's own data: how it is read, not its path and not its part.
OF_THE_CENTRE = {"data.name", "data.size", "data.channels", "data.augment", "data.mean", "data.std"}
OF_THE_PLACE = ("data.", "longtail.", "partition.", "engine.", "model.init")


@lru_cache(maxsize=16)  # a simulation uses the same process repeatedly
def load(config: str, number: int, own_data: bool, classes: tuple[str, ...]) -> fedgrab.Client:
    return fedgrab.Client(json.loads(config), number, own_data=own_data, classes=classes)


def client_of(context: Context) -> fedgrab.Client:
    """By the node's own configuration: `data.path` is what it has for itself; with `num-partitions`, all have the same data and it takes
    part number `partition-id`."""
    node = context.node_config
    config = parameters(context)
    shared = "num-partitions" in node
    if shared:
        config["partition.clients"] = node["num-partitions"]
    elif "data.path" not in node:
        raise ValueError("this SuperNode knows of no data: give data.path, or partition-id and num-partitions, with --node-config")
    else:
        refuse_the_places(config)
    config |= {key: value for key, value in node.items() if key.startswith(("data.", "engine."))}
    client = load(json.dumps(config), number_of(context), not shared, tuple(listed(context, "classes")))
    memory = context.state.config_records.get(MEMORY)
    client.restore(memory["bytes"] if memory else b"")
    return client


def refuse_the_places(config: dict[str, Any]) -> None:
    """A server that sets longtail.*, for instance, could count classes."""
    for key in config:
        if key.startswith(OF_THE_PLACE) and key not in OF_THE_CENTRE:
            raise ValueError(f"parameters: {key} is for each SuperNode to say, with --node-config")


def number_of(context: Context) -> int:
    return int(context.node_config.get("partition-id", context.node_id % 65536))


def trained(content: RecordDict, context: Context) -> RecordDict:
    """Everything that the site sends after a round."""
    client = client_of(context)
    result = client.train(to_weights(content["arrays"]), int(content["config"]["server-round"]))
    context.state[MEMORY] = ConfigRecord({"bytes": client.save()})
    # With differential privacy all sites have the same weight, so neither a count nor a loss is sent.
    private = privacy_of(context.run_config) is not None
    metrics = {"num-examples": 1} if private else {"num-examples": result.samples, "loss": result.metrics["loss"]}
    return RecordDict({
        "arrays": to_record(result.weights),
        "metrics": MetricRecord(metrics),
        "site": ConfigRecord({"number": number_of(context)}),
    })


def evaluated(content: RecordDict, context: Context) -> RecordDict:
    accuracy = client_of(context).evaluate(to_weights(content["arrays"]))
    return RecordDict({
        "metrics": MetricRecord({"num-examples": accuracy["samples"], "accuracy": accuracy["all"], "loss": accuracy["loss"]}),
    })


def reply(work: Callable[[RecordDict, Context], RecordDict], message: Message, context: Context) -> Message:
    """The error message is not sent either: it may name files, classes and counts."""
    try:
        return Message(work(message.content, context), reply_to=message)
    except Exception:
        log(ERROR, "this site failed", exc_info=True)
    raise RuntimeError("this site failed; its own log has the reason")


@app.train()
def train(message: Message, context: Context) -> Message:
    return reply(trained, message, context)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return reply(evaluated, message, context)
