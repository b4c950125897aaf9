"""The planned mode of the odometer: releases in their order, and nothing else."""

from __future__ import annotations

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import Phase

# The planned mode.


def small_plan():
    return pp.plan(
        [
            Phase("clip", ev.Gaussian, 2, observer=("model", "server")),
            Phase("train", lambda noise: ev.Poisson(0.1, ev.Gaussian(noise)), 30),
        ],
        epsilon=2.0,
        delta=1e-5,
    )


def test_a_plan_is_followed_in_order_and_then_over():
    plan = small_plan()
    odometer = Odometer.for_plan(plan)
    clip, train = (phase.event for phase in plan.phases)
    assert odometer.mode == "planned"
    assert odometer.would_exceed(train)
    assert not odometer.would_exceed(clip)
    with pytest.raises(BudgetExceeded, match="not the next one"):
        odometer.spend(train)
    assert odometer.remaining_rounds(clip) == 2
    odometer.spend(clip)
    with pytest.raises(BudgetExceeded):
        odometer.spend(ev.Repeat(2, clip))
    with pytest.raises(BudgetExceeded):
        odometer.spend(ev.Gaussian(clip.noise_multiplier * 2))  # more noise is not the plan either
    odometer.spend(clip)
    assert odometer.remaining_rounds(clip) == 0
    assert odometer.remaining_rounds(train) == 30
    odometer.spend(ev.Repeat(29, train))
    odometer.spend(train)
    assert odometer.remaining_rounds(train) == 0
    with pytest.raises(BudgetExceeded, match="carried out"):
        odometer.spend(train)


def test_a_plan_is_read_tightly_and_guaranteed_as_a_whole():
    plan = small_plan()
    odometer = Odometer.for_plan(plan)
    whole = odometer.spent("model")
    assert whole.epsilon == plan.guarantees["model"].epsilon
    assert whole.derivation[0].statement.startswith("Planned mode:")
    assert odometer.spent() == whole
    assert odometer.spent("server").epsilon.upper < whole.epsilon.upper
    last = odometer.reading("model")
    assert (last.epsilon, last.share) == (0.0, 0.0)
    for phase in plan.phases:
        odometer.spend(ev.Repeat(phase.rounds, phase.event))
        now = odometer.reading("model")
        assert now.epsilon > last.epsilon
        assert now.share > last.share
        assert "not a guarantee" in now.note
        last = now
        assert odometer.spent("model") == whole
    assert last.share == 1.0
    assert last.epsilon == whole.epsilon.upper
    assert odometer.reading("server").epsilon == odometer.spent("server").epsilon.upper


def test_a_plan_leaves_no_choice_of_observers_or_units():
    plan = small_plan()
    odometer = Odometer.for_plan(plan)
    for given in ({"observers": ["model"]}, {"units": ["ann"]}):
        with pytest.raises(InvalidInput, match="plan"):
            odometer.spend(plan.phases[0].event, **given)
    with pytest.raises(InvalidInput, match="plan"):
        odometer.reading(unit="ann")
