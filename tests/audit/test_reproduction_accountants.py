"""Accountants print here what they print in their own programs.

The four settings A to D were run with Opacus, dp_accounting and prv_accountant themselves.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from privplan.audit.description.run_description import Phase
from privplan.audit.description.run_settings import RunSettings
from privplan.audit.reproduction.accountants import (
    DP_ACCOUNTING_NAME,
    EARLIER_NAME,
    OPACUS_NAME,
    PLD_NAME,
    PRV_NAME,
    WITHOUT_REPLACEMENT_NAME,
    exact_values,
    quick_values,
)
from privplan.audit.reproduction.closed_forms import LIMIT_NAME
from privplan.audit.reproduction.order_grids import OPACUS
from privplan.audit.reproduction.reproduction import AccountantValue
from privplan.audit.reproduction.search import common_accountants

from ..cases import for_each

A = RunSettings(noise_multiplier=1.0, rate=0.01, steps=1000, delta=1e-5)
B = RunSettings(noise_multiplier=0.6, rate=0.001, steps=100_000, delta=1e-6)
C = RunSettings(noise_multiplier=5.0, rate=0.1, steps=5000, delta=1e-5)
D = RunSettings(noise_multiplier=10.0, rate=1.0, method="full", steps=100, delta=1e-5)
ALL = [A, B, C, D]
MNIST = RunSettings(noise_multiplier=1.1, batch=256, records=60_000, steps=3516, delta=1e-5)


def of(settings: RunSettings, name: str) -> AccountantValue:
    values = {value.accountant: value for value in quick_values(settings)}
    values |= {value.accountant: value for value in exact_values(settings)}
    return values[name]


@for_each(("settings", "printed"), list(zip(ALL, [2.1014, 7.755, 7.194, 4.729], strict=True)))
def test_opacus_rdp(settings: RunSettings, printed: float) -> None:
    assert of(settings, OPACUS_NAME).value == pytest.approx(printed, abs=6e-4)


@for_each(("settings", "printed"), list(zip(ALL, [2.1014, 7.756, 7.194, 4.729], strict=True)))
def test_dp_accounting_rdp(settings: RunSettings, printed: float) -> None:
    assert of(settings, DP_ACCOUNTING_NAME).value == pytest.approx(printed, abs=6e-4)


@for_each(("settings", "printed"), list(zip(ALL, [1.618, 6.185, 6.652, 4.390], strict=True)))
def test_central_limit(settings: RunSettings, printed: float) -> None:
    value = of(settings, LIMIT_NAME)
    assert value.method == "clt"
    assert value.value == pytest.approx(printed, abs=6e-4)


@for_each(
    ("settings", "pld", "prv"),
    [
        (A, 1.828244, 1.8384),
        (B, 6.961157, 6.9712),
        (C, 6.676904, 6.6872),
        (D, 4.377178, 4.3874),
    ],
)
def test_pld_and_prv_lie_in_their_intervals(settings: RunSettings, pld: float, prv: float) -> None:
    exact = of(settings, PLD_NAME)
    assert exact.low * (1.0 - 1e-6) <= pld <= exact.high
    estimate = of(settings, PRV_NAME)
    assert estimate.low <= prv <= estimate.high
    assert estimate.high - estimate.low < 3e-3


def test_the_tutorial_of_tf_privacy() -> None:
    assert of(MNIST, OPACUS_NAME).value == pytest.approx(1.28, abs=5e-3)
    assert of(MNIST, EARLIER_NAME).value == pytest.approx(1.594, abs=5e-4)


def test_twenty_steps_of_opacus_prv() -> None:
    settings = RunSettings(noise_multiplier=1.0, rate=0.05, steps=20, delta=1e-5)
    value = of(settings, PRV_NAME)
    assert value.low <= 1.995 <= value.high


def test_flower_without_replacement() -> None:
    settings = RunSettings(
        noise_multiplier=1.0,
        method="fixed-size",
        neighbours="replace-one",
        batch=1000,
        records=100_000,
        steps=1000,
        delta=1e-5,
    )
    assert of(settings, WITHOUT_REPLACEMENT_NAME).value == pytest.approx(3.576, abs=5e-4)


@for_each(("rate", "printed"), [(0.01, 0.718), (0.08, 5.613)])
def test_accumulation_of_jax_privacy(rate: float, printed: float) -> None:
    settings = RunSettings(noise_multiplier=1.0, rate=rate, steps=100, delta=1e-5)
    assert of(settings, PLD_NAME).low == pytest.approx(printed, abs=1e-3)


def test_replace_one_without_sampling_is_accounted_for_in_both_ways() -> None:
    oracle = pytest.importorskip("dp_accounting.rdp.rdp_privacy_accountant")
    settings = replace(D, neighbours="replace-one")
    named = [each for each in quick_values(settings) if each.accountant.startswith(OPACUS_NAME)]
    orders = OPACUS.orders
    expected = [
        oracle.compute_epsilon(orders, 100 * orders / (2.0 * noise**2), 1e-5)[0]
        for noise in (5.0, 10.0)
    ]
    assert [each.value for each in named] == pytest.approx(expected)
    assert expected[1] == pytest.approx(4.729, abs=6e-4)
    assert of(settings, PLD_NAME).low == pytest.approx(10.0, abs=0.01)


def test_a_shuffled_run_also_has_one_release_an_epoch() -> None:
    settings = RunSettings(noise_multiplier=1.0, rate=0.05, steps=20, delta=1e-5, method="shuffled")
    passes = [each for each in exact_values(settings) if "once an epoch" in each.accountant]
    # One epoch: a single unsampled release.
    assert passes[0].low == pytest.approx(4.377, abs=1e-3)


def test_phases_are_composed() -> None:
    phases = (Phase(1.0, 0.01, 400), Phase(1.0, 0.01, 600))
    settings = RunSettings(phases=phases, delta=1e-5)
    for name in (OPACUS_NAME, DP_ACCOUNTING_NAME, LIMIT_NAME, PLD_NAME):
        assert of(settings, name).value == pytest.approx(of(A, name).value, rel=1e-4)


def test_laplace_noise_is_summed() -> None:
    settings = RunSettings(family="laplace", noise_multiplier=10.0, method="full", steps=20)
    (total,) = quick_values(settings)
    assert total.value == pytest.approx(2.0)
    assert len(common_accountants(settings)) == 1


@for_each(
    "settings",
    [
        RunSettings(),
        RunSettings(noise_multiplier=1.0, rate=0.01, delta=1e-5),
        RunSettings(noise_multiplier=1.0, rate=0.01, steps=10),
        RunSettings(noise_multiplier=1.0, steps=10, delta=1e-5, method="poisson"),
        RunSettings(noise_multiplier=0.0, rate=0.01, steps=10, delta=1e-5),
        RunSettings(noise_multiplier=1.0, rate=0.01, steps=10, delta=0.0),
        RunSettings(family="pure", noise_multiplier=1.0, steps=10, delta=1e-5),
    ],
)
def test_nothing_is_printed_where_something_is_missing(settings: RunSettings) -> None:
    assert common_accountants(settings) == ()


@for_each("noise", [1e-3, 1e4])
def test_extreme_noise_is_no_error(noise: float) -> None:
    settings = RunSettings(noise_multiplier=noise, rate=0.5, steps=10**6, delta=1e-9)
    assert common_accountants(settings)
