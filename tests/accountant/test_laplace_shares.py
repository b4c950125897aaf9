"""Laplace noise of several parties: each adds all of it, and none of them may be left out."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Laplace
from privplan.accountant.records import RoundRelease

from .mechanism_tickets import LEAST_P, Memory, ticket_for

WIDE = 20_000


def parties(shares: int = 3, dimensions: int = WIDE) -> Laplace:
    return Laplace(bound=1.0, scale=0.7, dimensions=dimensions, unit="record", shares=shares)


def test_each_party_adds_all_of_the_noise_and_independently() -> None:
    mechanism = parties()
    ticket = ticket_for(mechanism)
    total = np.zeros(WIDE, np.int64)
    drawn = [mechanism.share_steps(ticket, total, name) for name in ("a", "b", "c")]
    for steps in drawn:
        assert stats.kstest(mechanism.units(steps), stats.laplace(scale=0.7).cdf).pvalue > LEAST_P
    for one, other in ((0, 1), (0, 2), (1, 2)):
        correlation = stats.pearsonr(drawn[one], drawn[other])
        assert correlation.pvalue > LEAST_P
    whole = mechanism.units(np.sum(drawn, axis=0))
    assert float(whole.std()) == pytest.approx(0.7 * np.sqrt(2 * 3), rel=0.05)


def test_what_is_stated_does_not_depend_on_how_many_they_are() -> None:
    """Nothing is credited to a sum of shares: its event is that of one."""
    one, many = parties(1), parties(5)
    for relation in ("add-remove", "replace-one"):
        assert many.event(relation) == one.event(relation) == ev.Laplace(0.7)
        assert many.sensitivity(relation) == one.sensitivity(relation)
    assert many.grid == one.grid
    noise = many.noise()
    assert (noise.shares, noise.std, noise.share_std) == (5, 0.7, 0.7)
    with pytest.raises(InvalidInput, match="shares"):
        parties(0)


def test_sums_of_groups_are_those_of_each_group() -> None:
    mechanism = parties(3, dimensions=2)
    rng = np.random.default_rng(0)
    rows, groups = rng.normal(size=(40, 2)), rng.integers(0, 3, 40)
    weights = rng.uniform(0.0, 1.0, 40)
    found = mechanism.totals(rows, groups, 3, weights)
    for group in range(3):
        here = groups == group
        assert np.array_equal(found[group], mechanism.total(rows[here], weights[here]))
    norms = np.abs(mechanism.units(mechanism.totals(100.0 * rows, np.arange(40), 40))).sum(axis=1)
    assert 0.999 < norms.min() <= norms.max() <= 1.0  # clipped in L1


def test_every_share_is_counted_once() -> None:
    mechanism, memory = parties(2, dimensions=2), Memory()
    total = np.array([3, 4])
    ticket = ticket_for(mechanism, memory=memory)
    with pytest.raises(Unsupported, match="2 noise shares; a sum has 1"):
        mechanism.noisy(ticket, total, "a")  # the whole sum has another share
    mechanism.share_steps(ticket, total, "a")
    with pytest.raises(InvalidInput, match="share of this sum already"):
        mechanism.share_steps(ticket, total, "a")
    with pytest.raises(Unsupported, match="2 noise shares; a sum has 1"):
        ticket.close(values=2)
    mechanism.share_steps(ticket, total, "b")
    with pytest.raises(Unsupported, match="1 draws"):
        mechanism.share_steps(ticket, total, "c")
    ticket.close(values=2)
    release = memory.lines[-1]
    assert isinstance(release, RoundRelease)
    assert (release.shares, release.draws) == (2, 1)


def test_a_longer_vector_and_another_mechanism_are_refused() -> None:
    mechanism = parties(2, dimensions=2)
    with pytest.raises(Unsupported, match="3 coordinates"):
        mechanism.share_steps(ticket_for(mechanism), np.zeros(3, np.int64), "a")
    with pytest.raises(Unsupported, match="another mechanism"):
        mechanism.share_steps(ticket_for(parties(3)), np.zeros(2, np.int64), "a")
