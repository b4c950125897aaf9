"""Coordinates whose choice depends on data: what decoys everywhere leave, and few messages."""

from __future__ import annotations

import pytest

import privplan as pp
from privplan import events as ev

from ..cases import for_each


@for_each(("users", "chosen"), [(1, 31), (2, 31), (1, 16), (1, 3)])
def test_what_no_other_message_hides_is_local_to_the_last_digit(users: int, chosen: int) -> None:
    selection = "oblivious" if chosen > 3 else "data-dependent"
    fields = (users, 31, chosen, users, "coordinate", selection, "refuse")
    event = ev.Repeat(2, ev.SampledShuffle(*fields, ev.Laplace(1.0)))
    alone = ev.Repeat(2 * chosen, ev.Laplace(1.0))
    numbers = [
        pp.account(each, delta=1e-5, neighbours="replace-one").epsilon.upper
        for each in (event, alone)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-6)


@for_each("rounds", [1, 2])
@for_each(
    ("users", "noise", "overflow"), [(2, 1.0, "refuse"), (12, 1.0, "cap"), (60, 0.25, "refuse")]
)
def test_few_messages_cost_no_more_than_without_a_shuffler(
    users: int, noise: float, overflow: str, rounds: int
) -> None:
    """k messages of each round, whichever dimensions they are in."""
    fields = (users, 31, 3, users, "coordinate", "data-dependent", overflow)
    event = ev.Repeat(rounds, ev.SampledShuffle(*fields, ev.Laplace(noise)))
    bounds = pp.account(event, delta=1e-5, neighbours="replace-one").epsilon
    local = ev.Repeat(3 * rounds, ev.Laplace(noise))
    alone = pp.account(local, delta=1e-5, neighbours="replace-one").epsilon
    assert bounds.lower <= bounds.upper <= alone.upper * (1.0 + 2e-3)
    assert alone.upper <= 3 * rounds * 2.0 / noise
