"""What the facts of a released Gram matrix support, for every observer."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import gram_grid
from privplan.accountant.mechanisms.gram_noise import NoisyGram
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.records import Reach, RoundIntent, RunOpen, Sampling
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.supported_event import attained_event, supported
from privplan.audit.ledger import gram_facts
from privplan.audit.ledger.entries import SpentIntent
from privplan.audit.ledger.gram_facts import least_attained, moved_by_unit
from privplan.fl.observers.reaches import Route, reaches_of

from ..cases import for_each
from .grams import SIGMA, gram, gram_log, noisy
from .ledgers import (
    SHARES_OF_FIVE_SILOS,
    Records,
    audited,
    evidence,
    intents,
    opening,
    part,
    setting_of,
    upper,
)

HONEST: dict[str, dict[str, Any]] = {
    "plain": {},
    "one silo": {"shares": 1},
    "two silos": {"shares": 2},
    "no labels": {"classes": 0},
    "numbers as labels": {"classes": 1, "label_weight": 0.7},
    "a matrix for each class": {"by_class": True, "label_weight": 2.0},
    "users": {"unit": "user", "rows": 4},
    "silos": {"unit": "silo", "rows": 50, "trace": 50.0, "bits": 14},
    "some may be missing": {"shares": 6, "tolerated_dropouts": 2},
    "Laplace": {"family": "laplace", "bits": 14},
    "Laplace, users, a matrix for each class": {
        "family": "laplace",
        "bits": 14,
        "unit": "user",
        "rows": 3,
        "by_class": True,
    },
    "a coarse grid": {"bits": 10},
}

LOGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "masked": {"aggregation": "masked"},
    "masked, two tell": {"aggregation": "masked", "colluders": 2},
    "shares": {"aggregation": "shares"},
}


@for_each("relation", ["add-remove", "replace-one"])
@for_each("name", list(HONEST))
def test_the_number_is_what_the_mechanism_promises(name: str, relation: str) -> None:
    """Two derivations: the mechanism's event, and the log's facts; no hazard, and no more."""
    records = gram_log(noisy(relation, **HONEST[name]), relation)
    report = audited(records)
    assert report.hazards == ()
    assert report.supported is True
    for row in report.rows:
        assert row.stated is not None
        assert row.total.upper == pytest.approx(row.stated, rel=1e-9)
        assert row.total.upper <= row.stated * (1 + 1e-12)


@for_each("name", list(LOGS))
def test_under_every_protocol(name: str) -> None:
    report = audited(gram_log(noisy(sigma=2.0), **LOGS[name]))
    assert report.hazards == ()
    assert {row.observer for row in report.rows if row.stated is None} == set()
    assert [row.total.upper for row in report.rows] == pytest.approx(
        [row.stated for row in report.rows], rel=1e-9
    )


def test_the_number_is_never_above_that_of_the_multiplier() -> None:
    for sigma in (0.8, 1.0, 3.0, 20.0):
        plain = upper([*_of_gaussian(sigma)])
        assert upper(gram_log(noisy(sigma=sigma))) <= plain * (1 + 1e-9)


def _of_gaussian(sigma: float) -> Records:
    """Return the log with the event Gaussian(sigma), in the facts of a Gram matrix."""
    records = gram_log(noisy(sigma=sigma))
    return intents(event=ev.Gaussian(sigma))(records)


def _facts(mechanism: NoisyGram, relation: str = "add-remove", **changes: Any) -> RoundFacts:
    from privplan.accountant.mechanisms import RoundDescription

    stated = mechanism.intent(RoundDescription(1, "release"), relation)
    return RoundFacts.of(SpentIntent(2, 1, replace(stated, **changes)))


@for_each("relation", ["add-remove", "replace-one"])
@for_each(
    ("aggregation", "observer", "shares"),
    [*SHARES_OF_FIVE_SILOS, ("masked", "server+2-with-records", 3), ("shares", "peer", 4)],
)
def test_each_observer_by_hand(aggregation: str, observer: str, shares: int, relation: str) -> None:
    mechanism = noisy(relation, unit="user", rows=3)
    records = gram_log(
        mechanism, relation, aggregation=aggregation, colluders=2 * (aggregation == "masked")
    )
    event = supported(_facts(mechanism, relation), setting_of(records), observer)
    times = 2.0 if relation == "replace-one" else 1.0
    moved = {
        "add-remove": math.sqrt(1 + 3 * (1 - 1 / 3)),
        "replace-one": math.sqrt(2) * (1 + 3 * (1 - 1 / 3) / 2),
    }[relation]
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier == pytest.approx(
        times * mechanism.share_std * math.sqrt(shares) / moved, rel=1e-6
    )


@for_each("observer", ["model", "server", "silo", "silo-with-records", "server+2"])
def test_of_laplace_noise_one_share_counts(observer: str) -> None:
    mechanism = noisy(family="laplace", bits=14, unit="user", rows=2)
    event = supported(_facts(mechanism), setting_of(gram_log(mechanism)), observer)
    assert event == ev.Laplace(mechanism.std / mechanism.gram.l1("add-remove"))


def test_who_holds_a_part_of_a_unit_learns_no_more() -> None:
    """Nothing is re-weighted: no factor 2, and a number under both relations."""
    for relation in ("add-remove", "replace-one"):
        mechanism = noisy(relation, unit="user", rows=5)
        report = audited(gram_log(mechanism, relation, aggregation="masked", colluders=1))
        numbers = {row.observer: row.total.upper for row in report.rows}
        assert numbers["silo"] == numbers["server+1-with-records"] == numbers["server+1"]
        assert math.isfinite(numbers["silo"])


def test_what_no_log_can_show_of_the_rows_is_named() -> None:
    mechanism = noisy(unit="user", rows=3)
    (said,) = [text for text in audited(gram_log(mechanism)).assumptions if "row norm" in text]
    assert said.startswith("Of a user 3 rows at most")


@for_each("name", list(LOGS))
def test_what_is_stated_to_reach_whom_changes_no_number(name: str) -> None:
    """The table's own reaches, of everybody whom it knows: the same numbers, and no hazard."""
    for unit in ("record", "user"):
        records = gram_log(noisy(unit=unit, rows=2), **LOGS[name])
        opened = records[0]
        assert isinstance(opened, RunOpen)
        route = Route(opened.aggregation, 5, opened.security, 0, Sampling(), unit)
        named = [row.observer for row in audited(records).rows]
        reaches = reaches_of([*named, "silo-with-records", "coordinator", "client"], route)
        report = audited(intents(reaches=reaches)(records))
        assert report.hazards == ()
        assert {row.observer: row.total.upper for row in report.rows if row.stated} == {
            row.observer: row.total.upper for row in audited(records).rows
        }
        numbers = {row.observer: row.total.upper for row in report.rows}
        assert numbers["client"] == numbers["silo-with-records"]


