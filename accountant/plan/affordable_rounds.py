"""How many rounds does a budget allow?  Answered before the first one is made."""

from __future__ import annotations

from collections.abc import Sequence

from .. import events as ev
from .. import validate
from ..account import account
from ..neighbours import as_neighbours
from ..rootfinding import last_integer
from .phases import grouped


def affordable(
    event: ev.Event,
    *,
    epsilon: float,
    delta: float,
    most: int,
    neighbours: str = "add-remove",
    group: int = 1,
    before: Sequence[ev.Event] = (),
) -> int:
    """Return the largest number of rounds, at most `most`, whose epsilon is within the budget.

    `event` is one round, as the observer sees it to whom the budget is promised; `group` the number
    of records of one unit; `before` what that observer sees besides, which is paid first.  The
    answer is certified by the same `account` that proves a plan, and one round more, where that is
    at most `most`, is above the budget; 0 where one round is.  A run cut there is fixed before its
    first release, so every engine may prove it.

    Range: `epsilon` above 0, `delta` in (0, 1), `most` and `group` 1 or above.  Raises
    `InvalidInput`, and `Unsupported` where no engine has sound mathematics for the event.

    >>> affordable(ev.Gaussian(5.0), epsilon=8.0, delta=1e-5, most=1000)
    69
    """
    budget = validate.positive(epsilon=epsilon)
    at_delta = validate.open_probability(delta=delta)
    relation = as_neighbours(neighbours)
    size = validate.count(group=group)
    limit = validate.count(most=most)

    def within(rounds: int) -> bool:
        seen = grouped([*before, ev.Repeat(rounds, event)], size)
        return account(seen, delta=at_delta, neighbours=relation).epsilon.upper <= budget

    if within(limit):
        return limit
    # What is returned was itself certified to be within the budget (0 rounds are).
    return last_integer(within, 0, limit)
