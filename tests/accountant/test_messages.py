"""Messages: what they state, that they are drawn so, and that dummies have the blanket's law.

Statistical tests use seeded streams, so a pass stays a pass; on a fresh seed each would raise a
false alarm with the probability `FALSE_ALARM`.
"""

from __future__ import annotations

import math
import traceback
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.amplification.shuffling.double import clear_slots
from privplan.accountant.amplification.shuffling.randomizers import (
    GaussianRandomizer,
    LaplaceRandomizer,
    ResponseRandomizer,
    randomizer_of,
)
from privplan.accountant.errors import InvalidInput, PrivplanError, Unsupported
from privplan.accountant.mechanisms import (
    Gate,
    GaussianMessages,
    LaplaceMessages,
    ResponseMessages,
    RoundDescription,
    ShuffledRound,
)
from privplan.accountant.mechanisms.messages import Messages
from privplan.accountant.randomness import Streams, grouped_order

from ..cases import for_each
from .mechanism_tickets import FALSE_ALARM, Memory, ticket_for


def coarse(mechanism: Any, grid: float) -> Any:
    """Return a mechanism on a grid so coarse that its outcomes can be counted."""
    mechanism.__dict__["grid"] = grid
    return mechanism


def fits(counts: np.ndarray, chances: np.ndarray) -> bool:
    """Return whether counts are of these probabilities: chi-square, cells of 10 and more."""
    expected = chances * counts.sum()
    order = np.argsort(expected)
    small = np.cumsum(expected[order]) < 10
    seen = np.append(counts[order][~small], counts[order][small].sum())
    due = np.append(expected[order][~small], expected[order][small].sum())
    keep = due > 0
    statistic = ((seen - due)[keep] ** 2 / due[keep]).sum()
    return bool(stats.chi2.sf(statistic, keep.sum() - 1) > FALSE_ALARM / 3)  # looks of a test


def rounded_law(places: np.ndarray, centre: int, scale: float) -> np.ndarray:
    """Return P(centre + round(L) = place) for a Laplace variable L, in closed form."""
    away = np.abs(places - centre)
    tail = np.exp(-(np.maximum(away, 1) - 0.5) / scale)
    return np.where(away == 0, -math.expm1(-0.5 / scale), 0.5 * tail * -math.expm1(-1.0 / scale))


def test_facts_from_which_the_local_event_follows_alone() -> None:
    own = LaplaceMessages(bound=0.5, std=2.0)
    assert own.contribution == records.Contribution(0.5, "l1", "user", "message", "public")
    assert own.noise(3) == records.Noise("laplace", 2.0, 1, 2.0, 0, 3, own.grid)
    normal = GaussianMessages(bound=0.5, std=2.0)
    assert normal.contribution == records.Contribution(0.5, "l2", "user", "message", "public")
    assert normal.noise() == records.Noise("gaussian", 2.0, 1, 2.0, 0, 1, normal.grid)
    words = ResponseMessages(1.0, 4)
    assert words.contribution.terms == "message"
    assert words.noise().family == "randomized-response"
    for one in (own, normal):
        assert [one.sensitivity(r) for r in ("replace-one", "zero-out")] == [1.0, 0.5]
        said = one.noise()
        assert one.event("replace-one") == type(one.event("zero-out"))(said.std / 0.5)


def test_a_number_in_a_ball_of_one_bound_is_2_over_b_ldp() -> None:
    own = LaplaceMessages(bound=0.5, std=2.0)
    found = pp.account(own.event("replace-one"), delta=1e-12, neighbours="replace-one")
    assert found.epsilon.upper == pytest.approx(2 * 0.5 / 2.0, abs=1e-8)
    assert randomizer_of(own.event("replace-one")) == LaplaceRandomizer(0.5)


def test_several_messages_of_a_unit_are_composed() -> None:
    own = LaplaceMessages(1.0, 4.0)
    assert own.event("zero-out", draws=5) == ev.Repeat(5, ev.Laplace(4.0))
    mixed = replace(own, shuffled=ShuffledRound(100))
    assert mixed.event("replace-one", draws=5) == ev.Repeat(5, ev.Shuffle(100, ev.Laplace(4.0)))
    assert mixed.local_event("replace-one", 5) == ev.Repeat(5, ev.Laplace(4.0))


