"""The count of what a round draws, against what its intent announced."""

from __future__ import annotations

from .. import records
from ..errors import InvalidInput, Unsupported


class DrawCounter:
    """The noisy sums of one round: each whole, or share by share; no more than announced.

    `part` names one of several disjoint sets of units, each with a count of its own: no unit is in
    two of them, so none sees another's sums.
    """

    def __init__(self, noise: records.Noise) -> None:
        self._noise = noise
        self._min_shares = noise.shares - noise.tolerated_dropouts
        self._finished: dict[str, list[int]] = {}  # the shares of each sum
        self._unfinished: dict[str, set[str]] = {}  # whose shares an unfinished sum has so far

    def whole(self, shares: int | None, part: str, sums: int = 1) -> None:
        """Count sums with so many shares (all, if None)."""
        drawn_shares = self._noise.shares if shares is None else shares
        if not self._min_shares <= drawn_shares <= self._noise.shares:
            raise self._lacking(drawn_shares)
        self._begin(part, sums)
        self._finished.setdefault(part, []).extend([drawn_shares] * sums)

    def check_share(self, part: str, name: str) -> None:
        """Refuse what `share` may not count."""
        if self._noise.draws > 1 and self._noise.tolerated_dropouts:
            raise Unsupported(
                "Shares of several sums are not counted where some may be missing.",
                "Nothing would show which sum has too few of them.",
                "Draw each sum whole, or let each be a round of its own.",
            )
        if part not in self._unfinished:
            self._begin(part)
        elif name in self._unfinished[part]:
            raise InvalidInput(
                "A party has drawn its share of this sum already.",
                "Two shares of one party do not stand for the noise of two.",
                "Give every share a stream of its own, and draw it once.",
            )

    def share(self, part: str, name: str) -> None:
        """Count one share of a sum, that of the party `name`, which has no other in it."""
        self.check_share(part, name)
        parties = self._unfinished.setdefault(part, set())
        parties.add(name)
        if len(parties) == self._noise.shares:
            self._finished.setdefault(part, []).append(len(self._unfinished.pop(part)))

    def done(self, arrived: int | None = None) -> tuple[int, int]:
        """Return the number of sums, and the fewest shares of one; refuse what lacks noise.

        `arrived` says of how many shares they were in the end, of those that were drawn.
        """
        for parties in self._unfinished.values():
            if len(parties) < self._min_shares:
                raise self._lacking(len(parties))
        if not self._finished and not self._unfinished:
            if self._noise.family == "none" and not arrived:
                return 0, 0
            raise Unsupported(
                "No noise was drawn in this round.",
                "Its intent announces noise, so what it computed must not be released.",
                "Draw through a mechanism before closing.",
            )
        sums = {part: list(drawn_shares) for part, drawn_shares in self._finished.items()}
        for part, parties in self._unfinished.items():
            sums.setdefault(part, []).append(len(parties))
        fewest_drawn = min(min(drawn_shares) for drawn_shares in sums.values())
        fewest = fewest_drawn if arrived is None else arrived
        if fewest > fewest_drawn:
            raise InvalidInput(f"`shares` is {fewest}, but sums of {fewest_drawn} were drawn.")
        if fewest < self._min_shares:
            raise self._lacking(fewest)
        return max(map(len, sums.values())), fewest

    def _begin(self, part: str, sums: int = 1) -> None:
        """Check that one more sum, or several, may be drawn."""
        counted = len(self._finished.get(part, [])) + (part in self._unfinished)
        more = counted + sums - self._noise.draws
        if more > 0:
            raise Unsupported(
                f"The intent announces {self._noise.draws} draws; this is {_word(more)} more.",
                "Every noisy sum is paid for before it is drawn.",
                "State all draws of the round in its intent.",
            )

    def _lacking(self, shares: int) -> Unsupported:
        return Unsupported(
            f"The intent announces {self._noise.shares} noise shares; a sum has {shares}.",
            f"Its promise needs at least {self._min_shares} of them, and no more are announced.",
            "Abort the round, or announce how many may be missing.",
        )


def _word(count: int) -> str:
    return "one" if count == 1 else str(count)
