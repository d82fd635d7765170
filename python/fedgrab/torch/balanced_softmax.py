"""Balanced softmax (Ren et al. 2020), the logit-adjusted loss (Menon et al. 2021)."""

import torch
from torch import Tensor, nn


class BalancedSoftmax(nn.Module):
    """Cross-entropy of z_j + τ log π_j, where π are the class shares. Predict with the unadjusted logits.

    counts: training samples by class, `torch.bincount(labels, minlength=classes)`; a class without samples counts as one sample.
    tau: strength; 0 is cross-entropy.
    """

    def __init__(self, counts: Tensor, tau: float = 1.0) -> None:
        super().__init__()
        counts = torch.as_tensor(counts).detach().float()
        if counts.dim() != 1 or not bool((counts >= 0).all()):
            raise ValueError("counts: expected one number of 0 or more per class")
        sizes = counts.clamp_min(1)
        self.register_buffer("offset", tau * (sizes / sizes.sum()).log())

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """logits: [batch, classes]. labels: [batch], integers."""
        return nn.functional.cross_entropy(logits + self.offset.to(logits), labels)
