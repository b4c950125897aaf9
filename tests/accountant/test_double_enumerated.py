"""Double amplification against whole rounds, enumerated: every set, every message, every coin.

The links of the proof are tested one by one: what hides the message, how often it does not, what
is left, and the bound that is made of all.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

import privplan as pp
from privplan import events as ev
from privplan.accountant.amplification.shuffling.blanket import blanket_profile
from privplan.accountant.amplification.shuffling.double import (
    clear_slots,
    most_slots,
    oblivious_bound,
    revealed_share,
)
from privplan.accountant.amplification.shuffling.randomizers import ResponseRandomizer

from ..cases import for_each
from ..sweeps import sweep
from .rounds import Rounds, Set, hockey_stick, subsets


def among(rounds: Rounds, sizes: Sequence[int], mine: Sequence[int], epsilon: float) -> float:
    """The hockey stick of one message, in one of several dimensions of so many slots at random.

    `mine` is the value there, against category 1 - value; all other slots hold dummies.
    """
    laws = []
    for values in (mine, [1 - value for value in mine]):
        law = 0.0
        for here in range(len(sizes)):
            each = np.ones(1)
            for j, (size, value) in enumerate(zip(sizes, values, strict=True)):
                messages = [rounds.dummy] * (size - (j == here))
                each = np.multiply.outer(
                    each, rounds.histogram([*messages, *[rounds.answers[value]] * (j == here)])
                ).ravel()
            law = law + each / len(sizes)
        laws.append(law)
    return hockey_stick(*laws, epsilon)


@for_each("categories", [2, 3])
@for_each("mine", [(0, 0), (0, 1)])
@for_each("placed", [((0,), (1,)), ((0,), (0,)), ((0,), (0,), (1,))])
def test_others_hide_as_dummies_where_their_coins_say_so(
    categories: int, mine: Set, placed: tuple[Set, ...]
) -> None:
    """Two dimensions, one sent: the round, the round with all coins seen, and the least room."""
    rounds = Rounds(0.9, categories, 3)
    counts = [sum(j in chosen for chosen in placed) for j in (0, 1)]
    for friend in range(categories):
        values = [[friend] * 2] * len(placed)
        first, second = (
            sum(
                rounds.given_sets([(j,), *placed], [list(user_part), *values], 2, stops=True)
                for j in (0, 1)
            )
            / 2.0
            for user_part in (mine, [1 - value for value in mine])
        )
        for epsilon in (0.0, 0.15, 0.5):
            seen = least = 0.0
            for told in itertools.product(*[range(count + 1) for count in counts]):
                chance = math.prod(
                    math.comb(count, r) * (1.0 - rounds.gamma) ** r * rounds.gamma ** (count - r)
                    for count, r in zip(counts, told, strict=True)
                )
                room = [3 - r for r in told]
                seen += chance * among(rounds, room, mine, epsilon)
                # The theorem: one shuffle, of all slots there would be if all had the least room.
                smallest = Rounds(0.9, categories, 2 * min(room))
                least += chance * among(smallest, [2 * min(room)], [0], epsilon)
            truth = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
            assert truth <= seen * (1 + 1e-12)
            assert seen <= least * (1 + 1e-12)


def test_a_message_takes_the_place_of_a_dummy_not_of_any_message() -> None:
    """One dummy and one other message in each of two dimensions are less than four users."""
    rounds, epsilon = Rounds(0.5, 2, 2), 0.15
    rest = 1.0 - rounds.gamma
    seen = sum(
        rest ** (a + b)
        * rounds.gamma ** (2 - a - b)
        * among(rounds, (2 - a, 2 - b), (0, 0), epsilon)
        for a, b in itertools.product((0, 1), repeat=2)
    )
    four_users = math.exp(blanket_profile(ResponseRandomizer(0.5, 2), 4).log_delta(epsilon))
    assert seen == pytest.approx(0.05979, abs=1e-5)
    assert four_users == pytest.approx(0.05771, abs=1e-5)


def exact_failure(
    others: int, dimensions: int, chosen: int, padded_to: int, share: float, slots: int
) -> float:
    """P(some dimension is full of others, or has fewer than `slots` that look like dummies)."""
    failing = 0.0
    choices = list(itertools.product(subsets(dimensions, chosen), repeat=others))
    for sets in choices:
        counts = [sum(j in each for each in sets) for j in range(dimensions)]
        good = float(max(counts) < padded_to)
        for count in counts:  # coins of different dimensions are independent, given the sets
            good *= sum(
                math.comb(count, r) * share**r * (1.0 - share) ** (count - r)
                for r in range(min(count, padded_to - slots) + 1)
            )
        failing += (1.0 - good) / len(choices)
    return failing


@for_each(
    ("users", "dimensions", "chosen", "padded_to"),
    [(3, 4, 1, 3), (4, 3, 1, 4), (5, 5, 1, 3), (4, 4, 2, 4), (4, 6, 2, 3), (5, 3, 1, 4)],
)
@for_each("inner", [ev.RandomizedResponse(0.3, 2), ev.RandomizedResponse(1.0, 5), ev.Local(0.2)])
def test_what_is_charged_covers_every_way_to_fail(
    users: int, dimensions: int, chosen: int, padded_to: int, inner: ev.Event
) -> None:
    """Enumerated; the sum over dimensions and the geometric tail cost less than threefold."""
    event = ev.SampledShuffle(
        users, dimensions, chosen, padded_to, "coordinate", "oblivious", "refuse", inner
    )
    share = revealed_share(inner)
    gained = 0
    for failure in (1e-6, 1e-3, 0.02, 0.1, 0.3, 0.5):
        slots, charged = most_slots(event, failure)
        plain = clear_slots(event, failure)
        assert slots >= plain
        if slots <= 0:
            assert charged == 1.0
            continue
        hidden = slots > plain
        exact = exact_failure(
            users - 1, dimensions, chosen, padded_to, share if hidden else 1.0, slots
        )
        assert exact <= charged <= failure * (1 + 1e-12)
        assert charged <= 3.0 * exact + 1e-12
        gained += hidden
    assert gained


def test_what_is_told_from_dummies_is_what_the_blanket_leaves() -> None:
    for epsilon0, categories in ((0.3, 2), (1.0, 5), (4.0, 100)):
        exact = 1.0 - Rounds(epsilon0, categories, 1).gamma
        result = revealed_share(ev.RandomizedResponse(epsilon0, categories))
        assert exact <= result <= exact + 1e-12
        # Whoever knows the local epsilon only, counts on the least blanket that it allows.
        assert result <= revealed_share(ev.Local(epsilon0))
    assert revealed_share(ev.Local(700.0)) == 1.0
    assert 0.0 < revealed_share(ev.Local(1e-30)) < 1e-12
    laplace, gaussian = ev.Laplace(4.0), ev.Gaussian(4.0)
    assert revealed_share(laplace) == pytest.approx(1.0 - math.exp(-0.25))
    assert revealed_share(gaussian) == pytest.approx(math.erf(0.25 / math.sqrt(2.0)))


@for_each("failure", [1e-4, 1e-3, 0.1])
@for_each(
    ("users", "dimensions", "chosen", "padded_to"), [(5, 4, 1, 5), (6, 6, 2, 6), (3, 5, 1, 3)]
)
def test_the_message_is_among_so_many_dummies_and_no_more(
    users: int, dimensions: int, chosen: int, padded_to: int, failure: float
) -> None:
    """One copy for each coordinate sent, and the sum over t D slots, to a third of a percent."""
    event = ev.SampledShuffle(
        *(users, dimensions, chosen, padded_to, "coordinate", "oblivious", "refuse"),
        ev.RandomizedResponse(0.3, 2),
    )
    bound = oblivious_bound(event, "replace-one", failure)
    slots = dimensions // chosen * most_slots(event, failure)[0]
    assert bound.copies == chosen
    for epsilon in (0.0, 0.05, 0.15):
        exact = among(Rounds(0.3, 2, slots), [slots], [0], epsilon)
        assert exact <= math.exp(bound.profile.log_delta(epsilon)) <= exact * (1 + 3e-3) + 1e-12


SMALL = [
    # epsilon0, categories, users, dimensions, chosen, padded_to
    (0.5, 2, 3, 2, 1, 2),  # the counterexample above, if all sets are as likely
    (0.5, 2, 2, 2, 1, 2),
    (0.3, 2, 3, 3, 1, 3),
    (0.3, 2, 3, 4, 1, 2),
    (0.2, 3, 3, 2, 1, 3),
    (0.5, 4, 2, 2, 1, 2),
    (0.3, 2, 3, 4, 2, 2),
    (0.5, 2, 5, 3, 1, 5),
    (0.5, 2, 5, 3, 1, 4),
    (0.5, 2, 5, 4, 2, 5),
]


@functools.cache
def pairs(
    case: tuple[float, int, int, int, int, int], overflow: str
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rounds in which the user's values differ everywhere; the others hold one value or another."""
    epsilon0, categories, users, dimensions, chosen, padded_to = case
    rounds = Rounds(epsilon0, categories, padded_to)
    result = []
    for mine in ([0] * dimensions, [j % 2 for j in range(dimensions)]):
        for friend in {0, categories - 1}:
            first, second = (
                rounds.oblivious(
                    [user_part, *[[friend] * dimensions] * (users - 1)],
                    dimensions,
                    chosen,
                    overflow == "refuse",
                )
                for user_part in (mine, [1 - value for value in mine])
            )
            result += [(first, second), (second, first)]
    return result


