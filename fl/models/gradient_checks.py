"""The door for the gradients of a module of one's own: what acts only when gradients are taken.

All is tried on public records.  What is refused: a gradient that depends on other units, on an
earlier one or on chance; one that is no slope of the loss; and what is computed with other
parameters than those that are given.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor

from .losses import Loss
from .module_attributes import held_by_classes, held_values
from .module_body import ModuleBody, unheard
from .module_refusals import TRIAL_SEED, Door, by_chance, close, refused
from .unseeded_randomness import drawn

_STEPS: Final = (1e-4, 1e-5, 1e-6, 1e-7)
"""Lengths of central differences: one of them crosses no corner of a ReLU."""

_DIRECTIONS: Final = 3

_SLOPE: Final = 1e-4
"""Relative difference of a derivative from central differences in float64."""

_SAME_GRADIENT: Final = 1e-6
"""Relative difference of two ways to compute one thing."""

_LEAVES: Final = "What one unit leaves behind would reach the next."


@dataclass(frozen=True, eq=False)
class Trial:
    """Public units: weights (units, ...), records, labels and share (units, records), keys."""

    weights: Sequence[Tensor]
    records: Tensor
    labels: Tensor
    share: Tensor
    keys: Tensor | None

    def of(self, unit: int, *, dropout: bool = True) -> tuple[list[Tensor], list[Tensor], Any]:
        """Return copies of the weights of one unit, of its records as they are; and its key."""
        present = self.share[unit] > 0
        records = [each[unit][present] for each in (self.records, self.labels, self.share)]
        key = None if self.keys is None or not dropout else self.keys[unit]
        return [weight[unit].clone() for weight in self.weights], records, key


def require_steady_gradients(body: ModuleBody, door: Door, loss: Loss, trial: Trial) -> None:
    """Raise `InvalidInput` unless a unit's gradient follows from its own records alone."""
    before = _held(body)

    def taken(*units: int) -> dict[int, list[Tensor]]:
        # By one module, so that it shows what one unit leaves behind.
        return {unit: body.slopes(loss, *trial.of(unit)) for unit in units}

    with unheard(), drawn() as draws:
        first = taken(0, 1)
        others = [taken(0, 1), taken(1), taken(1, 0)]
    if draws:
        raise by_chance(door, "has a gradient that", draws)
    for rows in others:
        for unit, slopes in rows.items():
            if not all(close(*pair) for pair in zip(slopes, first[unit], strict=True)):
                raise refused(
                    door,
                    "has a gradient that depends on what was computed before",
                    _LEAVES,
                    "Keep nothing from one call to the next, in the model or in its loss.",
                )
    after = _held(body)
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    if changed:
        raise refused(
            door,
            f"changes {changed[0]} when its gradient is taken",
            _LEAVES,
            "Keep nothing from one call to the next.",
        )


def require_true_gradients(body: ModuleBody, door: Door, loss: Loss, trial: Trial) -> None:
    """Raise `InvalidInput` unless a gradient is the slope of the loss, at what it is given."""
    with unheard():
        if not _is_plain(body, loss, trial):
            raise refused(
                door,
                "does not compute with the parameters that it is given",
                "Each unit has its own, which replace those of the module while it is called.",
                "Use parameters as attributes, not from a list of them, and leave "
                "torch.utils.checkpoint out.",
            )
        if not _is_slope(body, loss, trial):
            raise refused(
                door,
                "has a gradient that is not the slope of its loss",
                "Central differences in random directions differ from it.",
                "Leave out what changes gradients: hooks, detach(), and backward functions of "
                "your own.",
            )


def _held(body: ModuleBody) -> dict[str, str]:
    layers = dict(body.training.named_modules())
    of_classes = {key: text for layer in layers.values() for key, text in held_by_classes(layer)}
    return of_classes | {
        f"{name}.{key}".lstrip("."): text
        for name, layer in layers.items()
        for key, text in held_values(layer)
        if key != "draws"  # of dropout layers, which are privplan's
    }


def _is_plain(body: ModuleBody, loss: Loss, trial: Trial) -> bool:
    """Return whether a copy that has the parameters for its own does the same, without dropout."""
    weights, (x, labels, share), _ = trial.of(0, dropout=False)
    body.draws.begin(None)
    plain = copy.deepcopy(body.training)
    named = dict(plain.named_parameters())
    trained = [named[name] for name in body.trained]
    with torch.no_grad():
        for parameter, weight in zip(trained, weights, strict=True):
            parameter.copy_(weight)
    with torch.enable_grad():
        out = plain(x.clone())
        value = loss.value(out[None], labels[None].clone(), share[None])[0]
        # Without any gradient, there is nothing to train: `module_gradients` says so.
        slopes: list[Tensor | None] = [None] * len(trained)
        if value.requires_grad:
            slopes = list(torch.autograd.grad(value, trained, allow_unused=True))
    given = body.outputs(weights, x.clone(), training=True)
    pairs = [
        (torch.zeros_like(parameter) if slope is None else slope, mine)
        for parameter, slope, mine in zip(
            trained, slopes, body.slopes(loss, weights, [x, labels, share], None), strict=True
        )
    ]
    return all(close(*pair, _SAME_GRADIENT) for pair in [(given.detach(), out.detach()), *pairs])


def _is_slope(body: ModuleBody, loss: Loss, trial: Trial) -> bool:
    weights, (x, labels, share), key = trial.of(0)
    slopes = body.slopes(loss, weights, [x, labels, share], key)

    def value(step: float, direction: list[Tensor]) -> float:
        moved = [weight + step * way for weight, way in zip(weights, direction, strict=True)]
        with torch.no_grad():
            out = body.outputs(moved, x.clone(), training=True, key=key)
            return float(loss.value(out[None], labels[None].clone(), share[None])[0])

    rng = torch.Generator().manual_seed(TRIAL_SEED)
    size = sum(weight.numel() for weight in weights) ** 0.5
    length = sum(float(slope.square().sum()) for slope in slopes) ** 0.5
    for _ in range(_DIRECTIONS):
        # Where the slope is 0, it may be on purpose, as of the row of an embedding for padding.
        direction = [
            torch.randn(slope.shape, dtype=slope.dtype, generator=rng) * (slope != 0.0) / size
            for slope in slopes
        ]
        along = sum(
            float((slope * way).sum()) for slope, way in zip(slopes, direction, strict=True)
        )
        # What rounding leaves of a difference is small against the gradient in such a direction.
        room = _SLOPE * (abs(along) + length / size) + 1e-9
        if not any(
            abs((value(step, direction) - value(-step, direction)) / (2.0 * step) - along) <= room
            for step in _STEPS
        ):
            return False
    return True
