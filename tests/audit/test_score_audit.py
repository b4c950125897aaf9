"""Membership inference from scores of models that anybody trained: what is found, and withheld."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import privplan as pp
from privplan.accountant.arrays import BoolArray, FloatArray
from privplan.accountant.errors import InvalidInput
from privplan.audit.model_audits.guesses import share_of_members
from privplan.audit.model_audits.score_audit import ScoreAudit
from privplan.audit.model_audits.score_tables import as_phi, score_tables

from ..cases import for_each

DELTA = 1e-5


def simulated(
    models: int = 33, records: int = 400, shift: float = 1.5, seed: int = 0
) -> tuple[FloatArray, BoolArray]:
    """Return phi, which members raise by `shift`, and fair coins: (models, records)."""
    rng = np.random.default_rng(seed)
    inside = rng.random((models, records)) < 0.5
    hard = rng.normal(2.0, 2.0, records)
    return hard + rng.normal(0.0, 1.0, (models, records)) + shift * inside, inside


def audited(phi: FloatArray, inside: BoolArray, **more: Any) -> ScoreAudit:
    asked = {"coins": "independent", "delta": DELTA, "guesses": 40, **more}
    if len(phi) > 1:
        asked = {"shadows": phi[1:], "membership": inside[1:], **asked}
    return pp.audit_scores(phi[0], inside[0], **asked)


def test_members_are_told_and_bounded_from_below() -> None:
    phi, inside = simulated()
    population = np.random.default_rng(1).normal(2.0, 2.0, (33, 100))
    audit = audited(phi, inside, population=(population[:1], population[1:]), claimed=0.5)
    assert [each.attack for each in audit.attacks] == [
        "lira", "ratio", "rmia", "lira-offline", "loss"
    ]  # fmt: skip
    assert audit.conclusion == "leak"
    assert audit.contradicted
    assert audit.primary.epsilon_lower is not None
    assert audit.primary.epsilon_lower > 1.0
    assert audit.primary.confidence == pytest.approx(0.975)
    assert audit.attacks[1].confidence == pytest.approx(1.0 - 0.025 / 4)


def test_lira_is_the_published_likelihood_ratio() -> None:
    phi, inside = simulated(models=201)
    audit = audited(phi, inside, attacks=["lira"])
    held = [np.where(chosen, phi[1:], np.nan) for chosen in (inside[1:], ~inside[1:])]
    densities = [
        stats.norm.logpdf(phi[0], np.nanmedian(side, 0), np.nanstd(side, 0, ddof=1))
        for side in held
    ]
    ratios = densities[0] - densities[1]
    members, others = ratios[inside[0]], ratios[~inside[0]]
    expected = (members[:, None] > others).mean()
    assert audit.primary.auc.value == pytest.approx(expected, abs=1e-9)


def test_a_bound_holds_for_the_mechanism_that_made_the_scores() -> None:
    """Each record is its own Gaussian release of mu 1, at 1e-5 epsilon 4.377; 5 % may err."""
    truth = pp.account(pp.events.Gaussian(1.0), delta=DELTA).epsilon.lower
    above = 0
    for seed in range(150):
        rng = np.random.default_rng([43, seed])
        coins = rng.random(500) < 0.5
        audit = audited((rng.normal(size=500) + coins)[None], coins[None])
        assert audit.primary.epsilon_lower is not None
        above += audit.primary.epsilon_lower > truth
    assert above == 0


@pytest.mark.slow
def test_scores_without_signal_show_nothing() -> None:
    """At 5 % over all attacks of a call 400 calls err 20 times in the mean, above 45 at 1e-7."""
    above = contradicted = leaks = 0
    for seed in range(400):
        phi, inside = simulated(models=9, records=200, shift=0.0, seed=seed)
        audit = audited(phi, inside, claimed=0.1)
        above += any(each.epsilon_lower for each in audit.attacks)
        contradicted += bool(audit.contradicted)
        leaks += audit.conclusion == "leak"
    assert above <= 45
    assert leaks <= 45
    assert contradicted <= 5


def test_how_guesses_are_dealt_is_chosen_without_a_look_at_the_target() -> None:
    phi, inside = simulated()
    first = score_tables(
        target=phi[:1], target_membership=inside[:1], shadows=phi[1:], membership=inside[1:]
    )
    other = score_tables(
        target=phi[:1] ** 3,
        target_membership=~inside[:1],
        shadows=phi[1:],
        membership=inside[1:],
    )
    for attack in ("lira", "loss"):
        shares = [share_of_members(each.evidence, attack, "record", 40) for each in (first, other)]
        assert shares[0] == shares[1]


# --- units ----------------------------------------------------------------------------------------


def test_a_user_has_one_coin_and_is_scored_by_the_sum_over_its_records() -> None:
    phi, inside = simulated(records=150)
    user = np.repeat(np.arange(150), 4)
    several = np.repeat(inside, 4, axis=1)
    rng = np.random.default_rng(8)
    scores = np.repeat(phi, 4, axis=1) + rng.normal(0.0, 0.1, several.shape)
    audit = audited(scores, several, user=user)
    assert (audit.unit, audit.units) == ("user", 150)
    single = audited(phi, inside)
    width = audit.primary.auc.upper - audit.primary.auc.lower
    assert width == pytest.approx(single.primary.auc.upper - single.primary.auc.lower, rel=0.3)
    with pytest.raises(InvalidInput, match="One coin decides on all records"):
        audited(scores, rng.random(several.shape) < 0.5, user=user)


def test_copies_of_a_record_count_as_one() -> None:
    phi, inside = simulated(models=5)
    records = np.random.default_rng(9).normal(size=(400, 3))
    records[1] = records[0]
    inside[:, 1] = inside[:, 0]
    records[3] = records[2]
    inside[0, 3] = ~inside[0, 2]
    audit = audited(phi, inside, records=records, claimed=0.1)
    assert audit.units == 400 - 1 - 2
    assert any("copies" in each for each in audit.withheld)
    assert (audit.unit, audit.contradicted) == ("group", None)


def test_the_coin_of_copies_is_guessed_once() -> None:
    """Five copies of a record share a release of mu 1 and a coin: not five right guesses."""
    truth = pp.account(pp.events.Gaussian(1.0), delta=DELTA).epsilon.lower
    for seed in range(20):
        rng = np.random.default_rng([44, seed])
        coins = rng.random(300) < 0.5
        scores = np.repeat(rng.normal(size=300) + coins, 5)
        audit = pp.audit_scores(
            scores,
            np.repeat(coins, 5),
            group=np.repeat(np.arange(300), 5),
            coins="independent",
            delta=DELTA,
            guesses=40,
        )
        single = pp.audit_scores(scores[::5], coins, coins="independent", delta=DELTA, guesses=40)
        assert audit.units == 300
        assert audit.primary.correct == single.primary.correct
        assert audit.primary.epsilon_lower is not None
        assert audit.primary.epsilon_lower <= truth


# --- bad input ------------------------------------------------------------------------------------


def test_kinds_of_scores_are_the_same_evidence() -> None:
    rng = np.random.default_rng(10)
    logits, labels = rng.normal(size=(2, 30, 5)), rng.integers(0, 5, 30)
    chances = np.exp(logits) / np.exp(logits).sum(2, keepdims=True)
    p = chances[:, np.arange(30), labels]
    expected = np.log(p) - np.log1p(-p)
    assert as_phi(logits, "logits", labels) == pytest.approx(expected)
    assert as_phi(-np.log(p), "loss") == pytest.approx(expected)
    assert np.isfinite(as_phi(np.zeros((1, 3)), "loss")).all()


def with_hole(phi: FloatArray) -> FloatArray:
    changed = phi.copy()
    changed[3] = np.nan
    return changed


def noise(coins: BoolArray) -> FloatArray:
    return np.random.default_rng(17).normal(size=coins.shape)


BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "a hole": ("NaN", {"target": with_hole}),
    "constant": ("are equal", {"target": lambda phi: 0.0 * phi}),
    "the membership": ("under another name", {"target": lambda _, inside: 5.0 * inside - 2.0}),
    "a shadow": ("same model", {"target": lambda phi: phi + 1e-9, "row": 3}),
    "nearly the membership": ("under another name", {"target": lambda _, c: c + 1e-4 * noise(c)}),
    "its parity": ("under another name", {"target": lambda p, c: 2 * np.round(p[0] / 6) + c}),
    "other records": ("another order", {"target": lambda phi: phi[::-1]}),
    "huge": ("beyond", {"target": lambda phi: 1e200 * phi}),
    "two kinds of units": ("both say", {"user": np.arange(400), "group": np.arange(400)}),
    "records without rows": ("`records`", {"records": np.array(1.0)}),
    "objects": ("Objects", {"target": lambda phi: phi.astype(object)}),
    "no members": ("no members", {"members": lambda inside: 0 * inside}),
    "another shape": ("must be booleans of shape", {"members": lambda inside: inside[:-1]}),
    "too many guesses": ("`guesses` must be at most", {"guesses": 401}),
    "an attack nobody knows": ("attack", {"attacks": ["magic"]}),
    "an attack without its tables": ("not possible", {"attacks": ["rmia"]}),
    "a delta of 1": ("delta", {"delta": 1.0}),
}


@for_each("name", list(BAD))
def test_what_no_attack_can_use_is_refused(name: str) -> None:
    word, changes = BAD[name]
    phi, inside = simulated(models=5)
    made = changes.pop("target", lambda phi: phi)
    arguments = (phi[changes.pop("row", 0)], inside[0])[: made.__code__.co_argcount]
    members = changes.pop("members", lambda inside: inside)(inside[0])
    asked = {"coins": "independent", "delta": DELTA, "guesses": 40, **changes}
    with pytest.raises(InvalidInput, match=word):
        pp.audit_scores(made(*arguments), members, shadows=phi[1:], membership=inside[1:], **asked)


def test_attacks_that_shadows_do_not_allow_are_left_out() -> None:
    phi, inside = simulated(models=3)
    opposite_shadows = np.stack([inside[1], ~inside[1]])
    population = phi[:, :50]
    audit = pp.audit_scores(
        phi[0], inside[0], shadows=phi[1:], membership=opposite_shadows,
        population=(population[:1], population[1:]), delta=DELTA,
    )  # fmt: skip
    assert [each.attack for each in audit.attacks] == ["loss"]
    assert any("more than one shadow" in each for each in audit.withheld)
