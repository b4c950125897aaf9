"""Budgets under private weighting: oblivious transfers, noise on the grid, hostile protocols."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import FineGaussian, RoundDescription
from privplan.accountant.records import Noise, RoundIntent, RunOpen, Sampling, Security, Weights
from privplan.audit.budget import audit_budget
from privplan.fl.log.hash_chain import LOG

from ..cases import for_each
from .ledgers import (
    CLIP,
    FINE,
    LIMIT,
    SIGMA,
    Change,
    also,
    audited,
    changed,
    epsilon,
    evidence,
    intents,
    masks,
    opening,
    part,
    run_of,
    upper,
    weighing,
    weighted,
    written,
)
from .protocols import OBSERVERS, SUM, TRANSFER, close, hazards, private, security, supported

PROTOCOLS = {"masked": "pairwise-masks", "private-weighting": "private-weighting"}


# --- the oblivious transfer ---------------------------------------------------------------------


@for_each(("slots", "chosen", "rate"), [(10, 1, 0.1), (3, 1, 1 / 3), (10, 5, 0.5)])
def test_the_rate_is_that_of_the_slots(slots: int, chosen: int, rate: float) -> None:
    log = security(slots=slots, chosen=chosen)(private(rate=0.1, drawn_by=TRANSFER))
    for observer in ("model", "server", "silo"):
        event = supported(log, observer)
        assert isinstance(event, ev.Poisson)
        assert event.rate == pytest.approx(rate, rel=1e-15)
        assert event.rate * slots >= chosen
    assert ("rate-mismatch" in hazards(log)) == (rate > 0.1)
    assert upper(log) >= upper(private(rate=0.1, drawn_by=TRANSFER)) * (1 - 1e-12)


def test_a_rate_above_that_of_the_slots_is_believed() -> None:
    log = security(slots=100, chosen=1)(private(rate=0.1, drawn_by=TRANSFER))
    assert upper(log) == upper(private(rate=0.1, drawn_by=TRANSFER))
    assert "rate-mismatch" not in hazards(log)
    lower = evidence(log).spent_total("model").epsilon.lower
    assert lower < 0.5 * upper(log)  # it may have been the lower one


@for_each(("slots", "chosen"), [(0, 0), (10, 0), (1, 1), (10, 11), (0, 5)])
def test_a_transfer_that_cannot_be_draws_everybody(slots: int, chosen: int) -> None:
    log = security(slots=slots, chosen=chosen)(private(rate=0.1, drawn_by=TRANSFER))
    for observer in ("model", "server", "silo"):
        assert not isinstance(supported(log, observer), ev.Poisson)
    assert {"protocol-mismatch", "rate-mismatch"} <= hazards(log).keys()


def test_a_transfer_draws_each_user_by_itself() -> None:
    fixed = Sampling("fixed-size", "user", 0.1, "oblivious-transfer", 5, 50)
    log = intents(sampling=fixed)(private(rate=0.1, drawn_by=TRANSFER, views=False))
    for observer in OBSERVERS:
        assert not isinstance(supported(log, observer), (ev.FixedSize, ev.Poisson))


# --- what noise does not cover ------------------------------------------------------------------

UNCOVERED: dict[str, Change] = {
    "multiples": security(noise="multiples"),
    "the grid of the digits": intents(noise=part(grid=2.0**-18)),
    "a grid of one weight": intents(noise=part(grid=CLIP / (2**53))),
    "no grid": intents(noise=part(grid=0.0)),
    "counts above the limit": security(count_cap=9),
    "no counts": security(count_cap=0),
    "no limit": security(count_limit=0),
    "a limit that nobody means": security(count_limit=2**63 - 1),
}


@for_each("name", UNCOVERED)
def test_noise_that_leaves_a_part_uncovered_proves_nothing_to_anybody(name: str) -> None:
    log = UNCOVERED[name](private(rate=0.1))
    for observer in OBSERVERS:
        assert math.isinf(upper(log, observer))
        assert evidence(log).spent_total(observer).epsilon.lower == 0.0
    assert hazards(log)["noise-in-multiples"] == "error"


def test_the_published_form_says_so_itself() -> None:
    nothing = ev.NoGuarantee("Protocol 1 as published")
    intent = intents(event=nothing, views={})(private(1))[1]
    assert isinstance(intent, RoundIntent)
    seen: dict[str, ev.Event] = {"model": nothing}
    records = changed(
        run_of(intent, seen, 100, silos=5, claimed=10.73),
        RunOpen,
        aggregation="private-weighting",
        security=replace(weighing(5), noise="multiples"),
        as_published=True,
    )
    report = audited(records)
    assert {hazard.id: hazard.severity for hazard in report.hazards} == {
        "as-published": "warning",
        "noise-in-multiples": "error",
    }
    assert math.isinf(report.total.upper)
    assert report.supported is False
    assert not report.ok


def test_a_grid_just_fine_enough_is_accepted_and_none_that_is_coarser() -> None:
    most = CLIP / math.lcm(*range(1, LIMIT + 1))
    assert math.isfinite(upper(intents(noise=part(grid=most * (1 - 1e-9)))(private())))
    assert math.isinf(upper(intents(noise=part(grid=most * (1 + 1e-9)))(private())))


@for_each(
    ("aggregation", "facts"),
    [
        ("masked", {"server": "malicious", "threshold": 2}),
        ("masked", {"server": "malicious", "fewest": 2, "threshold": 2}),
        ("masked", {"colluders": 4}),
        ("masked", {"colluders": 2**63 - 1}),
        ("masked", {"colluders": 3, "threshold": 3}),
        ("masked", {"server": "malicious", "colluders": 3, "threshold": 4}),
        ("private-weighting", {"server": "malicious"}),
        ("private-weighting", {"colluders": 1}),
    ],
)
def test_a_protocol_does_not_hold_off_whom_it_cannot(
    aggregation: str, facts: dict[str, object]
) -> None:
    log = weighted(rule="records", aggregation=aggregation)
    assert "protocol-mismatch" not in hazards(log)
    forged = security(**facts)(log)
    assert hazards(forged)["protocol-mismatch"] == "error"
    assert upper(forged, "server") > upper(log, "server")


@for_each("silos", [0, 1])
@for_each("aggregation", ["plain", *PROTOCOLS])
def test_who_added_shares_of_the_noise_was_there(aggregation: str, silos: int) -> None:
    log = weighted(rule="records", aggregation=aggregation, views=False)
    alone = opening(population=part(silos=silos))(log)
    seen = evidence(alone)
    assert {"server", "silo"} <= set(seen.observers)
    assert math.isinf(upper(alone, "server"))
    assert math.isinf(upper(alone, "silo"))


@for_each("missing", range(5))
@for_each("parties", [2, 3, 5, 7])
def test_masks_as_they_are_chosen_hold_together(parties: int, missing: int) -> None:
    from privplan.fl.aggregation.masked_sums import MaskedAggregator

    if parties - missing < 2:
        return
    log = weighted(rule="records", aggregation="masked", silos=parties, dropouts=missing)
    chosen = MaskedAggregator(parties, dropouts=missing).security
    assert "protocol-mismatch" not in hazards(opening(security=chosen)(log))


@for_each("value", [math.inf, 1e300, 5e-324, 0.0, -1.0])
@for_each("field", ["grid", "bound", "std", "share_std"])
@for_each("aggregation", list(PROTOCOLS))
def test_absurd_numbers_prove_nothing_and_are_no_traceback(
    aggregation: str, field: str, value: float
) -> None:
    log = weighted(2, rule="records", aggregation=aggregation)
    change = {"contribution" if field == "bound" else "noise": part(**{field: value})}
    harmless = field == "grid" and 0.0 <= value < 1e-300  # as fine as can be, or of floats
    harmless &= value > 0.0 or aggregation == "masked"
    assert math.isinf(upper(intents(**change)(log))) != harmless


def test_a_single_share_is_no_smaller_than_numbers_can_be() -> None:
    log = intents(noise=part(shares=1, share_std=1e-200))(weighted(2, silos=1))
    assert math.isinf(upper(log))
    assert "unusable-facts" in hazards(log)


def test_a_run_without_noise_has_no_noise_and_nothing_else_to_say_of_its_protocol() -> None:
    log = intents(noise=Noise("none", 0.0))(weighted(aggregation="masked", views=False))
    assert "no-noise" in hazards(log)
    assert "protocol-mismatch" not in hazards(log)


def test_a_key_that_silos_can_break_hides_no_counts_from_them() -> None:
    log = security(key_bits=1024)(private(rate=0.1))
    for observer in OBSERVERS:
        assert math.isinf(upper(log, observer)) == observer.startswith("silo")
    assert hazards(log)["weak-key"] == "error"


# --- mechanisms on a fine grid ------------------------------------------------------------------


@for_each("limit", [12, 41, 100, 250])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_noise_on_a_fine_grid_is_what_its_mechanism_states(limit: int, neighbours: str) -> None:
    """From 1e-9 to 1e-112 of the noise; the number does not change by the grid."""
    mechanism = FineGaussian(
        bound=CLIP,
        std=SIGMA * CLIP,
        multiple=math.lcm(*range(1, limit + 1)),
        shares=5,
        weights=Weights("records", 1.0),
    )
    intent = mechanism.intent(RoundDescription(1, "train"), neighbours)
    assert 0.0 < intent.noise.grid <= 1e-5 * intent.noise.std / limit
    log = also(
        security(count_limit=limit, count_cap=(limit - 1) // 5),
        intents(noise=intent.noise, sensitivity=intent.sensitivity, weights=intent.weights),
    )(private(neighbours=neighbours))
    assert close(intent.event, SUM)
    assert close(supported(log, "model"), SUM)
    assert close(supported(log, "server"), SUM)
    assert audited(log).ok
    assert upper(log, "silo") == pytest.approx(
        upper(private(neighbours=neighbours), "silo"), rel=1e-12
    )


def test_from_below_weights_do_not_quite_sum_to_one() -> None:
    """A user of 40 counts and a dummy moves the sum by 40/41 of the clip, and nobody by more."""
    found = evidence(private(100)).spent_total("model").epsilon
    most = epsilon(ev.Repeat(100, ev.Gaussian(SIGMA * 41 / 40)))
    assert 0.99 * most < found.lower < most < found.upper
    few = evidence(
        also(security(count_limit=6, count_cap=1), intents(noise=part(grid=2.0**-18 / 60)))(
            private(100)
        )
    )
    assert few.spent_total("model").epsilon.lower < epsilon(
        ev.Repeat(100, ev.Gaussian(SIGMA * 6 / 5))
    )


# --- logs of before, and hostile ones -----------------------------------------------------------


def test_a_log_from_before_there_were_protocols_is_read(tmp_path: Any) -> None:
    records = weighted(5)
    folder = written(tmp_path / "now", records)
    assert '"security"' not in (folder / LOG).read_text()
    assert audit_budget(folder).ok


def test_a_log_with_a_protocol_is_read_as_it_was_written(tmp_path: Any) -> None:
    folder = written(tmp_path / "run", private(5, rate=0.1, drawn_by=TRANSFER))
    report = audit_budget(folder)
    assert report.ok
    told = ("server+1", "server+1-with-records")
    assert [row.observer for row in report.rows] == [*OBSERVERS, *told]
    assert all(row.total.upper == pytest.approx(row.stated, rel=1e-6) for row in report.rows)


NUMBERS = st.one_of(
    st.sampled_from([0, 1, 2, 4, 5, 6, 10, 32, 40, 41, 64, 2048, 3072, 10**6, 2**63 - 1]),
    st.integers(0, 2**63 - 1),
)


NAMES = (
    "parties",
    "fewest",
    "threshold",
    "degree",
    "ring_bits",
    "key_bits",
    "count_limit",
    "count_cap",
    "records_per_count",
    "slots",
    "chosen",
)


STATED = st.tuples(
    st.sampled_from(["plain", "masked", "private-weighting"]),
    st.sampled_from(list(PROTOCOLS.values())),
    st.sampled_from(["every-residue", "multiples"]),
    st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, NUMBERS)),
    st.sampled_from([0.0, 2.0**-24, FINE]),
)
"""What a run may state of its protocol, and of its noise."""


def no_number_is_smaller(
    aggregation: str, protocol: str, noise: str, values: dict[str, int], grid: float
) -> None:
    """Assert it.  The best log is one whose sample nobody knows; changes of its facts only cost."""
    best = private(2, rate=0.1, drawn_by=TRANSFER)
    base = weighing(5, 10, 1) if protocol == "private-weighting" else masks(5, 5)
    own = Security(
        **{
            **{name: getattr(base, name) for name in NAMES},
            **values,
            "protocol": protocol,
            "noise": noise,
        }  # type: ignore[arg-type]
    )
    log = also(
        opening(aggregation=aggregation, security=own), intents(noise=part(grid=grid), views={})
    )(best)
    report = audited(log)
    json.dumps(report.to_json())
    for observer in OBSERVERS:
        assert upper(log, observer) >= upper(best, observer) * (1 - 1e-9)
        assert evidence(log).spent_total(observer).epsilon.lower <= upper(log, observer)


@settings(max_examples=12, deadline=None)
@given(STATED)
def test_no_protocol_whatever_it_states_makes_a_number_smaller(stated: Any) -> None:
    no_number_is_smaller(*stated)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STATED)
def test_no_protocol_of_many_makes_a_number_smaller(stated: Any) -> None:
    no_number_is_smaller(*stated)
