"""Stated events compared with those that the facts support."""

from __future__ import annotations

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import RoundIntent, Sampling
from privplan.audit.derivation.event_order import compared, covers, weaker_of

from ..cases import for_each
from .ledgers import DELTA, SIGMA, Records, changed, epsilon, evidence, intents, upper, weighted

# --- comparing events ---------------------------------------------------------------------------

G = ev.Gaussian


@for_each(
    ("stated", "supported", "verdict"),
    [
        (G(5.0), G(5.0), "same"),
        (G(5.0 * (1 + 1e-12)), G(5.0), "same"),
        (G(4.0), G(5.0), "weaker"),
        (G(6.0), G(5.0), "stronger"),
        (ev.Repeat(1, G(5.0)), G(5.0), "same"),
        (ev.Repeat(2, G(5.0)), G(5.0), "weaker"),
        (G(5.0), ev.Repeat(2, G(5.0)), "stronger"),
        (ev.Compose((G(5.0), G(5.0))), ev.Repeat(2, G(5.0)), "same"),
        (ev.Poisson(1.0, G(5.0)), G(5.0), "same"),
        (G(5.0), ev.Poisson(0.1, G(5.0)), "weaker"),
        (ev.Poisson(0.1, G(5.0)), G(5.0), "stronger"),
        (ev.Poisson(0.2, G(5.0)), ev.Poisson(0.1, G(5.0)), "weaker"),
        (ev.Poisson(0.2, G(6.0)), ev.Poisson(0.1, G(5.0)), "different"),
        (ev.Laplace(5.0), G(5.0), "different"),
        (ev.NoGuarantee("x"), G(5.0), "weaker"),
        (G(5.0), ev.NoGuarantee("x"), "stronger"),
        (
            ev.TruncatedPoisson(0.1, 9, 50, G(5.0)),
            ev.TruncatedPoisson(0.1, 5, 50, G(5.0)),
            "different",
        ),
        (ev.FixedSize(6, 50, G(5.0)), ev.FixedSize(5, 50, G(5.0)), "weaker"),
        (ev.Group(3, G(5.0)), ev.Group(2, G(5.0)), "weaker"),
    ],
)
def test_events_are_compared_by_shape(stated: ev.Event, supported: ev.Event, verdict: str) -> None:
    assert compared(stated, supported) == verdict
    kept = weaker_of(stated, supported)
    assert kept == (stated if verdict == "weaker" or stated == supported else kept)
    if verdict == "stronger":
        assert kept == supported
    joined = ev.Poisson(0.2, G(5.0))  # the higher rate of one, the smaller noise of the other
    assert verdict != "different" or kept in (supported, joined)
    assert covers(kept, supported, 0.0) or compared(stated, supported) == "same"


POOL = [
    G(5.0),
    G(4.0),
    ev.Repeat(3, G(5.0)),
    ev.Poisson(0.1, G(5.0)),
    ev.Poisson(0.3, G(4.0)),
    ev.Repeat(2, ev.Poisson(0.3, G(4.0))),
    ev.FixedSize(5, 50, G(4.0)),
    ev.FixedSize(10, 50, G(4.0)),
    ev.Laplace(2.0),
    ev.Laplace(3.0),
    ev.Pure(0.5),
    ev.Exponential(0.5),
    ev.ZCDP(0.02),
    ev.ZCDP(0.03),
    ev.Group(2, G(5.0)),
    ev.TruncatedPoisson(0.1, 8, 50, G(4.0)),
]


def test_what_covers_costs_no_less() -> None:
    for weak in POOL:
        for strong in POOL:
            if covers(weak, strong, 0.0):
                assert epsilon(weak, "replace-one") >= epsilon(strong, "replace-one") * (1 - 1e-3)


def test_intents_are_what_they_are() -> None:
    """The helper writes what the mechanisms write, so these tests are about real logs."""
    (own,) = {type(record) for record in weighted(1)[1:2]}
    assert own is RoundIntent


def spent(records: Records) -> float:
    """Return what the rounds that were made come to, without what is left of a plan."""
    return evidence(records).total("model").upper


@for_each("noise", [SIGMA, 4.9, 5.1])
def test_a_sample_beside_an_event_without_one_is_not_counted(noise: float) -> None:
    """Facts with a sample, put beside rounds that count on none: .004 was counted where 8 is."""
    plain = weighted(rounds=20)
    edited = intents(sampling=Sampling("poisson", "user", 1e-4, "shared-secret"))(plain)
    found = spent(changed(edited, RoundIntent, event=ev.Gaussian(noise)))
    least = ev.Repeat(20, ev.Gaussian(min(noise, SIGMA)))
    assert found == pytest.approx(pp.account(least, delta=DELTA).epsilon.upper, rel=1e-6)
    assert found >= upper(plain) * (1.0 - 1e-9)


@for_each("rate", [0.05, 0.5])
@for_each("noise", [4.0, 6.0])
def test_parts_that_differ_are_counted_at_their_weaker(rate: float, noise: float) -> None:
    stated = ev.Poisson(rate, ev.Gaussian(noise))
    found = spent(changed(weighted(rate=0.1), RoundIntent, event=stated))
    both = ev.Repeat(20, ev.Poisson(max(rate, 0.1), ev.Gaussian(min(noise, SIGMA))))
    assert found == pytest.approx(pp.account(both, delta=DELTA).epsilon.upper, rel=1e-6)
