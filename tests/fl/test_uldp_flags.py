"""Which records take part in ULDP-GROUP: each silo knows it from its own records alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from privplan.accountant.errors import InvalidInput
from privplan.fl.data.federation import Federation
from privplan.fl.uldp.record_flags import caps, records_taking_part

from ..cases import for_each

USERS, MOST = 2, 3
"""Users of the small federations, and the most records of one in one silo."""


def federation_of(counts: NDArray[np.int64]) -> Federation:
    """Return a federation with these counts (users, silos), its records in one public order."""
    users, silos = counts.shape
    pairs = list(itertools.product(range(users), range(silos)))
    times = [int(counts[pair]) for pair in pairs]
    user, silo = (np.repeat([pair[axis] for pair in pairs], times) for axis in (0, 1))
    return Federation(
        name="counted",
        task="binary",
        classes=2,
        users=users,
        silos=silos,
        features=np.zeros((len(user), 1), np.float32),
        labels=np.zeros(len(user), np.int64),
        user=user.astype(np.int64),
        silo=silo.astype(np.int64),
        test_features=np.zeros((1, 1), np.float32),
        test_labels=np.zeros(1, np.int64),
        absent_users=True,
        empty_silos=True,
    )


def every_federation(silos: int) -> Iterator[NDArray[np.int64]]:
    """Yield every table of counts of two users, up to `MOST` records in a silo."""
    for cells in itertools.product(range(MOST + 1), repeat=USERS * silos):
        yield np.array(cells, np.int64).reshape(USERS, silos)


def flags_of(counts: NDArray[np.int64], most: int, seed: int) -> dict[tuple[int, int], bytes]:
    """Return the flags of each user's records in each silo."""
    federation = federation_of(counts)
    flags = records_taking_part(federation, most, seed)
    return {
        (user, silo): flags[(federation.user == user) & (federation.silo == silo)].tobytes()
        for user, silo in np.ndindex(counts.shape)
    }


@for_each(("most", "seed"), [(1, 0), (2, 0), (3, 7)])
def test_the_flags_of_a_silo_are_a_function_of_what_it_holds(most: int, seed: int) -> None:
    """Whatever the user has elsewhere, and whatever other users have: by exhaustion."""
    known: dict[tuple[int, int, int], bytes] = {}
    for counts in every_federation(silos=2):
        taking_part = np.zeros(USERS, np.int64)
        for (user, silo), flags in flags_of(counts, most, seed).items():
            assert known.setdefault((user, silo, int(counts[user, silo])), flags) == flags
            taking_part[user] += sum(flags)
        assert (taking_part <= most).all()
    assert {sum(flags) for flags in known.values()} >= {0, 1}


def test_flags_are_the_same_whatever_lies_elsewhere_and_whoever_goes() -> None:
    """Flags that were drawn from all records of a user told its silo how many these are."""
    for seed in range(50):
        alone = flags_of(np.array([[1, 0], [1, 1]]), 2, seed)[0, 0]
        for elsewhere in range(1, 10):
            assert flags_of(np.array([[1, elsewhere], [0, 2]]), 2, seed)[0, 0] == alone
    rng = np.random.default_rng(3)
    federation = federation_of(rng.integers(0, 6, (5, 3)))
    flags = records_taking_part(federation, 4, 1)
    for user in range(5):
        fewer = federation.without(user)
        assert np.array_equal(records_taking_part(fewer, 4, 1), flags[federation.user != user])


@for_each(("silos", "most"), [(1, 2), (3, 2), (4, 4), (5, 2), (5, 7), (7, 20)])
def test_caps_sum_to_what_a_user_may_have_and_are_dealt_to_every_silo(
    silos: int, most: int
) -> None:
    found = caps(np.arange(500), silos, most, seed=11)
    assert (found.sum(axis=1) == most).all()
    assert found.max() - found.min() <= 1
    # Each silo has its share of the users: 500 of them, five standard errors.
    share = most / silos
    assert np.abs(found.mean(axis=0) - share).max() < 5 * np.sqrt(0.25 / 500)


def test_caps_and_flags_are_public_and_of_a_seed() -> None:
    counts = np.full((4, 3), 5)
    assert np.array_equal(caps(np.arange(4), 3, 4, seed=1), caps(np.arange(4), 3, 4, seed=1))
    assert flags_of(counts, 4, 1) == flags_of(counts, 4, 1)
    assert flags_of(counts, 4, 1) != flags_of(counts, 4, 2)
    with pytest.raises(InvalidInput, match="most"):
        caps(2, 2, 0, seed=0)


def test_each_record_of_a_silo_is_chosen_equally_often() -> None:
    counts = np.array([[5, 0]])
    total = np.zeros(5)
    for seed in range(2_000):
        total += np.frombuffer(flags_of(counts, 4, seed)[0, 0], bool)
    # 2 of 5, 2,000 times: five standard errors.
    assert np.abs(total / 2_000 - 0.4).max() < 5 * np.sqrt(0.24 / 2_000)


def test_the_dropout_of_a_silos_record_tells_of_none_elsewhere() -> None:
    """A mask that was named by a record's place among all of its user's would give N_u away."""
    pytest.importorskip("torch")
    from types import SimpleNamespace

    from privplan.fl.models import model_named
    from privplan.fl.training.local_training import TorchLocalTraining

    settings: Any = SimpleNamespace(
        run=SimpleNamespace(device="cpu"),
        training=SimpleNamespace(seed=0, local_rate=0.1, local_epochs=1, batch=4),
    )
    found = []
    for elsewhere in (0, 1, 2, 5):
        federation = federation_of(np.array([[elsewhere, 1], [1, 1]]))
        (record,) = np.flatnonzero((federation.user == 0) & (federation.silo == 1))
        local = TorchLocalTraining(settings, federation, model_named("mlp", 1, 2, dropout=0.5))
        models = np.tile(local.initial(), (2, 1))
        found.append([local.record_gradients(models, np.array([record]), 1)[0] for _ in range(2)])
    assert all(np.array_equal(one, found[0]) for one in found)
    assert np.abs(found[0]).max() > 0.0
