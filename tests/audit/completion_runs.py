"""What the tests of completions share: truths of dp_accounting, and the facts of a plain run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

import dp_accounting as dpa
import pytest
from dp_accounting import pld

from privplan import check
from privplan.audit.check.check_result import CheckResult

WITHIN: Final = 2e-3

"""Relative width of a certified interval, and of dp_accounting's grid, that tests allow for."""

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


def of(claim: object, **facts: object) -> CheckResult:
    return check(claimed=claim, delta=facts.pop("delta", 1e-5), **{**PLAIN, **facts})


def spans(result: CheckResult, least: float, most: float) -> None:
    assert result.proven is not None
    assert result.proven.lower == pytest.approx(least, rel=WITHIN)
    assert result.proven.upper == pytest.approx(most, rel=WITHIN)
