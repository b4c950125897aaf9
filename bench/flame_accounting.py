"""FLAME's numbers without any training: claimed and proven epsilon, amplification, widths of sums.

All are under replace-one, at delta 0.01 / n^1.1, and before who sees the shuffled messages.  A
round is SS-Simple, SS-Double or SS-Topk mixed coordinate by coordinate, with Laplace noise of
local epsilon `epsilon0` for each message; `central` is one Gaussian on the sum.  Claimed numbers
are the paper's formulas with the program's mistyped bound.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any, Final, Literal

from scipy.optimize import brentq

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.claims.disco import published_classical_multiplier
from privplan.accountant.claims.flame_published import (
    index_sets,
    posterior_ratio,
    published_delta,
    published_index_privacy,
    published_simple,
    published_theorem_4_with_double_counting,
)

Way = Literal["simple", "double", "topk", "local"]
"""`local`: every coordinate is sent and nothing is shuffled."""

USERS: Final = 1_000
DELTA: Final = published_delta(USERS)
ROUNDS: Final = 5
RELATION: Final = "replace-one"

SIZES_USERS: Final = (1_000, 2_000, 5_000, 10_000)
SIZES_PADDING: Final = (1.0, 1.5, 3.0)
PADDINGS: Final = (1_000, 500, 333, 120)
PRINTED_BASELINES: Final = (20.53, 0.238)
"""Epsilon of DP-FL in the paper's comparisons."""


@dataclass(frozen=True)
class Sent:
    """One round: who sends how much, with which noise.  `padded_to` n_p, `chosen` k of d."""

    way: Way
    epsilon0: float
    dimensions: int = 650
    chosen: int = 13
    padded_to: int = USERS
    users: int = USERS

    @property
    def k(self) -> int:
        """How many messages a user sends."""
        return self.dimensions if self.way in ("simple", "local") else self.chosen

    def event(self) -> ev.Event | None:
        """Return the round; None where nothing is proven of it."""
        message = ev.Laplace(2.0 / self.epsilon0)
        if self.way == "local":
            return ev.Repeat(self.dimensions, message)
        if self.way == "simple":
            return ev.Repeat(self.dimensions, ev.Shuffle(self.users, message))
        if self.way == "topk" and self.padded_to < self.users:
            return None  # what overflows depends on the data
        choice = "oblivious" if self.way == "double" else "data-dependent"
        full = "cap" if self.padded_to < self.users else "refuse"
        sizes = (self.users, self.dimensions, self.chosen, self.padded_to)
        return ev.SampledShuffle(*sizes, "coordinate", choice, full, message)


def claimed(sent: Sent, delta: float, *, sampling: bool = True) -> float:
    """Return what the paper's formula says of one round at `delta`; of local noise its own.

    Where its bound on a message amplifies nothing, and the program ends in an error, the message
    counts with its local epsilon.
    """
    if sent.way == "local":
        return sent.k * sent.epsilon0
    if sent.way == "simple":
        return published_simple(sent.epsilon0, sent.users, sent.dimensions, delta=delta)
    return published_theorem_4_with_double_counting(
        sent.epsilon0,
        dimensions=sent.dimensions,
        chosen=sent.chosen,
        padded_to=sent.padded_to,
        delta=delta,
        sampling=sampling,
    )


@cache
def proven(sent: Sent, rounds: int = 1) -> float:
    """Return what is proven of so many rounds at delta 0.01 / n^1.1; infinite for none."""
    event = sent.event()
    if event is None:
        return math.inf
    every = event if rounds == 1 else ev.Repeat(rounds, event)
    return pp.account(every, delta=published_delta(sent.users), neighbours=RELATION).epsilon.upper


@cache
def proven_central(noise_multiplier: float, rounds: int = 1) -> float:
    """Return what is proven of so many sums with Gaussian noise, in L2 clips."""
    event = ev.Repeat(rounds, ev.Gaussian(noise_multiplier))
    return pp.account(event, delta=DELTA, neighbours=RELATION).epsilon.upper


def with_claimed(sent: Sent, epsilon: float) -> Sent:
    """Return the round with the local epsilon at which the formula claims `epsilon`."""

    def excess(local: float) -> float:
        return claimed(replace(sent, epsilon0=local), DELTA) - epsilon

    # Both formulas grow with the local epsilon, which they never exceed k times.
    return replace(sent, epsilon0=float(brentq(excess, 1e-4, 20.0, xtol=1e-9)))


@cache
def with_proven(sent: Sent, epsilon: float, rounds: int = 1) -> Sent:
    """Return the round with the largest local epsilon of which so many prove `epsilon`."""

    def event(noise: float) -> ev.Event:
        one = replace(sent, epsilon0=2.0 / noise).event()
        assert one is not None
        return one if rounds == 1 else ev.Repeat(rounds, one)

    found = pp.calibrate(event, epsilon=epsilon, delta=DELTA, neighbours=RELATION)
    return replace(sent, epsilon0=2.0 / found.value)


def central_as_claimed(epsilon: float) -> float:
    """Return the noise multiplier of DP-FL, the paper's baseline, at an epsilon of one round."""
    return published_classical_multiplier(epsilon, 1, DELTA)


@cache
def central_exact(epsilon: float, rounds: int = 1) -> float:
    """Return the least noise multiplier of which so many rounds prove `epsilon`."""

    def event(noise: float) -> ev.Event:
        return ev.Repeat(rounds, ev.Gaussian(noise))

    return pp.calibrate(event, epsilon=epsilon, delta=DELTA, neighbours=RELATION).value


def baseline() -> list[dict[str, Any]]:
    """Return DP-FL at the numbers that the paper prints, and what its noise proves."""
    noises = {epsilon: central_as_claimed(epsilon) for epsilon in PRINTED_BASELINES}
    return [
        {"claimed": epsilon, "noise_multiplier": noise, "proven": proven_central(noise)}
        for epsilon, noise in noises.items()
    ]


def amplification() -> list[dict[str, Any]]:
    """Return local over central epsilon of a round, claimed and proven, by n and by n / n_p."""
    grown = [
        Sent(way, epsilon0, padded_to=n, users=n)
        for n in SIZES_USERS
        for way, epsilon0 in (("simple", 0.01), ("double", 0.5), ("topk", 0.5))
    ]
    padded = [
        Sent("double", 0.5, padded_to=int(USERS / ratio)) for ratio in SIZES_PADDING if ratio > 1.0
    ]
    result = []
    for sent in (*grown, *padded):
        local, delta = sent.k * sent.epsilon0, published_delta(sent.users)
        said, holds = claimed(sent, delta), proven(sent)
        result.append(
            {
                **asdict(sent),
                "delta": delta,
                "local": local,
                "claimed": said,
                "proven": holds,
                "claimed_ratio": local / said,
                "proven_ratio": local / holds,
            }
        )
    return result


def predicted_deviation(padded_to: int, epsilon0: float) -> float:
    """Return the standard deviation of the noise in the sum of a coordinate, in clips C.

    n_p messages, dummies among them, with Laplace noise of scale 2 C / epsilon0 each: Proposition 1
    has it grow as the root of n_p.
    """
    return math.sqrt(2.0 * padded_to) * 2.0 / epsilon0


def index_privacy() -> dict[str, Any]:
    """Return l, nu, and posterior over prior after 1 to 5 rounds, in the paper's setting."""
    rate = Fraction(157, 7850)
    sets = index_sets(USERS, 333, rate)
    return {
        "sets": sets,
        "nu": published_index_privacy(USERS, 333, rate),
        "posterior_over_prior": [float(posterior_ratio(sets, rate, r)) for r in range(1, 6)],
    }
