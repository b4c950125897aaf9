"""Several noisy sums in one round, of which only some hold one unit."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms import Gaussian, RoundDescription
from privplan.accountant.records import RoundIntent, RoundRelease, Sampling

from ..cases import for_each
from .ledgers import (
    CLIP,
    DELTA,
    USERS,
    Records,
    audited,
    changed,
    evidence,
    intents,
    part,
    run_of,
    upper,
    weighted,
)

BATCHES: Final = 60
SIGMA: Final = 0.336
EPOCH: Final = Sampling("shuffled", "user", 1.0, "server", most_draws=1, moves_others=False)


def epoch(
    sampling: Sampling = EPOCH,
    *,
    neighbours: str = "add-remove",
    draws: int = BATCHES,
    rounds: int = 1,
) -> Records:
    """Return a log of rounds of one epoch each, that promises what its event says."""
    made = mechanism(neighbours).intent(
        RoundDescription(
            1, "train", sampling, draws=draws, event_override=ev.NoGuarantee("derived")
        ),
        neighbours,
    )
    base = mechanism(neighbours).event(neighbours)
    stated = ev.Repeat(draws, base)
    intent = replace(made, event=stated)
    return run_of(intent, {"model": stated}, rounds, silos=1, neighbours=neighbours)


def mechanism(neighbours: str) -> Gaussian:
    return Gaussian(bound=CLIP, std=CLIP * SIGMA * (2 if neighbours == "replace-one" else 1))


def supported(records: Records, observer: str = "model") -> ev.Event:
    found = evidence(records)
    return found.seen(found.kinds[0], observer).supported


def number(event: ev.Event, neighbours: str = "add-remove") -> float:
    return pp.account(event, delta=DELTA, neighbours=neighbours).epsilon.upper


def derived(records: Records, neighbours: str = "add-remove") -> float:
    return number(supported(records), neighbours)


# --- an epoch -------------------------------------------------------------------------------------


def test_an_epoch_costs_one_release_where_a_unit_is_in_one_batch() -> None:
    """Without the facts all 59 batches count, each moved twice: 1,239 for 16.5."""
    known = derived(epoch(draws=59))
    unknown = derived(epoch(replace(EPOCH, most_draws=None, moves_others=None), draws=59))
    assert known == pytest.approx(16.5, abs=0.05)
    assert unknown == pytest.approx(1239, abs=1)


@for_each("neighbours", ["zero-out", "replace-one"])
def test_an_order_that_stays_needs_no_more(neighbours: str) -> None:
    given = replace(EPOCH, moves_others=None)
    assert derived(epoch(given, neighbours=neighbours), neighbours) == pytest.approx(16.5, abs=0.05)
    silent = replace(given, most_draws=None)
    assert derived(epoch(silent, neighbours=neighbours), neighbours) > 300
    event = supported(epoch(given, neighbours=neighbours))
    assert isinstance(event, ev.ShuffledBatches)
    assert event.batches == BATCHES


@for_each("moves", [None, True])
def test_under_add_remove_others_must_stay_where_they_are(moves: bool | None) -> None:
    told = epoch(replace(EPOCH, moves_others=moves))
    assert supported(told) == supported(epoch(replace(EPOCH, most_draws=None, moves_others=None)))


@for_each(("most", "neighbours"), [(1, "zero-out"), (2, "zero-out"), (3, "add-remove")])
def test_as_many_sums_are_composed_as_hold_a_unit(most: int, neighbours: str) -> None:
    told = epoch(replace(EPOCH, most_draws=most), neighbours=neighbours)
    event = supported(told)
    assert number(event, neighbours) == pytest.approx(
        number(ev.Repeat(most, mechanism(neighbours).event(neighbours)), neighbours), rel=1e-6
    )


# --- what a log may say to have a smaller number --------------------------------------------------


@for_each(
    "sampling",
    [
        Sampling("poisson", "user", 0.5, "server", most_draws=1, moves_others=False),
        Sampling("fixed-size", "user", 0.5, "server", 25, 50, most_draws=1, moves_others=False),
        Sampling(
            "truncated-poisson", "user", 0.5, "server", 25, 50, most_draws=1, moves_others=False
        ),
        Sampling("none", most_draws=1, moves_others=False),
        replace(EPOCH, of="record"),
        replace(EPOCH, most_draws=0),
        replace(EPOCH, most_draws=BATCHES),
        replace(EPOCH, most_draws=10**9),
    ],
)
def test_a_bound_that_cannot_be_so_changes_nothing(sampling: Sampling) -> None:
    silent = replace(sampling, most_draws=None, moves_others=None)
    for neighbours in ("add-remove", "zero-out", "replace-one"):
        bold, plain = (epoch(own, neighbours=neighbours) for own in (sampling, silent))
        assert supported(bold) == supported(plain)


def test_batches_hold_all_units_as_often_as_they_have_room() -> None:
    """60 batches of 10 of 50 users: twelve epochs, whatever is said of one."""
    bold = epoch(replace(EPOCH, batch=10, population=USERS))
    assert times(supported(bold)) == 12
    too_many = epoch(replace(EPOCH, batch=10, population=10**6))
    assert isinstance(supported(too_many), ev.NoGuarantee)


def test_sums_beyond_those_announced_hold_the_unit() -> None:
    twice = changed(epoch(), RoundRelease, draws=BATCHES + 4)
    assert times(supported(twice)) == 5


def times(event: ev.Event) -> int:
    """Return how many releases at full noise an event is."""
    assert isinstance(event, ev.Repeat)
    assert event.event == supported(epoch())
    return event.count


def test_more_draws_that_hold_a_unit_never_cost_less() -> None:
    for neighbours in ("add-remove", "zero-out", "replace-one"):
        for known in (True, False):
            given = replace(EPOCH, drawn_by="server" if known else "nobody")
            found = [
                derived(epoch(replace(given, most_draws=most), neighbours=neighbours), neighbours)
                for most in (1, 2, 5, 20)
            ]
            assert found == sorted(found)


def test_the_facts_hold_before_every_observer() -> None:
    """A server that draws the order knows which batch holds a unit, and sees all silos' sums."""
    plain = weighted(1, rule="none", views=False)
    told = intents(sampling=EPOCH, noise=part(draws=BATCHES), weights=part(largest_sum=5.0))(plain)
    for observer in ("model", "server", "silo"):
        one = supported(intents(sampling=Sampling(), noise=part(draws=1))(told), observer)
        assert supported(told, observer) == one