def test_a_reach_of_less_than_the_facts_show_is_not_believed() -> None:
    """Said to see the sum, under no protocol: an assumption; or its own part taken off."""
    records = gram_log(noisy())
    honest = {row.observer: row.total.upper for row in audited(records).rows}
    silo = intents(reaches={"silo": Reach("nothing")})(records)
    assert upper(silo, "silo") >= honest["silo"] * (1 - 1e-12)
    told = intents(reaches={"silo": Reach("sum-less-own", colluders=2)})(records)
    assert upper(told, "silo") > honest["silo"]
    missing = intents(reaches={"model": Reach("sum", dropouts=3)})(records)
    assert upper(missing, "model") > honest["model"]
    one_share = intents(reaches={"model": Reach("one-share")})(records)
    assert upper(one_share, "model") == pytest.approx(honest["server"], rel=1e-9)


def test_a_promise_for_a_part_of_the_unit_is_that_of_exchanging_all_of_it() -> None:
    """A record that goes may let another row of the same user in."""
    mechanism = noisy(unit="user", rows=3)
    report = audited(gram_log(mechanism, unit="record"))
    moved = gram(rows=3).l2("replace-one")
    assert "sensitivity-below-facts" in {hazard.id for hazard in report.hazards}
    records = gram_log(mechanism, unit="record")
    event = supported(_facts(mechanism), setting_of(records), "model")
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier == pytest.approx(mechanism.std / moved, rel=1e-6)
    zeroed = supported(_facts(mechanism), setting_of(records, neighbours="zero-out"), "model")
    assert zeroed == event


def test_a_promise_for_more_than_the_unit_has_no_number() -> None:
    report = audited(gram_log(noisy(), unit="user"))
    assert math.isinf(report.total.upper)
    assert "unit-mismatch" in {hazard.id for hazard in report.hazards}


def test_a_group_of_records_is_composed_of_single_ones() -> None:
    report = audited(gram_log(noisy(sigma=40.0), unit="user", group=3))
    assert report.hazards == ()
    assert report.total.upper == pytest.approx(report.rows[0].stated, rel=1e-9)


