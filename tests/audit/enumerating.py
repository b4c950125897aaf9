"""A small shuffle of randomized responses, every output of which is written out."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any, Final

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Contribution, Noise, Reach, Sampling, Weights
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting

ODDS: Final = 3
RESPONSE: Final = ev.RandomizedResponse(math.log(ODDS) * (1 + 1e-15), 2)
ORDER: Final = Fraction(3, 2)


def answered(value: int) -> list[Fraction]:
    """Return the law of a bit that is answered by randomized response."""
    return [Fraction(ODDS if word == value else 1, ODDS + 1) for word in (0, 1)]


def shuffled(*messages: list[Fraction]) -> Counter[int]:
    """Return the law of how many of some messages are 1."""
    law: Counter[int] = Counter()
    for words in itertools.product((0, 1), repeat=len(messages)):
        law[sum(words)] += math.prod(m[w] for m, w in zip(messages, words, strict=True))  # type: ignore[assignment]
    return law


def hockey_stick(one: Counter[int], other: Counter[int]) -> float:
    return float(sum(max(one[k] - ORDER * other[k], Fraction(0)) for k in one))


AMONG_A_USER: Final = max(
    hockey_stick(shuffled(answered(a), answered(c)), shuffled(answered(1 - a), answered(c)))
    for a, c in itertools.product((0, 1), repeat=2)
)
ALONE: Final = hockey_stick(shuffled(answered(1)), shuffled(answered(0)))


def responses(reaches: dict[str, Reach], **given: Any) -> RoundFacts:
    draws = given.pop("draws", 1)
    return RoundFacts(
        Contribution(1.0, "l1", "user", "message"),
        Noise("randomized-response", 0.0, draws=draws),
        Weights(),
        given.pop("sampling", Sampling()),
        0.0,
        RESPONSE,
        shares=1,
        draws=draws,
        certain_draws=draws,
        most_shares=1,
        single=given.pop("single", True),
        reaches=tuple(sorted(reaches.items())),
        **given,
    )


def setting(users: int, **given: Any) -> RunSetting:
    fields: dict[str, Any] = {"neighbours": "replace-one", "aggregation": "shuffle", **given}
    return RunSetting(
        unit="user", group=1, silos=1, as_published=False, users=users, records=None, **fields
    )


def delta(event: ev.Event, neighbours: str = "replace-one") -> float:
    if isinstance(event, ev.NoGuarantee):
        return 1.0
    epsilon = math.nextafter(math.log(ORDER), 0.0)
    return pp.account(event, epsilon=epsilon, neighbours=neighbours).delta.upper


# --- sampled coordinates before who sees which they are -------------------------------------------


DIMENSIONS: Final = 40


def coordinates(padded_to: int, **seen: Any) -> RoundFacts:
    """Return a round of two users who each send one of many bits, padded with dummies."""
    mixed = Reach(
        "shuffled",
        users=2,
        dimensions=DIMENSIONS,
        chosen=1,
        padded_to=padded_to,
        granularity="coordinate",
        selection="oblivious",
        overflow="refuse",
        **seen,
    )
    return responses({"analyzer": mixed}, single=False, width=DIMENSIONS)
