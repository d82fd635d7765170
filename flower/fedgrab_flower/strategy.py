"""Flower's own strategies, with replies taken in a fixed order: floats add up to the same bits only in the same order."""

from collections.abc import Iterable
from logging import INFO, WARNING

import fedgrab
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid, strategy
from flwr.serverapp.strategy import Strategy

from .records import to_record, to_weights


def _number(reply: Message) -> tuple[bool, int]:
    if reply.has_content() and "place" in reply.content:
        return False, int(reply.content["place"]["number"])
    return True, reply.metadata.src_node_id


class _InOrder:
    """Goes in front of a strategy. Also says which nodes did not answer, lets a federation shrink to its quorum after round 1, and has
    the method's server finish what the strategy averaged."""

    server: fedgrab.Server
    quorum: int

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        if server_round == 2:
            self.min_available_nodes = self.min_train_nodes = self.quorum
            self.min_evaluate_nodes = min(self.min_evaluate_nodes, self.quorum)
        messages = list(super().configure_train(server_round, arrays, config, grid))
        self.asked = {message.metadata.dst_node_id for message in messages}
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        replies = sorted(replies, key=_number)
        answered = {reply.metadata.src_node_id for reply in replies if reply.has_content()}
        for node in sorted(self.asked - answered):
            log(WARNING, "round %d: node %d did not answer; going on with %d of %d", server_round, node, len(answered), len(self.asked))
        log(INFO, "round %d: %d replies, in partition order", server_round, len(answered))
        arrays, metrics = super().aggregate_train(server_round, replies)
        if arrays is not None:
            arrays = to_record(self.server.finish(to_weights(arrays), server_round))
        return arrays, metrics


def make_strategy(name: str, server: fedgrab.Server, *, nodes: int, quorum: int, evaluate: bool) -> Strategy:
    base = getattr(strategy, name, None)
    if not (isinstance(base, type) and issubclass(base, strategy.FedAvg)):
        raise ValueError(f"strategy: Flower has no {name} that averages weights")
    made = type(name, (_InOrder, base), {})(fraction_evaluate=1.0 if evaluate else 0.0, min_train_nodes=nodes,
                                            min_evaluate_nodes=nodes if evaluate else 0, min_available_nodes=nodes)
    made.server, made.quorum = server, quorum
    return made
