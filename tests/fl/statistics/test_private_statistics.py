"""The release: what it holds, what it promises, what it costs, and that it is paid for first."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse, stats

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.fl.statistics.private_statistics import PrivateStatistics
from privplan.fl.statistics.public_terms import PublicTerms, sized

from ...cases import for_each
from ...chance import limits
from .small import classified, statistics

FEATURES, LABELS = classified(rows=600)
SILOS = np.arange(600) % 4


class Memory:
    """A recorder that keeps everything, and what was sealed."""

    def __init__(self) -> None:
        self.lines: list[records.Record] = []
        self.sealed: dict[str, object] = {}

    def append(self, record: records.Record) -> int:
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: dict[str, object]) -> dict[str, str]:
        self.sealed.update(items)
        return dict.fromkeys(items, "c0")

    def settle(self) -> None:
        pass


def terms_of(statistics: PrivateStatistics) -> PublicTerms:
    assert statistics.terms is not None
    return statistics.terms


def residuals(released_by: PrivateStatistics, **given: Any) -> np.ndarray:
    """Return what was released less the exact sums, in deviations of the noise: (values,)."""
    terms = terms_of(released_by)
    mechanism = sized(terms, FEATURES.shape[1], given.get("aggregation", "plain")).mechanism
    exact = gram_total(mechanism, FEATURES, LABELS, intercept=terms.intercept).total
    released = released_by.released
    upper = np.triu_indices(released.bound.dimension)
    vector = np.concatenate([released.gram[upper], released.labels.ravel()])
    noise = vector - mechanism.units(exact)
    deviations = np.full(len(noise), mechanism.std / np.sqrt(2.0))
    deviations[mechanism.diagonal] = mechanism.std
    deviations[mechanism.label_start :] = mechanism.std / mechanism.gram.label_weight
    return np.asarray(noise / deviations)


@for_each(
    ("terms", "given"),
    [
        ({}, {}),
        ({"neighbours": "replace-one", "label_weight": 2.0}, {}),
        ({"silos": 4}, {"silo": SILOS}),
        ({"silos": 4}, {"silo": SILOS, "aggregation": "masked"}),
        ({"silos": 4}, {"silo": SILOS, "aggregation": "shares"}),
        ({"silos": 4}, {"silo": SILOS, "aggregation": "local"}),
    ],
)
def test_what_is_released_is_the_exact_sum_and_the_noise_that_is_stated(
    terms: dict[str, Any], given: dict[str, Any]
) -> None:
    """30 normal residuals of 8 releases: chi-square, at most 1 in 10^6 for all six cases."""
    drawn = [
        residuals(statistics(seed=seed, **terms).release(FEATURES, LABELS, **given), **given)
        for seed in range(8)
    ]
    squares = float((np.array(drawn) ** 2).sum())
    low, high = limits(stats.chi2(np.size(drawn)), looks=6)
    assert low < squares < high


def test_however_silos_are_summed_the_release_is_the_same_to_the_last_bit() -> None:
    released = [
        statistics(silos=4)
        .release(FEATURES, LABELS, silo=SILOS, aggregation=aggregation)  # type: ignore[arg-type]
        .released
        for aggregation in ("plain", "masked", "shares")
    ]
    for each in released[1:]:
        assert np.array_equal(each.gram, released[0].gram)
        assert np.array_equal(each.labels, released[0].labels)


@for_each("noise", ["gaussian", "laplace"])
@for_each("neighbours, epsilon", [("add-remove", 0.3), ("replace-one", 7.3)])
@for_each(
    "unit",
    [{}, {"rows_per_user": 6}, {"silo_rows": 5}, {"by_class": True}, {"label_weight": 3.0}],
)
def test_the_guarantee_is_that_of_the_event_and_meets_the_target(
    noise: str, neighbours: str, epsilon: float, unit: dict[str, Any]
) -> None:
    made = statistics(noise=noise, neighbours=neighbours, epsilon=epsilon, **unit)
    release = sized(terms_of(made), 4, "plain")
    user = np.arange(600) if "rows_per_user" in unit else None
    made.release(FEATURES, LABELS, user=user)
    event = release.mechanism.event(neighbours)
    assert made.released.event == event
    assert 0.999 * epsilon < made.guarantee_.epsilon.upper <= epsilon
    if noise == "laplace":
        assert made.guarantee_.delta.upper == 0.0
        moved = release.mechanism.sensitivity(neighbours)
        assert Fraction(moved) <= Fraction(epsilon) * Fraction(release.mechanism.std)
    else:
        assert made.guarantee_.delta.upper == 1e-5
        proven = pp.account(event, delta=1e-5, neighbours=neighbours)
        assert made.guarantee_.epsilon == proven.epsilon
    assert made.guarantee_.unit == terms_of(made).unit
    assert made.guarantee_.neighbours == neighbours


@for_each("aggregation", ["plain", "masked", "shares", "local"])
@for_each("observer", ["model", "server", "silo", "peer"])
@for_each("silos", [1, 2, 5])
def test_noise_is_sized_for_the_shares_that_an_observer_sees(
    aggregation: str, observer: str, silos: int
) -> None:
    terms = replace(terms_of(statistics(silos=silos)), observer=observer)
    who = "server" if aggregation == "local" else observer
    server = {"masked": silos, "shares": 0}.get(aggregation, 1)
    shares = {"model": silos, "server": server, "silo": silos - 1, "peer": silos - 1}[who]
    among_peers = aggregation == "shares"
    if not shares or (who != "model" and (who == "peer") != among_peers) or silos < 3 * among_peers:
        few = among_peers and silos < 3
        with pytest.raises(InvalidInput, match="need 3 silos" if few else "nobody whom noise can"):
            sized(terms, 4, aggregation)
        return
    release = sized(terms, 4, aggregation)
    mechanism, event = release.mechanism, release.views[who]
    assert isinstance(event, ev.Gaussian)
    # What covers it: so many shares, against all that one unit can move.
    covering = shares * Fraction(mechanism.share_std) ** 2
    assert Fraction(event.noise_multiplier) ** 2 <= covering / Fraction(
        mechanism.sensitivity("add-remove")
    ) ** 2 * (1 + Fraction(1, 10**9))
    assert pp.account(event, delta=1e-5).epsilon.upper <= 1.0
    wanted = pp.calibrate(ev.Gaussian, epsilon=1.0, delta=1e-5).value
    assert event.noise_multiplier == pytest.approx(wanted, rel=1e-6)


def test_laplace_noise_is_not_shared() -> None:
    terms = terms_of(statistics(silos=5, noise="laplace", observer="server"))
    release = sized(terms, 4, "plain")
    assert release.mechanism.share_std == release.mechanism.std
    assert release.views["server"] == release.views["model"]


@for_each("noise", ["gaussian", "laplace"])
def test_a_second_release_is_refused_before_anything_is_drawn(noise: str) -> None:
    recorder = Memory()
    made = statistics(noise=noise, recorder=recorder).release(FEATURES, LABELS)
    kept, lines = made.released, len(recorder.lines)
    stream = made._streams.stream("noise/silo-0")
    position = stream.position
    assert position > 0
    with pytest.raises(BudgetExceeded):
        made.release(FEATURES, LABELS)
    assert (made.released, len(recorder.lines), stream.position) == (kept, lines, position)


def test_a_second_release_is_charged_to_the_odometer() -> None:
    odometer = pp.Odometer(2.0, 1e-5, currency="gdp")
    made = statistics(odometer=odometer, epsilon=0.9).release(FEATURES, LABELS)
    first, spent = made.released, odometer.reading().share
    made.release(FEATURES, LABELS)
    assert not np.array_equal(first.gram, made.released.gram)
    assert odometer.reading().share == pytest.approx(2 * spent)
    other = statistics(odometer=odometer, epsilon=1.5)
    with pytest.raises(BudgetExceeded):
        other.release(FEATURES, LABELS)
    assert odometer.reading().share == pytest.approx(2 * spent)


@for_each(
    ("budget", "terms", "named"),
    [
        ({"neighbours": "replace-one"}, {}, "neighbours"),
        ({"unit": "user"}, {}, "unit"),
        ({"size": 3}, {}, "unit"),
        ({}, {"rows_per_user": 2}, "unit"),
    ],
)
def test_an_odometer_of_another_unit_or_relation_is_refused(
    budget: dict[str, Any], terms: dict[str, Any], named: str
) -> None:
    with pytest.raises(InvalidInput, match=f"odometer's {named}"):
        statistics(odometer=pp.Odometer(2.0, 1e-5, **budget), **terms)


def test_an_odometer_without_the_observer_is_refused() -> None:
    made = statistics(odometer=pp.Odometer(9.0, 1e-5), silos=4)
    with pytest.raises(InvalidInput, match="no balance before 'server'"):
        made.release(FEATURES, LABELS, silo=SILOS, aggregation="local")


def test_what_was_clipped_is_sealed_and_nowhere_else() -> None:
    recorder = Memory()
    statistics(recorder=recorder, row_norm=3.0).release(FEATURES, LABELS)
    clipped = int((np.linalg.norm(FEATURES, axis=1) > 3.0).sum())
    assert 0 < clipped < 600
    assert recorder.sealed["rows"] == {"rows": [600], "clipped": [clipped], "dropped": [0]}
    assert [line.type for line in recorder.lines] == ["round.intent", "round.release"]
    assert str(clipped) not in str(recorder.lines[0])


@for_each(
    "given, user, count",
    [({"rows_per_user": 6}, np.zeros(600, int), 6), ({"silo_rows": 7}, None, 28)],
)
def test_no_more_rows_are_counted_than_are_kept(given: Any, user: Any, count: int) -> None:
    """With all rows of one user, or a cap for silos, and hardly any noise: the cap is counted."""
    made = statistics(silos=4, epsilon=1e4, **given).release(
        FEATURES, LABELS, silo=SILOS, user=user
    )
    assert made.released.count == pytest.approx(count, abs=0.5)


def test_rows_that_are_mapped_from_a_file_are_released_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, FEATURES)
    mapped = np.load(path, mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    here, there = (statistics().release(rows, LABELS).released for rows in (FEATURES, mapped))
    assert np.array_equal(here.gram, there.gram)


@for_each("kind", [sparse.csr_array, sparse.csc_matrix, sparse.coo_array])
def test_sparse_rows_are_released_as_dense_ones(kind: Any) -> None:
    rows = np.where(np.abs(FEATURES) > 1.0, FEATURES, 0.0)
    here, there = (
        statistics(silos=4).release(table, LABELS, silo=SILOS).released
        for table in (rows, kind(rows))
    )
    assert np.array_equal(here.gram, there.gram)
    assert np.array_equal(here.labels, there.labels)


def test_the_operating_system_draws_the_noise_unless_there_is_a_seed() -> None:
    for seed in (None, 1):
        first, second = (
            statistics(seed=seed).release(FEATURES, LABELS).released.gram for _ in range(2)
        )
        assert np.array_equal(first, second) == (seed == 1)


def test_before_a_release_there_is_nothing() -> None:
    made = statistics()
    assert made.cost == "Nothing has been released, and nothing spent."
    with pytest.raises(InvalidInput, match="Nothing has been released"):
        _ = made.guarantee_


def test_statistics_that_were_released_elsewhere_release_nothing_more() -> None:
    kept = PrivateStatistics.from_released(statistics().release(FEATURES, LABELS).released)
    assert kept.guarantee_.epsilon.upper <= 1.0
    with pytest.raises(Unsupported, match="released before"):
        kept.release(FEATURES, LABELS)


def test_a_count_beyond_the_cap_is_seen_in_what_was_released() -> None:
    """16 times as many rows as the grid was chosen for: sums wrap around, and a warning says so."""
    many = np.ones((60_000, 1))
    made = statistics(most_rows=10, epsilon=100.0, classes=2)
    with pytest.warns(UserWarning, match="beyond `most_rows`"):
        made.release(many, np.zeros(60_000, int))


def test_no_warning_about_the_count_below_the_cap(recwarn: pytest.WarningsRecorder) -> None:
    statistics(most_rows=600).release(FEATURES, LABELS)
    assert not [each for each in recwarn if "most_rows" in str(each.message)]


@for_each("aggregation", ["plain", "masked", "shares"])
def test_more_rows_than_said_wrap_around_and_stop_nothing(
    aggregation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abort for a large sum would tell that it is large."""
    import privplan.fl.statistics.private_statistics as module

    def large(*given: Any, **named: Any) -> Any:
        exact = gram_total(*given, **named)
        return replace(exact, total=np.full_like(exact.total, 2**63 - 5))

    monkeypatch.setattr(module, "gram_total", large)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the released count is absurd is said
        made = statistics(silos=4).release(FEATURES, LABELS, silo=SILOS, aggregation=aggregation)
    assert np.isfinite(made.released.gram).all()