def _sigma(records: Records) -> float:
    kind = evidence(records).kinds[0]
    event = supported(kind.facts, setting_of(records), "model")
    assert isinstance(event, ev.Gaussian), event
    return event.noise_multiplier


@for_each("relation", ["add-remove", "replace-one"])
def test_what_is_stated_counts_where_it_is_the_weaker(relation: str) -> None:
    mechanism = noisy(relation, rows=2)
    records = gram_log(mechanism, relation)
    honest = _sigma(records)
    bound, moved = mechanism.contribution.bound, mechanism.sensitivity(relation)
    for share in (0.1, 0.999):
        assert _sigma(intents(contribution=part(bound=share * bound))(records)) == honest
        assert _sigma(intents(sensitivity=share * moved)(records)) == honest
    assert _sigma(intents(sensitivity=2 * moved)(records)) == pytest.approx(honest / 2, rel=1e-9)
    raised = _sigma(intents(contribution=part(bound=2 * bound))(records))
    times = 2 if relation == "replace-one" else 1
    assert raised == pytest.approx(honest * moved / (2 * times * bound), rel=1e-9)
    assert _sigma(intents(weights=part(largest_sum=2.0))(records)) == pytest.approx(honest / 2)
    assert _sigma(intents(weights=part(largest_sum=0.1))(records)) == honest


def test_a_finer_grid_is_not_believed_and_a_coarser_one_is() -> None:
    records = gram_log(noisy(bits=10))
    honest = _sigma(records)
    assert _sigma(intents(noise=part(grid=0.0))(records)) == honest
    assert _sigma(intents(noise=part(grid=2.0**-40))(records)) == honest
    coarser = evidence(intents(noise=part(grid=0.01))(records)).kinds[0].facts
    event = supported(coarser, setting_of(records), "model")
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier < honest * 0.9999


def test_the_smaller_of_two_stated_deviations_counts() -> None:
    records = gram_log(noisy())
    honest = _sigma(records)
    for changes, factor in (
        ({"std": lambda std: std / 2}, 0.5),
        ({"share_std": lambda std: std / 2}, 0.5),
        ({"share_std": lambda std: std * 2}, 1.0),
        ({"std": lambda std: std * 2}, 1.0),
    ):
        ((name, change),) = changes.items()
        noise = evidence(records).kinds[0].facts.noise
        changed = intents(noise=part(**{name: change(getattr(noise, name))}))(records)
        assert _sigma(changed) == pytest.approx(factor * honest, rel=1e-6)


ABSURD: dict[str, Any] = {
    "no columns": {"dimension": 0},
    "too many columns": {"dimension": 2**40},
    "no rows": {"rows": 0},
    "too many classes": {"classes": 2**30},
    "no trace": {"trace": 0.0},
    "an infinite trace": {"trace": math.inf},
    "a vast trace": {"trace": 1e300},
    "a negative trace": {"trace": -1.0},
    "no weight": {"label_weight": 0.0},
    "an infinite weight": {"label_weight": math.inf},
    "a tiny weight": {"label_weight": 1e-300},
    "no row norm": {"row_norm": 0.0},
    "an infinite row norm": {"row_norm": math.inf},
    "too few bits": {"bits": 7},
    "too many bits": {"bits": 21},
    "vastly many bits": {"bits": 2**60},
    "a matrix for each of no classes": {"classes": 0, "by_class": True},
}


@for_each("name", list(ABSURD))
def test_absurd_facts_support_nothing_and_raise_nothing(name: str) -> None:
    change = intents(contribution=lambda old: replace(old, gram=replace(old.gram, **ABSURD[name])))
    for relation in ("add-remove", "replace-one"):
        report = audited(change(gram_log(noisy(relation), relation)))
        assert math.isinf(report.total.upper)
        assert "unusable-facts" in {hazard.id for hazard in report.hazards}


@for_each(
    ("change", "said"),
    [
        (intents(contribution=part(gram=None)), "`gram` is missing"),
        (intents(contribution=part(terms="unit")), "`gram` says nothing"),
        (intents(contribution=part(terms="message")), "`gram` says nothing"),
        (intents(contribution=part(terms="whole")), "`gram` says nothing"),
        (intents(contribution=part(unit="entry")), "products of entries"),
        (intents(contribution=part(norm="l1")), "measured against l2 norms"),
        (intents(weights=part(rule="uniform")), "weights by `uniform`"),
        (intents(weights=part(rule="records")), "weights by `records`"),
        (intents(noise=part(family="laplace")), "measured against l1 norms"),
        (intents(noise=part(family="discrete-gaussian")), "no event is known"),
        (intents(noise=part(family="exponential")), "no event is known"),
    ],
)
def test_facts_that_are_none_of_a_gram_matrix_support_nothing(change: Any, said: str) -> None:
    report = audited(change(gram_log(noisy())))
    assert math.isinf(report.total.upper)
    assert any(said in hazard.says for hazard in report.hazards if hazard.severity == "error")


