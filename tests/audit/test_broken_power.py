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

from dataclasses import dataclass

import pytest

from privplan.accountant.errors import Unsupported
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.canaries import claim_tier, rehearse, robust_tier
from privplan.audit.residual import residual_tier
from privplan.audit.statistics import upper_rate
from privplan.fl.log import LogWriter
from privplan.fl.running.session import run

from ..cases import for_each
from .broken_power import BUGS, broken_power
from .rehearsals import fedpower

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
    sound = claim_tier(rehearsed("none", canaries, observer=observer))
    assert sound.verdict == "not-contradicted"


@pytest.mark.slow
@for_each(("bug", "observer", "canaries"), CLAIMED)
def test_the_claim_tier_has_power(bug, observer, canaries):
    """Twice the canaries contradict it with 10 seeds of 10: power is .74 or more, at 95%."""
    missed = sum(
        not claim_tier(rehearsed(bug, 2 * canaries, seed, observer)).contradicted
        for seed in range(10)
    )
    assert upper_rate(missed, 10, 0.05) < 0.26


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


@for_each("repetitions", [12, pytest.param(200, marks=pytest.mark.slow)], ids=["few", "many"])
def test_canaries_seldom_accuse_the_correct_run(repetitions):
    """Of 200, 4 alarms or fewer: then the rate is below .05 with a confidence of 95%.

    Of 12 it is 1 at most, which excludes no more than a rate of .35.  At levels of 1 in 2,500 and 1
    in 5,000 none contradicts with probability .89 or more.  Of the first 100 none raised an alarm:
    the rate is below .03.
    """
    said = {"claim": [], "robust": []}
    for seed in range(repetitions):
        observer = ("model", "server", "silo")[seed % 3]
        found = rehearsed("none", 500, 300 + seed, observer)
        for each in (claim_tier(found, seed=seed), robust_tier(found)):
            said[each.tier].append(each.verdict)
    for verdicts in said.values():
        alarms = sum(verdict != "not-contradicted" for verdict in verdicts)
        assert upper_rate(alarms, repetitions, 0.05) < (0.05 if repetitions == 200 else 0.35)
        assert "contradicted" not in verdicts


@for_each("repetitions", [2, pytest.param(60, marks=pytest.mark.slow)], ids=["few", "many"])
def test_the_residual_tier_seldom_accuses_the_correct_run(repetitions, tmp_path):
    """None of 60 is contradicted: at most one honest run in 20 is, at 95% confidence."""
    accused = sum(
        any(each.contradicted for each in judged("none", tmp_path / str(seed), seed).values())
        for seed in range(repetitions)
    )
    assert accused == 0
    if repetitions == 60:
        assert upper_rate(accused, repetitions, 0.05) < 0.05


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
