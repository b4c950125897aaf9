"""What the facts of a released product support, for every observer."""

from __future__ import annotations

import importlib
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import NoisyProduct, RoundDescription
from privplan.accountant.mechanisms.product_rows import ProductRows, basis_steps
from privplan.accountant.records import Noise, RoundIntent, RunOpen, Sampling, Weights
from privplan.audit.derivation.round_facts import RoundFacts, unusable
from privplan.audit.derivation.supported_event import supported
from privplan.audit.ledger import product_facts
from privplan.audit.ledger.entries import SpentIntent
from privplan.audit.ledger.product_facts import least_grid, moved_by_unit, product_of
from privplan.fl.observers.reaches import Route, reaches_of

from ..cases import for_each
from .ledgers import (
    SHARES_OF_FIVE_SILOS,
    audited,
    intents,
    opening,
    part,
    releases,
    setting_of,
    upper,
)
from .products import noisy, product_log
from .reaching import drawn_of, strange_reach

HONEST: dict[str, dict[str, Any]] = {
    "plain": {},
    "one silo": {"shares": 1},
    "two silos": {"shares": 2},
    "one column": {"rank": 1},
    "a square basis": {"rank": 6},
    "long rows": {"row_norm": 100.0, "divisor": 1.0},
    "silos": {"unit": "silo", "rows": 50},
    "some may be missing": {"shares": 6, "tolerated_dropouts": 2},
    "much noise": {"sigma": 300.0},
}
ENTRIES: dict[str, Any] = {"unit": "entry", "largest_change": 0.7}

LOGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "masked": {"aggregation": "masked"},
    "masked, two tell": {"aggregation": "masked", "colluders": 2},
}


@for_each(
    ("name", "relation"),
    [
        *((name, relation) for name in HONEST for relation in ("add-remove", "replace-one")),
        ("plain", "zero-out"),
        ("silos", "zero-out"),
        ("entries", "replace-one"),
    ],
)
def test_the_number_is_what_the_mechanism_promises(name: str, relation: str) -> None:
    """Two derivations: the mechanism's event, and the log's facts; no hazard, and no more."""
    facts = {**HONEST, "entries": ENTRIES}[name]
    report = audited(product_log(noisy(relation, **facts), relation))
    # How many entries there are is not public, so delta is compared with nothing.
    notes = {"delta-not-compared"} if name == "entries" else set()
    assert {hazard.id for hazard in report.hazards} == notes
    assert report.supported is True
    for row in report.rows:
        if row.stated is not None:
            assert row.total.upper == pytest.approx(row.stated, rel=1e-9)
            assert row.total.upper <= row.stated * (1 + 1e-12)


@for_each("name", list(LOGS))
def test_under_every_protocol(name: str) -> None:
    report = audited(product_log(noisy(sigma=2.0), **LOGS[name]))
    assert report.hazards == ()
    for row in report.rows:
        if row.stated is not None:
            assert row.total.upper == pytest.approx(row.stated, rel=1e-9)


@for_each("name", list(HONEST))
def test_no_lower_end_is_given(name: str) -> None:
    """A basis may be any shorter than it may be, and nobody knows those of later rounds."""
    assert audited(product_log(noisy(**HONEST[name]))).total.epsilon.lower == 0.0


def facts_of(mechanism: NoisyProduct, relation: str = "add-remove", **changes: Any) -> RoundFacts:
    return RoundFacts.of(SpentIntent(2, 1, replace(intent_of(mechanism, relation), **changes)))


def intent_of(mechanism: NoisyProduct, relation: str = "add-remove") -> RoundIntent:
    return mechanism.intent(RoundDescription(1, "release"), relation)


@for_each("relation", ["add-remove", "replace-one"])
@for_each(("aggregation", "observer", "shares"), [*SHARES_OF_FIVE_SILOS, ("plain", "client", 4)])
def test_each_observer_by_hand(aggregation: str, observer: str, shares: int, relation: str) -> None:
    mechanism = noisy(relation)
    records = product_log(
        mechanism, relation, aggregation=aggregation, colluders=2 * (aggregation == "masked")
    )
    event = supported(facts_of(mechanism, relation), setting_of(records), observer)
    times = 2.0 if relation == "replace-one" else 1.0
    moved = 4.0 / 10.0 * (math.sqrt(2.0) if relation == "replace-one" else 1.0)
    assert isinstance(event, ev.Gaussian)
    assert event.noise_multiplier == pytest.approx(
        times * mechanism.share_std * math.sqrt(shares) / moved, rel=1e-6
    )


