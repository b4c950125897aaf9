"""What the noisy votes of users who were held out say of a model: post-processing of one release.

    right  = sum_u w_u share of right answers + noise,   wrong likewise
    accuracy = right / (right + wrong),   share = right / (users_at_most x held_out)

The first needs no public number of users; it is off by about deviation / votes.  The second divides
by what is public, so its noise is known exactly, and users who are not there count as wrong.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ...accountant.records import Noise

RIGHT: Final = "right"
WRONG: Final = "wrong"

_FEWEST_DEVIATIONS: Final = 3.0
"""So many deviations of its noise the sum of all votes must have, for a quotient to mean much."""


def votes_counted(unit: str, users: int, silos: int, share: float) -> float:
    """Return the public number of votes: of silos as units all, else `share` of the users."""
    return float(silos) if unit == "silo" else users * share


def noise_deviation(noise: Noise, shares: int) -> float:
    """Return the standard deviation of a sum of so many shares of the noise.

    A log states the scale of Laplace noise, whose deviation is sqrt(2) times that.
    """
    of_share = math.sqrt(2.0) if noise.family == "laplace" else 1.0
    return noise.share_std * of_share * math.sqrt(shares)


@dataclass(frozen=True)
class HeldOutScore:
    """The noisy sums of right and of wrong votes.

    - `deviation`: standard deviation of the noise on either.
    - `votes`: the public number of votes (`votes_counted`).
    """

    right: float
    wrong: float
    deviation: float
    votes: float

    @property
    def accuracy(self) -> float:
        """The share of right votes among all, in [0, 1]; NaN where noise leaves too few."""
        # Noise of both sums is in it, so its deviation is sqrt(2) times that of either.
        cast = self.right + self.wrong
        if not cast > _FEWEST_DEVIATIONS * math.sqrt(2.0) * self.deviation:
            return math.nan
        return min(max(self.right / cast, 0.0), 1.0)

    @property
    def accuracy_deviation(self) -> float:
        """About the standard deviation of the noise on `accuracy`, to first order; or NaN."""
        if math.isnan(self.accuracy):
            return math.nan
        # d(right / cast) = (wrong d right - right d wrong) / cast^2, with independent noise.
        cast = self.right + self.wrong
        return self.deviation * math.hypot(self.right, self.wrong) / cast**2

    @property
    def share(self) -> float:
        """The share of right votes among the public number of votes."""
        return self.right / self.votes

    @property
    def share_deviation(self) -> float:
        """The standard deviation of the noise on `share`."""
        return self.deviation / self.votes

    def to_json(self) -> dict[str, float | None]:
        """Return all of it for JSON; None for what is not told."""
        numbers = {
            RIGHT: self.right,
            WRONG: self.wrong,
            "deviation": self.deviation,
            "votes": self.votes,
            "accuracy": self.accuracy,
            "accuracy_deviation": self.accuracy_deviation,
            "share": self.share,
            "share_deviation": self.share_deviation,
        }
        return {name: None if math.isnan(value) else value for name, value in numbers.items()}

    def __str__(self) -> str:
        """Return what was measured, in a line.

        >>> print(HeldOutScore(160.0, 40.0, 2.0, 400.0))
        accuracy 0.8, its noise about 0.0082; of 400 public votes 0.4 are right, its noise 0.005
        """
        told = "accuracy not told, as noise leaves too few votes"
        if not math.isnan(self.accuracy):
            told = f"accuracy {self.accuracy:.4g}, its noise about {self.accuracy_deviation:.2g}"
        return (
            f"{told}; of {self.votes:,.6g} public votes {self.share:.4g} are right, its noise "
            f"{self.share_deviation:.2g}"
        )


def logged(right: float, wrong: float) -> dict[str, str]:
    """Return the metrics of a log, by name: digits that give the same numbers again."""
    return {RIGHT: repr(right), WRONG: repr(wrong)}


def released_digest(metrics: Mapping[str, str]) -> str | None:
    """Return the digest of a release that metrics of a log are; None for what is no such release.

    Whoever reads a log can so tell a noised release from a number that was never noised.
    """
    if metrics.keys() != {RIGHT, WRONG}:
        return None
    try:
        released = struct.pack("<2d", float(metrics[RIGHT]), float(metrics[WRONG]))
    except ValueError:
        return None
    return hashlib.sha256(released).hexdigest()
