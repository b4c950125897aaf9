"""Choosing clients by divergence as printed is choosing them at random, in law and in runs."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("torch")

from privplan.accountant.mechanisms import laplace
from privplan.accountant.sensitivity.selection import exponent_as_published
from privplan.fl.data.federation import Federation
from privplan.fl.training.metrics import evaluate

from .schemes import built, federation, made

CLIENTS = 100


def test_the_largest_odds_ratio_is_next_to_one() -> None:
    """e^(3 / 200) = 1.0151: of two clients, one without and one with nothing but other signs."""
    odds = math.exp(float(exponent_as_published(3.0, CLIENTS)))
    assert odds == pytest.approx(1.0151, abs=1e-4)


def test_one_draw_is_within_a_quarter_percent_of_a_uniform_one() -> None:
    """In total variation, at any scores: half of the clients at 0 and half at 1 are the worst."""
    exponent = float(exponent_as_published(3.0, CLIENTS))
    worst = 0.0
    for scores in (np.repeat([0.0, 1.0], CLIENTS // 2), np.linspace(0.0, 1.0, CLIENTS)):
        law = np.exp(-exponent * scores)
        law /= law.sum()
        worst = max(worst, float(np.abs(law - 1.0 / CLIENTS).sum() / 2.0))
    assert worst <= math.tanh(exponent / 4.0) * (1.0 + 1e-9)
    assert 0.003 < worst < 0.004


def clustered(seed: int) -> Federation:
    """Clients of one class each, for whom a choice matters."""
    data = federation(clients=CLIENTS, records=400, classes=3, seed=seed)
    silo = np.empty(400, np.int64)
    silo[np.argsort(data.labels, kind="stable")] = np.arange(400) // 4
    return replace(data, silo=silo)


def losses(selection: str, seeds: int) -> np.ndarray:
    """The loss of runs without noise, by seed: only the choice differs."""

    def no_noise(_: object, count: int, __: float) -> np.ndarray:
        return np.zeros(count, np.int64)

    reached = []
    for seed in range(seeds):
        data = clustered(seed)
        delm: dict[str, Any] = {"selection": selection, "selected": 10, "training_epsilon": 2e9}
        if selection == "divergence":
            delm["selection_epsilon"] = 3.0
        system = built(
            data,
            "delm-enhanced",
            model="mlp-64",
            run={"rounds": 4},
            privacy={"epsilon": 1e9},
            delm=delm,
        )
        with mock.patch.object(laplace, "rounded_laplace", no_noise):
            last = made(system, seed=seed).models[-1]
        reached.append(evaluate(system.model, last, data)["loss"])
    return np.array(reached)


def test_runs_with_the_printed_choice_and_a_uniform_one_agree_within_noise() -> None:
    """12 pairs, a t-test at one false alarm in 10^6; top-k, by the same scores, fails it."""
    uniform, printed, top = (losses(each, 12) for each in ("uniform", "divergence", "top-k"))
    assert stats.ttest_rel(uniform, printed).pvalue > 1e-6
    assert stats.ttest_rel(uniform, top).pvalue < 1e-3
    assert abs(printed.mean() - uniform.mean()) < 0.2 * (top.mean() - uniform.mean())