@for_each(
    ("unit", "promised", "relation", "moved"),
    [
        ("record", "entry", "replace-one", math.sqrt(2.0)),
        ("record", "entry", "add-remove", math.sqrt(2.0)),
        ("silo", "record", "add-remove", 3 * math.sqrt(2.0)),
        ("silo", "record", "zero-out", 3 * math.sqrt(2.0)),
        ("silo", "record", "replace-one", 6 * math.sqrt(2.0)),
        ("silo", "entry", "replace-one", 3 * math.sqrt(2.0)),
    ],
)
def test_a_promise_for_a_part_is_that_of_replacing_the_whole(
    unit: str, promised: str, relation: str, moved: float
) -> None:
    mechanism = noisy(relation, unit=unit, rows=3 if unit == "silo" else 1)
    found = moved_by_unit(mechanism.contribution, relation, part=promised)
    assert float(found) == pytest.approx(0.4 * moved, rel=1e-9)
    records = product_log(mechanism, relation, unit=promised)
    event = supported(facts_of(mechanism, relation), setting_of(records), "model")
    assert isinstance(event, ev.Gaussian)
    times = 2.0 if relation == "replace-one" else 1.0
    assert event.noise_multiplier == pytest.approx(times * mechanism.std / (0.4 * moved), rel=1e-6)


def test_a_record_that_goes_lets_another_row_in() -> None:
    """Of a silo's rows the first are kept: the sum moves by nearly sqrt(2) R^2 / s."""
    mechanism = noisy(unit="silo", rows=1, dimension=6, rank=6, shares=1)
    rows = 2.0 * np.eye(6)[:2]
    basis = basis_steps(np.eye(6), mechanism.grid_bits.basis_bits)

    def product(kept: Any) -> Any:
        return mechanism.units(ProductRows(mechanism, kept, most=1).total(basis))

    moved = float(np.linalg.norm(product(rows) - product(rows[1:])))
    own = mechanism.contribution
    assert 0.99 * math.sqrt(2.0) * 0.4 < moved <= moved_by_unit(own, "add-remove", part="record")
    assert moved > 1.4 * moved_by_unit(own, "add-remove")


@for_each("relation", ["add-remove", "replace-one", "zero-out"])
def test_no_rows_move_a_product_farther_than_its_facts_say(relation: str) -> None:
    rng = np.random.default_rng(7)
    mechanism = noisy(relation, dimension=5, rank=3, shares=1)
    bits = mechanism.grid_bits.basis_bits
    most = float(moved_by_unit(mechanism.contribution, relation))
    for _ in range(200):
        basis = basis_steps(np.linalg.qr(rng.normal(size=(5, 3)))[0], bits)
        rows = rng.normal(size=(3, 5)) * rng.choice([0.1, 1.0, 50.0])
        other = {"add-remove": rows[1:], "zero-out": rows * [[0.0], [1.0], [1.0]]}.get(
            relation, np.vstack([rng.normal(size=(1, 5)) * 9.0, rows[1:]])
        )
        one, two = (
            mechanism.units(ProductRows(mechanism, each).total(basis)) for each in (rows, other)
        )
        assert np.linalg.norm(one - two) <= most * (1 + 1e-12)


def test_entries_in_groups_or_that_come_and_go_cost_their_row() -> None:
    """A bound of one entry says nothing of a record, which has many."""
    mechanism = noisy("replace-one", **ENTRIES)
    own, row = mechanism.contribution, 0.4 * math.sqrt(2.0)
    assert float(moved_by_unit(own, "replace-one")) < 0.9 * row
    assert float(moved_by_unit(own, "add-remove")) == pytest.approx(row)
    records = product_log(mechanism, "replace-one")
    for unit in ("record", "user", "entry"):
        setting = setting_of(records, unit=unit, group=4)
        event = supported(facts_of(mechanism, "replace-one"), setting, "model")
        assert isinstance(event, ev.Gaussian)
        assert event.noise_multiplier <= 2 * mechanism.std / row * (1 + 1e-12)
    several = setting_of(records, unit="record")
    assert isinstance(
        supported(facts_of(mechanism, "replace-one"), several, "model"), ev.NoGuarantee
    )


def test_a_larger_statement_raises_the_number_and_a_smaller_does_not_lower_it() -> None:
    mechanism = noisy()
    honest = upper(product_log(mechanism))
    log = product_log(mechanism)
    for fields in (
        {"sensitivity": 0.8},
        {"contribution": part(bound=0.8)},
    ):
        assert upper(intents(**fields)(log)) > 1.5 * honest
    for fields in (
        {"sensitivity": 0.2},
        {"contribution": part(bound=0.2)},
        {"noise": part(grid=1e-30)},
        {"weights": part(largest_sum=0.1)},
    ):
        assert upper(intents(**fields)(log)) >= honest * (1 - 1e-12)
    assert "sensitivity-below-facts" in {
        hazard.id for hazard in audited(intents(sensitivity=0.2)(log)).hazards
    }


