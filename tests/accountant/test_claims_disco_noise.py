"""DISCO's noise with its unit: each number against the closed form of Gaussian privacy."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import mpmath
import pytest

from privplan.accountant.claims import disco
from privplan.accountant.claims import table as tables
from privplan.accountant.claims.table import Noise
from privplan.accountant.errors import InvalidInput

from ..cases import for_each

LINES = {(line.setting, line.way): line for line in tables.noise("disco")}
SIX = "20 rounds, 6 tensors, epsilon 10"
FIFTY = "20 rounds, 50 tensors, epsilon 10"
HUNDRED = "100 rounds, 6 tensors, epsilon 10"


def delta_of(mu: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """Return delta of a Gaussian shift: Phi(mu/2 - e/mu) - e^epsilon Phi(-mu/2 - e/mu)."""
    half, far = mu / 2, mpmath.mpf(epsilon) / mu
    return mpmath.ncdf(half - far) - mpmath.exp(epsilon) * mpmath.ncdf(-half - far)


def shift(epsilon: float, delta: str = "1e-5") -> float:
    """Return mu(epsilon, delta) in 30 digits, by halving."""
    with mpmath.workdps(30):
        low, high = mpmath.mpf("1e-3"), mpmath.mpf(50)
        for _ in range(120):
            middle = (low + high) / 2
            too_large = delta_of(middle, epsilon) > mpmath.mpf(delta)
            low, high = (low, middle) if too_large else (middle, high)
        return float(low)


def exact_epsilon(mu: float, delta: str = "1e-5") -> float:
    with mpmath.workdps(30):
        low, high = mpmath.mpf(0), mpmath.mpf(100)
        for _ in range(120):
            middle = (low + high) / 2
            too_small = delta_of(mpmath.mpf(mu), middle) > mpmath.mpf(delta)
            low, high = (middle, high) if too_small else (low, middle)
        return float(high)


@for_each(("epsilon", "mu"), [(1.0, 0.2681), (5.0, 1.1212), (10.0, 2.0004), (20.0, 3.4478)])
def test_the_shift_by_the_analytic_formula(epsilon: float, mu: float) -> None:
    """The oracle of this file, at the numbers that were computed before by another program."""
    assert shift(epsilon) == pytest.approx(mu, abs=5e-5)


@for_each(
    ("rounds", "tensors", "printed"),
    [(20, 6, "11.0"), (20, 50, "31.6"), (100, 6, "24.5"), (20, 1, "4.47"), (1, 1, "1.00")],
)
def test_the_least_noise_is_two_roots_over_mu(rounds: int, tensors: int, printed: str) -> None:
    """Never below the exact one, and above it by the calibration's 1e-4 at most."""
    exact = 2.0 * math.sqrt(rounds * tensors) / shift(10.0)
    least = disco.least_noise(rounds, tensors, 10.0)
    assert exact * (1.0 - 1e-12) <= least <= exact * (1.0 + 1e-4)
    assert f"{least:.3g}" == f"{exact:.3g}" == str(float(printed)).removesuffix(".0")


@for_each("epsilon", [1.0, 5.0, 20.0])
def test_the_least_noise_at_other_epsilons(epsilon: float) -> None:
    exact = 2.0 * math.sqrt(120) / shift(epsilon)
    least = disco.least_noise(20, 6, epsilon)
    assert exact * (1.0 - 1e-12) <= least <= exact * (1.0 + 1e-4)


@for_each(
    ("setting", "way", "deviation", "symbol", "proven"),
    [
        (SIX, "as published, radii as coded", 21.7, "r", math.inf),
        (SIX, "as published, were radii public", 21.7, "r", 4.42),
        (SIX, "least, a public radius a tensor", 11.0, "r", 10.0),
        (SIX, "least, one flat clip C = sqrt(6) r", 11.0, "r", 10.0),
        (SIX, "the same noise, in C", 4.47, "C", 10.0),
        (SIX, "least of each of 20 peers whose sums alone are seen; none colludes", 2.51, "r", 10),
        (FIFTY, "as published, were radii public", 21.7, "r", 16.1),
        (FIFTY, "least, a public radius a tensor", 31.6, "r", 10.0),
        (HUNDRED, "as published, were radii public", 114.0, "r", 1.68),
        (HUNDRED, "least, a public radius a tensor", 24.5, "r", 10.0),
    ],
)
def test_each_line_to_three_digits(
    setting: str, way: str, deviation: float, symbol: str, proven: float
) -> None:
    line = LINES[setting, way]
    assert float(f"{line.deviation:.3g}") == deviation
    assert line.symbol == symbol
    assert line.proven == math.inf or float(f"{line.proven:.3g}") == proven
    assert line.published == way.startswith("as published")


