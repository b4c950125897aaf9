"""Random descriptions with two to four open facts, against the hull of runs that are listed here.

The runs are enumerated and accounted for here, by nothing of `check`.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, norm

from privplan import check

from .losses import composed_epsilon

WITHIN = 4e-3
"""Relative width of a certified interval, and of the grid here, that is allowed for."""

DELTA = 1e-4


@cache
def truth(noise: float, rate: float, draws: int, steps: int) -> float:
    """Epsilon of steps that each sum `draws` independent samples of this rate, add-remove."""
    edges = np.linspace(-11.0 * noise, draws + 11.0 * noise, 8001)
    shown = np.diff(norm.cdf(edges[:, None], np.arange(draws + 1), noise), axis=0)
    with_unit = shown @ binom.pmf(np.arange(draws + 1), draws, rate)
    without = shown[:, 0]
    seen = (with_unit > 1e-300) & (without > 1e-300)
    loss = np.log(with_unit[seen] / without[seen])
    removed = composed_epsilon(loss, with_unit[seen], steps, DELTA)
    return max(removed, composed_epsilon(-loss, without[seen], steps, DELTA))


@dataclass
class Described:
    """The facts of a description, and the runs that it allows: (rate, draws, steps)."""

    noise: float
    facts: dict[str, object] = field(default_factory=dict)
    runs: set[tuple[float, int, int]] = field(default_factory=set)

    def ends(self) -> tuple[float, float]:
        epsilons = [truth(self.noise, *run) for run in self.runs]
        return min(epsilons), max(epsilons)


def described(draw: random.Random) -> Described:
    noise = draw.choice([1.0, 1.6, 2.5])
    records = draw.choice([200, 900, 3000])
    batch = draw.randrange(records // 60 + 1, records // 8)
    opened = set(draw.sample(["epochs", "restarts", "accumulation", "unit"], draw.randint(2, 4)))
    made = Described(noise, {"records": records, "batch": batch, "noise_multiplier": noise})
    several = draw.choice([2, 3]) if "accumulation" in opened else 1
    starts = draw.choice([2, 5]) if "restarts" in opened else 1
    epochs = draw.randint(1, 3) if "epochs" in opened else None
    steps = None if "epochs" in opened else draw.randint(2, 25)
    sizes = [records]
    made.facts |= {"restarts": starts, "accumulation": several}
    made.facts |= {"steps": steps} if epochs is None else {"epochs": epochs}
    if "unit" in opened and epochs is None:
        users = draw.randrange(2 * batch, records)
        made.facts["users"] = users
        sizes.append(users)
    else:
        made.facts["unit"] = "record"
    for size, together, kind in itertools.product(sizes, {1, several}, {1, several}):
        for rate, counted in counts(size, batch, together, epochs, steps):
            each = min(1.0, rate * together / kind)
            made.runs |= {(each, kind, counted), (each, kind, counted * starts)}
    return made


def counts(
    size: int, batch: int, together: int, epochs: int | None, steps: int | None
) -> Iterator[tuple[float, int]]:
    """The rate of one batch, and the steps, of every loader."""
    if epochs is None:
        yield batch / size, int(steps or 0)
        return
    exact = Fraction(size, batch)
    floor, ceil = math.floor(exact), math.ceil(exact)
    for draws in (exact / together, Fraction(max(1, floor // together)), -(-ceil // together)):
        for made in (math.floor(draws * epochs), math.ceil(draws * epochs)):
            yield batch / size, max(1, made)
    yield 1 / ceil, epochs * -(-ceil // together)
    yield 1 / floor, epochs * max(1, floor // together)


@pytest.mark.slow
def test_the_ends_are_the_hull_of_all_runs() -> None:
    against(random.Random(360), 12)


def against(draw: random.Random, times: int) -> None:
    for _ in range(times):
        made = described(draw)
        least, most = made.ends()
        stated = {"neighbours": "add-remove", "clip_source": "constant", "method": "poisson"}

        def verdict(claim: float, stated=stated, made=made):  # type: ignore[no-untyped-def]
            return check(claimed=claim, delta=DELTA, **stated, **made.facts)

        between = verdict(least + draw.random() * (most - least))
        assert between.proven is not None, made
        assert between.proven.lower == pytest.approx(least, rel=WITHIN), made
        assert between.proven.upper == pytest.approx(most, rel=WITHIN), made
        if most > least * (1 + 4 * WITHIN):
            assert between.verdict == "unverifiable", made
        assert verdict(most * (1 + 2 * WITHIN)).verdict.startswith("holds"), made
        assert verdict(least * (1 - 2 * WITHIN)).verdict == "false", made
