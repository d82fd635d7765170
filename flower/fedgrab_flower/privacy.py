"""Differential privacy of the averaged model, by Flower's own wrapper: it clips every update and adds Gaussian noise to their average."""

from collections.abc import Iterable, Mapping
from logging import INFO, WARNING
from typing import Any

import fedgrab
import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord
from flwr.common.logger import log
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg

from .run_config import Plan, Privacy

SMALLEST_SHARE = 0.1  # of a variance that noise may leave of the one before
SMALLEST_VARIANCE = 1e-3


class PrivateAverage(DifferentialPrivacyServerSideFixedClipping):
    def __init__(self, average: FedAvg, privacy: Privacy) -> None:
        if type(average) is not FedAvg:
            raise ValueError(f"dp-clip: the noise is made for an average of all updates; {type(average).__name__} is none (strategy=FedAvg)")
        super().__init__(average, noise_multiplier=privacy.noise, clipping_norm=privacy.clip,
                         num_sampled_clients=average.min_train_nodes)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord | None, MetricRecord | None]:
        updates = list(replies)
        # Flower divides the noise by this. One update weighs 1/replies in the average, however many were asked.
        self.num_sampled_clients = len(updates)
        arrays, metrics = super().aggregate_train(server_round, updates)
        return with_positive_variances(arrays, self.current_arrays) if arrays else None, metrics


def with_positive_variances(noised: ArrayRecord, before: ArrayRecord) -> ArrayRecord:
    """Noise may turn the variances of BatchNorm negative. Both models are public, so that this costs no privacy."""
    for name, array in noised.items():
        if name.endswith("running_var"):
            least = np.maximum(before[name].numpy() * SMALLEST_SHARE, SMALLEST_VARIANCE)
            noised[name] = Array(np.maximum(array.numpy(), least).astype(np.float32))
    return noised


def spent(privacy: Privacy, sites: int, releases: int) -> str:
    """All sites take part in each round: there is no amplification by sampling."""
    epsilon = fedgrab.privacy_spent(privacy.noise, sites, sites, releases, privacy.delta)
    if epsilon == float("inf"):
        return "differential privacy: epsilon is infinite, nothing is guaranteed: there is no noise (dp-noise=0)"
    return f"differential privacy: epsilon {epsilon:.3g} for delta {privacy.delta:g} after {releases} models"


def warn_of_privacy(plan: Plan, weights: Mapping[str, np.ndarray]) -> None:
    log(INFO, "all %d rounds: %s", plan.rounds, spent(plan.privacy, plan.nodes, plan.rounds))
    if any(name.endswith("running_var") for name in weights):
        log(WARNING, "differential privacy: statistics of BatchNorm are clipped and noised with the weights and take most of dp-clip; "
            "a network without BatchNorm (model.name=pfl-cnn) needs less noise")
    if plan.evaluate == "clients":
        log(WARNING, "evaluate=\"clients\": numbers of test images and accuracies are sent as they are, outside of differential privacy")


def require_uniform(parameters: Mapping[str, Any]) -> None:
    """The largest share of one site in the average is what the noise is made for."""
    if parameters.get("server.weights", "uniform") != "uniform":
        raise ValueError("parameters: with differential privacy all sites weigh the same (server.weights=uniform)")
