#!/usr/bin/env python3
"""Which strategy of the Flower app survives which attack: the accuracy of the last model, with 3 and 6 sites, as a table of docs/flower.md.

The sites train in this process on the built-in images, the server's strategy is the app's. Needs build/python-venv (scripts/python.sh).
"""
import argparse
import logging
import pathlib
import statistics
import sys

TREE = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(TREE / "flower"), str(TREE / "tests" / "python")]

import fedgrab  # noqa: E402
import numpy as np  # noqa: E402
from federation import message_to  # noqa: E402
from fedgrab_flower.records import to_record  # noqa: E402
from fedgrab_flower.replies import digest  # noqa: E402
from fedgrab_flower.run_config import Limits, Plan  # noqa: E402
from fedgrab_flower.strategy import make_strategy  # noqa: E402
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict  # noqa: E402

HOSTILE = {3: 1, 6: 2}  # among so many sites
STRATEGIES = {  # what is known of the attack: the number of hostile sites
    "FedAvg": lambda sites, hostile: "",
    "FedMedian": lambda sites, hostile: "",
    "FedTrimmedAvg": lambda sites, hostile: "beta=0.34",
    "Krum": lambda sites, hostile: f"num_malicious_nodes={hostile}",
    "MultiKrum": lambda sites, hostile: f"num_malicious_nodes={hostile}, num_nodes_to_select={sites - hostile}",
}
ATTACKS = ("none", "malformed", "huge", "NaN", "replay", "sign flip", "scaled", "label flip")
PER_SITE = 20  # images of each class


class Sites:
    """Honest ones. The same work is done once: strategies begin alike, and some attacks leave the same replies."""

    def __init__(self, count, seed, alpha):
        spread = {"partition.kind": "dirichlet", "partition.alpha": alpha} if alpha else {"partition.kind": "iid"}
        self.config = {"method.name": "fedavg", "data.per_class": PER_SITE * count, "data.test_per_class": 50, "longtail.factor": 1,
                       "train.local_epochs": 3, "train.lr": 0.05, "train.seed": seed, "partition.clients": count} | spread
        self.clients = [fedgrab.Client(self.config, number) for number in range(count)]
        self.evaluator = fedgrab.Evaluator(self.config)
        self.done = {}

    def train(self, number, weights, server_round):
        key = number, digest(weights), server_round
        if key not in self.done:
            trained = self.clients[number].train(weights, server_round)
            self.done[key] = trained.weights, trained.samples, trained.metrics["loss"]
        return self.done[key]


def mirrored(weights):
    """With its classes in reverse order. A network trained so and turned back has learnt every label as its mirror image."""
    return {name: values[::-1].copy() if name.startswith("fc.") else values for name, values in weights.items()}


def attack(name, sites, number, model, server_round, first):
    """What a hostile site sends."""
    if name == "label flip":
        weights, samples, loss = sites.train(number, mirrored(model), server_round)
        return mirrored(weights), samples, loss
    weights, samples, loss = sites.train(number, model, server_round)
    if name == "replay":
        return first.setdefault(number, (weights, samples, loss))
    changed = {
        "none": lambda w, old: w,
        "malformed": lambda w, old: np.full(w.shape, "x"),
        "huge": lambda w, old: np.full_like(w, 1e30),
        "NaN": lambda w, old: w * np.float32("nan"),
        "sign flip": lambda w, old: np.maximum(old - (w - old), 0) if (old >= 0).all() else old - (w - old),  # variances stay positive
        "scaled": lambda w, old: np.maximum(old + 10 * (w - old), 0) if (old >= 0).all() else old + 10 * (w - old),
    }[name]
    return {key: changed(values, model[key]) for key, values in weights.items()}, samples, loss


class Nodes:
    def __init__(self, count):
        self.count = count

    def get_node_ids(self):
        return range(1, self.count + 1)


def run(sites, strategy_name, attack_name, rounds):
    count, hostile = len(sites.clients), HOSTILE[len(sites.clients)]
    server = fedgrab.Server(sites.config, classes=len(sites.evaluator.class_names), shape=sites.evaluator.shape)
    plan = Plan(rounds, count, count - hostile, rounds, 60.0, "none", Limits(), None)
    strategy = make_strategy(strategy_name, STRATEGIES[strategy_name](count, hostile), server, plan)
    strategy.average._construct_messages = lambda record, nodes, kind: [message_to(node, record) for node in nodes]
    model, first = server.weights(), {}
    for server_round in range(1, rounds + 1):
        strategy.configure_train(server_round, to_record(model), ConfigRecord(), Nodes(count))
        replies = []
        for number in range(count):
            kind = attack_name if number >= count - hostile else "none"
            weights, samples, loss = attack(kind, sites, number, model, server_round, first)
            content = RecordDict({"arrays": to_record(weights), "metrics": MetricRecord({"num-examples": samples, "loss": loss}),
                                  "site": ConfigRecord({"number": number})})
            replies.append(Message(content, reply_to=message_to(number + 1, RecordDict())))
        arrays, _ = strategy.aggregate_train(server_round, replies)
        if arrays is not None:
            model = {name: array.numpy() for name, array in arrays.items()}
    return sites.evaluator.evaluate(model)["all"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sites", type=int, nargs="+", choices=HOSTILE, default=list(HOSTILE))
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--attacks", nargs="+", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=1, help="so many; the table has the mean")
    parser.add_argument("--alpha", type=float, default=0, help="skew of the classes over the sites, a Dirichlet distribution (0: none)")
    parser.add_argument("--verbose", action="store_true", help="the server's log, too")
    given = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.INFO if given.verbose else logging.CRITICAL)
    print("| sites | strategy |", " | ".join(given.attacks), "|\n|--:|---|" + "--:|" * len(given.attacks))
    for count in given.sites:
        federations = [Sites(count, seed, given.alpha) for seed in range(1, given.seeds + 1)]
        for name in given.strategies:
            accuracies = [statistics.mean(run(sites, name, kind, given.rounds) for sites in federations) for kind in given.attacks]
            print(f"| {count}, {HOSTILE[count]} hostile | {name} |", " | ".join(f"{accuracy:.2f}" for accuracy in accuracies), "|", flush=True)


if __name__ == "__main__":
    main()
