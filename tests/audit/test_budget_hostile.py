"""Budgets of hostile logs and broken files: absurd numbers, many events, bad lines."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.composition import Composition, Leaf
from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Population, Weights
from privplan.audit.budget import audit_budget
from privplan.audit.evidence import epsilon_total
from privplan.audit.evidence.epsilon_total import MAX_EVENT_KINDS, _Classes, total
from privplan.fl.log.hash_chain import LOG

from ..cases import for_each
from .ledgers import (
    CLIP,
    DELTA,
    audited,
    epsilon,
    intents,
    opening,
    part,
    releases,
    upper,
    weighted,
    written,
)

# --- claims, limits -----------------------------------------------------------------------------


def test_a_claim_and_a_limit() -> None:
    records = weighted(50)
    assert audited(opening(claim=part(epsilon=6.58))(records)).supported is True
    assert audited(opening(claim=part(epsilon=6.57))(records)).supported is False
    nothing = audited(opening(claim=part(epsilon=None))(records))
    assert nothing.supported is None
    assert nothing.ok
    assert audited(records, limit=6.58).ok
    assert not audited(records, limit=6.57).ok


def test_how_many_rounds_are_left() -> None:
    running = weighted(50)[:41]
    report = audited(running, limit=6.58)
    assert report.left == 30
    assert audited(running, limit=0.1).left == 0
    assert audited(weighted(50), limit=100.0).left is None  # it is closed


def test_json_has_what_was_agreed() -> None:
    found = audited(weighted(50), groups=(2,)).to_json()
    assert {"epsilon", "delta", "unit", "neighbours", "observers", "claimed", "hazards"} <= set(
        found
    )
    assert found["rounds"] == 50
    assert found["delta"] == DELTA
    assert found["unit"] == "user"
    assert found["neighbours"] == "add-remove"
    assert found["claimed"] == pytest.approx(6.573, abs=1e-3)
    assert json.dumps(found)


# --- hostile logs -------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.sampled_from([0.0, -1.0, 1e308, -1e308, math.inf, -math.inf, 5e-324, 1e-308, 1e-90, 1e90]),
    st.floats(allow_nan=False),
)


COUNTS = st.one_of(
    st.sampled_from([0, 1, 2, 10**6, 10**15, 10**18, 2**63 - 1]), st.integers(0, 2**63 - 1)
)


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "bound": NUMBERS,
            "std": NUMBERS,
            "share_std": NUMBERS,
            "sensitivity": NUMBERS,
            "largest_sum": NUMBERS,
            "rate": NUMBERS,
            "grid": NUMBERS,
            "draws": COUNTS,
            "shares": COUNTS,
            "tolerated_dropouts": COUNTS,
            "batch": COUNTS,
            "population": COUNTS,
            "silos": COUNTS,
            "released": COUNTS,
            "made": COUNTS,
        },
    )
)
def test_absurd_numbers_are_hazards_and_never_a_traceback(values: dict[str, float]) -> None:
    def of(*names: str) -> Callable[[object], object]:
        return part(**{name: values[name] for name in names if name in values})

    records = intents(
        contribution=of("bound"),
        noise=of("std", "share_std", "grid", "draws", "shares", "tolerated_dropouts"),
        weights=of("largest_sum"),
        sampling=of("rate", "batch", "population"),
        sensitivity=lambda old: values.get("sensitivity", old),
    )(weighted(2, rate=0.5))
    records = opening(population=Population(50, int(values.get("silos", 5))))(records)
    records = releases(
        shares=lambda old: int(values.get("released", old)),
        draws=lambda old: int(values.get("made", old)),
    )(records)
    report = audited(records)
    assert 0.0 <= report.total.epsilon.lower <= report.total.upper
    json.dumps(report.to_json())


@settings(max_examples=15)
@given(
    st.floats(0.01, 10.0), st.floats(0.01, 10.0), st.floats(0.1, 3.0), st.integers(0, 5), st.data()
)
def test_a_log_that_says_less_of_its_noise_never_gets_a_smaller_number(
    std: float, sensitivity: float, weight: float, shares: int, data: st.DataObject
) -> None:
    """Worse facts, one by one: less noise, more weight, fewer shares, a larger clip."""
    base = intents(
        noise=part(std=std, share_std=std / math.sqrt(5)),
        sensitivity=sensitivity,
        weights=Weights("records", weight),
    )(weighted(2, views=False))
    factor = data.draw(st.floats(0.1, 1.0))
    worse = data.draw(
        st.sampled_from(
            [
                intents(noise=part(std=std * factor)),
                intents(noise=part(share_std=std / math.sqrt(5) * factor)),
                intents(sensitivity=sensitivity / factor),
                intents(weights=Weights("records", weight / factor)),
                intents(contribution=part(bound=CLIP / factor)),
                intents(noise=part(draws=3)),
                releases(shares=shares),
                releases(clip_enforced=False),
            ]
        )
    )
    for observer in ("model", "server", "silo"):
        assert upper(worse(base), observer) >= upper(base, observer) * (1 - 1e-9)


def few_as_they_are(monkeypatch: pytest.MonkeyPatch, fast: int, at_all: int) -> None:
    """Let so many different sums with Gaussian noise be composed as they are, and not thousands."""
    monkeypatch.setattr(epsilon_total, "MAX_FAST_GAUSSIAN_SUMS", fast)
    monkeypatch.setattr(epsilon_total, "MAX_GAUSSIAN_SUMS", at_all)


def test_rounds_of_more_kinds_than_are_composed_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few_as_they_are(monkeypatch, 40, 80)
    many = {ev.Poisson(0.1 + i / 1e4, ev.Gaussian(5.0 + i / 1e2)): 100 for i in range(100)}
    found = total(many, delta=DELTA, neighbours="add-remove")
    least = ev.Repeat(10_000, ev.Poisson(0.11, ev.Gaussian(5.0)))
    most = ev.Repeat(10_000, ev.Poisson(0.1, ev.Gaussian(6.0)))
    assert found.rounded
    assert epsilon(most) < found.upper <= epsilon(least) * 1.001


def test_rounding_to_fewer_events_is_upwards_and_close() -> None:
    some = {
        ev.Poisson(0.1 + i / 1e3, ev.Laplace(5.0 + i / 10)): 3 for i in range(MAX_EVENT_KINDS + 8)
    }
    exact = epsilon(ev.Compose([ev.Repeat(count, event) for event, count in some.items()]))
    found = total(some, delta=DELTA, neighbours="add-remove")
    assert found.rounded
    assert exact <= found.upper < 1.35 * exact


def test_schedules_are_composed_as_they_are() -> None:
    """A log whose rounds all differ is worth as much as `account` says, from both sides."""
    many = {ev.Poisson(0.01 + i / 1e5, ev.Gaussian(1.5 - i / 1e3)): 1 for i in range(60)}
    found = total(many, delta=DELTA, neighbours="add-remove", lower=many)
    assert not found.rounded
    assert found.epsilon == pp.account(ev.Compose(tuple(many)), delta=DELTA).epsilon
    assert found.epsilon.gap < 1e-3 * found.upper
    some = dict(list(many.items())[:40])
    part = total(many, delta=DELTA, neighbours="add-remove", lower=some)
    assert part.epsilon.lower == pp.account(ev.Compose(tuple(some)), delta=DELTA).epsilon.lower


def test_different_rounds_are_rounded_by_a_hair_from_both_sides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few_as_they_are(monkeypatch, 60, 300)
    many = {ev.Poisson(0.02, ev.Gaussian(2.0 + i / 1e4)): 20 for i in range(75)}
    found = total(many, delta=DELTA, neighbours="add-remove", lower=many)
    each = [ev.Repeat(count, event) for event, count in many.items()]
    exact = pp.account(ev.Compose(each), delta=DELTA).epsilon
    assert found.rounded
    assert found.epsilon.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.epsilon.gap < 1e-3 * found.upper


@for_each("weaker", [True, False])
@for_each("step", [1.0001, 1.03, math.inf])
def test_rounding_goes_one_way(weaker: bool, step: float) -> None:
    """Less noise and more sampling for an upper end, and the other way for a lower one."""
    rng = np.random.default_rng(4)
    events = [
        ev.Poisson(float(q), ev.Gaussian(float(s)))
        for q, s in zip(rng.uniform(1e-6, 1.0, 200), rng.uniform(0.1, 50.0, 200), strict=True)
    ]
    events += [ev.Poisson(0.0, ev.Gaussian(0.1)), ev.Group(3, ev.Poisson(1.0, ev.Laplace(2.0)))]
    parts = Composition(Leaf(event, 1) for event in events)
    classes = _Classes.of(parts, weaker)
    for leaf in parts:
        (rounded,) = classes.merged([leaf], step)
        before, after = _noise_and_rate(leaf.event), _noise_and_rate(rounded.event)
        protects_less = after[0] <= before[0] and after[1] >= before[1]
        protects_more = after[0] >= before[0] and after[1] <= before[1]
        assert protects_less if weaker else protects_more
        if step < 2.0:
            assert abs(math.log(after[0] / before[0])) <= math.log(step) * (1 + 1e-6)


def test_classes_begin_at_what_a_composition_inside_holds() -> None:
    inside = ev.Compose([ev.Gaussian(0.5), ev.Poisson(0.3, ev.Gaussian(2.0))])
    parts = Composition(
        [Leaf(ev.ClientSampled(0.1, inside), 1), Leaf(ev.Poisson(0.2, ev.Gaussian(1.0)), 1)]
    )
    classes = _Classes.of(parts, weaker=True)
    assert (classes.least, classes.most) == (0.5, 0.3)


def _noise_and_rate(event: ev.Event) -> tuple[float, float]:
    rate, inner = 1.0, event
    while not hasattr(inner, "noise_multiplier"):
        rate = getattr(inner, "rate", rate)
        inner = inner.event  # type: ignore[attr-defined]
    return inner.noise_multiplier, rate


def test_unroundable_events_by_the_thousand_get_no_number() -> None:
    many = {ev.Approximate(1.0 + i / 1e4, 0.0): 1 for i in range(3_000)}
    found = total(many, delta=DELTA, neighbours="add-remove")
    assert math.isinf(found.upper)
    assert "different events" in found.refusal


def test_impossible_counts_get_no_number() -> None:
    assert math.isinf(upper(intents(noise=part(draws=2**63 - 1))(weighted(2))))
    vast = upper(intents(noise=part(draws=10**14))(weighted(2)))
    assert vast > 1e9


def test_a_log_without_rounds_spends_nothing() -> None:
    records = weighted(5)
    report = audited(records[:1])
    assert report.total.epsilon == 0.0
    assert report.planned is not None
    assert report.planned.upper == pytest.approx(upper(records), rel=1e-9)
    assert audited([records[0], records[-1]]).total.upper == pytest.approx(upper(records), rel=1e-9)


# --- files --------------------------------------------------------------------------------------


def test_a_folder(tmp_path: Path) -> None:
    report = audit_budget(written(tmp_path / "run", weighted(50)))
    assert report.ok
    assert report.complete
    assert report.total.upper == pytest.approx(6.573, abs=1e-3)
    assert report.chain.records == 102
    assert report.chain.head is not None


@for_each(
    ("line", "old", "new"),
    [(1, "run-1", "run-2"), (2, '"std":"0.5"', '"std":"0.6"'), (7, "true", "false")],
)
def test_a_broken_chain_names_the_line_and_supports_nothing(
    tmp_path: Path, line: int, old: str, new: str
) -> None:
    folder = written(tmp_path / "run", weighted(5))
    lines = (folder / LOG).read_text().splitlines()
    assert old in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(old, new)
    (folder / LOG).write_text("\n".join(lines) + "\n")
    report = audit_budget(folder)
    assert report.chain.bad_line == line
    assert math.isinf(report.total.upper)
    assert not report.ok
    assert report.hazards[0].id == "broken-chain"
    json.dumps(report.to_json())


def test_a_torn_last_line_is_a_warning(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", weighted(5))
    text = (folder / LOG).read_text()
    (folder / LOG).write_text(text[:-20])
    report = audit_budget(folder)
    assert {hazard.id for hazard in report.hazards} == {"incomplete", "torn-line"}
    assert report.ok
    assert not report.complete


@for_each(
    "text",
    [
        "",
        "\n",
        "{}\n",
        "[]\n",
        "null\n",
        '{"hash":"0","prev":"0","seq":0}\n',
        "[" * 100_000 + "\n",
        '{"a":' * 5_000 + "1" + "}" * 5_000 + "\n",
        '{"seq":1e999}\n',
        "\x00\x00\n",
        '{"type":"run.open"}\n' * 3,
    ],
)
def test_what_is_no_log_ends_in_a_report(tmp_path: Path, text: str) -> None:
    (tmp_path / LOG).write_text(text)
    report = audit_budget(tmp_path)
    assert not report.ok
    assert math.isinf(report.total.upper)
    assert report.chain.bad_line == 1


def test_no_log_and_wrong_options(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput):
        audit_budget(tmp_path)
    folder = written(tmp_path / "run", weighted(2))
    for wrong in ({"limit": -1.0}, {"limit": math.nan}, {"groups": (0,)}):
        with pytest.raises(InvalidInput):
            audit_budget(folder, **wrong)  # type: ignore[arg-type]
