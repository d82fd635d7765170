"""DPA, the direct prior analyzer (paper, Sec. 3.2)."""

import torch
from torch import Tensor

SCALES = ("share", "span", "rank")


def prior_from_weights(weight: Tensor, scale: str = "span", *, span_min: float = 0.1) -> Tensor:
    """The class prior P_j = h(‖w_j‖₂) from the weight vectors of a classifier, [classes, features], without class counts.

    scale: `share` sums to 1, `span` is linear onto [span_min, 1], `rank` is geometric from 1 to span_min.
    """
    if scale not in SCALES:
        raise ValueError(f"scale: expected share, span or rank, got {scale}")
    if not 0 <= span_min <= 1:
        raise ValueError(f"span_min: expected 0 … 1, got {span_min}")
    if weight.dim() < 2 or len(weight) == 0:
        raise ValueError(f"weight: expected shape [classes, features], got {list(weight.shape)}")
    norms = weight.detach().flatten(1).norm(dim=1)
    if scale == "share":
        return norms / norms.sum() if norms.sum() > 0 else torch.full_like(norms, 1 / len(norms))
    least, largest = norms.min(), norms.max()
    if largest - least <= 1e-6 * largest:  # equal but for rounding: every class is treated alike
        return torch.ones_like(norms)
    if scale == "span":
        return span_min + (1 - span_min) * (norms - least) / (largest - least)
    larger = (norms.unsqueeze(0) > norms.unsqueeze(1)).sum(1)
    equal = (norms.unsqueeze(0) == norms.unsqueeze(1)).sum(1)
    rank = (larger + (equal - 1) / 2) / (len(norms) - 1)  # 0 for the largest; equal norms share a rank
    return torch.as_tensor(span_min, dtype=norms.dtype, device=norms.device) ** rank.to(norms)