def test_flames_double_amplification_is_stated_as_an_event() -> None:
    mixed = ShuffledRound(1000, dimensions=7850, chosen=157, padded_to=333)
    own = LaplaceMessages(1.0, 4.0, shuffled=mixed)
    assert own.event("replace-one", draws=157) == ev.SampledShuffle(
        1000, 7850, 157, 333, "coordinate", "oblivious", "refuse", ev.Laplace(4.0)
    )
    with pytest.raises(InvalidInput, match="157 coordinates"):
        own.event("replace-one", draws=156)
    reach = mixed.reach("shuffler and analyzer do not collude", colluders=2)
    assert (reach.sees, reach.users, reach.colluders) == ("shuffled", 1000, 2)
    assert (reach.chosen, reach.padded_to, reach.selection) == (157, 333, "oblivious")


def test_users_who_tell_all_they_know_hide_nobody_and_take_up_places() -> None:
    mixed = ShuffledRound(1000, dimensions=100, chosen=1, padded_to=80)
    left = mixed.without(20)
    assert left == ShuffledRound(980, 100, 1, 60)
    slots = [
        clear_slots(one.event(ev.Laplace(4.0), 1), 1e-8)  # type: ignore[arg-type]
        for one in (mixed, left, replace(left, padded_to=80))
    ]
    assert slots[1] <= slots[0] - 19
    assert slots[2] >= slots[0]  # fewer users and as many places would promise too much
    assert ShuffledRound(100).without(0) == ShuffledRound(100)
    for many, own in ((80, mixed), (100, ShuffledRound(100))):
        with pytest.raises(InvalidInput, match="left to hide among"):
            own.without(many)


@for_each("own", [LaplaceMessages(1.0, 4.0), GaussianMessages(1.0, 4.0), ResponseMessages(1.0, 3)])
def test_who_sends_is_seen(own: Messages) -> None:
    with pytest.raises(Unsupported, match="add-remove"):
        own.event("add-remove")
    with pytest.raises(Unsupported, match="add-remove"):
        own.local_event("add-remove")
    with pytest.raises(Unsupported, match="sample"):
        own.event("replace-one", records.Sampling("poisson", "user", 0.5, "server"))
    if isinstance(own, ResponseMessages):
        with pytest.raises(Unsupported):
            own.event("zero-out")


def test_what_has_no_shuffled_event_is_refused() -> None:
    with pytest.raises(InvalidInput, match="vectors"):
        GaussianMessages(1.0, 4.0, dimensions=2, shuffled=ShuffledRound(10))
    with pytest.raises(InvalidInput, match="go together"):
        ShuffledRound(10, dimensions=4)
    with pytest.raises(InvalidInput, match="users"):
        ShuffledRound(0)
    with pytest.raises(InvalidInput, match="chosen"):
        ShuffledRound(10, dimensions=4, chosen=5, padded_to=10)
    with pytest.raises(InvalidInput, match="stay together"):
        ShuffledRound(10, granularity="tuple").event(ev.Laplace(4.0), 2)
    with pytest.raises(Unsupported, match="two tails"):
        GaussianMessages(1.0, 4.0).dummies(ticket_for(GaussianMessages(1.0, 4.0)), 3, "dummies")


def test_a_private_bound_has_no_event() -> None:
    with pytest.raises(Unsupported):
        LaplaceMessages(1.0, 4.0, source="private").event("replace-one")


def test_laplace_messages_have_the_exact_law_at_a_small_scale() -> None:
    own = coarse(LaplaceMessages(1.0, 1.0), 0.5)  # 2 steps of scale; values in -2..2
    ticket = ticket_for(own)
    found = own.messages(ticket, np.full(40_000, 0.7), "messages")  # 1.4 steps, towards 0: 1
    places = np.arange(-20, 23)
    counts = np.bincount(np.clip(found, -20, 22) + 20, minlength=43)
    assert fits(counts, rounded_law(places, 1, 2.0))
    assert not fits(counts, rounded_law(places, 2, 2.0))  # the test can fail


def test_dummies_have_the_law_of_the_blanket_on_the_grid() -> None:
    """omega = Lap(0, b), rounded: the accountant's blanket through the same rounding."""
    own = coarse(LaplaceMessages(1.0, 1.0), 0.5)
    found = own.dummies(ticket_for(own), 40_000, "dummies")
    places = np.arange(-20, 21)
    counts = np.bincount(np.clip(found, -20, 20) + 20, minlength=41)
    assert fits(counts, rounded_law(places, 0, 2.0))
    assert not fits(counts, rounded_law(places, 1, 2.0))


