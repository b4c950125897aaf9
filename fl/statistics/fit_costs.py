"""What fits from one release cost: nothing more, and they say so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from ...accountant.arrays import FloatArray
from ...accountant.errors import counted
from .statistics import ReleasedStatistics


@dataclass
class FitCosts:
    """The fits that were made from the last of `releases` releases; `record` is told of each.

    `record` takes the name of a fit, its public settings and the SHA-256 of its result.
    """

    releases: int = 0
    record: Callable[[str, Mapping[str, object], str], object] | None = None
    fits: list[str] = field(default_factory=list)

    def fit(
        self,
        name: str,
        settings: Mapping[str, object],
        result: FloatArray,
        released: ReleasedStatistics,
    ) -> str:
        """Note a fit and its result, and return what it cost, in a sentence."""
        if self.record is not None:
            digest = hashlib.sha256(np.ascontiguousarray(result, "<f8").tobytes()).hexdigest()
            self.record(name, settings, digest)
        self.fits.append(name)
        if len(self.fits) == 1:
            return f"{name} is computed from {self._release(released)}; the fit itself is free."
        first = self.fits[0]
        return f"{name} is computed from the same release as {first} and costs nothing more."

    def sentence(self, released: ReleasedStatistics | None) -> str:
        """Return what was spent so far."""
        if released is None:
            return "Nothing has been released, and nothing spent."
        fits = counted(len(self.fits), "fit")
        spent = f"Spent on {self._release(released)}; {fits} from it cost nothing more."
        if self.releases < 2:
            return spent
        return f"{spent}  What the {self.releases - 1:,} before it cost was spent beside it."

    def _release(self, released: ReleasedStatistics) -> str:
        proven = released.guarantee
        number = f"release {self.releases:,}" if self.releases > 1 else "one release"
        return (
            f"{number} with {released.family} noise: epsilon {proven.epsilon.upper:.4g} at delta "
            f"{proven.delta.upper:.3g} for one {proven.unit} ({proven.neighbours}), before "
            f"{proven.observer!r}"
        )
