"""For what a module of one's own is checked, and how a refusal names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from ...accountant.errors import InvalidInput

TRIAL_SEED: Final = 20260711
"""Seed of the public inputs."""

TOLERANCE: Final = 1e-9
"""Relative difference of two outputs in float64 that rounding explains."""


@dataclass(frozen=True)
class Door:
    """For what a module is checked: records of `shape`, of so many `classes`.

    1 is survival, or a number where `numbers` says so.
    """

    name: str
    shape: tuple[int, ...]
    classes: int
    unit: str | None
    numbers: bool = False


def public_labels(door: Door, records: int) -> Tensor:
    """Return labels that records of so many classes may have, which are of nobody."""
    if door.numbers:
        return torch.linspace(-1.0, 1.0, records, dtype=torch.float32)
    if door.classes == 1:
        time = torch.arange(1.0, records + 1.0)
        return torch.stack([time, (torch.arange(records) % 3 > 0).float()], 1)
    return torch.arange(records) % door.classes


def close(values: Tensor, expected: Tensor, tolerance: float = TOLERANCE) -> bool:
    values, expected = values.detach(), expected.detach()
    size = max(1.0, float(expected.abs().max())) if expected.numel() else 1.0
    return values.shape == expected.shape and bool(
        torch.allclose(values, expected, rtol=tolerance, atol=tolerance * size)
    )


def failed(door: Door, what: str, error: Exception) -> InvalidInput:
    text = " ".join(str(error).split())
    return refused(
        door, what, f"{type(error).__name__}: {text:.200}", "Try it by itself on such a tensor."
    )


def refused(door: Door, what: str, why: str, step: str) -> InvalidInput:
    return InvalidInput(f"The model {door.name} {what}.", why, step)


def by_chance(door: Door, what: str, draws: list[str]) -> InvalidInput:
    return refused(
        door,
        f"{what} draws random numbers ({draws[0]})".strip(),
        "They would come from one generator for all, which others' absence moves.",
        "Use torch.nn.Dropout, whose draws follow from the run's seed, user and round.",
    )
