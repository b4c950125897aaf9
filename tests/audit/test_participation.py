"""Silos that take part in some rounds only: what their logs support, and what forging gains."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.audit.budget import Ledger
from privplan.audit.derivation.protocol_consistency import contradictions
from privplan.audit.evidence import round_kinds
from privplan.fl.log.record_order import RecordOrder

from ..accountant.participating import SCHEDULES, busiest, exact
from ..cases import for_each
from . import ledgers
from .ledgers import CLIP, DELTA, Records, changed, evidence, intents, opening, part

NOISE, SILOS = 5.0, 5
ROUND = ev.Gaussian(NOISE)

Schedule = list[tuple[int, ...] | None]


def scheduled(
    schedule: Schedule,
    *,
    unit: str = "silo",
    neighbours: str = "replace-one",
    clipped: str = "silo",
    counted: int | None = None,
    rounds: int | None = None,
    close: bool = True,
    noises: tuple[float, ...] = (),
) -> Records:
    """Return the log of a run whose rounds have these silos (None: all), in the clear."""
    planned = len(schedule) if rounds is None else rounds
    most = counted or max(sum(s is None or i in s for s in schedule) for i in range(SILOS))
    seen = {"model": ev.Repeat(most, ROUND)}
    proven = pp.account(seen["model"], delta=DELTA, neighbours=neighbours).epsilon.upper
    lines: Records = [
        records.RunOpen(
            "run-1",
            "scheduled",
            records.Claim(unit, neighbours, DELTA, proven),  # type: ignore[arg-type]
            records.Planned(planned, dict(seen), most),
            records.Population(ledgers.USERS, SILOS, 1000),
            ledgers.SECURE,
        )
    ]
    for number, silos in enumerate(schedule, 1):
        shares = SILOS if silos is None else len(silos)
        noise = noises[number - 1] if noises else NOISE
        share = math.nextafter(noise * CLIP / math.sqrt(shares), 9.0)
        lines.append(
            records.RoundIntent(
                number,
                "train",
                ev.Gaussian(noise),
                records.Contribution(CLIP, "l2", clipped),  # type: ignore[arg-type]
                records.Noise("gaussian", noise * CLIP, shares, share, 0, 1, 2.0**-30),
                2 * CLIP,
                silos=silos,
            )
        )
        lines.append(ledgers.release(number, len(lines) - 1, lines[-1].noise))
    if close:
        end = records.RunClose(
            len(schedule), "finished", seen, {"model": proven}, DELTA, "gdp"
        )  # as a run states it: of one silo
        lines.append(end)
    return lines


def shared(lines: Records, fewest: int = 3, colluders: int = 0) -> Records:
    """Return a log whose silos sum by additive shares, in groups of at least `fewest`."""
    protocol = records.Security("additive-shares", SILOS, fewest, ring_bits=64, colluders=colluders)
    return changed(lines, records.RunOpen, aggregation="shares", security=protocol)


def upper(lines: Records, observer: str = "model") -> float:
    return evidence(lines).spent_total(observer).upper


def codes(lines: Records) -> set[str]:
    return {hazard.id for hazard in ledgers.audited(lines).hazards}


def mu(rounds: int, noise: float = NOISE) -> float:
    return 2 * math.sqrt(rounds) / noise


# --- the worst silo -----------------------------------------------------------------------------


@for_each("name", sorted(SCHEDULES))
def test_the_number_is_that_of_the_busiest_silo(name: str) -> None:
    schedule = SCHEDULES[name]
    truth = exact(mu(busiest(schedule)))
    total = evidence(scheduled(list(schedule))).spent_total("model")
    # The discrete noise counts as a little less than it is, and nothing else is lost.
    assert truth <= total.upper <= truth * (1 + 1e-4)
    assert truth * (1 - 1e-4) <= total.epsilon.lower <= truth


@for_each("name", sorted(SCHEDULES))
def test_an_honest_log_is_within_its_promise_and_its_plan(name: str) -> None:
    assert codes(scheduled(list(SCHEDULES[name]))).isdisjoint(
        {"more-rounds", "off-plan", "stopped-early", "close-under-reports", "plan-exceeds-claim"}
    )


def test_rounds_of_other_noise_are_composed_by_silo() -> None:
    # Silo 2 has the round with less noise and one other, silo 1 more rounds: numbers tell.
    schedule: Schedule = [(0, 2), (1, 2), (1, 3), (1, 4)]
    noises = (2.5, 5.0, 5.0, 5.0)
    truth = exact(math.hypot(mu(1, 2.5), mu(1, 5.0)))  # silo 2: one of either
    found = upper(scheduled(schedule, noises=noises, close=False))
    assert truth <= found <= truth * (1 + 1e-4)


@for_each(
    ("unit", "neighbours", "clipped", "by_silo"),
    [
        ("silo", "replace-one", "silo", True),
        ("record", "replace-one", "silo", True),
        ("record", "add-remove", "record", True),
        ("silo", "add-remove", "silo", False),
        ("user", "replace-one", "user", False),
        ("record", "replace-one", "user", False),
    ],
)
def test_every_round_counts_where_a_unit_may_lie_in_several_silos(
    unit: str, neighbours: str, clipped: str, by_silo: bool
) -> None:
    schedule = SCHEDULES["disjoint"]
    lines = scheduled(list(schedule), unit=unit, neighbours=neighbours, clipped=clipped)
    counts = {sum(rounds.counts) for rounds in evidence(lines).of_units}
    assert counts == {2 if by_silo else 4}
    assert ("more-rounds" in codes(lines)) is not by_silo


@for_each(
    "sampling",
    [
        records.Sampling("fixed-size", "record", 0.5, "server", 50, 100),
        records.Sampling("poisson", "user", 0.5, "server"),
        records.Sampling("poisson", "record", 0.5, "silos", chosen_by="all-silos"),
    ],
    ids=["fixed-size", "of-users", "chosen-together"],
)
def test_a_sample_that_depends_on_several_silos_is_of_every_round(
    sampling: records.Sampling,
) -> None:
    lines = scheduled(list(SCHEDULES["disjoint"]), unit="record", clipped="record")
    (counted,) = evidence(intents(sampling=sampling)(lines)).of_units
    assert sum(counted.counts) == 4


def test_units_of_many_records_pay_for_every_round() -> None:
    lines = scheduled(list(SCHEDULES["disjoint"]), unit="record", clipped="record")
    found = evidence(lines)
    assert found.spent_total("model", group=2).upper > exact(2 * mu(4)) * (1 - 1e-9)


silos_of_rounds = st.lists(
    st.none() | st.sets(st.integers(0, SILOS - 1), min_size=1).map(lambda s: tuple(sorted(s))),
    min_size=1,
    max_size=5,
)


@given(schedule=silos_of_rounds, data=st.data())
@settings(max_examples=30, deadline=None)
def test_a_silo_more_in_a_round_never_lowers_the_number(
    schedule: Schedule, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(schedule) - 1))
    silo = data.draw(st.integers(0, SILOS - 1))
    noises = tuple(data.draw(st.sampled_from([2.5, 5.0])) for _ in schedule)
    more = list(schedule)
    more[place] = None if more[place] is None else tuple(sorted({*more[place], silo}))
    before, after = (
        upper(scheduled(each, noises=noises, close=False)) for each in (schedule, more)
    )
    # The noise of a share is rounded, so a sum of more shares has a hair more of it.
    assert after >= before * (1 - 1e-9)
    assert upper(scheduled([None] * len(more), noises=noises, close=False)) >= after * (1 - 1e-9)


# --- the plan -----------------------------------------------------------------------------------


def test_a_run_that_was_ended_early_has_the_whole_plan_of_the_worst_silo() -> None:
    # Two of six rounds, each of other silos; any silo might have taken part in three.
    lines = scheduled([(0, 1), (2, 3)], counted=3, rounds=6)
    truth = exact(mu(3))
    assert truth <= upper(lines) <= truth * (1 + 1e-4)
    assert "stopped-early" in codes(lines)
    so_far = upper(scheduled([(0, 1), (2, 3)], counted=3, rounds=6, close=False))
    assert exact(mu(1)) <= so_far <= exact(mu(1)) * (1 + 1e-4)


WEAKEST = math.sqrt(3) * mu(1)
"""A round of three shares, of which one arrived."""


def with_one_share(lines: Records, *numbers: int) -> Records:
    """Return a log in whose rounds of these numbers one share of the noise arrived."""
    return [
        replace(line, shares=1)
        if isinstance(line, records.RoundRelease) and line.round in numbers
        else line
        for line in lines
    ]


@for_each(
    "rounds",
    [
        [(0, 1, 2), (0, 1, 2)],
        [(0, 1, 2), (0, 1, 2), (0, 1, 3)],
    ],
    ids=["yet-to-come", "held-by-another"],
)
def test_a_silo_with_fewer_rounds_has_more_of_the_rest_as_weak_as_the_weakest(
    rounds: Schedule,
) -> None:
    # Silo 4 has yet to take part in its three rounds, any of which may be like the second one.
    lines = with_one_share(scheduled(rounds, counted=3, rounds=6), 2)
    truth = exact(math.sqrt(3) * WEAKEST)
    assert truth <= upper(lines) <= truth * (1 + 1e-4)


def test_what_is_left_is_read_from_the_fewest_rounds_where_sets_are_put_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(round_kinds, "_MAX_COMPOSED", 1)
    lines = with_one_share(scheduled([(0, 1, 2), (0, 1, 3)], counted=3, rounds=6), 2)
    truth = exact(math.sqrt(3) * WEAKEST)
    assert upper(lines) >= truth


def test_nothing_is_left_once_all_rounds_are_made() -> None:
    lines = scheduled(list(SCHEDULES["disjoint"]), counted=3)
    assert upper(lines) <= exact(mu(2)) * (1 + 1e-4)
    assert "stopped-early" not in codes(lines)


def test_a_silo_beyond_the_plan_is_found_and_counted() -> None:
    lines = scheduled(list(SCHEDULES["one-in-all"]), counted=2)
    assert upper(lines) >= exact(mu(4))
    assert {"more-rounds", "close-under-reports"} <= codes(lines)


def test_a_round_without_a_schedule_counts_for_every_silo() -> None:
    lines = scheduled([(0, 1), None, (2, 3), None])
    truth = exact(mu(3))
    assert truth <= upper(lines) <= truth * (1 + 1e-4)


# --- schedules that do not fit ------------------------------------------------------------------


@for_each("shares", [1, 4, 5])
def test_other_shares_than_silos_cover_nothing(shares: int) -> None:
    lines = scheduled([(0, 1), (2, 3)])
    forged = intents(noise=part(shares=shares))(lines)
    assert math.isinf(upper(forged))
    assert "take part, and add" in evidence(forged).spent_total("model").refusal


def test_a_silo_that_the_run_does_not_have_covers_nothing() -> None:
    lines = scheduled([(0, 1), (3, 5)])
    assert math.isinf(upper(lines))
    order = RecordOrder()
    order.accept(lines[0], 0)
    assert order.refusal(lines[1]) is None
    refusal = order.refusal(replace(lines[1], silos=(3, 5)))  # type: ignore[type-var]
    assert refusal is not None
    assert "silo 5" in refusal


def test_a_schedule_that_is_written_into_another_log_gains_nothing() -> None:
    # Rounds of all five silos, said to be of other ones each: their shares say otherwise.
    honest = scheduled([None] * 4)
    several = iter([(0, 1, 2), (1, 2, 3), (2, 3, 4), (0, 3, 4)])
    forged = changed(honest, records.RoundIntent, silos=lambda _: next(several))
    assert math.isinf(upper(forged))
    # Of all silos by name, they are what they were.
    named = intents(silos=tuple(range(SILOS)))(honest)
    assert upper(named) == pytest.approx(upper(honest), rel=1e-9)


def test_messages_are_covered_by_no_schedule() -> None:
    lines = scheduled([(0,), (1,)], unit="record", clipped="record")
    messages = intents(contribution=part(terms="message"))(lines)
    assert math.isinf(upper(messages))


# --- additive shares among some peers -----------------------------------------------------------


def faults(lines: Records) -> set[str]:
    found = evidence(lines)
    return {text for kind in found.kinds for text in contradictions(kind.facts, found.setting)}


GROUPS: Schedule = [(0, 1, 2), (1, 2, 3, 4), (0, 1, 2, 3, 4), None]


def test_a_group_of_peers_is_read_as_the_parties_of_its_round() -> None:
    lines = shared(scheduled(list(GROUPS)))
    assert faults(lines) == set()
    # Who takes its share off is left with n - 1 of n; silos 1 and 2 are in all rounds.
    shift = math.sqrt(sum(4 / NOISE**2 * n / (n - 1) for n in (3, 4, 5, 5)))
    found, truth = upper(lines, "peer"), exact(shift)
    assert truth <= found <= truth * (1 + 1e-4)


@for_each(
    ("lines", "text"),
    [
        (shared(scheduled([(0, 1)]), fewest=2), "of 2 peers"),
        (shared(scheduled([(0, 1, 2, 3)]), fewest=2), "of 2 peers"),
        (shared(scheduled([(0, 1)])), "may be let through"),
        (shared(scheduled([(0, 1, 2), None]), colluders=1), "1 of 3 peers may tell"),
        (shared(scheduled([(0, 1, 2, 3)]), colluders=1), "1 of 3 peers may tell"),
        (
            opening(security=part(parties=3))(shared(scheduled([(0, 1, 2)]))),
            "3 parties take part, and there are 5",
        ),
        (
            opening(plan=part(counted=None))(shared(scheduled([None]))),
            "need every peer",
        ),
    ],
    ids=["pair", "fewest-2", "below-fewest", "told", "told-of-four", "parties", "no-schedule"],
)
def test_facts_of_a_group_that_do_not_fit_are_found(lines: Records, text: str) -> None:
    found = faults(lines)
    assert any(text in each for each in found), found


def test_a_peer_outside_of_the_group_has_nothing_to_take_off() -> None:
    # Users' even weights: less one's own, (S-1)/S of a user is left; who is outside sees all of it.
    lines = shared(scheduled([(0, 1, 2)], unit="user", clipped="user", neighbours="add-remove"))
    even = intents(weights=part(rule="uniform"), sensitivity=CLIP)(lines)
    outside = exact(1 / NOISE)
    assert upper(even, "peer") >= outside


def test_the_setting_of_a_ledger_says_whether_silos_come_and_go() -> None:
    assert evidence(scheduled([(0, 1)])).setting.scheduled
    old = opening(plan=part(counted=None))(scheduled([None]))
    assert not evidence(old).setting.scheduled
    assert Ledger.of(ledgers.entries(old)).opened.plan.counted is None


# --- constants ----------------------------------------------------------------------------------


def divided(schedule: Schedule, constants: tuple[float, ...]) -> Records:
    """Return a log whose rounds divide by these constants."""
    following = iter(constants)
    return changed(
        scheduled(schedule),
        records.RoundRelease,
        normaliser=lambda old: replace(old, value=next(following)),
    )


def test_each_number_of_silos_has_one_constant() -> None:
    schedule: Schedule = [(0, 1), (1, 2, 3), (2, 4), None]
    fitting = divided(schedule, (2.0, 3.0, 2.0, 5.0))
    assert evidence(fitting).doubts.divided == ()
    assert math.isfinite(upper(fitting))
    # The third round has as many silos as the first, and another constant.
    moving = divided(schedule, (2.0, 3.0, 2.5, 5.0))
    assert len(evidence(moving).doubts.divided) == 1
    assert math.isinf(upper(moving))


def test_groups_of_different_sizes_leave_no_error() -> None:
    schedule: Schedule = [(0, 1), (1, 2, 3), (2, 4), (0, 1, 2, 3, 4)]
    report = ledgers.audited(scheduled(schedule))
    assert [hazard.id for hazard in report.hazards if hazard.severity == "error"] == []
