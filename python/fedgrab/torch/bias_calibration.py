"""Bias calibration of a trained model: one number per class, fitted on validation data."""

import torch
from torch import Tensor, nn

MOST_STEPS = 50


class BiasCalibration(nn.Module):
    """z + b: a layer after the classifier, for prediction. It corrects the class bias of the model, which usually differs from the log
    prior.

    classes: number of classes. ridge: weight of the L2 penalty on b, divided by the number of classes. balance: an image of a class with
    n images has weight n^−balance in the fit; 1: equal classes, 0: equal images.
    """

    def __init__(self, classes: int, *, ridge: float = 0.1, balance: float = 1.0) -> None:
        super().__init__()
        if classes < 1 or ridge < 0:
            raise ValueError(f"classes, ridge: expected 1 or more and 0 or more, got {classes} and {ridge}")
        self.ridge, self.balance = ridge, balance
        self.register_buffer("bias", torch.zeros(classes))

    def forward(self, logits: Tensor) -> Tensor:
        return logits + self.bias.to(logits)

    @torch.no_grad()
    def fit(self, logits: Tensor, labels: Tensor) -> "BiasCalibration":
        """b that minimises the weighted cross-entropy of z + b, plus ridge / (2 classes) ‖b‖²: convex, by Newton's method.
        logits: [images, classes], uncalibrated. A class without images keeps a bias of 0."""
        z, labels = logits.detach().cpu().double(), labels.cpu()
        classes = len(self.bias)
        if z.dim() != 2 or z.shape[1] != classes or len(z) == 0 or labels.shape != z.shape[:1]:
            raise ValueError(f"logits, labels: expected shapes [images, {classes}] and [images], got {list(z.shape)} and {list(labels.shape)}")
        counts = torch.bincount(labels, minlength=classes).double()
        weight = counts.clamp_min(1)[labels] ** -self.balance
        weight /= weight.sum()
        target = torch.zeros(classes, dtype=z.dtype).index_add_(0, labels, weight)
        present, ridge = (target > 0).double(), self.ridge / classes

        def loss_at(b: Tensor) -> float:
            own = (z + b).log_softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)
            return float(-(own * weight).sum() + ridge / 2 * (b * b).sum())

        bias = torch.zeros(classes, dtype=z.dtype)
        for _ in range(MOST_STEPS):
            p = (z + bias).softmax(1)
            mass = (p * weight.unsqueeze(1)).sum(0)
            gradient = (mass - target + ridge * bias) * present
            curvature = torch.diag(mass + ridge) - (p * weight.unsqueeze(1)).t() @ p
            hessian = curvature * torch.outer(present, present) + torch.diag(1 - present)
            move, loss, length = torch.linalg.solve(hessian, gradient), loss_at(bias), 1.0
            while loss_at(bias - length * move) > loss and length > 1e-6:
                length /= 2
            if not loss_at(bias - length * move) < loss:
                break
            bias -= length * move
        self.bias.copy_(bias)
        return self
