"""What a plan prints, given to `check` digit by digit, holds."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import Decimal

import pytest

import privplan as pp

from .conftest import Run

NUMBER = r"([\d.,e-]+)"
CALIBRATED = re.compile(
    rf"noise multiplier +{NUMBER}.*?"
    rf"proves +epsilon {NUMBER} at delta {NUMBER},.*?"
    rf"over +{NUMBER} steps?, Poisson sampling, rate {NUMBER}",
    re.DOTALL,
)
ACCOUNTED = re.compile(
    rf"proves +epsilon {NUMBER} at delta {NUMBER},.*?"
    rf"for +{NUMBER} x Gaussian noise {NUMBER}, Poisson sampling at rate {NUMBER}",
    re.DOTALL,
)


def schedules(count: int, seed: int) -> Iterator[list[str]]:
    draw = random.Random(seed)
    for _ in range(count):
        if draw.random() < 0.3:
            rate = f"{draw.uniform(0.001, 0.2):.{draw.randint(2, 6)}g}"
            yield ["--rate", rate, "--rounds", str(draw.randint(2, 3000))]
            continue
        records = draw.randint(1000, 300_000)
        batch, epochs = draw.randint(20, records // 5), draw.choice(["1", "2.5", "7", "40"])
        yield ["--records", str(records), "--batch", str(batch), "--epochs", epochs]


def decimals(found: re.Match[str] | None) -> list[Decimal]:
    assert found is not None
    return [Decimal(each.replace(",", "")) for each in found.groups()]


def checked(noise: Decimal, steps: Decimal, rate: Decimal, claim: Decimal, delta: Decimal) -> str:
    result = pp.check(
        claimed=claim,
        delta=delta,
        noise_multiplier=noise,
        steps=int(steps),
        rate=rate,
        method="poisson",
        neighbours="add-remove",
    )
    return result.verdict


@pytest.mark.parametrize(("count", "seed"), [(6, 1), pytest.param(200, 2, marks=pytest.mark.slow)])
def test_a_printed_plan_holds(run: Run, count: int, seed: int) -> None:
    draw = random.Random(seed)
    for words in schedules(count, seed):
        target = f"{draw.uniform(0.3, 9.0):.{draw.randint(1, 4)}g}"
        printed = run("calibrate", "--epsilon", target, "--delta", "1e-6", *words)
        assert printed.code == 0, words
        noise, claim, delta, steps, rate = decimals(CALIBRATED.search(printed.out))
        assert checked(noise, steps, rate, claim, delta).startswith("holds"), words


@pytest.mark.parametrize(("count", "seed"), [(6, 3), pytest.param(100, 4, marks=pytest.mark.slow)])
def test_a_printed_account_holds(run: Run, count: int, seed: int) -> None:
    draw = random.Random(seed)
    for words in schedules(count, seed):
        given = f"{draw.uniform(0.6, 3.0):.3g}"
        printed = run("account", "--noise-multiplier", given, "--delta", "1e-6", *words)
        assert printed.code == 0, words
        claim, delta, steps, noise, rate = decimals(ACCOUNTED.search(printed.out))
        assert checked(noise, steps, rate, claim, delta).startswith("holds"), words
