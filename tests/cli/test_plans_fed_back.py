"""What a plan prints, given to `check` digit by digit, holds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal

import pytest

import privplan as pp

from .conftest import Run

NUMBER = r"[\d.,e-]+"
CALIBRATED = re.compile(
    rf"noise multiplier +(?P<noise>{NUMBER}).*?"
    rf"proves +epsilon (?P<claim>{NUMBER}) at delta (?P<delta>[\d.e-]+),.*?"
    rf"over +(?P<steps>{NUMBER}) steps?, Poisson sampling, rate (?P<rate>{NUMBER})",
    re.DOTALL,
)
ACCOUNTED = re.compile(
    rf"proves +epsilon (?P<claim>{NUMBER}) at delta (?P<delta>[\d.e-]+),.*?"
    rf"for +(?P<steps>{NUMBER}) x Gaussian noise (?P<noise>[\d.e-]+), "
    rf"Poisson sampling at rate (?P<rate>{NUMBER})",
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


def verdict(numbers: Mapping[str, Decimal]) -> str:
    result = pp.check(
        claimed=numbers["claim"],
        delta=numbers["delta"],
        noise_multiplier=numbers["noise"],
        steps=int(numbers["steps"]),
        rate=numbers["rate"],
        method="poisson",
        neighbours="add-remove",
    )
    return result.verdict


def calibrated(draw: random.Random) -> list[str]:
    return ["calibrate", "--epsilon", f"{draw.uniform(0.3, 9.0):.{draw.randint(1, 4)}g}"]


def accounted(draw: random.Random) -> list[str]:
    return ["account", "--noise-multiplier", f"{draw.uniform(0.6, 3.0):.3g}"]


@pytest.mark.parametrize(
    ("command", "printed", "count"),
    [
        (calibrated, CALIBRATED, 6),
        (accounted, ACCOUNTED, 6),
        pytest.param(calibrated, CALIBRATED, 200, marks=pytest.mark.slow),
        pytest.param(accounted, ACCOUNTED, 100, marks=pytest.mark.slow),
    ],
)
def test_what_is_printed_holds(
    run: Run, command: Callable[[random.Random], list[str]], printed: re.Pattern[str], count: int
) -> None:
    draw = random.Random(count)
    for words in schedules(count, seed=count):
        outcome = run(*command(draw), "--delta", "1e-6", *words)
        assert outcome.code == 0, words
        found = printed.search(outcome.out)
        assert found is not None, outcome.out
        numbers = {name: Decimal(text.replace(",", "")) for name, text in found.groupdict().items()}
        assert verdict(numbers).startswith("holds"), words
