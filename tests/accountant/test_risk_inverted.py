"""Attack risk beside the inversion of characteristic functions that the benchmark rests on."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from scipy.stats import norm

import privplan as pp
from privplan import events as ev

from ..cases import for_each
from ..source_tree import ROOT


@pytest.fixture(scope="module")
def inversion() -> ModuleType:
    """Return a module of `bench/`, which is no package and shares no code with privplan."""
    path = ROOT / "bench" / "loss_inversion.py"
    spec = importlib.util.spec_from_file_location("loss_inversion", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # frozen dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@for_each(("noise", "rounds"), [(10.0, 100), (4.0, 9), (30.0, 2_000)])
def test_without_sampling_it_is_the_closed_form(inversion, noise: float, rounds: int) -> None:
    losses, mu = inversion.SampledLosses(noise, 1.0, rounds), rounds**0.5 / noise
    assert losses.advantage() == pytest.approx(2.0 * norm.cdf(mu / 2.0) - 1.0, abs=1e-9)
    for fpr in (0.001, 0.1, 0.5):
        assert losses.tpr(fpr) == pytest.approx(norm.cdf(norm.ppf(fpr) + mu), abs=1e-9)


@for_each(("noise", "rate", "rounds"), [(0.7, 0.01, 1_000), (2.0, 0.1, 100)])
def test_the_exact_risk_lies_between_the_ends(inversion, noise, rate, rounds) -> None:
    losses = inversion.SampledLosses(noise, rate, rounds)
    risk = pp.risk(ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise))), fpr=0.01)
    for exact, ends in ((losses.advantage(), risk.advantage), (losses.tpr(0.01), risk.tpr)):
        assert ends.lower - 1e-9 <= exact <= ends.upper + 1e-9
        assert ends.upper - ends.lower < 1e-4 * exact


def test_calibrated_noise_meets_the_target_and_hardly_more_noise_than_it_takes(inversion) -> None:
    noise = pp.calibrate(
        lambda noise: ev.Repeat(1_000, ev.Poisson(0.01, ev.Gaussian(noise))), tpr=0.07, fpr=0.01
    ).value
    exact = inversion.exact_noise(
        lambda noise: inversion.SampledLosses(noise, 0.01, 1_000).tpr(0.01), 0.07, noise
    )
    assert exact <= noise <= exact * (1.0 + 1e-4)
