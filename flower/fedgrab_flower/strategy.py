"""Flower's own strategies, with replies taken in a fixed order: floats add up to the same bits only in the same order."""

from collections.abc import Iterable
from logging import INFO, WARNING

import fedgrab
import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid, strategy
from flwr.serverapp.strategy import Strategy

from .records import to_record, to_weights


CLIENT_APP_RAISED = 2  # of Flower's error codes


def _number(reply: Message) -> tuple[bool, int]:
    if reply.has_content() and "place" in reply.content:
        return False, int(reply.content["place"]["number"])
    return True, reply.metadata.src_node_id


class _InOrder:
    """Goes in front of a strategy. Also leaves out, by name, nodes that did not answer or not with what was asked for, lets a federation
    shrink to its quorum after round 1, and has the method's server finish what the strategy averaged."""

    server: fedgrab.Server
    quorum: int
    shapes: dict[str, tuple[int, ...]]

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        if server_round == 2:
            self.min_available_nodes = self.min_train_nodes = self.quorum
            self.min_evaluate_nodes = min(self.min_evaluate_nodes, self.quorum)
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self.asked = {message.metadata.dst_node_id for message in messages}
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        flaws = dict.fromkeys(sorted(self.asked), "did not answer")
        usable = []
        for reply in sorted(replies, key=_number):
            if flaw := self.flaw_of(reply):
                flaws[reply.metadata.src_node_id] = flaw
            else:
                del flaws[reply.metadata.src_node_id]
                usable.append(reply)
        for node, flaw in flaws.items():
            log(WARNING, "round %d: node %d %s; going on with %d of %d", server_round, node, flaw, len(usable), len(self.asked))
        log(INFO, "round %d: %d replies, in partition order", server_round, len(usable))
        if len(usable) < self.quorum:
            raise RuntimeError(f"round {server_round}: {len(usable)} places trained, the quorum is {self.quorum}")
        arrays, metrics = super().aggregate_train(server_round, usable)
        if arrays is not None:
            arrays = to_record(self.server.finish(to_weights(arrays), server_round))
        return arrays, metrics

    def flaw_of(self, reply: Message) -> str | None:
        """Why a reply cannot be averaged: one place must not spoil the round of all."""
        if reply.has_error():
            return "reports an error, which is in its own log" if reply.error.code == CLIENT_APP_RAISED else "did not answer"
        weights, metrics = to_weights(reply.content["arrays"]), reply.content["metrics"]
        if {name: values.shape for name, values in weights.items()} != self.shapes:
            return "sent weights of another network"
        if not all(np.isfinite(values).all() for values in weights.values()) or not np.isfinite(metrics["loss"]):
            return "sent weights or a loss that are not finite"
        return None if metrics["num-examples"] >= 1 else "trained on nothing"


def make_strategy(name: str, server: fedgrab.Server, *, nodes: int, quorum: int, evaluate: bool) -> Strategy:
    base = getattr(strategy, name, None)
    if not (isinstance(base, type) and issubclass(base, strategy.FedAvg)) or name.startswith("FedXgb"):
        raise ValueError(f"strategy: Flower has no {name} that averages weights")
    try:
        made = type(name, (_InOrder, base), {})(fraction_evaluate=1.0 if evaluate else 0.0, min_train_nodes=nodes,
                                                min_evaluate_nodes=nodes if evaluate else 0, min_available_nodes=nodes)
    except TypeError as error:
        raise ValueError(f"strategy: {name} wants more than a run can tell it ({error})") from None
    made.server, made.quorum = server, quorum
    made.shapes = {key: values.shape for key, values in server.weights().items()}
    return made
