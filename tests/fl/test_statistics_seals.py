"""What a release of statistics seals: the noise as it was drawn, rows, and the sums made again."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.mechanisms import NoisyGram
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.sensitivity.gram import GramBound
from privplan.fl.statistics import exact_sums as module
from privplan.fl.statistics import noise_shown
from privplan.fl.statistics import sum_check as checks
from privplan.fl.statistics.noise_shown import normal
from privplan.fl.statistics.run_terms import EXPECTED
from privplan.fl.statistics.settings import BEYOND, CLIPPED, DROPPED, ROWS
from privplan.fl.statistics.sum_check import SumCheck

from ..cases import for_each
from .statistics_runs import UNITS, built, kept_rows, mechanism_of

ITEMS = {"residuals", "recomputed", ROWS, CLIPPED, DROPPED, BEYOND}


def sealed(run: Any, system: Any, seed: int = 1) -> dict[str, Any]:
    _, log = run(system, seed=seed)
    (items,) = log.sealed
    assert set(items) == ITEMS
    assert json.loads(json.dumps(items)) == items  # a sidecar is JSON
    return items


def test_the_terms_name_what_is_sealed_and_fewer_rows_are_none_beyond(tiny: Any, run: Any) -> None:
    system = built(tiny(records=40), most_rows=40)
    assert set(system.terms.sealed) == ITEMS
    assert EXPECTED.sealed is not None
    assert EXPECTED.sealed(lambda *_: "statistics") == {"release": system.terms.sealed}
    assert sealed(run, system)[BEYOND] == 0


@for_each("unit", UNITS)
def test_rows_are_counted(unit: str, tiny: Any, run: Any) -> None:
    federation = tiny(records=60)
    system = built(federation, unit, most_rows=50)
    items = sealed(run, system)
    assert items[ROWS] == np.bincount(federation.silo, minlength=3).tolist()
    kept = [kept_rows(system, silo) for silo in range(3)]
    assert items[DROPPED] == [
        rows - len(each) for rows, each in zip(items[ROWS], kept, strict=True)
    ]
    norms = np.linalg.norm(federation.features.astype(float), axis=1)
    assert items[CLIPPED] == [int((norms[each] > 2.0).sum()) for each in kept]
    assert items[BEYOND] == 10
    assert (sum(items[DROPPED]) > 0) == (unit != "record")
    assert items["recomputed"]["terms"] == sum(map(len, kept))


def wide(family: str, shares: int = 2) -> NoisyGram:
    return NoisyGram.with_multiplier(
        3.0,
        gram=GramBound(dimension=150, classes=3),
        bits=14,
        relation="add-remove",
        family=family,  # type: ignore[arg-type]
        shares=shares,
    )


@for_each("family", ["gaussian", "laplace"])
def test_noise_is_shown_as_normal_numbers_of_the_stated_deviation(
    family: str, tiny: Any, run: Any
) -> None:
    """KS and chi-squared of 36,765 values for each of two silos, once wrong in 10^6 runs."""
    federation = tiny(features=149, silos=2, records=30)
    system = built(federation, noise=family, row_norm=20.0)
    shown: list[np.ndarray] = []
    honest = noise_shown.NoiseShown.sent

    def noted(self: Any, ticket: Any, silo: int, name: str, total: Any) -> Any:
        sent = honest(self, ticket, silo, name, total)
        shown.append(normal(mechanism_of(system), sent - total))
        return sent

    noise_shown.NoiseShown.sent = noted  # type: ignore[method-assign]
    try:
        items = sealed(run, system)["residuals"]
    finally:
        noise_shown.NoiseShown.sent = honest  # type: ignore[method-assign]
    std = mechanism_of(system).share_std
    assert items["std"] == std
    for share in shown:
        assert stats.kstest(share / std, "norm").pvalue > 1e-6
        tails = stats.chi2(share.size).sf(float(np.sum((share / std) ** 2)))
        assert 1e-6 < tails < 1 - 1e-6
    assert items["silos"] == [0, 1]
    assert items["squares_n"] == [shown[0].size] * 2
    assert items["squares"] == pytest.approx([float(np.sum(share**2)) for share in shown])
    whole = items["whole"]
    assert whole["silos"] == [0, 1]
    assert whole["squares"] == pytest.approx(float(np.sum((shown[0] + shown[1]) ** 2)), rel=1e-9)


@for_each("family", ["gaussian", "laplace"])
def test_half_the_noise_shows(family: str, tiny: Any, run: Any, monkeypatch: Any) -> None:
    """With half the deviation, sums of squares are far from what the log states."""
    honest = NoisyGram._noise_of_share
    monkeypatch.setattr(
        NoisyGram, "_noise_of_share", lambda self, stream: honest(self, stream) // 2
    )
    items = sealed(run, built(tiny(features=30), noise=family, row_norm=9.0))["residuals"]
    for squares, count in zip(items["squares"], items["squares_n"], strict=True):
        assert stats.chi2(count).cdf(squares / items["std"] ** 2) < 1e-9
    whole = items["whole"]
    assert stats.chi2(whole["squares_n"]).cdf(whole["squares"] / (3 * items["std"] ** 2)) < 1e-9


@for_each("family", ["gaussian", "laplace"])
def test_noise_that_a_network_loses_shows_in_the_whole(
    family: str, tiny: Any, run: Any, monkeypatch: Any
) -> None:
    from privplan.fl.aggregation.sums import PlainAggregator, Sum

    system = built(tiny(features=30), noise=family, row_norm=9.0)
    exact = system.exact_sums(mechanism_of(system)).by_silo[2].total
    honest = PlainAggregator.total

    def loses(self: Any, number: int, silos: Any, length: int) -> Sum:
        whole = honest(self, number, silos[:2], length)
        silos[2]()
        return Sum(whole.total + exact, (0, 1, 2))  # the noise of one is lost on the way

    monkeypatch.setattr(PlainAggregator, "total", loses)
    items = sealed(run, system)["residuals"]
    whole = items["whole"]
    assert stats.chi2(whole["squares_n"]).cdf(whole["squares"] / (3 * items["std"] ** 2)) < 1e-6


def test_extreme_noise_stays_finite() -> None:
    mechanism = wide("laplace")
    far = np.zeros(mechanism.gram.values, np.int64)
    far[:4] = 2**62, -(2**62), 1, -1
    shown = normal(mechanism, far)
    assert np.isfinite(shown).all()
    assert shown[0] == -shown[1] > 5 * mechanism.share_std
    assert shown[4] == 0.0


@for_each(
    "rows, bits, intercept, by_class",
    [
        (rows, bits, intercept, (number + place) % 2 == 0)
        for number, bits in enumerate((8, 13, 18))
        for place, (rows, intercept) in enumerate(product((1, 7), (0.0, 0.2, 0.9)))
    ],
)
def test_sound_sums_are_within_what_the_grid_explains(
    rows: int, bits: int, intercept: float, by_class: bool
) -> None:
    rng = np.random.default_rng(bits)
    d = 5
    mechanism = NoisyGram(
        gram=GramBound(dimension=d + (intercept > 0.0), classes=3, rows=rows, by_class=by_class),
        std=400.0 if bits == 8 else 5.0,
        bits=bits,
        row_norm=3.0,
    )
    features = (rng.normal(size=(9000, d)) * rng.choice([0.01, 1.0, 1e6], (9000, 1))).astype(
        np.float32
    )
    features[:3] = 0.0
    labels = rng.integers(0, 3, 9000)
    total = gram_total(mechanism, features, labels, intercept=intercept)
    kept = np.arange(9000)
    assert 0.0 < distance(mechanism, intercept, features, labels, kept, total.total) < 1.0
    # Rows that are missing or count twice, and labels of others: the finer, the fewer it takes.
    some = {8: 4500, 13: 450, 18: 45}[bits]
    for wrong in (kept[:-some], np.append(kept, kept[:some])):
        assert distance(mechanism, intercept, features, labels, wrong, total.total) > 1.0
    if bits > 8:
        others = np.roll(labels, 1)
        assert distance(mechanism, intercept, features, others, kept, total.total) > 1.0


def distance(mechanism: NoisyGram, intercept: float, *given: Any) -> float:
    check = SumCheck(mechanism, intercept)
    check.add(*given)
    (item,) = check.items().values()
    assert isinstance(item, dict)
    return float(item["sum_off"])


def test_a_row_that_is_longer_than_its_bound_is_found(tiny: Any, monkeypatch: Any) -> None:
    system = built(tiny())
    honest = checks.grid_rows

    def longer(*given: Any, **named: Any) -> Any:
        rows, count = honest(*given, **named)
        rows[-1] *= 1.01
        return rows, count

    assert system.exact_sums(mechanism_of(system)).check.items()["recomputed"]["term_largest"] <= 1
    monkeypatch.setattr(checks, "grid_rows", longer)
    found = system.exact_sums(mechanism_of(system)).check.items()["recomputed"]
    assert found["term_largest"] == pytest.approx(1.01, rel=1e-3)  # type: ignore[index]


def test_rows_of_a_user_beyond_the_cap_are_found(tiny: Any, monkeypatch: Any) -> None:
    federation = tiny(users=2, records=60)
    system = built(federation, "user", rows_per_user=4)
    found = system.exact_sums(mechanism_of(system)).check.items()["recomputed"]
    assert found["weight_largest"] == 1.0  # type: ignore[index]
    # A silo that keeps more of a user than its part has other sums than those made again.
    honest = module.gram_total
    monkeypatch.setattr(
        module, "gram_total", lambda *given, **named: honest(*given, **{**named, "most_rows": None})
    )
    found = system.exact_sums(mechanism_of(system)).check.items()["recomputed"]
    assert found["sum_off"] > 1.0  # type: ignore[index]


def test_sums_that_wrap_around_are_made_again_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Modulo 2^64: more rows than fit are no fault of the sum."""
    mechanism = NoisyGram(gram=GramBound(dimension=2, classes=2), std=0.5, bits=20, row_norm=1.0)
    rows = np.tile(np.array([[1.0, 0.0]], np.float32), (2**13, 1))
    labels = np.zeros(2**13, np.int64)
    once = gram_total(mechanism, rows, labels).total
    check = SumCheck(mechanism, 0.0)
    many = once * np.int64(2048)  # 2^24 rows of squared norm 2^40: a sum of 2^64
    assert math.log2(2048 * float(once[0])) == pytest.approx(64.0, abs=1e-3)
    honest = checks._FloatSums.flat

    def as_often(self: Any) -> Any:
        sums, allowed = honest(self)
        return sums * 2048, allowed * 2048

    monkeypatch.setattr(checks._FloatSums, "flat", as_often)
    check.add(rows, labels, np.arange(2**13), many)
    (found,) = check.items().values()
    assert isinstance(found, dict)
    assert found["sum_off"] <= 1.0
    many[0] += 2**50
    check.add(rows, labels, np.arange(2**13), many)
    assert check.items()["recomputed"]["sum_off"] > 1.0  # type: ignore[index]
