"""Logit adjustment of a trained model (Menon et al. 2021)."""

import torch
from torch import Tensor, nn

MOST_TAU = 4.0


class LogitAdjustment(nn.Module):
    """z_j − τ log π_j: a layer after the classifier, for prediction.

    prior: class counts or shares, or an estimate of them. tau: strength; 1 after cross-entropy training, 0 after balanced softmax.
    `fit` fits it on validation data.
    """

    def __init__(self, prior: Tensor, tau: float = 1.0) -> None:
        super().__init__()
        prior = torch.as_tensor(prior).detach().float()
        if prior.dim() != 1 or not bool((prior >= 0).all()) or not bool(prior.sum() > 0):
            raise ValueError("prior: expected one number of 0 or more per class, not all of them 0")
        self.register_buffer("log_prior", (prior / prior.sum()).clamp_min(1e-6).log())
        self.register_buffer("tau", torch.tensor(float(tau)))

    def forward(self, logits: Tensor) -> Tensor:
        return logits - (self.tau * self.log_prior).to(logits)

    @torch.no_grad()
    def fit(self, logits: Tensor, labels: Tensor) -> "LogitAdjustment":
        """Sets τ in 0 … 4 to the minimum of class-balanced cross-entropy, which is convex in τ. logits: [images, classes], unadjusted."""
        z, log_prior = logits.double(), self.log_prior.to(logits.device).double()
        counts = torch.bincount(labels, minlength=z.shape[1]).clamp_min(1)
        weight = 1 / counts[labels].double()

        def slope(tau: float) -> float:
            """Derivative by τ: E_y[log π] of the labels minus that of the predictions."""
            predicted = (z - tau * log_prior).softmax(1) @ log_prior
            return float((weight * (log_prior[labels] - predicted)).sum())

        low, high = 0.0, MOST_TAU
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if slope(middle) < 0 else (low, middle)
        self.tau.fill_((low + high) / 2)
        return self
