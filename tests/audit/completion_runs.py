"""What the tests of completions share: truths about events, and the facts of a plain run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import pld
from scipy.optimize import brentq
from scipy.stats import binom, norm

from privplan import check
from privplan.accountant import events as ev
from privplan.accountant.account import account
from privplan.audit.check.check_result import CheckResult

WITHIN: Final = 2e-3

"""Relative width of a certified interval, and of dp_accounting's grid, that tests allow for."""

EXACTLY: Final = 1e-6
"""Relative difference of two numbers that are computed in the same way."""

PLAIN: Final[Mapping[str, object]] = {
    "neighbours": "add-remove",
    "unit": "record",
    "clip_source": "constant",
    "method": "poisson",
}


@cache
def truth(noise: float, rate: float, steps: int, delta: float = 1e-5) -> float:
    grid = 1e-3 if rate > 0.02 and steps > 30 else 1e-4
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, grid)
    event: dpa.DpEvent = dpa.GaussianDpEvent(noise)
    if rate < 1.0:
        event = dpa.PoissonSampledDpEvent(rate, event)
    accountant.compose(event, steps)
    return float(accountant.get_epsilon(delta))


def seen_draws(noise: float, rate: float, steps: int, delta: float = 1e-5) -> float:
    """Return the epsilon of sampled Gaussian sums, where everybody sees whether a unit was drawn.

    Given that it was drawn K times the sums are those of a Gaussian of shift sqrt(K).
    """
    draws = np.arange(1, steps + 1)
    shift = np.sqrt(draws) / noise

    def excess(value: float) -> float:
        far = norm.cdf(shift / 2.0 - value / shift)
        near = np.exp(value + norm.logcdf(-shift / 2.0 - value / shift))
        return float(binom.pmf(draws, steps, rate) @ (far - near)) - delta

    return float(brentq(excess, 0.0, 0.5 * shift[-1] ** 2 + 10.0 * shift[-1]))


def of(claim: object, **facts: object) -> CheckResult:
    return check(claimed=claim, delta=facts.pop("delta", 1e-5), **{**PLAIN, **facts})


def spans(result: CheckResult, least: float, most: float) -> None:
    assert result.proven is not None
    assert result.proven.lower == pytest.approx(least, rel=WITHIN)
    assert result.proven.upper == pytest.approx(most, rel=WITHIN)


def epsilon(event: ev.Event, delta: float = 1e-5, neighbours: Any = "add-remove") -> Any:
    return account(event, delta=delta, neighbours=neighbours).epsilon


def drawn(noise: float, rate: float, steps: int) -> ev.Event:
    sampled = ev.Gaussian(noise)
    return ev.Repeat(steps, sampled if rate == 1.0 else ev.Poisson(rate, sampled))


def covers(result: CheckResult, event: ev.Event, **how: Any) -> bool:
    """Return whether the ends lie around what a run that the description allows loses."""
    truth, proven = epsilon(event, **how), result.proven
    assert proven is not None
    return proven.lower <= truth.upper * (1 + EXACTLY) and truth.lower <= proven.upper * (
        1 + EXACTLY
    )


def ends(result: CheckResult) -> tuple[float, float]:
    assert result.proven is not None
    return result.proven.lower, result.proven.upper


def narrows(told: CheckResult, open_to: CheckResult) -> bool:
    """Return whether what was told moves both ends inwards, or leaves them."""
    (lower, upper), (least, most) = ends(told), ends(open_to)
    return least <= lower * (1 + EXACTLY) and upper <= most * (1 + EXACTLY)
