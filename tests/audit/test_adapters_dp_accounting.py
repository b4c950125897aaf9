"""`CertifiedAccountant`: where dp_accounting takes an accountant, and what their own tests say."""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal

import dp_accounting as dpa
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting.pld.pld_privacy_accountant import PLDAccountant
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.audit.adapters.dp_accounting import CertifiedAccountant

from .peer_suites import FAILED_WITH_REASON, rows

DP_SGD = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "least"), [("pld", 61), ("rdp", 28)])
def test_their_own_suites_judge(suite: Literal["pld", "rdp"], least: int) -> None:
    table = rows(suite)
    failed = {row.test for row in table if row.outcome == "failed"}
    assert failed == {name for name in FAILED_WITH_REASON if name.startswith(suite)}
    counts = Counter(row.outcome for row in table)
    assert counts["passed"] >= least
    assert all(row.why for row in table if row.outcome != "passed")


@pytest.mark.parametrize(
    ("relation", "least", "most"),
    [
        (Relation.ADD_OR_REMOVE_ONE, 1.828, 1.8283),
        (Relation.REPLACE_ONE, 2.842, 2.844),
        (Relation.REPLACE_SPECIAL, 1.828, 1.8283),
    ],
)
def test_both_ends_of_dp_sgd(relation: Relation, least: float, most: float) -> None:
    accountant = CertifiedAccountant(relation).compose(DP_SGD)
    bounds = accountant.get_epsilon_bounds(1e-5)
    assert least < bounds.lower <= bounds.upper < most
    assert accountant.get_epsilon(1e-5) == bounds.upper
    assert accountant.get_delta(bounds.upper) == pytest.approx(1e-5, rel=1e-3)
    assert accountant.ledger == DP_SGD


def test_replacing_one_record_moves_a_sum_twice() -> None:
    """Their two accountants differ; ours is with the exact one."""
    event = dpa.GaussianDpEvent(1.0)
    ours, pld = CertifiedAccountant(Relation.REPLACE_ONE), PLDAccountant(Relation.REPLACE_ONE)
    rdp = RdpAccountant(neighboring_relation=Relation.REPLACE_ONE)
    for accountant in (ours, pld, rdp):
        accountant.compose(event)
    assert ours.get_epsilon(1e-5) == pytest.approx(9.9973, abs=1e-3)
    assert pld.get_epsilon(1e-5) == pytest.approx(9.9973, abs=1e-3)
    assert rdp.get_epsilon(1e-5) == pytest.approx(4.73, abs=0.01)


def test_it_goes_into_their_calibration() -> None:
    noise = dpa.calibrate_dp_mechanism(
        CertifiedAccountant,
        lambda noise: dpa.SelfComposedDpEvent(
            dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(noise)), 1000
        ),
        target_epsilon=1.8283,
        target_delta=1e-5,
        bracket_interval=dpa.ExplicitBracketInterval(0.5, 2.0),
        tol=1e-4,
    )
    assert noise == pytest.approx(1.0, abs=2e-4)
    event = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(noise))
    assert CertifiedAccountant().compose(event, 1000).get_epsilon(1e-5) <= 1.8283


def test_equal_events_are_counted_together() -> None:
    accountant = CertifiedAccountant()
    for _ in range(3):
        accountant.compose(dpa.LaplaceDpEvent(2.0)).compose(dpa.GaussianDpEvent(5.0), 2)
    assert accountant.event == ev.Compose(
        (ev.Repeat(3, ev.Laplace(2.0)), ev.Repeat(6, ev.Gaussian(5.0)))
    )


def test_who_is_special_answers_uniformly() -> None:
    event = dpa.RandomizedResponseDpEvent(math.exp(-1.0), 2)
    accountant = CertifiedAccountant(Relation.REPLACE_SPECIAL).compose(event)
    bounds = accountant.get_epsilon_bounds(0.0)
    assert bounds.upper == pytest.approx(1.0, abs=1e-9)
    assert bounds.upper >= 1.0
    assert not CertifiedAccountant(Relation.ADD_OR_REMOVE_ONE).supports(event)


def test_zcdp_with_a_part_that_is_pure() -> None:
    with_xi = CertifiedAccountant().compose(dpa.ZCDpEvent(0.05, 0.3)).get_epsilon(1e-5)
    theirs = RdpAccountant().compose(dpa.ZCDpEvent(0.05, 0.3)).get_epsilon(1e-5)
    without = CertifiedAccountant().compose(dpa.ZCDpEvent(0.05)).get_epsilon(1e-5)
    assert without + 0.3 <= with_xi * (1.0 + 1e-3)
    assert with_xi == pytest.approx(theirs, rel=1e-2)


def test_a_tree_is_not_for_records_that_come_and_go() -> None:
    tree = dpa.SingleEpochTreeAggregationDpEvent(1.13, 1600)
    assert not CertifiedAccountant().supports(tree)
    special = CertifiedAccountant(Relation.REPLACE_SPECIAL).compose(tree).get_epsilon(1e-6)
    replaced = CertifiedAccountant(Relation.REPLACE_ONE).compose(tree).get_epsilon(1e-6)
    assert special < 19.74 < replaced


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Sampling rate"):
        CertifiedAccountant().compose(dpa.PoissonSampledDpEvent(1.1, dpa.GaussianDpEvent(1.0)))
    with pytest.raises(InvalidInput, match="NeighboringRelation"):
        CertifiedAccountant("add-remove")
    with pytest.raises(InvalidInput, match="delta"):
        CertifiedAccountant().compose(dpa.GaussianDpEvent(1.0)).get_epsilon(-1.0)
