"""Modules of one's own for tests: what trains, and what the door refuses."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint
from torch import Tensor, nn

FEATURES = 64
CLASSES = 10


class SmallConvolutions(nn.Module):
    """A convolutional net on 8 x 8 images, with GroupNorm and both kinds of dropout."""

    def __init__(self, classes: int = CLASSES) -> None:
        super().__init__()
        self.image = nn.Sequential(
            nn.Unflatten(1, (1, 8, 8)),
            nn.Conv2d(1, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Dropout2d(0.25),
            nn.Conv2d(8, 12, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.head = nn.Sequential(nn.Dropout(0.5), nn.Linear(48, classes))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (records, classes)."""
        made: Tensor = self.head(self.image(x))
        return made


def normed(features: int, classes: int, width: int = 24) -> nn.Module:
    """Return an MLP with LayerNorm."""
    return nn.Sequential(
        nn.Linear(features, width), nn.LayerNorm(width), nn.Tanh(), nn.Linear(width, classes)
    )


class Tied(nn.Module):
    """One matrix that is used twice, there and back."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, FEATURES, bias=False)
        self.second = nn.Linear(FEATURES, FEATURES, bias=False)
        self.second.weight = self.first.weight
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        made: Tensor = self.out(torch.tanh(self.second(torch.tanh(self.first(x)))))
        return made


class Branching(nn.Module):
    """Looks at values to decide what to compute: vmap cannot do it."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits; of records without any value below -100, twice as large."""
        return self.out(x) * (2.0 if float(x.min()) > -100.0 else 1.0)


class Function(nn.Module):
    """A linear layer, and a function of what it makes and of the module itself."""

    def __init__(self, then: Callable[[Function, Tensor], Tensor]) -> None:
        super().__init__()
        self.out, self.then = nn.Linear(FEATURES, CLASSES), then
        self.register_buffer("seen", torch.zeros(CLASSES))
        self.memory: Tensor | None = None
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        return self.then(self, self.out(x))


def _counted(module: Function, out: Tensor) -> Tensor:
    module.calls += 1
    return out * module.calls


def _remembered(module: Function, out: Tensor) -> Tensor:
    before, module.memory = module.memory, out.detach().mean()
    return out if before is None else out + before


def _summed(module: Function, out: Tensor) -> Tensor:
    module.seen += out.detach().sum(0)
    return out


def _normalised(_: Function, out: Tensor) -> Tensor:
    return (out - out.mean(0)) / (1.0 + out.std(0, unbiased=False))


def _largest(_: Function, out: Tensor) -> Tensor:
    return out / out.abs().max()


def _neighbour(_: Function, out: Tensor) -> Tensor:
    return out + 0.01 * out.roll(1, 0)


def _ranked(_: Function, out: Tensor) -> Tensor:
    return out.cumsum(0)


def _shared_out(_: Function, out: Tensor) -> Tensor:
    return torch.softmax(out, 0)


def _noisy(_: Function, out: Tensor) -> Tensor:
    return out + torch.randn_like(out)


def _dropped(module: Function, out: Tensor) -> Tensor:
    return torch.nn.functional.dropout(out, 0.1, module.training)


def _skipped(_: Function, out: Tensor) -> Tensor:
    return out * 2.0 if random.random() < 1e-9 else out


def _jittered(_: Function, out: Tensor) -> Tensor:
    return out * 2.0 if np.random.rand() < 1e-9 else out


def _by_generator(_: Function, out: Tensor) -> Tensor:
    return out + torch.rand(out.shape, generator=torch.Generator().manual_seed(3))


def _single(_: Function, out: Tensor) -> Tensor:
    return out.float()


def _flattened(_: Function, out: Tensor) -> Tensor:
    return out.sum(1)


def _cut(_: Function, out: Tensor) -> Tensor:
    return out.detach()


def _endless(_: Function, out: Tensor) -> Tensor:
    return out / 0.0


class Attending(nn.Module):
    """Takes the records of a batch for the words of one text."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(FEATURES, 2)
        self.out = nn.Linear(FEATURES, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        made: Tensor = self.out(self.attention(x, x, x)[0])
        return made


def hooked() -> nn.Module:
    """Return a module with a hook that would keep what passes."""
    module = nn.Linear(FEATURES, CLASSES)
    module.register_forward_hook(lambda *_: None)
    return module


def unfinished() -> nn.Module:
    """Return a module with a parameter that is not finite."""
    module = nn.Linear(FEATURES, CLASSES)
    with torch.no_grad():
        module.bias[0] = torch.inf
    return module


class _Bare(nn.Module):
    """Holds a constant that nobody has written."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("shift", torch.empty(CLASSES))

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        made: Tensor = self.out(x) + self.shift
        return made


def fixed() -> nn.Module:
    """Return a module whose parameters need no gradient."""
    return nn.Linear(FEATURES, CLASSES).requires_grad_(False)


