"""Broken releases of private statistics are caught, and the correct one is not accused.

Canaries by which a tier contradicts it with every seed that was tried (3 to 5, of 150, 200, 300,
500, 750, 1,000, 2,000, 4,000, 8,000, 50,000).  Breast cancer (30 features and an intercept),
2 silos, records, observer `model`; claimed is epsilon 4.  `no-cap` is of users with 4 rows,
`silent-silo` before the server in the clear.

                           claim             robust
    half-noise               500             50,000
    no-label-noise           300             not (1)
    no-diagonal-noise        300             not (1)
    no-noise-above           300             not (1)
    no-clipping              200             750
    no-cap                   750             not (2)
    rows-twice             1,000             not (2)
    released-twice         4,000             not (2)
    silent-silo              500             not (2)

(1) Right guesses count by the score of the claim, in which the noise of the other parts is left.
(2) Not by 4,000: a bound that believes in nothing needs ten times the canaries, or more.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from privplan.audit.attack import AttackRequest, attack
from privplan.audit.canaries import claim_tier, rehearse, robust_tier
from privplan.fl.log import LogWriter
from privplan.fl.running.session import run
from privplan.fl.settings.schema import Settings

from ..cases import for_each
from .broken_gram import BUGS, broken_gram
from .rehearsals import statistics
from .sound_runs import assert_seldom_accused

RECORDS = statistics(epsilon=4.0)
USERS = statistics(epsilon=4.0, unit="user", table={"rows_per_user": 4})


@dataclass(frozen=True)
class Case:
    """One row of the table: canaries by which the claim tier contradicts it, and the robust one."""

    bug: str
    claim: int
    robust: int | None = None
    own: Settings = RECORDS
    observer: str = "model"


TABLE = [
    Case("half-noise", 500, 50_000),
    Case("no-label-noise", 300),
    Case("no-diagonal-noise", 300),
    Case("no-noise-above", 300),
    Case("no-clipping", 200, 750),
    Case("no-cap", 750, own=USERS),
    Case("rows-twice", 1_000),
    Case("released-twice", 4_000),
    Case("silent-silo", 500, observer="server"),
]


def named(cases, canaries):
    """Return cases by name; those that take many canaries are slow."""
    return [
        pytest.param(case, id=case.bug, marks=pytest.mark.slow if canaries(case) > 500 else [])
        for case in cases
    ]


@functools.cache
def rehearsed(bug, canaries, own=RECORDS, observer="model"):
    with broken_gram(bug):
        return rehearse(own, canaries=canaries, seed=1, observer=observer)


def test_the_table_has_every_bug():
    assert {case.bug for case in TABLE} | {"none"} == set(BUGS)


@for_each("case", named(TABLE, lambda case: case.claim))
def test_the_claim_tier_contradicts_it(case):
    found = claim_tier(rehearsed(case.bug, case.claim, case.own, case.observer))
    assert found.contradicted
    assert found.value > found.claimed
    if case.claim >= 500:  # fewer canaries accuse a sound release no more
        sound = claim_tier(rehearsed("none", case.claim, case.own, case.observer))
        assert sound.verdict == "not-contradicted"


@for_each(
    "case", named([case for case in TABLE if case.robust], lambda case: case.robust // 2), items=4
)
def test_the_robust_tier_contradicts_it(case):
    """Of a sound one a tenth of the canaries do: it is as seldom accused with any number."""
    assert robust_tier(rehearsed(case.bug, case.robust)).contradicted
    sound = rehearsed("none", max(case.robust // 10, 750))
    assert robust_tier(sound).verdict == "not-contradicted"


def test_noise_that_one_part_lacks_is_found_by_the_fit_of_parts():
    """By the claim's own score the other parts' noise hides it: 300 canaries would not do."""
    for bug in ("no-label-noise", "no-diagonal-noise", "no-noise-above"):
        seen = rehearsed(bug, 300)
        assert seen.looks == 3
        assert claim_tier(seen).sample["statistic"] == "fitted"


def test_the_silo_without_noise_is_named():
    found = claim_tier(rehearsed("silent-silo", 1_000, observer="server"))
    assert (found.contradicted, found.sample["group"]) == (True, "silo-1")


def test_rows_that_pass_the_clip_move_the_sum_a_hundredfold():
    """The shift that is looked for stays that of the pair, whatever the mechanism does."""
    sound, broken = (rehearsed(bug, 60) for bug in ("none", "no-clipping"))
    assert sound.shift == broken.shift
    seen = broken.observations[:, broken.coins].sum(axis=0).mean() / broken.looks / broken.shift
    # 100 of G, 10 of label sums, an intercept as it was; noise is less than a hundredth of that.
    assert 30.0 < seen < 100.0


def test_an_attack_with_its_tiers_contradicts_half_the_noise(tmp_path):
    own = statistics(epsilon=4.0, seed=1)
    with LogWriter.create(tmp_path / "run") as writer, broken_gram("half-noise"):
        run(own, tmp_path / "run", writer)
    with broken_gram("half-noise"):
        found = attack(tmp_path / "run", AttackRequest(seed=1, canaries=500))
    assert found.verdict == "contradicted"
    assert {"claim", "residual"} <= {each.tier for each in found.measurements if each.contradicted}


TURNS = [
    (RECORDS, 150, "model"),
    (RECORDS, 400, "server"),  # a group of canaries in each silo, of which one may be chosen
    (USERS, 300, "model"),
    (statistics(epsilon=4.0, neighbours="replace-one", silos=3), 300, "silo"),
]


@for_each(
    "repetitions", [len(TURNS), pytest.param(60, marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_canaries_seldom_accuse_the_correct_release(repetitions):
    """More than 2 of 4 are called unusual with probability 5 in 10^4, of seeds that are fixed.

    Were a tier to call a sound run unusual in 4 cases of 10, 60 would show it with probability .99.
    """
    found = []
    for seed in range(repetitions):
        own, canaries, observer = TURNS[seed % len(TURNS)]
        found.append(rehearse(own, canaries=canaries, observer=observer, seed=100 + seed))
    assert_seldom_accused(found, most_unusual=2 if repetitions == len(TURNS) else None)