def test_samples_are_not_accounted_for() -> None:
    sampled = intents(sampling=part(method="poisson", of="record", rate=0.5, drawn_by="server"))
    report = audited(sampled(gram_log(noisy())))
    assert math.isinf(report.total.upper)
    assert "sample" in report.total.refusal


@for_each("values", [1, 38, 40, 100])
def test_other_values_than_the_facts_bound_support_nothing(values: int) -> None:
    records = gram_log(noisy())
    assert gram().values == 39
    from .ledgers import releases

    report = audited(releases(values=values)(records))
    assert math.isinf(report.total.upper)
    assert {"gram-mismatch", "unusable-facts"} <= {hazard.id for hazard in report.hazards}


def test_noise_that_is_too_coarse_supports_nothing() -> None:
    records = gram_log(noisy(bits=12))
    coarse = intents(noise=part(std=1e-3, share_std=1e-3, grid=0.0))(records)
    assert math.isinf(upper(coarse))


def test_shares_that_are_not_one_for_each_silo_leave_no_number_but_the_sum() -> None:
    records = gram_log(noisy(shares=1))
    apart = opening(population=part(silos=4))(records)
    numbers = {row.observer: row.total.upper for row in audited(apart).rows}
    assert math.isfinite(numbers["model"])
    assert math.isinf(numbers["server"])


# --- the lower end ------------------------------------------------------------------------------


@for_each("intercept", [0.0, 0.2])
@for_each("bits", [8, 11, 20])
@for_each("classes", [0, 1, 4])
@for_each("rows", [1, 7])
def test_a_unit_attains_the_lower_end(intercept: float, bits: int, classes: int, rows: int) -> None:
    """Equal rows of norm R with one label, by the mechanism's own integers."""
    facts = gram(classes=classes, rows=rows, label_weight=1.5)
    mechanism = NoisyGram(
        gram=facts, std={8: 200.0, 11: 30.0, 20: 0.4}[bits], bits=bits, row_norm=3.0
    )
    stated = mechanism.contribution.gram
    assert stated is not None
    columns = facts.dimension - (intercept > 0)
    rng = np.random.default_rng(1)
    for direction in (np.eye(columns)[0], rng.normal(size=columns)):
        features = np.tile(3.0 * direction / np.linalg.norm(direction), (rows, 1))
        ends = []
        for label in (0, 1) if classes > 1 else (-1.0, 1.0):
            labels = np.full(rows, label) if classes else None
            total = gram_total(mechanism, features, labels, intercept=intercept).total
            ends.append(mechanism.white(total))
        removed = least_attained(stated, replaced=False, rows=rows)
        assert np.linalg.norm(ends[0]) <= facts.l2("add-remove")
        if direction[0] == 1.0 and not direction[1:].any():
            assert np.linalg.norm(ends[0]) >= float(removed)
            exchanged = float(least_attained(stated, replaced=True, rows=rows))
            assert np.linalg.norm(ends[0] - ends[1]) >= exchanged
            assert exchanged > 0.0 or not classes
        assert float(removed) > 0.9 * facts.l2("add-remove") or bits < 11


@for_each("relation", ["add-remove", "replace-one"])
@for_each("name", [name for name in HONEST if "Laplace" not in name])
def test_the_lower_end_is_below_the_number_and_near_it(name: str, relation: str) -> None:
    mechanism = noisy(relation, **HONEST[name])
    bounds = audited(gram_log(mechanism, relation)).total.epsilon
    assert 0.0 <= bounds.lower <= bounds.upper
    missing = mechanism.tolerated_dropouts  # all may have arrived: more noise attains less
    dealt = mechanism.gram.rows > 1 and mechanism.shares > 1 and mechanism.unit == "user"
    if relation == "add-remove" and not dealt and mechanism.bits == 17 and not missing:
        assert bounds.lower > 0.99 * bounds.upper


