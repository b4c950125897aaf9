"""What is proven about shuffled loaders, against truths that each test computes by itself.

A truth below what may be proven is that of a certain data set.  A truth above what may be refuted
is that of an adversary who knows the order: then a pass is one release, or, where a loader drops
what is left, a release of the share that it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev

from ..cases import for_each
from .small_runs import BY_EPOCHS, NO_RATE, at_least, at_most, lower, proof, run, upper

SHUFFLED: Mapping[str, object] = {"sampling.method": "shuffled"}
ZEROED: Mapping[str, object] = {**SHUFFLED, "claim.neighbours": "zero-out"}
OF_PHASES = (*BY_EPOCHS, "noise.noise_multiplier", "data.records")


def kept_batch(epochs: int, kept: float, noise: ev.Event) -> ev.Event:
    """Return one batch in an epoch whose loader keeps a share `kept` of the records.

    Others are at -1 and fill its place, so a kept record at +1 moves the sum by two norms.
    """
    return ev.Repeat(epochs, ev.Poisson(kept, noise))


@for_each(
    ("facts", "left_out", "truth"),
    [
        (
            {"sampling.batch": 31000, "data.records": 60000, "schedule.epochs": 20},
            BY_EPOCHS,
            kept_batch(20, 31 / 60, ev.Gaussian(2.0)),
        ),
        (
            {"sampling.batch": 51, "data.records": 100, "schedule.epochs": 40},
            BY_EPOCHS,
            kept_batch(40, 0.51, ev.Gaussian(2.0)),
        ),
        (
            {
                "noise.family": "laplace",
                "sampling.batch": 600,
                "data.records": 1000,
                "schedule.steps": 20,
            },
            NO_RATE,
            kept_batch(20, 0.6, ev.Laplace(2.0)),
        ),
        (
            {"schedule.phases": [[4.0, 0.6, 10], [4.1, 0.6, 10]]},
            OF_PHASES,
            kept_batch(20, 0.6, ev.Gaussian(2.05)),
        ),
        (
            {
                "sampling.batch": 100,
                "data.records": 700,
                "schedule.accumulation": 4,
                "schedule.steps": 30,
            },
            NO_RATE,
            kept_batch(30, 4 / 7, ev.Gaussian(2.0)),
        ),
    ],
)
def test_a_single_batch_that_drops_records_moves_by_two_norms(
    facts: Mapping[str, object], left_out: tuple[str, ...], truth: ev.Event
) -> None:
    noise = {} if "schedule.phases" in facts else {"noise.noise_multiplier": 4.0}
    for relation in ({}, {"claim.neighbours": "zero-out"}):
        result = run({**SHUFFLED, **noise, **facts, **relation}, left_out)
        assert lower(result) <= upper(result) < math.inf
        if not relation:
            assert upper(result) >= at_least(truth)


def test_an_epoch_of_a_single_batch_of_all_records_moves_by_a_norm() -> None:
    facts = {"sampling.batch": 1000, "data.records": 1000, "schedule.epochs": 3}
    counted = run({**SHUFFLED, **facts}, BY_EPOCHS)
    truth = ev.Repeat(3, ev.Gaussian(1.0))
    assert at_least(truth) <= upper(counted) == pytest.approx(at_most(truth), rel=1e-3)
    assert any("one batch of all records" in sentence for sentence in counted.conditions)
    # Rate 1 may be that of a loader with one batch, which drops up to half of the records.
    by_rate = run({**SHUFFLED, "sampling.rate": 1.0, "schedule.steps": 3}, ("data.records",))
    assert upper(by_rate) >= at_least(kept_batch(3, 0.51, ev.Gaussian(0.5)))
    assert lower(by_rate) <= at_most(kept_batch(3, 0.51, ev.Gaussian(0.5)))


DROPPING: Mapping[str, object] = {
    "noise.noise_multiplier": 0.7,
    "claim.delta": 1e-3,
    "sampling.rate": 1 / 3,
    "sampling.batch": 26,
    "data.records": 100,
    "schedule.epochs": 2,
    "schedule.steps": 6,
}


def test_steps_that_a_dropping_loader_makes_do_not_say_that_all_is_kept() -> None:
    """Three batches of 26 of 100 records: 22 are dropped in each of two epochs."""
    replaced = ev.Repeat(2, ev.FixedSize(78, 100, ev.Gaussian(0.7)))
    zeroed = ev.Repeat(2, ev.Poisson(0.78, ev.Gaussian(0.7)))
    assert 16.0 < lower(proof({**SHUFFLED, **DROPPING})) <= at_most(replaced, delta=1e-3)
    assert 4.5 < lower(proof({**ZEROED, **DROPPING})) <= at_most(zeroed, delta=1e-3)
    assert run({**SHUFFLED, **DROPPING, "claim.epsilon": 18.9}).verdict == "unproven"
    assert run({**SHUFFLED, **DROPPING, "claim.epsilon": 16.0}).verdict == "false"


@for_each(
    ("facts", "kept", "epochs", "noise"),
    [((700, 100, 4), 4 / 7, 5, 1.0), ((3000, 1000, 2), 2 / 3, 10, 2.0)],
)
def test_batches_that_fill_no_draw_may_get_none(
    facts: tuple[int, int, int], kept: float, epochs: int, noise: float
) -> None:
    records, batch, together = facts
    stated = {
        "data.records": records,
        "sampling.batch": batch,
        "schedule.accumulation": together,
        "schedule.epochs": epochs,
        "noise.noise_multiplier": noise,
    }
    truth = kept_batch(epochs, kept, ev.Gaussian(noise))
    # Or a draw takes the batches that are left over with those of the next pass: then at least the
    # first draw shows the record with the probability that it is in it.
    first = ev.Poisson(0.95 * min(1.0, batch * together / records), ev.Gaussian(noise))
    assert 0.9 * at_least(first) <= lower(proof({**ZEROED, **stated}, BY_EPOCHS)) <= at_most(truth)


def test_a_draw_may_take_batches_of_two_passes() -> None:
    """With this probability a record is last in a pass and first in the next, and moves one by 2.

    The last draw of 3 of 3 records by twos, or of 7 batches by fours: P(S) - e^eps Q(S) for S: the
    sum of draws along the pattern is large.
    """
    for records, batch, together, noise, pattern, least in (
        (3, 1, 2, 0.2, 1 / 9, 84.4),
        (1050, 150, 4, 0.5, 3 / 49, 18.8),
    ):
        mean = 2.0 / noise
        cuts = np.linspace(mean - 2.0, mean + 4.5, 800)
        told = pattern * norm.sf(cuts - mean) - 1e-5
        shown = float(np.max(np.log(told[told > 0.0] / norm.sf(cuts[told > 0.0]))))
        assert shown >= least
        facts = {
            "data.records": records,
            "sampling.batch": batch,
            "schedule.accumulation": together,
            "schedule.epochs": 2,
            "noise.noise_multiplier": noise,
            "claim.delta": 1e-5,
        }
        assert upper(proof({**ZEROED, **facts}, BY_EPOCHS)) >= shown
        twice = {**SHUFFLED, **facts, "claim.neighbours": "add-remove"}
        assert upper(proof(twice, BY_EPOCHS)) >= shown


def test_draws_that_leave_a_batch_over_are_filled_by_others() -> None:
    """Two draws of two batches of 2 of 10 records: as if 8 records were drawn in one batch."""
    facts = {
        "data.records": 10,
        "sampling.batch": 2,
        "schedule.accumulation": 2,
        "schedule.epochs": 4,
        "noise.noise_multiplier": 0.4,
        "claim.delta": 0.1,
    }
    truth = ev.Repeat(4, ev.FixedSize(8, 10, ev.Gaussian(0.4)))
    assert lower(proof({**SHUFFLED, **facts}, BY_EPOCHS)) > 0.0
    assert lower(proof({**SHUFFLED, **facts}, BY_EPOCHS)) <= at_most(truth, delta=0.1)


def test_draws_of_more_than_a_pass_are_no_more_than_their_records() -> None:
    """Draws of four batches of 100 of 300 records: seven of them in ten epochs."""
    facts = {
        "data.records": 300,
        "sampling.batch": 100,
        "schedule.accumulation": 4,
        "schedule.epochs": 10,
    }
    truth = ev.Repeat(7, ev.Gaussian(0.5))
    assert 0.0 < lower(proof({**ZEROED, **facts}, BY_EPOCHS)) <= at_most(truth)


@for_each("count", [10, 20])
def test_phases_within_a_pass_show_a_record_once(count: int) -> None:
    """A record is in one batch of ten, known to whoever knows the order: one release in a pass.

    The rate may be that of a loader of ten batches that drops the rest, less than one in eleven.
    """
    phases = [[0.5 + 0.001 * index, 0.1, 1] for index in range(count)]
    passes = [ev.Gaussian(0.5 + 0.01 * index) for index in range(count // 10)]
    truth = at_most(ev.Compose(tuple(passes)))
    result = run({**ZEROED, "schedule.phases": phases, "claim.epsilon": truth}, OF_PHASES)
    assert at_least(ev.Poisson(1 / 11, ev.Gaussian(0.5))) - 1e-6 <= lower(result) <= truth
    assert result.verdict in ("unproven", "holds")


def test_phases_within_a_pass_spend_its_rho_once() -> None:
    phases = [[0.5 + 0.001 * index, 0.1, 1] for index in range(10)]
    result = run({**ZEROED, "schedule.phases": phases, "claim.rho": 2.0}, OF_PHASES)
    assert lower(result) == pytest.approx(1.0 / (2.0 * 0.5**2))
    assert result.verdict != "false"


def test_every_pass_shows_a_record_whatever_phases_divide_it() -> None:
    """Three passes of two phases each: no less than one release in eleven of each pass.

    A tenth may be the rate of a loader that drops what ten batches leave over.
    """
    phases = [[1.0, 0.1, 5], [1.001, 0.1, 5]] * 3
    result = run({**ZEROED, "schedule.phases": phases}, OF_PHASES)
    shown = ev.Repeat(3, ev.Poisson(1 / 11, ev.Gaussian(1.0)))
    assert at_least(shown) - 1e-3 <= lower(result)


def test_a_schedule_of_many_phases_says_that_its_loader_goes_on() -> None:
    """A loader that starts anew in each of 101 steps brings every record 101 times."""
    phases = [[9.0 + 0.01 * index, 0.5, 1] for index in range(101)]
    result = run({**ZEROED, "schedule.phases": phases}, OF_PHASES)
    anew = ev.Repeat(101, ev.Poisson(0.5, ev.Gaussian(10.0)))
    said = any("not started anew" in sentence for sentence in result.conditions)
    assert said or upper(result) >= at_least(anew)
    few = run({**ZEROED, "schedule.phases": phases[:2]}, OF_PHASES)
    assert not any("not started anew" in sentence for sentence in few.conditions)