@for_each("bare", [False, True])
@for_each("overflow", ["refuse", "cap"])
@for_each("case", sweep([(case,) for case in SMALL], quick=5))
def test_no_round_exceeds_its_bound(
    case: tuple[float, int, int, int, int, int], overflow: str, bare: bool
) -> None:
    """Both questions, at several orders and deltas; the deltas decide what is charged."""
    epsilon0, categories, *sizes = case
    inner = ev.Local(epsilon0) if bare else ev.RandomizedResponse(epsilon0, categories)
    event = ev.SampledShuffle(*sizes, "coordinate", "oblivious", overflow, inner)

    @functools.cache
    def truth(epsilon: float) -> float:
        return max(hockey_stick(*pair, epsilon) for pair in pairs(case, overflow))

    for epsilon in (0.0, 0.05, 0.15, 0.4):
        result = pp.account(event, epsilon=epsilon, neighbours="replace-one").delta
        assert result.lower <= truth(epsilon) * (1 + 1e-9)
        assert truth(epsilon) <= result.upper
        for failure in (1e-3, 0.03, 0.2):
            bound = oblivious_bound(event, "replace-one", failure)
            if bound.copies == 1:
                delta = math.exp(bound.profile.log_delta(epsilon))
                assert truth(epsilon) <= bound.failure + (1.0 - bound.failure) * delta
    for delta in (0.005, 0.02, 0.05):
        result = pp.account(event, delta=delta, neighbours="replace-one").epsilon
        assert truth(result.upper) <= delta


