"""How often tiers accuse sound runs of any system, judged alike in several files of tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from scipy.stats import binom

from privplan.audit.canaries import CanaryRehearsal, claim_tier, robust_tier

from ..chance import limits


def assert_seldom_accused(
    rehearsals: Sequence[CanaryRehearsal], *, most_unusual: int | None = None
) -> None:
    """Judge rehearsals of sound runs by both tiers; their seeds are fixed.

    None is contradicted, which the claim tier does to a sound run once in 2,500 at most, and the
    robust one once in 5,000.  Of those called unusual, once in 20 at most, there are `most_unusual`
    or fewer, or else as few as chance leaves but once in 10^6.
    """
    chance = limits(binom(len(rehearsals), 0.05), looks=2)[1]
    most = chance if most_unusual is None else most_unusual
    verdicts: dict[str, list[str]] = {"claim": [], "robust": []}
    for seed, rehearsal in enumerate(rehearsals):
        for judged in (claim_tier(rehearsal, seed=seed), robust_tier(rehearsal)):
            verdicts[judged.tier].append(judged.verdict)
    for said in verdicts.values():
        assert "contradicted" not in said
        assert said.count("unusual") <= most


def assert_seldom_accused_of(
    rehearsed: Callable[..., CanaryRehearsal], sound: Sequence[tuple[Any, str]], repetitions: int
) -> None:
    """Rehearse settings of sound runs in turn, each before its observer, and judge them.

    More than 2 of 3 are called unusual with probability 1.3 in 10^4, of seeds that are fixed.  Were
    a tier to call a sound run unusual in 4 cases of 10, 40 would show it with probability .87.
    """
    found = []
    for seed in range(repetitions):
        settings, observer = sound[seed % len(sound)]
        found.append(rehearsed("none", settings, observer, 200, 500 + seed))
    assert_seldom_accused(found, most_unusual=2 if repetitions == 3 else None)
