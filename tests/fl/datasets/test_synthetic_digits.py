"""Generated digits: always the same, as many as promised, with the moments of the bundled ones."""

from __future__ import annotations

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.datasets import federate, load
from privplan.fl.datasets.synthetic_digits import synthetic_digits

datasets = pytest.importorskip("sklearn.datasets")


def test_it_needs_no_path_and_is_always_the_same() -> None:
    data = load("synthetic-digits")
    assert data.features.shape == (60_000, 64)
    assert data.test_features.shape == (10_000, 64)
    assert load("synthetic-digits", rng=np.random.default_rng(9)).digest == data.digest
    assert (data.features.min(), data.features.max()) == (0.0, 1.0)
    with pytest.raises(InvalidInput, match="takes no `path`"):
        load("synthetic-digits", "somewhere")
    dealt = federate(data, 60_000, 100, "uniform", np.random.default_rng(0))
    assert (np.bincount(dealt.silo) == 600).all()


def test_each_digit_has_the_mean_of_the_bundled_one() -> None:
    """But for what is clipped at 0 and 16: of a variable that is mostly inside, little."""
    features, labels = synthetic_digits(20_000, seed=2)
    pixels, digit = datasets.load_digits(return_X_y=True)
    assert np.bincount(labels).min() > 1_800
    for label in range(10):
        known, made = pixels[digit == label], features[labels == label]
        inside = (known.mean(axis=0) > 2.5 * known.std(axis=0)) & (
            known.mean(axis=0) + 2.5 * known.std(axis=0) < 16.0
        )
        off = np.abs(known.mean(axis=0) - made.mean(axis=0))[inside]
        # The mean of 1,800 draws: five of its standard deviations, and what was clipped.
        assert (off < 5.0 * known.std(axis=0)[inside] / np.sqrt(len(made)) + 0.05).all()
