"""A data set becomes a federation: the digest, what is refused, silos of the data."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.data import normalise
from privplan.fl.datasets import Dataset, federate


def small(**changes: object) -> Dataset:
    fields = {
        "name": "small",
        "task": "binary",
        "classes": 2,
        "features": np.zeros((40, 2), np.float32),
        "labels": np.arange(40) % 2,
        "test_features": np.zeros((2, 2), np.float32),
        "test_labels": np.array([0, 1]),
        "scaling": normalise.Scaling(0.0, 1.0, 0.0, 1.0, "none"),
        "split": "made up",
        "licence": "none",
        "citation": "none",
    }
    return Dataset(**{**fields, **changes})  # type: ignore[arg-type]


def test_the_digest_sees_every_array() -> None:
    one = small()
    assert one.digest == small().digest
    assert len(one.digest) == 64
    features = np.zeros((40, 2), np.float32)
    features[3, 1] = np.nextafter(np.float32(0), np.float32(1))
    others = [
        small(features=features),
        small(labels=1 - np.arange(40) % 2),
        small(test_labels=np.array([1, 1])),
        small(silo=np.zeros(40, np.int64), silos=1),
        small(features=np.zeros((40, 2, 1), np.float32), test_features=np.zeros((2, 2, 1))),
    ]
    assert len({one.digest, *(other.digest for other in others)}) == 6


def test_a_data_set_refuses_what_is_not_finite() -> None:
    features = np.zeros((40, 2))
    features[7, 1] = np.nan
    with pytest.raises(InvalidInput, match="row 7, column 1"):
        small(features=features)


def test_free_data_are_federated_as_asked() -> None:
    rng = np.random.default_rng(0)
    made = federate(small(), 8, None, "uniform", rng)
    assert (made.users, made.silos, made.name) == (8, 5, "small")
    assert made.counts.sum(axis=1).tolist() == [5] * 8
    assert federate(small(), 8, 3, "zipf", rng).silos == 3
    one_label = federate(small(), 8, 3, "zipf", rng, labels_per_user=1)
    assert all(len(set(one_label.labels[one_label.user == user])) == 1 for user in range(8))


def test_a_silo_that_is_dealt_nothing_is_refused_in_words_of_a_configuration() -> None:
    with pytest.raises(InvalidInput, match=r'"zipf" deals the records of 2 users to 30') as caught:
        federate(small(), 2, 30, "zipf", np.random.default_rng(0))
    said = f"{caught.value.what} {caught.value.next_step}"
    for key in ("`users`", "`silos`", "[data]", 'allocation = "uniform"'):
        assert key in said
    assert "empty_silos" not in said
    assert federate(small(), 2, 30, "uniform", np.random.default_rng(0)).silos == 30


def test_silos_of_the_data_cannot_be_changed() -> None:
    rng = np.random.default_rng(0)
    data = small(silo=np.arange(40) % 4, silos=4, test_silo=np.array([1, 3]))
    made = federate(data, 8, None, "zipf", rng)
    assert (made.silo == data.silo).all()
    assert made.test_silo is not None
    assert federate(data, 8, 4, "uniform", rng).silos == 4
    with pytest.raises(InvalidInput, match="the data set small has 4"):
        federate(data, 8, 5, "uniform", rng)
    with pytest.raises(InvalidInput, match="does not apply to small"):
        federate(data, 8, None, "uniform", rng, labels_per_user=1)
