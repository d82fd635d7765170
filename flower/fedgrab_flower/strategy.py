"""Flower's own strategies, given nothing but checked replies in a fixed order: floats add up to the same bits only in the same order."""

from collections.abc import Iterable
from logging import ERROR, INFO, WARNING
from typing import Any

import fedgrab
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAvg, Strategy

from .options import read_options, strategy_class, warn_of_sizes
from .privacy import PrivateAverage, spent
from .records import to_record, to_weights
from .replies import Flaw, History, Update, Weights, bounded_weights, digest, read_evaluation, read_update
from .run_config import Plan


class CheckedStrategy(Strategy):
    """A strategy of Flower's, `average`, behind checks. Replies that cannot be averaged are left out and named. The method's server finishes
    what the strategy averaged. A round that gives no model keeps the one before it; too many of them in a row end the run."""

    def __init__(self, average: FedAvg, server: fedgrab.Server, plan: Plan, *, uniform: bool = False) -> None:
        self.average, self.server, self.plan = average, server, plan
        self.inner: Strategy = PrivateAverage(average, plan.privacy) if plan.privacy else average
        self.uniform = uniform or plan.privacy is not None
        self.history = History()
        self.model: Weights = server.weights()
        self.asked: set[int] = set()
        self.releases, self.failed_in_a_row = 0, 0

    def summary(self) -> None:
        log(INFO, "\t├──> %s of Flower, given checked replies", type(self.average).__name__)
        self.inner.summary()

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        if server_round == 2:  # from here on the federation may shrink to its quorum
            self.average.min_available_nodes = self.average.min_train_nodes = self.plan.quorum
            self.average.min_evaluate_nodes = min(self.average.min_evaluate_nodes, self.plan.quorum)
        self.model = to_weights(arrays)
        self.history.add(server_round - 1, digest(self.model))
        messages = list(self.inner.configure_train(server_round, arrays, config, grid))
        self.asked = {message.metadata.dst_node_id for message in messages}
        return messages

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        updates = self.usable(server_round, replies)
        log(INFO, "round %d: %d replies, in partition order", server_round, len(updates))
        if len(updates) < self.plan.quorum:
            return self.failed(server_round, f"{len(updates)} usable replies, the quorum is {self.plan.quorum}")
        try:
            arrays, metrics = self.inner.aggregate_train(server_round, self.weighted(server_round, updates))
            if arrays is None:
                return self.failed(server_round, f"{type(self.average).__name__} made no model of {len(updates)} replies")
            weights = self.server.finish(to_weights(arrays), server_round)
        except Exception as error:  # the strategy's, which saw checked values only
            return self.failed(server_round, f"{type(error).__name__}: {error}")
        self.succeeded(server_round, updates)
        return to_record(weights), metrics

    def usable(self, server_round: int, replies: Iterable[Message]) -> list[Update]:
        """In partition order. The others are named in the log, with the reason."""
        updates: dict[int, Update] = {}
        flaws = dict.fromkeys(sorted(self.asked), "did not answer")
        digests: dict[bytes, int] = {}
        for reply in sorted(replies, key=lambda reply: reply.metadata.src_node_id):
            node = reply.metadata.src_node_id
            if node not in self.asked:
                continue  # Flower's word that a reply got lost; its site is one that did not answer
            try:
                if node in updates:
                    raise Flaw("answered more than once; its first answer counts")
                update = read_update(reply, self.model, self.plan.limits, private=self.plan.privacy is not None)
                self.history.require_new(update)
                if (twin := digests.setdefault(update.digest, node)) != node:
                    raise Flaw(f"sent the same weights as {self.history.name(twin)}; has each site its own partition-id?")
                updates[node] = update
                del flaws[node]
            except Flaw as flaw:
                flaws[node] = str(flaw)
        for node, flaw in flaws.items():
            log(WARNING, "round %d: %s %s; going on with %d of %d", server_round, self.history.name(node), flaw, len(updates),
                len(self.asked))
        return sorted(updates.values(), key=lambda update: (update.number, update.node))

    def weighted(self, server_round: int, updates: list[Update]) -> list[Message]:
        weights = [1] * len(updates) if self.uniform else bounded_weights(updates, self.plan.limits)
        for update, weight in zip(updates, weights):
            if not self.uniform and weight < update.examples:
                log(WARNING, "round %d: %s claims %d samples and counts as %d (max-weight=%g times the median)", server_round,
                    self.history.name(update.node), update.examples, weight, self.plan.limits.max_weight)
        return [update.message(weight) for update, weight in zip(updates, weights)]

    def succeeded(self, server_round: int, updates: list[Update]) -> None:
        for update in updates:
            self.history.add(server_round, update.digest)
        self.failed_in_a_row = 0
        self.releases += 1
        if self.plan.privacy:
            log(INFO, "round %d: %s", server_round, spent(self.plan.privacy, self.plan.nodes, self.releases))

    def failed(self, server_round: int, reason: str) -> tuple[None, None]:
        """The model stays as it is; the next round may do better, but not for ever."""
        self.failed_in_a_row += 1
        log(ERROR, "round %d: keeping the model of the round before: %s", server_round, reason)
        if self.failed_in_a_row >= self.plan.failed_rounds:
            raise RuntimeError(f"round {server_round}: no new model in {self.failed_in_a_row} rounds in a row: {reason} (see to the sites "
                               "that the warnings above name, or change quorum, strategy or failed-rounds)")
        return None, None

    def require_a_model(self) -> None:
        if self.releases == 0:
            raise RuntimeError("no round gave a new model: the warnings above say why")

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Iterable[Message]:
        return self.inner.configure_evaluate(server_round, arrays, config, grid)

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """A number for the log: no reply to it may end the run."""
        usable: dict[int, Message] = {}
        for reply in replies:
            node = reply.metadata.src_node_id
            try:
                if node not in usable:
                    usable[node] = read_evaluation(reply, self.plan.limits)
            except Flaw as flaw:
                log(WARNING, "round %d: the evaluation of %s is left out: it %s", server_round, self.history.name(node), flaw)
        return self.inner.aggregate_evaluate(server_round, [usable[node] for node in sorted(usable)]) if usable else None


def make_strategy(name: str, options: str, server: fedgrab.Server, plan: Plan, *, uniform: bool = False) -> CheckedStrategy:
    settings: dict[str, Any] = read_options(name, options)
    warn_of_sizes(name, settings, plan.nodes, plan.quorum)
    evaluates = plan.evaluate == "clients"
    average = strategy_class(name)(fraction_evaluate=1.0 if evaluates else 0.0, min_train_nodes=plan.nodes, min_available_nodes=plan.nodes,
                                   min_evaluate_nodes=plan.nodes if evaluates else 0, **settings)
    return CheckedStrategy(average, server, plan, uniform=uniform)