def test_where_nothing_is_sure_there_is_no_lower_end() -> None:
    mechanism = noisy(unit="user", rows=3)
    setting = setting_of(gram_log(mechanism))
    assert attained_event(_facts(mechanism), setting) is None  # nothing was released
    records = gram_log(mechanism)
    kind = evidence(records).kinds[0]
    assert attained_event(kind.facts, setting) is not None
    for changed in (
        replace(setting, unit="record"),
        replace(setting, neighbours="zero-out"),
        replace(setting, group=2),
    ):
        assert attained_event(kind.facts, changed) is None


# --- silos one by one ---------------------------------------------------------------------------


def _apart(rng: np.random.Generator, bound: Any, silos: int) -> np.ndarray:
    """Return one unit's part of each silo's matrix, in even coordinates, stacked."""
    d, k = bound.dimension, bound.rows
    upper_triangle = np.triu_indices(d)
    scale = np.where(upper_triangle[0] == upper_triangle[1], 1.0, math.sqrt(2.0))
    stacked = []
    silo_of = rng.integers(silos, size=k)
    rows = rng.normal(size=(k, d))
    rows *= rng.choice([0.3, 1.0], size=(k, 1)) * math.sqrt(bound.trace / k)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9) / math.sqrt(
        bound.trace / k
    )
    labels = rng.integers(max(bound.classes, 1), size=k)
    table = np.eye(bound.classes)[labels] - 1 / bound.classes if bound.classes else np.zeros((k, 0))
    for silo in range(silos):
        mine = silo_of == silo
        stacked.append((rows[mine].T @ rows[mine])[upper_triangle] * scale)
        stacked.append(bound.label_weight * (rows[mine].T @ table[mine]).ravel())
    return np.concatenate(stacked)


@for_each("facts", [{"dimension": 1, "classes": 0}, {"classes": 0}, {}, {"rows": 4}])
def test_no_neighbours_move_silos_matrices_farther(facts: dict[str, Any]) -> None:
    """Random pairs, rows dealt to silos at random; a row that changes silos attains the worst."""
    bound = gram(**facts)
    stated = NoisyGram(gram=bound, std=30.0, bits=12).contribution
    removed = float(moved_by_unit(stated, "add-remove", finer=False, apart=True))
    replaced = float(moved_by_unit(stated, "replace-one", finer=False, apart=True))
    rng = np.random.default_rng(5)
    pairs = [(_apart(rng, bound, 3), _apart(rng, bound, 3)) for _ in range(2000)]
    assert max(np.linalg.norm(first) for first, _ in pairs) <= removed * (1 + 1e-12)
    farthest = max(np.linalg.norm(first - second) for first, second in pairs)
    assert farthest <= replaced * (1 + 1e-12)
    if bound.dimension == 1:
        assert farthest == pytest.approx(math.sqrt(2.0))
        assert bound.l2("replace-one") == pytest.approx(replaced)


@for_each("seed", range(30))
def test_hostile_facts_never_raise_and_never_gain(seed: int) -> None:
    """Facts of one field drawn at random beside honest ones: a number that is no smaller."""
    rng = np.random.default_rng(seed)
    records = gram_log(noisy())
    honest = upper(records)
    strange = [0.0, 1e-40, 1e-9, 0.5, 2.0, 1e9, 1e40, math.inf]
    value = float(rng.choice(strange))
    name = str(rng.choice(["bound", "sensitivity", "std", "share_std", "grid", "largest_sum"]))
    change = {
        "bound": intents(contribution=part(bound=value)),
        "sensitivity": intents(sensitivity=value),
        "largest_sum": intents(weights=part(largest_sum=value)),
    }.get(name) or intents(noise=part(**{name: value}))
    assert upper(change(records)) >= honest * (1 - 1e-12)


def test_the_mechanism_promises_its_multiplier() -> None:
    assert noisy().event("add-remove") == ev.Gaussian(SIGMA)
    assert isinstance(gram_log(noisy())[1], RoundIntent)


def test_bits_are_those_that_the_mechanism_takes() -> None:
    assert (gram_facts.MIN_BITS, gram_facts.MAX_BITS) == (gram_grid.MIN_BITS, gram_grid.MAX_BITS)
    for changes in ({}, {"classes": 0}, {"classes": 1, "label_weight": 9.0}, {"classes": 500}):
        for family in ("gaussian", "laplace"):
            mechanism = NoisyGram(gram=gram(**changes), std=40.0, bits=14, family=family)
            stated = mechanism.contribution.gram
            assert stated is not None
            assert gram_facts.least_grid(stated, family) == mechanism.grid
