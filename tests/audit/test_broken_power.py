"""A broken power iteration is caught by some tier, and the correct one is not accused.

Canaries by which the claim tier contradicts it with every seed that was tried (3, of 100, 150, 200,
300, 500, 750, 1,000, 2,000).  Digits, 2 silos, 4 rounds, records; claimed is epsilon 8.  `residual`
is one run of 4 rounds with 320 numbers, and has no canaries.

                       claim: model    server, in the clear    residual
    half-noise                  300                     500    caught
    no-clipping                 200                     500    caught
    silent-silo                 750                     750    caught
    noise-again             not (1)                 not (1)    caught
    orthonormal             not (2)                 not (2)    caught

(1) A canary adds something else to every product, along a direction of its own for each, in which
    noise that repeats is as good as new.
(2) What is released has hardly anything of a canary in it: no more is shown than is claimed.  That
    it is another mechanism is seen in the product, which is not that of the rows.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pytest

from privplan.accountant.errors import Unsupported
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.canaries import claim_tier, rehearse
from privplan.audit.residual import residual_tier
from privplan.fl.log import LogWriter
from privplan.fl.running.session import run

from ..cases import for_each
from .broken_power import BUGS, broken_power
from .rehearsals import fedpower
from .sound_runs import assert_seldom_accused

OWN = fedpower(rounds=4, epsilon=8.0)


@dataclass(frozen=True)
class Case:
    """One row of the table: canaries by which the claim tier contradicts it, and what else does."""

    bug: str
    model: int | None
    server: int | None
    residual: tuple[str, ...]


TABLE = [
    Case("half-noise", 300, 500, ("variance of the noise",)),
    Case("no-clipping", 200, 500, ("norms after clipping", "sums made again")),
    Case("silent-silo", 750, 750, ("variance of the noise", "values without noise")),
    Case("noise-again", None, None, ("noise over time", "equal noise")),
    Case("orthonormal", None, None, ("sums made again",)),
]

CLAIMED = [
    pytest.param(case.bug, observer, canaries, id=f"{case.bug}-{observer}")
    for case in TABLE
    for observer, canaries in (("model", case.model), ("server", case.server))
    if canaries
]


@functools.cache
def rehearsed(bug, canaries, seed=1, observer="model"):
    with broken_power(bug):
        return rehearse(OWN, canaries=canaries, seed=seed, observer=observer)


def judged(bug, folder, seed=1):
    """Return what the residual tier says of a run with this bug, by name."""
    own = fedpower(rounds=4, epsilon=8.0, seed=seed)
    with LogWriter.create(folder) as writer, broken_power(bug):
        run(own, folder, writer)
    return {each.what: each for each in residual_tier(folder)}


def test_the_table_has_every_bug_and_some_tier_sees_it():
    assert {case.bug for case in TABLE} | {"none"} == set(BUGS)
    assert all(case.model or case.residual for case in TABLE)


@for_each(("bug", "observer", "canaries"), CLAIMED)
def test_the_claim_tier_contradicts_it(bug, observer, canaries):
    found = claim_tier(rehearsed(bug, canaries, observer=observer))
    assert found.contradicted
    assert found.value > found.claimed


@for_each("observer", ["model", "server"])
def test_the_claim_tier_does_not_contradict_the_correct_run(observer):
    """With as many canaries as any bug needs."""
    sound = claim_tier(rehearsed("none", 750, observer=observer))
    assert sound.verdict == "not-contradicted"


@pytest.mark.slow
@for_each(("bug", "observer", "canaries"), CLAIMED)
def test_the_claim_tier_has_power(bug, observer, canaries):
    """Twice the canaries contradict it with 4 seeds of 4: power is .47 or more, at 95%."""
    for seed in range(4):
        assert claim_tier(rehearsed(bug, 2 * canaries, seed, observer)).contradicted


@for_each("case", TABLE, ids=lambda case: case.bug)
def test_the_residual_tier_contradicts_it(case, tmp_path):
    found = judged(case.bug, tmp_path / "run")
    contradicted = {name for name, each in found.items() if each.contradicted}
    assert contradicted >= set(case.residual)


def test_canaries_do_not_see_what_the_table_says_they_do_not():
    """They are no worse seen than claimed: that they accuse nobody proves nothing about noise."""
    for case in TABLE:
        if case.model is None:
            assert claim_tier(rehearsed(case.bug, 500)).verdict == "not-contradicted"


def test_the_silo_without_noise_is_named():
    found = claim_tier(rehearsed("silent-silo", 1_000, observer="server"))
    assert (found.contradicted, found.sample["group"]) == (True, "silo-1")


def test_rows_that_pass_the_clip_move_a_product_a_hundredfold():
    """The shift that is looked for stays that of the pair, whatever the mechanism does."""
    sound, broken = (rehearsed(bug, 60) for bug in ("none", "no-clipping"))
    assert sound.shift == broken.shift
    seen = broken.observations[:, broken.coins].mean() / broken.shift
    assert 99.0 < seen < 101.0


@for_each("repetitions", [3, pytest.param(60, marks=pytest.mark.slow)], ids=["few", "many"])
def test_canaries_seldom_accuse_the_correct_run(repetitions):
    """More than 2 of 3 are called unusual with probability 1.3 in 10^4, of seeds that are fixed.

    Were a tier to call a sound run unusual in 4 cases of 10, 60 would show it with probability .99.
    """
    found = [
        rehearsed("none", 500, 300 + seed, ("model", "server", "silo")[seed % 3])
        for seed in range(repetitions)
    ]
    assert_seldom_accused(found, most_unusual=2 if repetitions == 3 else None)


@for_each("repetitions", [2, pytest.param(30, marks=pytest.mark.slow)], ids=["few", "many"])
def test_the_residual_tier_seldom_accuses_the_correct_run(repetitions, tmp_path):
    """None of 30 is contradicted: at most one honest run in 10 is, at 95% confidence."""
    for seed in range(repetitions):
        found = judged("none", tmp_path / str(seed), seed)
        assert not any(each.contradicted for each in found.values())


def test_an_attack_takes_the_tiers_that_it_can(tmp_path):
    own = fedpower(rounds=4, epsilon=8.0, seed=1)
    for bug, verdict in (("none", "not-contradicted"), ("half-noise", "contradicted")):
        folder = tmp_path / bug
        with broken_power(bug):
            with LogWriter.create(folder) as writer:
                run(own, folder, writer)
            found = attack(folder, AttackRequest(seed=1, canaries=500))
        assert found.verdict == verdict
        tiers = {each.tier for each in found.measurements if each.contradicted}
        assert {each.tier for each in found.measurements} == {"claim", "robust", "residual"}
        assert not found.skipped
        assert tiers >= ({"claim", "residual"} if bug == "half-noise" else set())
    with pytest.raises(Unsupported, match="trains no model"):
        attack(folder, AttackRequest(tiers=("membership",)))
