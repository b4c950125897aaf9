"""Areas and rates beside the formulas of TF-Privacy, PrivacyGuard and ml_privacy_meter.

The formulas are written out here from what their sources compute, on the same scores:

- all three: the ROC curve by falling thresholds with equal scores together, its area by trapezes;
- ml_privacy_meter, `compute_attack_results`: the hit rate at the last point of at most that many
  false alarms;
- TF-Privacy, `compute_score_lira`: medians and deviations (divided by n) of each record's shadows;
- PrivacyGuard, `LiraAttack`: means and deviations (divided by n - 1);
- ml_privacy_meter, `run_rmia`: a mean over as many of the largest outside likelihoods as asked for.

Sources: tensorflow/privacy, privacy_tests/membership_inference_attack/advanced_mia.py;
facebookresearch/PrivacyGuard, attacks/lira_attack.py; privacytrustlab/ml_privacy_meter, attacks.py.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privplan as pp
from privplan.accountant.arrays import BoolArray, FloatArray
from privplan.audit.attack_methods.membership import Evidence, measurements, trials_of
from privplan.audit.attack_methods.membership.results import AttackDescription
from privplan.audit.attack_methods.membership.scores import ratio, tuned
from privplan.audit.attack_methods.membership.tier import ATTACKS
from privplan.audit.model_audits.score_audit import AttackResult, ScoreAudit
from privplan.audit.shadows import design
from privplan.cli.pages import topics

from ..cases import for_each
from ..source_tree import ROOT

DELTA = 1e-5
RATE = 0.01


def paired_models(
    records: int = 1500, shadows: int = 16, targets: int = 1, shift: float = 1.5
) -> tuple[Evidence, FloatArray]:
    """Return models in opposite pairs, all with phi that membership raises, and all phi."""
    rng = np.random.default_rng(20)
    coins = design(records, models=shadows + targets, targets=targets, rng=rng)
    phi = rng.normal(1.0, 2.0, records) + rng.normal(size=(shadows + targets, records))
    phi += shift * coins.inside
    others = rng.normal(1.0, 2.0, 200) + rng.normal(size=(shadows + targets, 200))
    unit = np.arange(records)
    return (
        Evidence(
            coins, unit, unit, phi[:shadows], phi[shadows:], others[:shadows], others[shadows:]
        ),
        phi,
    )


def audited(evidence: Evidence, **more: Any) -> ScoreAudit:
    asked: dict[str, Any] = {"delta": DELTA, **more}
    return pp.audit_scores(
        evidence.targets,
        evidence.design.targets,
        shadows=evidence.shadows,
        membership=evidence.design.shadows,
        population=(evidence.targets_population, evidence.shadows_population),
        **asked,
    )


def peers_area_and_hits(scores: FloatArray, members: BoolArray) -> tuple[float, float]:
    """Return the trapezes under the ROC curve, and hits at its last point of at most `RATE`."""
    thresholds = np.unique(scores)[::-1]
    alarms = np.array([0.0, *((scores[~members] >= t).mean() for t in thresholds)])
    hits = np.array([0.0, *((scores[members] >= t).mean() for t in thresholds)])
    area = float((np.diff(alarms) * (hits[1:] + hits[:-1]) / 2.0).sum())
    return area, float(hits[alarms <= RATE][-1])


def require_equal(found: AttackResult, scores: FloatArray, members: BoolArray) -> None:
    area, hits = peers_area_and_hits(scores, members)
    assert found.auc.value == pytest.approx(area, abs=1e-9)
    (at,) = (each for each in found.tpr if each.fpr == RATE)
    assert at.value == pytest.approx(hits, abs=1e-9)


@for_each("digits", [None, 0])
def test_area_and_hits_of_a_loss_are_those_of_all_three_peers(digits: int | None) -> None:
    """With ties as well: losses rounded to whole numbers."""
    evidence, _ = paired_models()
    loss = np.logaddexp(0.0, -evidence.targets[0])
    loss = loss if digits is None else np.round(loss, digits) + 1.0
    members = evidence.design.targets[0]
    found = pp.audit_scores(loss, members, kind="loss", delta=DELTA, attacks=["loss"])
    require_equal(found.primary, -loss, members)


def test_lira_differs_from_the_peers_by_their_choice_of_mean_and_divisor_alone() -> None:
    evidence, _ = paired_models(shadows=80)
    members, inside = evidence.design.targets[0], evidence.design.shadows
    sides = [np.where(side, evidence.shadows, np.nan) for side in (inside, ~inside)]

    def score(middle: Any, divisor: int) -> FloatArray:
        parts = [
            stats.norm.logpdf(
                evidence.targets[0], middle(side, axis=0), np.nanstd(side, axis=0, ddof=divisor)
            )
            for side in sides
        ]
        return np.asarray(parts[0] - parts[1])

    found = audited(evidence, attacks=["lira"]).primary
    require_equal(found, score(np.nanmedian, 1), members)  # medians, as the authors' own code
    for peer in (score(np.nanmedian, 0), score(np.nanmean, 1)):  # TF-Privacy, PrivacyGuard
        area, hits = peers_area_and_hits(peer, members)
        assert found.auc.value == pytest.approx(area, abs=0.01)
        assert found.tpr[0].value == pytest.approx(hits, abs=0.05)


def test_ratio_is_the_peers_rmia_without_its_ties() -> None:
    """With shadows in pairs each record is out of half of them: the peers' mean is over these.

    Over its population ml_privacy_meter takes the largest half as well, although all are outside.
    """
    evidence, _ = paired_models()
    members, inside = evidence.design.targets[0], evidence.design.shadows
    a = tuned(evidence, level="record", statistic=ratio)

    def usual(shadows: FloatArray, outside: BoolArray, kept: int) -> FloatArray:
        largest = np.sort(shadows * outside, axis=0)[::-1][:kept]
        return np.asarray((1.0 + a) / 2.0 * largest.mean(0) + (1.0 - a) / 2.0)

    def chances(phi: FloatArray) -> FloatArray:
        return np.asarray(1.0 / (1.0 + np.exp(-phi)))

    half = len(inside) // 2
    likely = chances(evidence.targets[0]) / usual(chances(evidence.shadows), ~inside, half)
    require_equal(audited(evidence, attacks=["ratio"]).primary, likely, members)
    others = chances(evidence.shadows_population)
    of_others = chances(evidence.targets_population[0]) / usual(
        others, np.ones(others.shape, bool), half
    )
    peer = (likely[:, None] > of_others).mean(1)
    top = (peer[~members] == peer.max()).mean()
    assert top > 0.0  # their mean of the largest half ties non-members at the top
    found = audited(evidence, attacks=["rmia"]).primary
    assert found.auc.value == pytest.approx(peers_area_and_hits(peer, members)[0], abs=0.01)


def test_the_answer_is_that_of_the_tier_of_membership() -> None:
    evidence, _ = paired_models(records=400, targets=4)
    audit = audited(evidence, coins="independent", guesses=40)
    assert {each.attack for each in audit.attacks} == set(ATTACKS)
    for each in audit.attacks:
        about = AttackDescription("a run", "record", "add-remove")
        told = measurements(trials_of(evidence, each.attack, "record"), about)
        assert each.auc.value == pytest.approx(told[0].value, abs=1e-12)
        assert [hit.value for hit in each.tpr] == pytest.approx([row.value for row in told[1:]])


@for_each(
    "units, guesses, right, delta, epsilon",
    [
        (1000, 100, 90, 1e-5, 1.62614),
        (1000, 100, 90, 0.0, 1.63083),
        (10_000, 1000, 903, 1e-5, 2.04641),
    ],
)
def test_bounds_are_the_published_ones(
    units: int, guesses: int, right: int, delta: float, epsilon: float
) -> None:
    """Without shadows half of the guesses are at each end; here those at the top are all right."""
    coins = np.random.default_rng(21).random(units) < 0.5
    members, others = np.flatnonzero(coins), np.flatnonzero(~coins)
    half, wrong = guesses // 2, guesses - right
    lowest = [*others[: half - wrong], *members[:wrong]]
    middle = [*others[half - wrong :], *members[wrong : len(members) - half]]
    scores = np.empty(units)
    scores[[*lowest, *middle, *members[len(members) - half :]]] = np.arange(units) / units
    audit = pp.audit_scores(
        scores, coins, coins="independent", delta=delta, guesses=guesses, attacks=["loss"]
    )
    assert audit.primary.correct == right
    assert audit.primary.epsilon_lower == pytest.approx(epsilon, abs=1e-5)


def test_the_page_has_the_numbers_of_the_bench() -> None:
    told = json.loads((ROOT / "bench" / "score_audits.json").read_text(encoding="utf-8"))
    rows = [line.split() for line in topics.page("scores").splitlines()]
    tool = ""
    seen = 0
    for row in rows:
        if row and row[0] in told["signal"]:
            tool, row = row[0], row[1:]
        if not tool or not row or row[0] not in told["signal"][tool]["says"]:
            continue
        says = told["signal"][tool]["says"][row[0]]
        assert row[1:3] == [f"{says[name]:.3f}".lstrip("0") for name in ("auc", "tpr")]
        seen += 1
    assert seen == 11
    nulls = told["nulls"]
    above = {name: f"{row['above zero']} of {row['of']}" for name, row in nulls.items()}
    text = " ".join(topics.page("scores").split())
    for name in ("privplan, epsilon", "PrivacyGuard, epsilon, default"):
        assert above[name] in text
    for size in told["sizes"].values():
        assert max(size[attack] for attack in ATTACKS) < 10.0
        assert size["gigabytes"] < 1.0