@for_each(("bound", "std"), [(1.0, 4.0), (0.3, 0.1), (2.0, 0.5)])
def test_the_accountants_blanket_is_that_of_the_dummies(bound: float, std: float) -> None:
    """gamma and the law of the loss under omega, against Laplace noise around 0, cell by cell."""
    own = LaplaceMessages(bound, std)
    randomizer = randomizer_of(own.event("replace-one"))
    assert isinstance(randomizer, LaplaceRandomizer)
    blanket = randomizer.blanket(0.0)
    masses = np.exp(blanket.log_masses)
    gamma = math.exp(-bound / std)
    assert masses.sum() == pytest.approx(gamma, rel=1e-9)
    # l = (|y - C| - |y + C|) / b, so l <= a is y >= -a b / 2 inside of [-C, C]
    order = np.argsort(blanket.losses, kind="stable")
    losses, share = blanket.losses[order], masses[order].cumsum() / gamma
    for place in range(50, len(losses) - 50, 200):
        due = stats.laplace.sf(-losses[place] * std / 2, scale=std)
        cell = share[place + 1] - share[place - 1] + 1e-12
        assert abs(share[place] - due) <= cell
    drawn = own.units(own.dummies(ticket_for(own), 40_000, "dummies"))
    loss = (np.abs(drawn - bound) - np.abs(drawn + bound)) / std
    edges = np.linspace(-randomizer.epsilon0, randomizer.epsilon0, 21)
    inside = np.clip(np.searchsorted(edges, loss * (1 - 1e-9)), 0, 21)
    chances = np.diff([0.0, *stats.laplace.sf(-edges[1:-1] * std / 2, scale=std), 1.0])
    counts = np.bincount(np.clip(inside - 1, 0, 19), minlength=20)
    assert fits(counts, chances)


def test_words_have_the_exact_law_and_dummies_are_uniform() -> None:
    own = ResponseMessages(1.0, 5)
    found = own.messages(ticket_for(own), np.full(40_000, 3), "messages")
    truth = math.exp(1.0) / (math.exp(1.0) + 4)
    law = np.where(np.arange(5) == 3, truth, (1 - truth) / 4)
    assert fits(np.bincount(found, minlength=5), law)
    dummies = own.dummies(ticket_for(own), 40_000, "dummies")
    assert fits(np.bincount(dummies, minlength=5), np.full(5, 0.2))
    blanket = ResponseRandomizer(1.0, 5).blanket(0.0)
    assert np.exp(blanket.log_masses).sum() == pytest.approx(5 / (math.exp(1.0) + 4))


def test_gaussian_messages_have_the_stated_deviation() -> None:
    own = GaussianMessages(1.0, 2.0)
    found = own.units(own.messages(ticket_for(own), np.full(40_000, 0.25), "messages"))
    edges = stats.norm.ppf(np.linspace(0, 1, 21)[1:-1], 0.25, 2.0)
    assert fits(np.bincount(np.searchsorted(edges, found), minlength=20), np.full(20, 0.05))
    assert randomizer_of(own.event("replace-one")) == GaussianRandomizer(1.0)


@for_each("make", [LaplaceMessages, GaussianMessages])
def test_values_are_clipped_and_what_is_no_number_is_0(make: Any) -> None:
    own = make(bound=0.75, std=1.0)
    most = round(0.75 / own.grid)
    given = [0.75, 9e300, -0.8, math.inf, -math.inf, math.nan, 0.5, -0.0]
    assert own.steps(given).tolist() == [most, most, -most, 0, 0, 0, round(0.5 / own.grid), 0]
    tilted = make(bound=0.7, std=1.0)
    assert tilted.largest * tilted.grid <= 0.7 < (tilted.largest + 1) * tilted.grid
    assert tilted.steps([5.0]).tolist() == [tilted.largest]


def test_vectors_are_clipped_to_the_ball() -> None:
    own = GaussianMessages(bound=1.0, std=1.0, dimensions=3)
    steps = own.steps(np.array([[3.0, 4.0, 0.0], [0.1, 0.0, 0.0], [math.nan, 1.0, 1.0]]))
    norms = np.sqrt((steps.astype(float) ** 2).sum(axis=1)) * own.grid
    assert norms[0] == pytest.approx(1.0, rel=1e-5)
    assert norms[0] <= 1.0
    assert norms[1] == pytest.approx(0.1, rel=1e-4)
    assert norms[2] == 0.0
    for shape in ((4,), (2, 4), (2, 3, 1)):
        with pytest.raises(InvalidInput):
            own.steps(np.zeros(shape))
    ticket = ticket_for(own)
    assert own.messages(ticket, np.zeros((7, 3)), "messages").shape == (7, 3)
    assert ticket.close(values=3) > 0  # one draw


