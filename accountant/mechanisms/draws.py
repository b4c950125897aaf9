"""Counts what a round draws against what its intent announced."""

from __future__ import annotations

from .. import records
from ..errors import Unsupported


class Draws:
    """The noisy sums of one round: each whole, or share by share; no more than announced.

    `part` names one of several disjoint sets of units, each with a count of its own: no unit is in
    two of them, so none sees another's sums.
    """

    def __init__(self, noise: records.Noise) -> None:
        self._noise = noise
        self._least = noise.shares - noise.tolerated_dropouts
        self._whole: dict[str, list[int]] = {}  # the shares of each sum
        self._begun: dict[str, int] = {}  # the shares so far of an unfinished sum

    def whole(self, shares: int | None, part: str, sums: int = 1) -> None:
        """Count sums with so many shares (all, if None)."""
        made = self._noise.shares if shares is None else shares
        if not self._least <= made <= self._noise.shares:
            raise self._lacking(made)
        self._begin(part, sums)
        self._whole.setdefault(part, []).extend([made] * sums)

    def share(self, part: str) -> None:
        """Count one share of a sum."""
        if self._noise.draws > 1 and self._noise.tolerated_dropouts:
            raise Unsupported(
                "Shares of several sums are not counted where some may be missing.",
                "Nothing would show which sum has too few of them.",
                "Draw each sum whole, or let each be a round of its own.",
            )
        begun = self._begun.get(part, 0)
        if not begun:
            self._begin(part)
        self._begun[part] = begun + 1
        if begun + 1 == self._noise.shares:
            self._whole.setdefault(part, []).append(self._begun.pop(part))

    def done(self) -> tuple[int, int]:
        """Return the number of sums, and the fewest shares of one; refuse what lacks noise."""
        for begun in self._begun.values():
            if begun < self._least:
                raise self._lacking(begun)
        if not self._whole and not self._begun:
            if self._noise.family == "none":
                return 0, 0
            raise Unsupported(
                "No noise was drawn in this round.",
                "Its intent announces noise, so what it computed must not be released.",
                "Draw through a mechanism before closing.",
            )
        sums = {part: list(made) for part, made in self._whole.items()}
        for part, begun in self._begun.items():
            sums.setdefault(part, []).append(begun)
        return max(map(len, sums.values())), min(min(made) for made in sums.values())

    def _begin(self, part: str, sums: int = 1) -> None:
        """Check that one more sum, or several, may be drawn."""
        made = len(self._whole.get(part, [])) + (part in self._begun)
        more = made + sums - self._noise.draws
        if more > 0:
            raise Unsupported(
                f"The intent announces {self._noise.draws} draws; this is {_one(more)} more.",
                "Every noisy sum is paid for before it is drawn.",
                "State all draws of the round in its intent.",
            )

    def _lacking(self, shares: int) -> Unsupported:
        return Unsupported(
            f"The intent announces {self._noise.shares} noise shares; a sum has {shares}.",
            f"Its promise needs at least {self._least} of them, and no more are announced.",
            "Abort the round, or announce how many may be missing.",
        )


def _one(count: int) -> str:
    return "one" if count == 1 else str(count)