def test_small_rounds_count_on_what_others_hide() -> None:
    """So that the test above is one of what is new: at delta .05, failure is at most .001."""
    gaining = []
    for epsilon0, categories, *sizes in SMALL:
        event = ev.SampledShuffle(
            *sizes, "coordinate", "oblivious", "cap", ev.RandomizedResponse(epsilon0, categories)
        )
        (step,) = oblivious_bound(event, "replace-one", 1e-3).steps
        hidden = most_slots(event, 1e-3)[0] > clear_slots(event, 1e-3)
        gaining.append(hidden and step.statement.startswith("Double"))
    assert sum(gaining) >= 2
    assert gaining[-1]  # with two coordinates sent


@for_each("overflow", ["refuse", "cap"])
def test_absent_users_are_covered_too(overflow: str) -> None:
    """Add-remove: with the user absent a dummy more is sent, and fewer rounds stop."""
    rounds = Rounds(0.4, 2, 2)
    event = ev.SampledShuffle(
        3, 3, 1, 2, "coordinate", "oblivious", overflow, ev.RandomizedResponse(0.4, 2)
    )
    for mine, friend in itertools.product((0, 1), repeat=2):
        others = [[friend] * 3] * 2
        first = rounds.oblivious([[mine] * 3, *others], 3, 1, overflow == "refuse")
        second = rounds.oblivious(others, 3, 1, overflow == "refuse")
        for epsilon in (0.0, 0.1, 0.3):
            truth = max(hockey_stick(first, second, epsilon), hockey_stick(second, first, epsilon))
            assert truth <= pp.account(event, epsilon=epsilon, neighbours="add-remove").delta.upper
            for failure in (0.02, 0.2):
                bound = oblivious_bound(event, "add-remove", failure)
                delta = math.exp(bound.profile.log_delta(epsilon))
                assert truth <= bound.failure + (1.0 - bound.failure) * delta
