"""Canaries of the other designs of FedPower: the planner, one release, the published algorithms."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.canaries import rehearse
from privplan.fl.fedpower.canaries import RehearsedRemoval
from privplan.fl.fedpower.utility import FedPowerUtility

from ..cases import for_each
from .rehearsals import fedpower, require_as_claimed, sides

AGGREGATION = {"fedpower-utility": "masked", "fedpower-private": "masked"}


def rehearsed(system, observer="model", **more):
    security = {"aggregation": AGGREGATION.get(system, "plain")}
    own = fedpower(system, silos=3, security=security, noise_multiplier=1.0, **more)
    return rehearse(own, canaries=100, observer=observer, seed=1)


def spread(found):
    return np.concatenate(sides(found), axis=1).std()


@for_each("observer", ["model", "server"])
@for_each(
    "system",
    ["fedpower", "fedpower-one-shot", "fedpower-original", "fedpower-utility", "fedpower-private"],
)
def test_a_row_is_seen_as_it_moves_what_is_released(system, observer):
    found = rehearsed(system, observer)
    require_as_claimed(found)
    event = found.event.event if hasattr(found.event, "event") else found.event
    claimed = 1.0 / event.noise_multiplier
    # A row of a Gram release is looked for twice, each time at a part of it.
    moved = found.shift * math.sqrt(found.looks)
    assert claimed * (1.0 - 1e-5) < moved <= claimed * (1.0 + 1e-9)


def test_a_removal_that_takes_all_noise_off_shows_in_the_sum():
    """The deviation of what is seen falls to 0, where that of one node is 1."""

    class Everything(RehearsedRemoval):
        def removed(self, number, noises, *, largest):
            del number, largest
            self.taken = np.sum([noise() for noise in noises], axis=0, dtype=np.int64)
            return self.taken

    kept = FedPowerUtility.remove_noise_by

    def remove(self, remover):
        remover.__class__ = Everything
        kept(self, remover)

    with mock.patch.object(FedPowerUtility, "remove_noise_by", remove):
        assert spread(rehearsed("fedpower-utility")) < 0.05
    assert spread(rehearsed("fedpower-utility")) == pytest.approx(1.0, abs=0.2)


@for_each("observer", ["client", "silo"])
def test_who_may_know_the_noise_is_not_rehearsed_with(observer):
    with pytest.raises((InvalidInput, Unsupported), match="rehearsed"):
        rehearsed("fedpower-utility", observer)


def test_a_planned_power_iteration_is_rehearsed_by_its_own_name():
    with pytest.raises(Unsupported, match="multiplies in rounds") as caught:
        rehearsed("fedpower", table={"design": "power"})
    assert "fedpower-power" in caught.value.next_step


def test_one_node_stays_and_all_others_are_taken_off():
    removal = RehearsedRemoval(np.random.default_rng(3))
    noises = [np.array([1, -5]), np.array([10, 20]), np.array([100, 7])]
    total = sum(noises)
    stayed = set()
    for number in range(60):
        taken = removal.removed(number, [lambda n=noise: n for noise in noises], largest=200)
        left = (total - taken).tolist()
        assert left in [noise.tolist() for noise in noises]
        stayed.add(tuple(left))
    # Of 60 draws from 3 one is missing with probability 3 (2/3)^60 < 1e-9.
    assert len(stayed) == 3
    assert math.isclose(removal.taken.sum(), taken.sum())
