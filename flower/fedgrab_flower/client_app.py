"""One place of the federation. What it keeps (its balancers) lies in Flower's context; what it sends is in `trained` and
`evaluated`, and nothing else."""

import json
from functools import lru_cache

import fedgrab
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from .records import to_record, to_weights
from .run_config import listed, parameters

app = ClientApp()
MEMORY = "fedgrab-memory"


@lru_cache(maxsize=16)  # a simulation asks the same process again and again
def load(config: str, number: int, own_data: bool, classes: tuple[str, ...]) -> fedgrab.Client:
    return fedgrab.Client(json.loads(config), number, own_data=own_data, classes=classes)


def client_of(context: Context) -> fedgrab.Client:
    """By the node's own configuration: `data.path` is what it has for itself; with `num-partitions`, all have the same data and it takes
    part number `partition-id`."""
    node = context.node_config
    config = parameters(context)
    config |= {key: value for key, value in node.items() if key.startswith("data.")}
    shared = "num-partitions" in node
    if shared:
        config["partition.clients"] = node["num-partitions"]
    elif "data.path" not in node:
        raise ValueError("this SuperNode knows of no data: give data.path, or partition-id and num-partitions, with --node-config")
    client = load(json.dumps(config), number_of(context), not shared, tuple(listed(context, "classes")))
    memory = context.state.config_records.get(MEMORY)
    client.restore(memory["bytes"] if memory else b"")
    return client


def number_of(context: Context) -> int:
    return int(context.node_config.get("partition-id", context.node_id % 65536))


def trained(content: RecordDict, context: Context) -> RecordDict:
    """All that leaves this place after a round."""
    client = client_of(context)
    result = client.train(to_weights(content["arrays"]), int(content["config"]["server-round"]))
    context.state[MEMORY] = ConfigRecord({"bytes": client.save()})
    return RecordDict({
        "arrays": to_record(result.weights),
        "metrics": MetricRecord({"num-examples": result.samples, "loss": result.metrics["loss"]}),
        "place": ConfigRecord({"number": number_of(context)}),
    })


def evaluated(content: RecordDict, context: Context) -> RecordDict:
    accuracy = client_of(context).evaluate(to_weights(content["arrays"]))
    return RecordDict({
        "metrics": MetricRecord({"num-examples": accuracy["samples"], "accuracy": accuracy["all"], "loss": accuracy["loss"]}),
    })


@app.train()
def train(message: Message, context: Context) -> Message:
    return Message(trained(message.content, context), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    return Message(evaluated(message.content, context), reply_to=message)
