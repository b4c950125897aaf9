"""How batches may have been drawn, where a description leaves it open."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pytest
from scipy.stats import binom, norm

from privplan import account, check
from privplan import events as ev

from ..cases import for_each
from .completion_runs import PLAIN, WITHIN, of, spans, truth


def test_draws_of_their_own_are_counted_in_epochs() -> None:
    facts = {"rate": 0.1, "epochs": 2, "accumulation": 2, "accumulation_of": "own-draws"}
    result = of(1.5, noise_multiplier=1.3, delta=1e-3, **facts)
    assert result.proven is not None
    assert result.proven.lower <= 1.3597
    assert result.proven.upper >= 2.1529


def test_batches_of_a_draw_are_one_sample_or_several() -> None:
    facts = {"batch": 8, "accumulation": 4, "records": 1000, "noise_multiplier": 0.8, "epochs": 1}
    result = of(3.0, delta=1e-4, **facts)
    assert result.verdict == "holds"
    assert result.proven is not None
    assert 2.56 <= result.proven.upper <= 2.6
    one = of(3.0, delta=1e-4, **facts, accumulation_of="one-sample", rate=0.032)
    spans(one, truth(0.8, 0.032, 31, 1e-4), truth(0.8, 0.032, 32, 1e-4))


def test_a_weighted_sampler_draws_with_replacement_or_once() -> None:
    facts = {"records": 200, "batch": 10, "steps": 5, "noise_multiplier": 1.0, "method": "weighted"}
    wide = of(3.0, **facts).proven
    once = of(3.0, **facts, weighted_draws="at-most-once").proven
    again = of(3.0, **facts, weighted_draws="with-replacement").proven
    assert wide is not None
    assert once is not None
    assert again is not None
    assert (wide.lower, wide.upper) == (once.lower, again.upper)
    assert once.upper < again.upper


def test_one_sample_of_all_batches_is_the_lower_end() -> None:
    facts = {"batch": 8, "accumulation": 4, "records": 1000, "noise_multiplier": 0.8, "steps": 31}
    result = of(3.0, delta=1e-4, **facts, rate=0.032).proven
    assert result is not None
    assert result.lower == pytest.approx(truth(0.8, 0.032, 31, 1e-4), rel=WITHIN)
    assert result.upper >= 2.55


SHUFFLED: Final = {"method": "shuffled", "neighbours": "zero-out", "noise_multiplier": 0.2}


def test_starts_of_a_shuffled_loader_begin_passes_of_their_own() -> None:
    """Steps in one go are fewer passes than steps of several starts, so no option states these."""
    facts = {"records": 3, "batch": 1, "steps": 4, "restarts": 3, **SHUFFLED}
    result = of(60.0, **facts)
    rows = {row.says: row for row in result.completions}
    together = rows["the described steps are those of all 3 starts"]
    assert result.proven is not None
    assert (together.bounds.upper, together.settles) == (result.proven.upper, "")
    assert rows["each of 3 starts made the described steps"].settles == ""


def test_a_sampler_is_offered_where_naming_it_settles() -> None:
    facts = {"noise_multiplier": 2.0, "records": 1000, "batch": 50, "steps": 20, "delta": 1e-6}
    plain = {key: value for key, value in PLAIN.items() if key != "method"}

    def offered(**more: object) -> set[str]:
        result = check(claimed=2.0, **plain, **facts, **more)
        return {row.settles for row in result.completions if row.settles}

    assert "sampling.method=poisson" in offered()
    assert "sampling.method=full" not in offered()
    assert offered(accumulation=3) == set()


def test_a_sampler_that_nobody_named_is_any_of_seven() -> None:
    facts = {"noise_multiplier": 2.0, "records": 1000, "batch": 50, "steps": 20, "delta": 1e-6}
    unnamed = {key: value for key, value in PLAIN.items() if key != "method"}
    result = check(claimed=1.0, **unnamed, **facts)
    named = {
        name: of(1.0, **facts, method=name).proven
        for name in ("poisson", "shuffled", "fixed-size", "with-replacement")
    }
    named["full"] = check(
        claimed=1.0, **unnamed, method="full", noise_multiplier=2.0, steps=20, delta=1e-6
    ).proven
    weighted = of(1.0, **facts, method="weighted").proven
    assert result.proven is not None
    ends = [end for end in (*named.values(), weighted) if end is not None]
    allocated = account(ev.RandomAllocation(20, 1, ev.Gaussian(2.0)), delta=1e-6).epsilon
    assert len(ends) == 6
    assert allocated.lower < min(end.lower for end in ends)
    assert result.proven.lower == pytest.approx(allocated.lower, rel=WITHIN)
    assert result.proven.upper == max(end.upper for end in ends)
    assert dict(result.alternatives or {}) == {
        name: named[name] for name in ("poisson", "shuffled", "fixed-size", "full")
    }
    rarer = " ".join(result.conditions)
    assert "with replacement" in rarer.lower()
    assert "by weights" in rarer
    assert "into one batch of each pass" in rarer


def test_no_claim_is_false_that_holds_where_each_record_has_one_batch_of_a_pass() -> None:
    """Fifteen passes of 235 batches, one for each record by itself: epsilon 1.093."""
    facts = {"records": 60000, "batch": 256, "epochs": 15, "noise_multiplier": 1.1}
    facts |= {"neighbours": "add-remove", "unit": "record"}
    passes = ev.Repeat(15, ev.RandomAllocation(235, 1, ev.Gaussian(1.1)))
    known = account(passes, delta=1e-5).epsilon
    for claim in (known.upper, 1.11):
        assert check(claimed=claim, delta=1e-5, **facts).verdict == "unverifiable"
    least = check(claimed=1.0, delta=1e-5, **facts)
    assert least.proven is not None
    assert 0.97 * known.lower <= least.proven.lower <= known.upper


def test_batches_that_are_accumulated_are_those_of_a_loader() -> None:
    """Four times 64 records are the 256 of a loader of 235 batches."""
    facts = {"rate": 1 / 235, "batch": 64, "accumulation": 4, "records": 60000, "steps": 100}
    assert not [c for c in of(1.0, **facts, noise_multiplier=1.1).causes if c.id == "contradiction"]


@for_each(
    ("facts", "least"),
    [
        ({"records": 20, "batch": 5, "method": "weighted"}, 25.0),
        ({"records": 15, "batch": 5, "method": "shuffled", "accumulation": 2}, 0.5),
    ],
)
def test_rho_counts_how_often_a_record_can_come(facts: dict[str, object], least: float) -> None:
    """A heavy record fills five places in two epochs of four; a record comes twice in a draw."""
    more = {"noise_multiplier": 2.0, "epochs": 2, "neighbours": "zero-out"}
    for claim in ({"rho": 0.9 * least}, {"mu": (1.8 * least) ** 0.5}):
        result = check(**facts, **more, **claim)
        assert not result.verdict.startswith("holds")
        assert result.proven is not None
        assert result.proven.upper >= (least if "rho" in claim else (2 * least) ** 0.5)


def test_saying_that_a_sampler_went_by_weights_moves_no_end_outwards() -> None:
    """All weight on one of 130 records: it fills each of four batches, which move by 130 / 1.1."""
    facts = {"noise_multiplier": 1.1, "records": 130, "batch": 65, "epochs": 2, "delta": 1e-3}
    filled = account(ev.Repeat(4, ev.Gaussian(1.1 / 130)), delta=1e-3).epsilon
    for method in ({}, {"method": "unknown"}, {"method": "weighted"}):
        result = check(claimed=40, **facts, neighbours="replace-one", **method)
        assert result.verdict == "unverifiable"
        assert result.proven is not None
        assert result.proven.upper >= filled.lower * (1 - WITHIN)


@for_each("method", ["fixed-size", "with-replacement", "weighted"])
def test_a_sampler_of_an_unknown_number_of_records_has_a_lower_end(method: str) -> None:
    """A rate says how often a record is there: at least as with so many of infinitely many."""
    facts = {"noise_multiplier": 0.8, "rate": 0.5, "steps": 4, "delta": 1e-5, "unit": "record"}
    least = account(ev.Repeat(4, ev.Poisson(1 - math.exp(-0.5), ev.Gaussian(0.8))), delta=1e-5)
    open_ = check(claimed=1.0, **facts, neighbours="zero-out")
    named = check(claimed=1.0, **facts, neighbours="zero-out", method=method)
    assert (open_.verdict, named.verdict) == ("false", "false")
    assert open_.proven is not None
    assert named.proven is not None
    assert open_.proven.lower <= named.proven.lower * (1 + WITHIN)
    assert least.epsilon.lower * (1 - WITHIN) <= named.proven.lower


def test_an_epoch_of_some_records_of_an_unknown_number_shows_nothing() -> None:
    facts = {"noise_multiplier": 0.8, "rate": 0.5, "steps": 4, "records_per_epoch": 2}
    result = check(claimed=0.1, **facts, delta=1e-5, unit="record", neighbours="zero-out")
    assert result.verdict == "unverifiable"
    whole = check(
        claimed=0.1,
        **facts,
        delta=1e-5,
        unit="record",
        neighbours="zero-out",
        records=1000,
        method="shuffled",
    )
    assert result.proven is not None
    assert whole.proven is not None
    assert result.proven.lower <= whole.proven.lower


def test_more_draws_with_replacement_than_records_are_a_run() -> None:
    facts = {"noise_multiplier": 8.0, "records": 10, "batch": 20, "steps": 1}
    result = of(1.0, **facts, method="with-replacement")
    drawn = account(ev.WithReplacement(20, 10, ev.Gaussian(8.0)), delta=1e-5).epsilon
    assert result.proven is not None
    assert result.proven.lower <= drawn.lower <= drawn.upper <= result.proven.upper * (1 + WITHIN)


@for_each(("records", "batch", "draws"), [(4, 1, 2), (10, 2, 3), (1000, 100, 2)])
def test_batches_of_a_fixed_size_that_are_summed_move_others_too(
    records: int, batch: int, draws: int
) -> None:
    """Where a record is in K of the batches its neighbours' -1 is not: N(2K) against N(K)."""
    facts = {"noise_multiplier": 1.1, "records": records, "batch": batch, "steps": 1}
    facts |= {"accumulation": draws, "accumulation_of": "own-draws", "method": "fixed-size"}
    result = of(5.2, **facts, normaliser="constant", neighbours="zero-out")
    times = np.arange(draws + 1)
    mass = binom.pmf(times, draws, batch / records)
    at = np.linspace(-12.0, 2.0 * draws + 12.0, 40001)
    with_record, zeroed = (
        norm.pdf(at[:, None], moved * times, 1.1) @ mass * (at[1] - at[0]) for moved in (2, 1)
    )
    assert result.proven is not None
    odds = np.exp(min(result.proven.upper, 600.0))
    for first, second in ((with_record, zeroed), (zeroed, with_record)):
        assert np.maximum(first - odds * second, 0.0).sum() <= 1e-5 * (1 + 1e-3)