def product_part(**fields: Any) -> Any:
    return lambda own: replace(own, product=replace(own.product, **fields))


STRANGE: dict[str, Any] = {
    "no facts": part(product=None),
    "a user": part(unit="user"),
    "l1": part(norm="l1"),
    "rows of zero norm": product_part(row_norm=0.0),
    "rows of any norm": product_part(row_norm=1e31),
    "rows of no norm": product_part(row_norm=math.inf),
    "a negative divisor": product_part(divisor=-1.0),
    "a tiny divisor": product_part(divisor=1e-31),
    "a huge divisor": product_part(divisor=1e31),
    "more columns than there are": product_part(rank=7),
    "no columns": product_part(rank=0),
    "no dimension": product_part(dimension=0),
    "too many dimensions": product_part(dimension=2**24 + 1),
    "several rows of a record": product_part(rows=2),
    "no rows": product_part(rows=0),
    "rows without end": product_part(rows=2**62),
    "a change of a record": product_part(largest_change=1.0),
    "an entry without a change": part(unit="entry"),
    "few bits of rows": product_part(row_bits=7),
    "few bits of a basis": product_part(basis_bits=7),
    "few bits": product_part(row_bits=8, basis_bits=7),
    "many bits": product_part(row_bits=20, basis_bits=20),
    "endless bits": product_part(row_bits=10**9),
    "other terms": part(terms="unit"),
}


@for_each("name", list(STRANGE))
def test_strange_facts_support_nothing(name: str) -> None:
    changed = intents(contribution=STRANGE[name])(product_log(noisy()))
    report = audited(changed)
    assert report.total.epsilon.upper == math.inf
    assert report.supported is False


@for_each("family", ["laplace", "discrete-gaussian", "exponential"])
def test_noise_of_another_family_supports_nothing(family: Any) -> None:
    changed = intents(noise=part(family=family))(product_log(noisy()))
    assert upper(changed) == math.inf


def test_samples_and_weights_support_nothing() -> None:
    for fields in (
        {"sampling": Sampling("poisson", "record", 0.1, "server")},
        {"weights": Weights("records")},
    ):
        assert upper(intents(**fields)(product_log(noisy()))) == math.inf


def test_other_numbers_of_values_support_nothing() -> None:
    assert upper(releases(values=17)(product_log(noisy()))) == math.inf


def test_limits_are_those_of_the_mechanism() -> None:
    grid = importlib.import_module("privplan.accountant.mechanisms.product_grid")
    assert product_facts.MIN_PRODUCT_BITS == grid.MIN_PRODUCT_BITS
    assert product_facts.MAX_PRODUCT_BITS == grid.MAX_PRODUCT_BITS


def test_the_grid_is_never_finer_than_the_bits_say() -> None:
    mechanism = noisy()
    own = product_of(mechanism.contribution)
    assert least_grid(own) == mechanism.grid
    coarse = product_part(row_bits=8, basis_bits=8)
    records = product_log(mechanism)
    assert upper(intents(contribution=coarse)(records)) > upper(records)
    for std in (least_grid(own) * 79, least_grid(own) * 1e-3):
        own_noise = Noise("gaussian", std, 1, std, 0, 1, 0.0)
        assert upper(intents(noise=own_noise)(records)) == math.inf


def test_honest_intents_have_usable_facts() -> None:
    for facts in HONEST.values():
        assert unusable(intent_of(noisy(**facts))) == []


@for_each("name", list(LOGS))
def test_what_is_stated_to_reach_whom_changes_no_number(name: str) -> None:
    """The table's own reaches, of everybody whom it knows: the same numbers, and no hazard."""
    records = product_log(noisy(), **LOGS[name])
    opened = records[0]
    assert isinstance(opened, RunOpen)
    route = Route(opened.aggregation, 5, opened.security, 0, Sampling(), "record")
    named = [row.observer for row in audited(records).rows]
    reaches = reaches_of([*named, "silo-with-records", "coordinator"], route)
    report = audited(intents(reaches=reaches)(records))
    assert report.hazards == ()
    assert {row.observer: row.total.upper for row in report.rows if row.stated} == {
        row.observer: row.total.upper for row in audited(records).rows if row.stated
    }


@for_each("seed", range(30))
def test_strange_reaches_never_raise_and_never_gain(seed: int) -> None:
    rng = np.random.default_rng(seed)
    records = product_log(noisy(), aggregation="masked")
    honest = {name: upper(records, name) for name in ("model", "server", "silo", "client")}

    stated = {name: strange_reach(rng) for name in honest if rng.random() < 0.6}
    keyed = opening(security=lambda one: replace(one, key_bits=drawn_of(rng, 0, 512, 3072)))
    changed = keyed(intents(reaches=stated)(records))
    for name, least in honest.items():
        assert upper(changed, name) >= least * (1 - 1e-12)
