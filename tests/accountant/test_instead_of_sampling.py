"""What a refusal of a sample advises must hold: its number is not below what is attained."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom, norm

from privplan import account
from privplan.accountant import events as ev
from privplan.accountant.errors import Unsupported

from ..cases import for_each

RUN = ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(12, (1.0, 0.5)), ev.SeparatedParticipation(3, 4))
NOTHING = ev.Compose([])
OTHERS = [
    RUN,
    ev.MatrixGaussian(2.0, ev.ToeplitzStrategy(12, (1.0, 0.5)), ev.BallsInBins(4)),
    ev.Compose([ev.Gaussian(1.0), ev.Laplace(5.0)]),
    NOTHING,
    ev.GaussianMixture(1.0, (0.0, 1.0), (0.5, 0.5)),
    ev.BestOf("geometric", 2.0, ev.Gaussian(1.0)),
    ev.TruncatedDiscreteGaussian(2.0, 1, 40),
    ev.ZCDP(0.1),
]
ANSWERED = (ev.ZCDP, ev.Compose, ev.TruncatedDiscreteGaussian)
"""Releases of which some engine knows some of these samples under some relation."""

RELATIONS = ("add-remove", "replace-one", "zero-out")


def _refusal(event: ev.Event, relation: str, engine: str | None = None) -> Unsupported | None:
    try:
        account(event, delta=1e-5, neighbours=relation, engine=engine)
    except Unsupported as refusal:
        return refusal
    return None


def test_a_unit_that_is_drawn_several_times_counts_as_a_group() -> None:
    # C x moves by the columns 0, 4, 8 of C, whose squares add up to 3.75.  A unit is drawn
    # J ~ Bin(10, 1/100) times; others are at -1, and it is at +1, or at -1 as they are.
    shift, noise, delta = 2.0 * math.sqrt(3.75), 2.0, 1e-5
    x = np.arange(-60.0, 120.0, 0.01)
    weights = binom.pmf(np.arange(11), 10, 0.01)
    present = sum(w * norm.pdf(x, j * shift, noise) for j, w in enumerate(weights))
    absent = norm.pdf(x, 0.0, noise)

    def hockey_stick(epsilon: float) -> float:
        return float(np.maximum(present - math.exp(epsilon) * absent, 0.0).sum() * 0.01)

    # One record, replaced, would say 9.61, and more than that is attained.
    once = account(RUN, delta=delta, neighbours="replace-one").epsilon.upper
    assert hockey_stick(once) > delta
    refusal = _refusal(ev.WithReplacement(10, 100, RUN), "replace-one")
    assert refusal is not None
    assert "with replacement of `matrix-gaussian`" in refusal.what
    assert "group of 10" in refusal.next_step
    assert "under replace-one" in refusal.next_step
    advised = account(ev.Group(10, RUN), delta=delta, neighbours="replace-one").epsilon.upper
    assert hockey_stick(advised) < delta


def test_a_unit_that_joins_a_full_sample_counts_as_a_replaced_one() -> None:
    # 10 of 10 others join at rate 1, and the sample is cut to 10 of 11: with the unit (at +1)
    # drawn, in 10 of 11 cases, one of the others (at -1) is left out.
    shift, noise, delta = 2.0 * math.sqrt(3.75), 2.0, 1e-5
    x = np.arange(-60.0, 60.0, 0.01)
    absent = norm.pdf(x, 0.0, noise)
    present = (absent + 10.0 * norm.pdf(x, shift, noise)) / 11.0

    def hockey_stick(epsilon: float) -> float:
        return float(np.maximum(present - math.exp(epsilon) * absent, 0.0).sum() * 0.01)

    once = account(RUN, delta=delta).epsilon.upper
    assert hockey_stick(once) > delta
    refusal = _refusal(ev.TruncatedPoisson(1.0, 10, 11, RUN), "add-remove")
    assert refusal is not None
    assert "truncated Poisson sampling of `matrix-gaussian`" in refusal.what
    assert "under replace-one" in refusal.next_step
    replaced = account(RUN, delta=delta, neighbours="replace-one").epsilon.upper
    assert hockey_stick(replaced) < delta


@for_each("engine", [None, "rdp", "pld"])
@for_each("relation", RELATIONS)
@for_each("inner", OTHERS)
def test_a_refusal_names_the_sampler_and_what_is_sampled(
    inner: ev.Event, relation: str, engine: str | None
) -> None:
    for sample, name in (
        (ev.WithReplacement(5, 10, inner), "draws with replacement"),
        (ev.FixedSize(5, 10, inner), "fixed-size sampling"),
        (ev.TruncatedPoisson(0.1, 5, 10, inner), "truncated Poisson sampling"),
    ):
        refusal = _refusal(sample, relation, engine)
        if refusal is None:
            assert isinstance(inner, ANSWERED)
        elif inner == NOTHING:
            assert "an empty composition has no meaning" in refusal.what
        else:
            assert f"{name} of `" in refusal.what
            assert any(f"`{each}`" in refusal.what for each in _types(inner))
        if refusal is not None and name != "fixed-size sampling":
            assert "a sample reveals no more" not in str(refusal.unforced())


def _types(inner: ev.Event) -> tuple[str, ...]:
    parts = inner.events if isinstance(inner, ev.Compose) else ()
    return (inner.type, *(part.type for part in parts))


def test_one_draw_is_no_group() -> None:
    refusal = _refusal(ev.WithReplacement(1, 10, RUN), "add-remove")
    assert refusal is not None
    assert "group" not in refusal.next_step
    assert "under replace-one" in refusal.next_step


def test_a_release_that_says_how_many_units_it_holds_is_not_taken_off_a_cut_sample() -> None:
    inside = ev.ClientSampled(0.5, ev.FixedSize(2, 5, ev.Gaussian(1.0)))
    refusal = _refusal(ev.TruncatedPoisson(0.1, 5, 10, inside), "add-remove")
    assert refusal is not None
    assert "without sampling" not in refusal.next_step
