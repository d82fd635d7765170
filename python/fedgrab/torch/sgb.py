"""SGB, the self-adjusting gradient balancer, as a criterion (paper, Sec. 3.3; the equations are in docs/fedgrab.md)."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

FORMS = ("sigmoid", "softmax")


class _WithGradient(torch.autograd.Function):
    """A loss whose backward pass starts from a given gradient of the logits."""

    @staticmethod
    def forward(ctx, logits: Tensor, loss: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(gradient)
        return loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, above: Tensor):
        (gradient,) = ctx.saved_tensors
        return gradient * above.to(gradient.dtype), None, None


class SGBLoss(nn.Module):
    """One PID controller per class re-weights the positive and negative logit gradients.

    `criterion(logits, labels)` returns the base loss, the mean over the batch; `backward()` propagates the re-weighted gradient. The
    controllers advance with each call in training mode whose logits require a gradient; validation does not change them. Their state
    is in buffers, which stay in double precision: `state_dict()` contains all of it, including the position of the gate.

    classes: number of classes. form: base loss, `sigmoid` (binary cross-entropy summed over classes) or `softmax` (cross-entropy).
    kp, ki, kd, gamma, delta, zeta, target, clamp, conditional_integration: as in `fedgrab params sgb`.
    mount_classes: the classes that have a balancer; None: all. prior: see `set_prior`. seed: of the gate's random numbers.
    """

    def __init__(self, classes: int, *, form: str = "sigmoid", kp: float = 10, ki: float = 0.01, kd: float = 0.1, gamma: float = 10,
                 delta: float = 9, zeta: float = 0.5, target: float = 0, clamp: float = 100, conditional_integration: bool = True,
                 mount_classes: Iterable[int] | None = None, prior: Tensor | None = None, seed: int = 1) -> None:
        super().__init__()
        if classes < 1:
            raise ValueError(f"classes: expected 1 or more, got {classes}")
        if form not in FORMS:
            raise ValueError(f"form: expected {' or '.join(FORMS)}, got {form}")
        for name, value in (("kp", kp), ("ki", ki), ("kd", kd), ("delta", delta), ("zeta", zeta), ("clamp", clamp)):
            if not 0 <= value < math.inf:
                raise ValueError(f"{name}: expected 0 or more, got {value}")
        if not 0 < gamma < math.inf:
            raise ValueError(f"gamma: expected more than 0, got {gamma}")
        self.classes, self.form, self.seed = classes, form, seed
        self.kp, self.ki, self.kd = kp, ki, kd
        self.gamma, self.delta, self.zeta = gamma, delta, zeta
        self.target, self.clamp, self.conditional_integration = target, clamp, conditional_integration
        for name in ("positive", "negative", "error", "error_sum", "output"):  # G⁺, G⁻, e of the step before, Σe, u
            self.register_buffer(name, torch.zeros(classes, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))  # stays on the CPU: reading it never waits for a GPU
        self.register_buffer("prior", torch.zeros(classes, dtype=torch.float64))
        unmounted = torch.zeros(classes, dtype=torch.bool)
        if mount_classes is not None:
            unmounted.fill_(True)
            unmounted[torch.tensor(list(mount_classes), dtype=torch.int64)] = False
        self.register_buffer("unmounted", unmounted, persistent=False)
        if prior is not None:
            self.set_prior(prior)

    def set_prior(self, prior: Tensor | None) -> None:
        """P, a number in 0 … 1 per class: with that probability a class is exempt in a step. Frequent classes should have the
        larger ones, as from `prior_from_weights`. None: no class is exempt."""
        values = torch.zeros(self.classes) if prior is None else torch.as_tensor(prior).detach()
        if values.shape != (self.classes,):
            raise ValueError(f"prior: expected shape [{self.classes}], got {list(values.shape)}")
        if not bool(((values >= 0) & (values <= 1)).all()):
            raise ValueError("prior: not all within 0 … 1")
        self.prior.copy_(values)

    def forward(self, logits: Tensor, labels: Tensor, *, exempt: Tensor | None = None) -> Tensor:
        """logits: [batch, classes]. labels: [batch], integers. exempt: the gate's decisions, [classes] of bool, instead of the prior's."""
        if logits.dim() != 2 or logits.shape[1] != self.classes or len(logits) == 0:
            raise ValueError(f"logits: expected shape [batch, {self.classes}], got {list(logits.shape)}")
        if labels.shape != logits.shape[:1]:
            raise ValueError(f"labels: expected shape [{len(logits)}], got {list(labels.shape)}")
        if self.positive.device != logits.device:
            self.to(logits.device)
        with torch.no_grad():
            z = logits.detach()
            loss, gradient = self._base(z.float() if z.dtype in (torch.float16, torch.bfloat16) else z, labels.long())
        if not (self.training and torch.is_grad_enabled() and logits.requires_grad):
            return loss
        with torch.no_grad():
            gradient = self._balance(gradient, self._gate(exempt))
        return _WithGradient.apply(logits, loss, gradient.to(logits.dtype))

    @property
    def difference(self) -> Tensor:
        """Δ = G⁺ − G⁻, by class."""
        return self.positive - self.negative

    @property
    def beta(self) -> tuple[Tensor, Tensor]:
        """β⁺ = φ(u) and β⁻ = φ(−u), the weights of the last step before the gate."""
        return self._phi(self.output), self._phi(-self.output)

    def extra_repr(self) -> str:
        return f"{self.classes}, form={self.form}, kp={self.kp}, ki={self.ki}, kd={self.kd}, gamma={self.gamma}"

    def _base(self, z: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Mean loss and its gradient, σ − 1[j = y] divided by the batch size."""
        target = torch.zeros_like(z).scatter_(1, labels.unsqueeze(1), 1)
        weight = 1 / len(z)
        if self.form == "softmax":
            log_probability = z.log_softmax(1)
            return -log_probability.gather(1, labels.unsqueeze(1)).sum() * weight, (log_probability.exp() - target) * weight
        loss = z.clamp_min(0) - z * target + z.abs().neg().exp().log1p()
        return loss.sum() * weight, (z.sigmoid() - target) * weight

    def _gate(self, exempt: Tensor | None) -> Tensor:
        """r ~ U(0, 1] per class and step; r ≤ P_j exempts the class. A function of seed and step, the same on every device."""
        if exempt is None:
            generator = torch.Generator().manual_seed((self.seed + 0x9E3779B97F4A7C15 * (int(self.steps) + 1)) % 2**63)
            draw = 1 - torch.rand(self.classes, generator=generator, dtype=torch.float64)
            exempt = draw.to(self.prior.device) <= self.prior
        elif exempt.shape != (self.classes,) or exempt.dtype != torch.bool:
            raise ValueError(f"exempt: expected [{self.classes}] of bool, got {list(exempt.shape)} of {exempt.dtype}")
        return exempt.to(self.unmounted.device) | self.unmounted

    def _phi(self, x: Tensor) -> Tensor:
        """γ / (1 + δ e^(−ζx)), written so that it neither overflows nor meets 0 · ∞."""
        return (x * self.zeta - (math.log(self.delta) if self.delta > 0 else -math.inf)).sigmoid() * self.gamma

    def _control(self, active: Tensor) -> None:
        """One step of the controllers, where `active`. The error is target minus measured."""
        error = self.negative - self.positive + self.target
        error_sum = self.error_sum + error
        output = error * self.kp + error_sum * self.ki + (error - self.error) * self.kd
        if self.clamp > 0:  # integration stops while the output is clamped
            clamped = output.clamp(-self.clamp, self.clamp)
            error_sum = torch.where(clamped == output, error_sum, self.error_sum)
            output = clamped
        for state, value in ((self.error, error), (self.error_sum, error_sum), (self.output, output)):
            state.copy_(torch.where(active, value, state))

    def _balance(self, gradient: Tensor, exempt: Tensor) -> Tensor:
        self.steps += 1
        # An exempt class cannot change its error: integrated, that error would make the output overshoot later.
        self._control(~exempt if self.conditional_integration else torch.ones_like(exempt))
        positive, negative = (beta.masked_fill(exempt, 1).to(gradient.dtype) for beta in self.beta)
        # σ − 1[j = y] is negative at the label and nowhere else.
        balanced = gradient * torch.where(gradient < 0, positive, negative)
        self.positive -= self._collected(balanced.clamp_max(0), exempt)
        self.negative += self._collected(balanced.clamp_min(0), exempt)
        return balanced

    @staticmethod
    def _collected(gradient: Tensor, exempt: Tensor) -> Tensor:
        """By class. A step that overflowed, which a gradient scaler skips, leaves no NaN behind."""
        return gradient.sum(0).double().masked_fill(exempt, 0).nan_to_num(0, 0, 0)

    def _apply(self, fn, *arguments, **keywords):
        """Moves with the model, but keeps its precision: Δ is the small difference of two large sums."""
        before = {name: buffer for name, buffer in self.named_buffers()}
        super()._apply(fn, *arguments, **keywords)
        for name, buffer in before.items():
            moved = getattr(self, name)
            if name == "steps":
                self.steps = buffer
            elif moved.dtype != buffer.dtype:
                setattr(self, name, buffer.to(moved.device))
        return self