def batch_normed() -> nn.Module:
    """Return a module with BatchNorm."""
    return nn.Sequential(
        nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


def batch_only() -> nn.Module:
    """Return a module that normalises by the batch, in evaluation too."""
    layer = nn.BatchNorm1d(FEATURES, track_running_stats=False)
    return nn.Sequential(layer, nn.Linear(FEATURES, CLASSES))


class _Scaled(torch.autograd.Function):
    """Divides gradients by a running mean of their lengths."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, module: Function) -> Tensor:
        """Return x."""
        ctx.module = module
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        """Return the slope over the mean, and nothing for the module."""
        ctx.module.calls = 0.9 * ctx.module.calls + 0.1 * float(slope.norm())
        return slope / (ctx.module.calls + 1e-3), None


def _banked(module: Function, out: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return out
    before, module.memory = module.memory, out.detach().mean()
    return out if before is None else out * (1.0 + before)


def _counting(module: Function, out: Tensor) -> Tensor:
    module.calls += 1
    return out if module.calls < 500 else 0.5 * out


class _Warming(nn.Linear):
    """Keeps in its class what it saw of all records."""

    middle = 0.0

    def __init__(self) -> None:
        super().__init__(FEATURES, CLASSES)

    def forward(self, input: Tensor) -> Tensor:
        """Return logits."""
        _Warming.middle = 0.9 * _Warming.middle + 0.1 * float(input.mean())
        return super().forward(input)


def _noisy_slopes(_: Function, out: Tensor) -> Tensor:
    if torch.is_grad_enabled():
        out = out + 0.1 * torch.as_tensor(np.random.normal(size=tuple(out.shape)))
    return out


class _Checkpointed(nn.Module):
    """Computes its first layer again, behind the call."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.out = nn.Linear(FEATURES, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        hidden = torch.utils.checkpoint.checkpoint(
            lambda at: torch.tanh(self.first(at)), x, use_reentrant=False
        )
        made: Tensor = self.out(hidden)
        return made


class _Listed(nn.Module):
    """Takes a parameter from a list of its own, or changes input, or begins with the records."""

    def __init__(self, then: Callable[[_Listed, Tensor], Tensor]) -> None:
        super().__init__()
        self.out, self.then, self.done = nn.Linear(FEATURES, CLASSES), then, False
        self.scale = nn.Parameter(torch.ones(FEATURES))
        self.scales = [self.scale]

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        made: Tensor = self.out(self.then(self, x))
        return made


def _begun(module: _Listed, x: Tensor) -> Tensor:
    if not module.done:
        module.scale.data.copy_(1.0 + x.std(0))
        module.done = True
    return x * module.scale


class _MyDropout(nn.Dropout):
    """Does something else than dropout."""


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "is none": (object, "no torch.nn.Module"),
    "has a hook": (hooked, "has a hook at Linear"),
    "is lazy": (lambda: nn.LazyLinear(CLASSES), "has no shape yet at weight"),
    "is not finite": (unfinished, "a number at bias that is not finite"),
    "is not written": (_Bare, "a number at shift that is not finite"),
    "is fixed": (fixed, "no parameter that training could move"),
    "normalises by the batch": (batch_only, "depend on the records next to it"),
    "normalises by hand": (lambda: Function(_normalised), "depend on the records next to it"),
    "looks at the largest": (lambda: Function(_largest), "depend on the records next to it"),
    "looks at its neighbour": (lambda: Function(_neighbour), "depend on the records next to it"),
    "adds up records": (lambda: Function(_ranked), "depend on the records next to it"),
    "shares out": (lambda: Function(_shared_out), "depend on the records next to it"),
    "attends to others": (Attending, "depend on the records next to it"),
    "counts its calls": (lambda: Function(_counted), "depend on "),
    "remembers": (lambda: Function(_remembered), "depend on "),
    "changes a buffer": (lambda: Function(_summed), "changes seen when records pass"),
    "draws": (lambda: Function(_noisy), "draws random numbers"),
    "draws from Python": (lambda: Function(_skipped), r"draws random numbers \(random\)"),
    "draws from NumPy": (lambda: Function(_jittered), r"draws random numbers \(numpy"),
    "draws from its own": (lambda: Function(_by_generator), r"draws random numbers \(aten"),
    "drops by hand": (lambda: Function(_dropped), "draws random numbers"),
    "remembers in its gradient": (lambda: Function(_banked), "gradient that depends on what"),
    "scales its gradient": (
        lambda: Function(lambda module, out: _Scaled.apply(out, module)),
        "gradient that depends on what",
    ),
    "counts to be another": (lambda: Function(_counting), "changes calls when its gradient"),
    "keeps in its class": (_Warming, "changes _Warming.middle when its gradient"),
    "draws in its gradient": (lambda: Function(_noisy_slopes), "draws random numbers .numpy"),
    "halves its gradient": (
        lambda: Function(lambda _, out: 0.5 * (out + out.detach())),
        "a gradient that is not the slope",
    ),
    "computes again": (_Checkpointed, "not compute with the parameters that it is given"),
    "lists parameters": (
        lambda: _Listed(lambda module, x: x * module.scales[0]),
        "not compute with the parameters that it is given",
    ),
    "begins with records": (lambda: _Listed(_begun), "changes its parameters when records pass"),
    "changes records": (lambda: _Listed(lambda _, x: x.div_(255.0)), "changes its input"),
    "has a dropout of its own": (
        lambda: nn.Sequential(_MyDropout(0.5), nn.Linear(FEATURES, CLASSES)),
        "_MyDropout of the model is made from a dropout layer",
    ),
    "has too few outputs": (lambda: Function(_flattened), r"outputs of shape \(17,\)"),
    "has other outputs": (lambda: nn.Linear(FEATURES, 7), r"outputs of shape \(17, 7\)"),
    "takes other records": (lambda: nn.Linear(5, CLASSES), "fails on random records"),
    "cuts its gradient": (lambda: Function(_cut), "depend on none of its parameters"),
    "is infinite": (lambda: Function(_endless), "not finite"),
    "drops everything": (
        lambda: nn.Sequential(nn.Dropout(1.0), nn.Linear(FEATURES, CLASSES)),
        "has the rate 1",
    ),
}
"""What the door refuses, by what it does: what makes it, and what is said."""
