"""Schedules of many phases: few classes bound them, and nothing waits for thousands."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.accountant.guarantee import Bounds
from privplan.audit.check.check_result import CheckResult
from privplan.audit.check.checking import check_readings
from privplan.audit.check.phase_classes import LONGEST_PHASE, MANY, PHASE_CLASSES, ends_of
from privplan.audit.description.run_description import Phase
from privplan.audit.description.run_settings import RunSettings
from privplan.audit.description.tables import reading_of_names
from privplan.audit.reproduction.reproduction import FEW_PHASES, with_few_phases

from ..cases import for_each

DELTA = 1e-5


def composed(phases: tuple[Phase, ...]) -> Bounds:
    parts = [
        ev.Repeat(phase.steps, ev.Poisson(phase.rate, ev.Gaussian(phase.noise_multiplier)))
        for phase in phases
    ]
    return account(ev.Compose(tuple(parts)), delta=DELTA, neighbours="add-remove").epsilon


def scheduled(count: int, *, rates: bool) -> tuple[Phase, ...]:
    rng = np.random.default_rng(5)
    noise = 2.0 * 0.2 ** (np.arange(count) / count) * rng.uniform(0.9, 1.1, count)
    rate = 0.01 * (1.0 + 0.3 * np.sin(np.arange(count))) if rates else np.full(count, 0.01)
    steps = rng.integers(1, 6, count)
    return tuple(map(Phase, noise.tolist(), rate.tolist(), steps.tolist()))


@for_each("rates", [False, True])
def test_classes_enclose_the_schedule(rates: bool) -> None:
    phases = scheduled(250, rates=rates)
    exact, ends = composed(phases), ends_of(phases, in_passes=False)
    assert max(len(ends.upper), len(ends.lower)) <= PHASE_CLASSES
    total = sum(phase.steps for phase in phases)
    assert sum(phase.steps for phase in ends.upper) == total
    assert sum(phase.steps for phase in ends.lower) == total
    upper, lower = composed(ends.upper).upper, composed(ends.lower).lower
    assert lower <= exact.lower <= exact.upper <= upper
    assert upper - lower < (0.35 if rates else 0.05) * exact.upper


def test_every_phase_has_a_worse_and_a_better_one_for_each_of_its_steps() -> None:
    # As many steps at least as bad as each phase in the upper end, and so for the lower one.
    phases = scheduled(250, rates=True)
    ends = ends_of(phases, in_passes=False)
    for phase in phases:
        noise, rate = phase.noise_multiplier, phase.rate
        assert any(p.noise_multiplier <= noise and p.rate >= rate for p in ends.upper)
        assert any(p.noise_multiplier >= noise and p.rate <= rate for p in ends.lower)


def test_few_phases_stay_as_they_are_and_equal_ones_are_added() -> None:
    phases = scheduled(MANY, rates=True)
    assert ends_of(phases, in_passes=False).upper == phases
    assert ends_of(phases, in_passes=True).upper == phases
    many = (Phase(1.0, 0.1, 2), Phase(2.0, 0.1, 3)) * 5_000
    merged = (Phase(1.0, 0.1, 10_000), Phase(2.0, 0.1, 15_000))
    assert ends_of(many, in_passes=False).lower == merged


def test_no_noise_has_a_class_of_its_own() -> None:
    phases = (*scheduled(250, rates=False), Phase(0.0, 0.01, 7))
    ends = ends_of(phases, in_passes=False)
    assert Phase(0.0, 0.01, 7) in ends.upper
    assert Phase(0.0, 0.01, 7) in ends.lower
    assert len(ends.upper) > PHASE_CLASSES // 2


def test_a_series_of_shuffled_passes_has_passes_to_spare() -> None:
    phases = scheduled(1_000, rates=False)
    ends = ends_of(phases, in_passes=True)
    steps = sum(phase.steps for phase in phases)
    least, most = (end(p.noise_multiplier for p in phases) for end in (min, max))
    assert ends.upper == (Phase(least, 0.01, steps + 100),)
    assert ends.lower == (Phase(most, 0.01, steps - 200),)


def checked(phases: tuple[Phase, ...], method: str, claim: str = "1.28") -> CheckResult:
    said = {
        "schedule.phases": phases,
        "claim.epsilon": Decimal(claim),
        "claim.delta": DELTA,
        "sampling.method": method,
        "data.records": 60_000,
    }
    return check_readings([reading_of_names(said, "the test")])


@pytest.mark.slow
def test_a_schedule_of_thousands_of_phases_is_decided() -> None:
    phases = scheduled(5_000, rates=False)
    result = checked(phases, "poisson", "1.0")
    assert result.verdict == "false"
    assert result.causes
    assert result.proven is not None
    assert result.proven.upper < 1.1 * result.proven.lower
    assert checked(phases, "poisson", "900").verdict == "holds"


@pytest.mark.slow
@for_each("method", ["shuffled", "fixed-size", "full"])
def test_other_samplers_have_bounds_too(method: str) -> None:
    phases = scheduled(400, rates=False)
    if method == "full":  # whose rate is 1 in every step
        phases = tuple(replace(phase, rate=1.0) for phase in phases)
    bounds = checked(phases, method).proven
    assert bounds is not None
    assert 0.0 < bounds.lower < bounds.upper < math.inf


@pytest.mark.slow
def test_steps_without_end_still_prove_a_claim_false() -> None:
    said = {
        "noise.noise_multiplier": 1.1,
        "sampling.rate": 0.004,
        "schedule.steps": 10**12,
        "sampling.method": "poisson",
        "claim.epsilon": Decimal("1.28"),
        "claim.delta": DELTA,
    }
    result = check_readings([reading_of_names(said, "the test")])
    assert result.verdict == "false"
    begun = ends_of((Phase(1.1, 0.004, 10**12),), in_passes=False)
    assert begun.lower == (Phase(1.1, 0.004, LONGEST_PHASE),)
    assert begun.upper == (Phase(1.1, 0.004, 10**12),)


def test_equal_phases_are_recomputed_together_and_many_different_ones_not_at_all() -> None:
    repeated = RunSettings(phases=(Phase(1.0, 0.1, 1), Phase(2.0, 0.1, 1)) * 100, delta=DELTA)
    few = with_few_phases(repeated)
    assert few is not None
    assert few.phases == (Phase(1.0, 0.1, 100), Phase(2.0, 0.1, 100))
    two = RunSettings(phases=(*few.phases[1:], *few.phases[:1]), delta=DELTA)
    assert with_few_phases(two) == two
    assert with_few_phases(RunSettings(phases=scheduled(FEW_PHASES + 1, rates=False))) is None


def test_a_number_that_was_not_recomputed_is_not_said_to_come_from_elsewhere() -> None:
    result = checked(scheduled(120, rates=False), "poisson", "25.37")
    assert result.verdict == "holds"
    assert not result.reproduced_by
