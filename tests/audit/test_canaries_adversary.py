"""Canaries against whoever looks for what they get wrong."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from privplan import account
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gaussian
from privplan.accountant.sensitivity.release import root_up
from privplan.audit.canaries import claim_tier, rehearse, robust_tier

from ..cases import for_each
from .rehearsals import settings

MASKED = {"aggregation": "masked", "dropouts": 1}

FAR = 4.9
"""Standard errors: a sound mean or variance is further off once in a million tests."""


@for_each("observer", ["model", "server", "silo"])
def test_silos_are_missing_from_a_rehearsal_where_the_noise_allows_for_it(observer):
    """With all of them the noise is more than is claimed, and shows less than could be seen."""
    own = settings("uldp-sgd", rounds=3, training={"weighting": "records"}, security=MASKED)
    found = rehearse(own, canaries=2000, observer=observer, seed=1)
    out, into = found.observations[:, ~found.coins], found.observations[:, found.coins]
    assert out.std() == pytest.approx(1.0, abs=FAR / (2.0 * out.size) ** 0.5)
    assert into.mean() == pytest.approx(found.shift, abs=FAR / into.size**0.5)
    assert any("missing from every round" in one for one in found.note)
    if observer != "silo":
        assert found.shift == pytest.approx(1.0 / found.event.event.noise_multiplier, rel=1e-9)


def test_noise_that_does_not_pay_for_missing_silos_is_caught(monkeypatch):
    own = settings("uldp-sgd", rounds=6, training={"weighting": "records"}, security=MASKED)
    assert not claim_tier(rehearse(own, canaries=5000, seed=1)).contradicted
    unpaid = property(lambda self: root_up(Fraction(self.std) ** 2 / self.shares))
    monkeypatch.setattr(Gaussian, "share_std", unpaid)
    assert claim_tier(rehearse(own, canaries=5000, seed=1)).contradicted


@for_each("observer", ["model", "silo"])
def test_no_silo_is_missing_where_more_would_be_lost_of_the_weights_than_of_the_noise(observer):
    own = settings(rounds=2, training={"weighting": "uniform"}, security=MASKED)
    found = rehearse(own, canaries=2000, observer=observer, seed=2)
    into, out = found.observations[:, found.coins], found.observations[:, ~found.coins]
    assert into.mean() == pytest.approx(found.shift, abs=FAR / into.size**0.5)
    assert out.std() == pytest.approx(1.0, abs=FAR / (2.0 * out.size) ** 0.5)
    # 4 shares, each made for 3: the sum has 4/3 of the variance, and a silo sees 3 of them.
    seen = {"model": (3 / 4) ** 0.5 / 2.0, "silo": (3 / 4) / 2.0}
    assert found.shift == pytest.approx(seen[observer], rel=1e-9)
    assert any("more noise than is claimed" in one for one in found.note)


def test_more_canaries_than_can_be_kept_are_refused_before_anything_is_made():
    for canaries, rounds in ((10**15, None), (10**8, 3)):
        with pytest.raises(InvalidInput, match="at most 200,000,000"):
            rehearse(settings(), canaries=canaries, rounds=rounds)


@for_each("seed", [-1, 1.5, "a"])
def test_a_seed_is_an_integer_from_0(seed):
    with pytest.raises(InvalidInput, match="seed"):
        rehearse(settings(), canaries=10, seed=seed)
    with pytest.raises(InvalidInput, match="seed"):
        claim_tier(rehearse(settings(), canaries=300, seed=1), seed=seed)


def test_what_is_said_is_a_bound_as_the_number_is():
    """Epsilon is rounded down, and the noise that is refuted up."""
    for seed in range(6):
        seen = rehearse(settings(rounds=8), canaries=600, seed=seed)
        claim, robust = claim_tier(seen), robust_tier(seen)
        _, curve, anyway = map(float, re.findall(r"\d+\.\d+", robust.proves))
        assert curve <= robust.value
        assert anyway <= robust.sample["epsilon of any mechanism"]
        (factor,) = map(float, re.findall(r"\d+\.\d+", claim.proves))
        assert factor >= claim.sample["noise factor"]


def test_a_claim_that_no_count_contradicts_is_not_answered_with_a_number_of_canaries():
    own = rehearse(settings(noise_multiplier=0.05), canaries=300, seed=1)
    assert own.claimed is not None
    with pytest.raises(InvalidInput, match="No number of canaries"):
        claim_tier(own)
    assert robust_tier(own).value > 0.0


def test_what_is_published_of_all_rounds_is_not_claimed_of_fewer():
    own = settings("uldp-naive", noise_multiplier=3.0, uldp={"as_published": True})
    whole, part = (rehearse(own, canaries=60, seed=1, rounds=rounds) for rounds in (None, 1))
    assert part.event == ev.Gaussian(3.0)
    assert part.claimed == account(part.event, delta=part.delta).epsilon.upper
    assert part.claimed < whole.claimed
