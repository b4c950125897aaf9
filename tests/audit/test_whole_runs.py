"""Whatever is hidden of a run, its loss lies between the ends, and a fact more parts no end."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import pytest

import privplan as pp
from privplan.accountant.guarantee import Bounds

from .whole_runs import WholeRun, descriptions, run_of_clients, tables, whole_run

WITHIN = 2e-3
"""Relative width of a certified interval, and of the grid here, that is allowed for."""

MENTIONING = ("data.users", "data.records_per_user")
"""Keys that cancel a convention where records are protected: they open what it had closed."""

OF_CLIENTS = ("data.records_per_user", "sampling.rate")
"""Keys beside a rate of clients that open more: by convention users are drawn as wholes at it, and
with a rate of draws inside of them they are counted as drawn in every step."""

PINNED = 2
"""How many hidden facts are then stated of each run, one by one."""


def ends_of(facts: Mapping[str, object]) -> Bounds:
    result = pp.check(tables(facts))
    assert "contradiction" not in {cause.id for cause in result.causes}, facts
    return result.proven or Bounds(0.0, float("inf"))


def holds_the_run(run: WholeRun, ends: Bounds, facts: Mapping[str, object]) -> None:
    assert ends.upper >= run.least * (1.0 - WITHIN) - WITHIN, (ends, run, facts)
    assert ends.lower <= run.most * (1.0 + WITHIN) + WITHIN, (ends, run, facts)


def tried(first: int, count: int, made_by: Callable[[random.Random], WholeRun] = whole_run) -> None:
    for seed in range(first, first + count):
        source = random.Random(seed)
        run = made_by(source)
        stated, hidden = descriptions(run, source)
        ends = ends_of(stated)
        holds_the_run(run, ends, stated)
        for key in hidden[:PINNED]:
            stated = {**stated, key: run.facts[key]}
            closer = ends_of(stated)
            holds_the_run(run, closer, stated)
            if made_by is run_of_clients and key in OF_CLIENTS:
                ends = closer
                continue
            if key not in MENTIONING or stated.get("claim.unit") in ("user", "silo"):
                assert closer.upper <= ends.upper * (1.0 + WITHIN) + WITHIN, (key, stated)
            ends = closer


def test_the_ends_hold_a_run_of_which_facts_are_hidden() -> None:
    tried(36_000, 8)


def test_the_ends_hold_a_run_of_clients_of_which_facts_are_hidden() -> None:
    tried(37_000, 20, run_of_clients)


@pytest.mark.slow
def test_the_ends_hold_many_runs_of_which_facts_are_hidden() -> None:
    tried(40_000, 90)
    tried(50_000, 90, run_of_clients)
