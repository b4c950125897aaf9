"""The best of several runs at many epsilons: tests that questions share, and what they say."""

from __future__ import annotations

import math

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.engines.pld.ask import best_of_runs
from privplan.accountant.engines.pld.ask.best_of_runs import _shared_level

from ..cases import for_each

SEARCH = ev.BestOf("geometric", 3.0, ev.Repeat(5, ev.Poisson(0.2, ev.Gaussian(1.0))))


@for_each("delta", [1.0, 0.9, 0.3, 1e-3, 1e-12, 1e-100, 1e-249])
def test_shared_levels_lie_at_or_below_by_a_quarter_of_the_log(delta: float) -> None:
    level = _shared_level(delta)
    assert level <= delta * (1.0 + 1e-12)
    assert math.log(level) >= 1.25 * math.log(delta) - math.log(4.0)


@for_each("epsilon", [0.25, 3.0])
def test_a_shared_test_tells_as_much_as_one_of_its_own(epsilon: float) -> None:
    """The epsilon at that delta is asked for without sharing, and is not shown to be larger."""
    delta = pp.account(SEARCH, epsilon=epsilon).delta
    assert 0.0 < delta.lower <= delta.upper
    back = pp.account(SEARCH, delta=delta.lower).epsilon
    assert back.lower <= epsilon * (1.0 + 5e-3)
    assert back.upper >= epsilon * (1.0 - 1e-9)


def test_many_questions_share_few_tests() -> None:
    best_of_runs._tests.cache_clear()
    deltas = pp.privacy_profile(SEARCH, [0.02 * step for step in range(1, 21)]).deltas
    assert best_of_runs._tests.cache_info().misses < 10
    for epsilon, bounds in zip((0.02, 0.4), (deltas[0], deltas[-1]), strict=True):
        # An order that says nothing shows what one run does.
        run = pp.account(SEARCH.event, epsilon=epsilon).delta
        assert run.lower * (1.0 - 1e-6) <= bounds.lower <= bounds.upper