def test_noise_is_fresh_for_every_message() -> None:
    own = LaplaceMessages(1.0, 1.0)
    found = own.messages(ticket_for(own, draws=3), np.zeros((5_000, 3)), "messages")
    assert len(np.unique(found)) > 14_900
    assert np.abs(np.corrcoef(found.T) - np.eye(3)).max() < 6 / math.sqrt(5_000)


def test_draws_are_counted_as_messages_of_one_unit() -> None:
    own = LaplaceMessages(1.0, 4.0)
    ticket = ticket_for(own, draws=3)
    own.messages(ticket, np.zeros((10, 2)), "a", part="a")
    own.messages(ticket, np.zeros((10, 3)), "b", part="b")
    with pytest.raises(Unsupported, match="announces 3 draws"):
        own.messages(ticket, np.zeros((10, 2)), "a", part="a")
    own.dummies(ticket, 100, "dummies")  # of nobody's data
    own.messages(ticket, np.zeros((10, 1)), "a", part="a")
    ticket.close()


@for_each("own", [LaplaceMessages(1.0, 4.0), GaussianMessages(1.0, 4.0), ResponseMessages(1.0, 3)])
def test_nothing_is_drawn_without_an_intent_of_its_own(own: Messages) -> None:
    memory, streams = Memory(), Streams.seeded(3)
    gate = Gate(None, memory, streams)
    nothing = ev.NoGuarantee("a test")
    other = LaplaceMessages(1.0, 4.5).intent(
        RoundDescription(1, "t", event_override=nothing), "replace-one"
    )
    ticket = gate.open(other)
    zeros = np.zeros(4, int)
    for draw in (
        lambda: own.messages(ticket, zeros, "messages"),  # type: ignore[attr-defined]
        lambda: own.dummies(ticket, 4, "messages"),
    ):
        with pytest.raises(Unsupported):
            draw()
    ticket.abort()
    with pytest.raises(PrivplanError):
        own.messages(ticket, zeros, "messages")  # type: ignore[attr-defined]
    assert streams.stream("messages").position == 0


@for_each("bad", [np.zeros((2, 2, 2)), np.zeros((2, 0)), ["x"], [[1], [1, 2]], 3.0])
def test_other_arrays_are_refused_without_a_draw(bad: Any) -> None:
    own = LaplaceMessages(1.0, 4.0)
    ticket = ticket_for(own)
    with pytest.raises(InvalidInput):
        own.messages(ticket, bad, "messages")
    assert ticket.stream("messages").position == 0


def test_words_out_of_range_are_refused_and_not_shown() -> None:
    own = ResponseMessages(1.0, 5)
    ticket = ticket_for(own)
    for bad in ([0, 5], [-1], [0.5], [[0, 7]]):
        with pytest.raises(InvalidInput) as caught:
            own.messages(ticket, bad, "messages")
        shown = "".join(traceback.format_exception_only(caught.value))
        assert "7" not in shown
    assert ticket.stream("messages").position == 0


@for_each(
    "given", [{"bound": 0.0}, {"std": math.nan}, {"bound": math.inf}, {"std": 1e8}, {"std": 1e-12}]
)
def test_ranges(given: dict[str, float]) -> None:
    for make in (LaplaceMessages, GaussianMessages):
        with pytest.raises(InvalidInput):
            make(**{"bound": 1.0, "std": 1.0, **given})


def test_orders_within_groups_are_uniform_and_independent() -> None:
    """All 6 x 2 orders of a group of three and one of two that are mixed up: chi-square."""
    stream, groups = Streams.seeded(5).stream("orders"), np.array([1, 0, 1, 1, 0])
    found = np.array([grouped_order(stream, groups) for _ in range(12_000)])
    assert (np.sort(found[:, :2]) == [1, 4]).all()
    assert (np.sort(found[:, 2:]) == [0, 2, 3]).all()
    codes = found @ np.array([1000, 0, 100, 10, 1])
    known, index = np.unique(codes, return_inverse=True)
    assert len(known) == 12
    assert fits(np.bincount(index), np.full(12, 1 / 12))
    assert len(grouped_order(stream, np.empty(0, np.int64))) == 0
