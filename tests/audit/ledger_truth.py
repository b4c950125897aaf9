"""What the units of a data set lost by its history, computed apart from the accountant.

Each event has a closed form of its Renyi divergence at a whole order, evaluated to 50 digits; sums
over claims are exact fractions, and are taken for every unit of every block.
Source: Mironov 2017 (Gaussian, Laplace), Mironov, Talwar and Zhang 2019 (the sampled Gaussian).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath

from privplan.accountant import events as ev
from privplan.audit.budget_service.audited import LedgerAudit
from privplan.audit.budget_service.balances import within
from privplan.audit.budget_service.terms import Terms

UNITS_OF_A_BLOCK = 3

SHAPES = (
    ev.Gaussian(60.0),
    ev.Gaussian(85.5),
    ev.Laplace(61.0),
    ev.Repeat(20, ev.Poisson(0.02, ev.Gaussian(4.0))),
    ev.Compose((ev.Gaussian(110.0), ev.Laplace(130.0))),
)
"""What clients claim: some hundreds of claims reach a cap of epsilon 2."""


@cache
def divergence(event: ev.Event, order: int) -> Fraction:
    """Return the Renyi divergence of an event at a whole order, rounded down at 10^-40."""
    if isinstance(event, ev.Repeat):
        return event.count * divergence(event.event, order)
    if isinstance(event, ev.Compose):
        return sum((divergence(each, order) for each in event.events), Fraction(0))
    with mpmath.workdps(60):
        value = _divergence(event, mpmath.mpf(order))
        return Fraction(int(mpmath.floor(value * 10**40)), 10**40)


def _divergence(event: ev.Event, order: mpmath.mpf) -> mpmath.mpf:
    if isinstance(event, ev.Gaussian):
        return order / (2 * mpmath.mpf(event.noise_multiplier) ** 2)
    if isinstance(event, ev.Laplace):
        noise = mpmath.mpf(event.noise_multiplier)
        up = order / (2 * order - 1) * mpmath.exp((order - 1) / noise)
        down = (order - 1) / (2 * order - 1) * mpmath.exp(-order / noise)
        return mpmath.log(up + down) / (order - 1)
    assert isinstance(event, ev.Poisson)
    assert isinstance(event.event, ev.Gaussian)
    rate, noise = mpmath.mpf(event.rate), mpmath.mpf(event.event.noise_multiplier)
    moment = sum(
        mpmath.binomial(order, k)
        * (1 - rate) ** (order - k)
        * rate**k
        * mpmath.exp(k * (k - 1) / (2 * noise**2))
        for k in range(int(order) + 1)
    )
    return mpmath.log(moment) / (order - 1)


def budgets(terms: Terms) -> list[Fraction]:
    """Return the divergence that each order may reach; not positive where it pays for nothing.

    epsilon - (log(k / delta) - log a) / (a - 1) - log((a - 1) / a) at order a, one of k.
    """
    orders = terms.currency.orders
    with mpmath.workdps(60):
        left = []
        for order in map(mpmath.mpf, orders):
            tail = mpmath.log(len(orders)) - mpmath.log(mpmath.mpf(terms.delta)) - mpmath.log(order)
            budget = mpmath.mpf(terms.cap_at_most) - tail / (order - 1)
            budget -= mpmath.log((order - 1) / order)
            left.append(Fraction(int(mpmath.floor(budget * 10**40)), 10**40))
        return left


def losses_by_unit(lines: Iterable[bytes], terms: Terms) -> dict[tuple[str, int], list[Fraction]]:
    """Return what each unit lost at each order, by the claims that a history has.

    A unit is a block and a number in it; a claim that was cancelled released nothing.
    """
    records = [json.loads(line) for line in lines]
    cancelled = {each["claim"] for each in records if each["type"] == "claim.cancel"}
    lost: dict[tuple[str, int], list[Fraction]] = {}
    for record in records:
        if record["type"] in ("data-set.open", "blocks.add"):
            for block in record["blocks"]:
                for unit in range(UNITS_OF_A_BLOCK):
                    lost[block, unit] = [Fraction(0)] * len(terms.currency.orders)
        if record["type"] != "claim" or record["claim"] in cancelled:
            continue
        event = ev.from_json(record["event"])
        for (block, _), sums in lost.items():
            if block in record["blocks"]:
                for index, order in enumerate(terms.currency.orders):
                    sums[index] += divergence(event, int(order))
    return lost


def require_true(audited: LedgerAudit, lines: Iterable[bytes], source: Mapping[str, Any]) -> None:
    """Assert that the audit holds, that no block is above its cap, and that no balance is wrong.

    Each balance is at or above what every unit of its block lost, and within 10^-9 of it.
    """
    assert audited.problem is None, audited.problem
    terms = Terms.of(source)
    cap, left = terms.cap_of(source["epsilon"]), budgets(terms)
    assert sum(budget > 0 for budget in left) >= 3
    for (block, _), sums in losses_by_unit(lines, terms).items():
        units = audited.balances[block]
        assert within(units, cap)
        for balance, spent, budget in zip(units, sums, left, strict=False):
            if budget > 0:
                share = spent / budget
                assert share <= Fraction(balance, 10**15) <= share * (1 + Fraction(1, 10**9))
