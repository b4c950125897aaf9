"""FLAME on MNIST: the setting of its numbers, and what its three protocols release, as events.

1,000 users with 7,850 coordinates in [-C, C]; local epsilon 78.5 for a whole update; delta
0.01 / n^1.1.  SS-Simple sends all coordinates; SS-Double and SS-Topk send k = beta d of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from .. import events as ev
from .flame_published import published_delta
from .table import Claim

FLAME_PAPER: Final = "Liu et al. 2021, arXiv 2009.08063v4"

USERS: Final = 1000
DIMENSIONS: Final = 7850
FLAME_DELTA: Final = published_delta(USERS)
MESSAGE_EPSILON: Final = 0.5
"""Local epsilon of a message of SS-Double and SS-Topk."""
SIMPLE_EPSILON: Final = 0.01
"""Local epsilon of a message of SS-Simple."""


@dataclass(frozen=True)
class SentCoordinates:
    """How many coordinates a user sends, and to how many messages each coordinate is padded."""

    chosen: int
    padded_to: int

    @property
    def beta(self) -> str:
        """The share of coordinates that are sent, as text."""
        return f"beta 1/{round(DIMENSIONS / self.chosen)}"


FIFTIETH: Final = SentCoordinates(157, 333)
"""n_p = n/3."""
TENTH: Final = SentCoordinates(785, 666)
"""n_p = n/1.5, which is inferred."""


def laplace(local_epsilon: float) -> ev.Laplace:
    """Return the event of a value in [-1, 1] with this local epsilon."""
    return ev.Laplace(2.0 / local_epsilon)


def simple() -> ev.Event:
    """Return what SS-Simple releases if each coordinate is shuffled by itself."""
    return ev.Repeat(DIMENSIONS, ev.Shuffle(USERS, laplace(SIMPLE_EPSILON)))


def sampled(sent: SentCoordinates, granularity: str, selection: str) -> ev.Event:
    """Return what SS-Double (`oblivious`) or SS-Topk (`data-dependent`) releases, as specified."""
    return ev.SampledShuffle(
        *(USERS, DIMENSIONS, sent.chosen, sent.padded_to),
        *(granularity, selection, "refuse", laplace(MESSAGE_EPSILON)),
    )


def topk_without_overflow(sent: SentCoordinates) -> ev.Event:
    """Return what SS-Topk releases as long as no coordinate gets more than n_p messages.

    The data of all others being fixed, each coordinate holds n_p messages, whoever sent them, and
    only the user's own k move: as with n_p users in all.  At the lower end n_p - 1 others send the
    same coordinates as the user, and the rest send others.
    """
    return ev.SampledShuffle(
        *(sent.padded_to, DIMENSIONS, sent.chosen, sent.padded_to),
        *("coordinate", "data-dependent", "refuse", laplace(MESSAGE_EPSILON)),
    )


def row(
    setting: str,
    claimed: float,
    proven: float | None,
    lower: float | None,
    why: str,
    source: str,
    **fields: Any,
) -> Claim:
    """Return a row about a user whose update is replaced, before the analyzer."""
    usual: dict[str, Any] = {
        "unit": "user",
        "neighbours": "replace-one",
        "observer": "analyzer",
        "delta": FLAME_DELTA,
    }
    return Claim(
        system="flame",
        setting=setting,
        claimed=claimed,
        proven=proven,
        lower=lower,
        why=why,
        source=f"{FLAME_PAPER}, {source}",
        **{**usual, **fields},
    )
