"""Partition selection: which keys of a histogram are released, so that their names are private."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .. import validate
from .base import Event, checked


@dataclass(frozen=True, eq=False)
class TruncatedGeometricSelection(Event):
    """Keys are released with the largest probabilities that (`epsilon`, `delta`)-DP allows.

    A unit counts once in each of at most `partitions` keys, and each key by itself is selected with
    `epsilon` and `delta`.  Range: `epsilon` above 0, `delta` in (0, 1), `partitions` 1 or above.
    A unit that comes or goes, or counts as none (zero-out), changes the counts of its keys by one;
    under replace-one those of the old and of the new one.
    Source: Desfontaines, Voss and Gipson 2020, Theorem 1, arXiv 2006.03684v2.
    """

    type: ClassVar[str] = "truncated-geometric-selection"
    epsilon: float = checked(validate.positive)
    delta: float = checked(validate.open_probability)
    partitions: int = checked(validate.count)


@dataclass(frozen=True, eq=False)
class ThresholdSelection(Event):
    """Keys that hold a unit are released, with their noisy counts, where these reach `threshold`.

    A unit counts once in each of at most `partitions` keys.  The noise (`gaussian` or `laplace`)
    of each count has standard deviation (Laplace: scale) `noise_scale`.  Range: `noise_scale` and
    `threshold` above 0, `partitions` 1 or above.
    A unit that comes or goes, or counts as none (zero-out), changes the counts of its keys by one;
    under replace-one those of the old and of the new one.
    Source: Wilson et al. 2019, arXiv 1909.01917v3; derived in accountant/engines/pld/selections.py.
    """

    type: ClassVar[str] = "threshold-selection"
    noise: str = checked(validate.choice, ("gaussian", "laplace"))
    noise_scale: float = checked(validate.positive)
    threshold: float = checked(validate.positive)
    partitions: int = checked(validate.count)