# --- an oracle: the worst that two data sets show -------------------------------------------------


def test_an_enumeration_of_orders_shows_no_more() -> None:
    """Three units in three batches in random order, sums with noise on a grid, written out."""
    noise = {value: np.exp(-abs(value) / 1.5) for value in range(-12, 13)}
    mass = sum(noise.values())

    def law(values: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        found: dict[tuple[int, ...], float] = {}
        orders = list(itertools.permutations(values))
        for order in orders:
            for draw in itertools.product(range(-4, 5), repeat=len(values)):
                chance = np.prod(
                    [
                        noise[z - x] / mass if z - x in noise else 0.0
                        for z, x in zip(draw, order, strict=True)
                    ]
                )
                found[draw] = found.get(draw, 0.0) + chance / len(orders)
        return found

    bound = 1 / 1.5  # one release of a unit that goes from 1 to 0, discrete Laplace of scale 1.5
    for others in ((0, 0), (1, 0), (-1, 1)):
        one, zero = law((1, *others)), law((0, *others))
        worst = max(abs(np.log(one[key] / zero[key])) for key in one)
        assert 0 < worst <= bound * (1 + 1e-9)


# --- what mechanisms state ------------------------------------------------------------------------


@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
@for_each("moves", [None, True, False])
@for_each("epochs", [1, 3])
def test_what_a_mechanism_states_is_what_the_facts_support(
    neighbours: str, moves: bool | None, epochs: int
) -> None:
    sampling = replace(EPOCH, most_draws=epochs, moves_others=moves, drawn_by="nobody")
    made = mechanism(neighbours)
    intent = made.intent(RoundDescription(1, "train", sampling, draws=BATCHES), neighbours)
    base = made.event(neighbours)
    whole: ev.Event = ev.ShuffledBatches(BATCHES // epochs, base) if moves is not False else base
    assert intent.event == (whole if epochs == 1 else ev.Repeat(epochs, whole))
    log = run_of(intent, {"model": intent.event}, 2, silos=1, neighbours=neighbours)
    report = audited(log)
    if neighbours == "add-remove" and moves is not False:
        # The facts do not say that both data sets have as many batches: all sums count.
        assert report.total.upper > number(ev.Repeat(2, intent.event), neighbours)
        assert number(intent.event, neighbours) > number(ev.Repeat(epochs, base), neighbours)
        return
    assert "event-mismatch" not in {hazard.id for hazard in report.hazards}
    assert report.total.upper == pytest.approx(number(ev.Repeat(2, intent.event), neighbours))
    assert report.total.upper == upper(log)
    found = evidence(log)
    assert found.seen(found.kinds[0], "model").verdict in ("same", "weaker")


def test_a_mechanism_refuses_batches_of_which_it_knows_too_little() -> None:
    made = mechanism("zero-out")

    def event(draws: int, **fields: Any) -> ev.Event:
        return made.event("zero-out", replace(EPOCH, moves_others=None, **fields), draws)

    with pytest.raises(Unsupported, match="no event of its own"):
        event(BATCHES, most_draws=None)
    with pytest.raises(Unsupported, match="whole epochs"):
        event(BATCHES, most_draws=7)
    with pytest.raises(InvalidInput, match="most_draws"):
        event(BATCHES, most_draws=61)
    with pytest.raises(InvalidInput, match="most_draws"):
        event(BATCHES, most_draws=1, batch=10, population=USERS)
    with pytest.raises(Unsupported, match="sample of records"):
        event(BATCHES, of="record")


def test_the_fields_are_later_ones() -> None:
    """A line that has none of them reads as it did, and none is written where nothing is said."""
    (intent,) = [one for one in epoch() if isinstance(one, RoundIntent)]
    silent = replace(intent, sampling=Sampling())
    assert not {"most_draws", "moves_others"} & set(silent.to_json()["sampling"])  # type: ignore[call-overload]
    assert RoundIntent.from_json(silent.to_json()) == silent
    assert RoundIntent.from_json(intent.to_json()) == intent
