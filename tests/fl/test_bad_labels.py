"""Bad labels: the shares that were asked for, all else untouched, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.data.bad_labels import with_bad_labels
from privplan.fl.data.federation import Federation
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.run_data import federation_of

from ..cases import for_each


def federation(silos: int = 20, records: int = 50) -> Federation:
    silo = np.repeat(np.arange(silos), records)
    return Federation(
        name="small",
        task="multiclass",
        classes=10,
        users=len(silo),
        silos=silos,
        features=np.arange(len(silo), dtype=np.float32)[:, None],
        labels=np.arange(len(silo)) % 10,
        user=np.arange(len(silo)),
        silo=silo,
        test_features=np.zeros((3, 1)),
        test_labels=np.array([1, 2, 3]),
    )


def changed(before: Federation, after: Federation) -> np.ndarray:
    """Return how many labels differ in each silo."""
    return np.bincount(
        before.silo, weights=before.labels != after.labels, minlength=before.silos
    ).astype(int)


def test_so_many_silos_have_bad_labels_and_the_others_have_none() -> None:
    good = federation()
    bad = with_bad_labels(good, 0.3, 1.0, np.random.default_rng(0))
    counts = changed(good, bad)
    assert (counts > 0).sum() == 6
    # 300 labels uniform over ten: 270 differ, and a standard deviation is 5.2.
    assert abs(counts.sum() - 270) < 5 * 5.2
    drawn = bad.labels[np.isin(bad.silo, np.flatnonzero(counts))]
    assert np.bincount(drawn, minlength=10).min() > 10
    assert (bad.features == good.features).all()
    assert (bad.silo == good.silo).all()
    assert (bad.test_labels == good.test_labels).all()


def test_a_share_of_their_records_is_drawn_anew() -> None:
    good = federation()
    half = changed(good, with_bad_labels(good, 1.0, 0.5, np.random.default_rng(1)))
    assert half.max() <= 25
    assert half.min() > 15
    for nothing in ((0.0, 1.0), (1.0, 0.0)):
        unchanged = with_bad_labels(good, *nothing, np.random.default_rng(1))
        assert (unchanged.labels == good.labels).all()


def test_the_seed_of_the_data_decides() -> None:
    def labels(seed: int, **keys: object) -> np.ndarray:
        given = {
            "run": {"system": "fedavg", "rounds": 1},
            "data": {"name": "digits", "users": 100, "silos": 20, "seed": seed, **keys},
        }
        return federation_of(Configuration.of(given).settings)[0].labels

    shares = {"bad_silos": 0.5, "bad_labels": 0.5}
    assert (labels(3, **shares) == labels(3, **shares)).all()
    assert 0.1 < (labels(3, **shares) != labels(3)).mean() < 0.35
    moved = [labels(seed, **shares) != labels(seed) for seed in (3, 4)]
    assert (moved[0] != moved[1]).any()


@for_each("shares", [(-0.1, 0.5), (0.5, 1.1), (float("nan"), 0.5), ("all", 0.5)])
def test_shares_out_of_range_are_refused(shares: tuple) -> None:
    with pytest.raises(InvalidInput, match="bad_"):
        with_bad_labels(federation(), *shares, np.random.default_rng(0))


def test_times_and_events_have_no_bad_labels() -> None:
    survival = Federation(
        name="small",
        task="survival",
        classes=1,
        users=2,
        silos=1,
        features=np.zeros((4, 1)),
        labels=np.ones((4, 2), np.float32),
        user=[0, 0, 1, 1],
        silo=[0, 0, 0, 0],
        test_features=np.zeros((1, 1)),
        test_labels=np.ones((1, 2), np.float32),
    )
    with pytest.raises(InvalidInput, match="no class labels"):
        with_bad_labels(survival, 0.5, 0.5, np.random.default_rng(0))


@for_each(
    ("data", "match"),
    [
        ({"bad_silos": 0.5}, "lacks `bad_labels`"),
        ({"bad_labels": 0.5}, "lacks `bad_silos`"),
        ({"bad_silos": 0.5, "bad_labels": 1.5}, "bad_labels"),
        ({"bad_silos": 0.5, "bad_labels": 0.5, "name": "emnist", "path": "x"}, "measures nothing"),
        ({"allocation": "classes-1", "labels_per_user": 2}, "with `labels_per_user`"),
        ({"allocation": "classes-3"}, "Did you mean"),
        ({"name": "ratings", "path": "u.data", "users": 9, "bad_silos": 0.1}, "ratings"),
    ],
)
def test_a_configuration_that_contradicts_itself_is_refused(data: dict, match: str) -> None:
    given = {"run": {"system": "fedavg"}, "data": {"name": "digits", **data}}
    with pytest.raises(InvalidInput, match=match):
        Configuration.of(given)