def seen(line: Noise) -> float:
    """Return the shift of all releases, by the words of a line and nothing that it computed."""
    rounds, tensors = (int(part.split()[0]) for part in line.setting.split(", ")[:2])
    others = 1
    if "sums" in line.way:
        others = 20 - 1 - 2 * line.way.endswith("2 collude")
    clips = rounds if line.symbol == "C" else rounds * tensors
    return 2.0 * math.sqrt(clips / others) / line.deviation


@for_each("line", LINES.values(), ids=lambda line: f"{line.setting}: {line.way}")
def test_what_a_line_proves_is_its_epsilon_by_the_closed_form(line: Noise) -> None:
    if line.way == "as published, radii as coded":
        assert line.proven == math.inf
        return
    exact = exact_epsilon(seen(line))
    assert exact * (1.0 - 1e-11) <= line.proven <= exact * (1.0 + 1e-9)
    if not line.published:
        assert 10.0 * (1.0 - 1e-4) <= line.proven <= 10.0


def test_a_flat_clip_of_the_same_size_asks_for_the_same_noise() -> None:
    tensors = LINES[SIX, "least, a public radius a tensor"]
    flat = LINES[SIX, "least, one flat clip C = sqrt(6) r"]
    in_clips = LINES[SIX, "the same noise, in C"]
    # Two calibrations, each at most 1e-4 above the exact noise.
    assert flat.deviation == pytest.approx(tensors.deviation, rel=1e-4)
    assert flat.deviation / in_clips.deviation == pytest.approx(math.sqrt(6), rel=1e-10)
    assert (flat.length, in_clips.length) == (disco.TENSOR_RADIUS, disco.FLAT_CLIP)


@for_each(("peers", "colluders"), [(20, 0), (20, 2), (3, 1), (1000, 500)])
def test_the_parts_of_the_others_add_up_to_the_noise(peers: int, colluders: int) -> None:
    part = disco.part_of_peer(10.952, peers, colluders)
    together = part * math.sqrt(peers - 1 - colluders)
    assert 10.952 <= together <= 10.952 * (1.0 + 1e-11)


@for_each(("peers", "colluders"), [(20, 19), (2, 1), (1, 0), (5, 100)])
def test_nobody_left_to_hide_a_message_is_refused(peers: int, colluders: int) -> None:
    with pytest.raises(InvalidInput, match="`colluders` must be at most"):
        disco.part_of_peer(10.0, peers, colluders)


WRONG = {
    **{"deviation": (0.0, math.nan, math.inf), "proven": (-1.0, math.nan), "delta": (0.0,)},
    "length": ("r", "", ", the radius"),
}


@for_each(("field", "values"), list(WRONG.items()))
def test_noise_without_a_unit_or_out_of_range_is_refused(field: str, values: Any) -> None:
    for value in values:
        with pytest.raises(InvalidInput):
            dataclasses.replace(next(iter(LINES.values())), **{field: value})


def test_only_disco_shows_its_noise() -> None:
    assert tables.noise("flame") == ()
    with pytest.raises(InvalidInput):
        tables.noise("disko")


def row(setting: str) -> disco.Claim:
    claims = {claim.setting: claim for claim in tables.table("disco")}
    return claims[setting]


def test_what_the_sum_of_twenty_would_prove() -> None:
    """21.7 r from each of 19 others: epsilon .851, by the closed form from both sides."""
    claim = row("20 rounds, 6 tensors, public radii, if only sums of 20 are seen")
    published = 2 * math.sqrt(2 * math.log(1.25 * 20 / 1e-5)) * 20 / 10
    exact = exact_epsilon(2.0 * math.sqrt(120 / 19) / published)
    assert claim.lower is not None
    assert claim.proven is not None
    assert claim.lower <= exact <= claim.proven
    assert claim.proven - claim.lower < 1e-9
    assert (claim.verdict, claim.observer) == ("loose", "peer")


def test_a_sum_of_twenty_as_coded_still_tells_a_tensor_that_moved() -> None:
    """In 50 digits: beside 19 tensors that did not move, one that did."""
    with mpmath.workdps(50):
        seldom = mpmath.erf(mpmath.mpf("1e-6") / mpmath.sqrt(2))
        log_never = mpmath.log(mpmath.erfc(mpmath.mpf("1e6") / mpmath.sqrt(40)))
        exact = mpmath.log(1 - seldom - mpmath.mpf("1e-5")) - log_never
    claim = row("as coded, the sum of 20 alone: radii follow the updates")
    assert claim.lower is not None
    assert float(exact) * (1 - 1e-6) <= claim.lower <= float(exact)
    assert (claim.verdict, claim.observer) == ("no-guarantee", "model")
