"""DELM's headlines in `bench/delm_headlines.json`, and what follows from their rows."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy import stats

import privplan
from privplan.accountant.sensitivity.functional import Objective, delta_as_published, sensitivity
from privplan.fl.delm.parts import published_total

from ...cases import for_each

STORED: Final = Path(privplan.__file__).parent / "bench" / "delm_headlines.json"

GUESSED: Final = 0.3
"""No model that learned anything of ten digits is so bad; noise reaches .2, by luck."""


@cache
def stored() -> Any:
    return json.loads(STORED.read_text())


def rows(figure: str, data: str = "digits") -> list[Any]:
    return [row for row in stored()["rows"] if (row["figure"], row["data"]) == (figure, data)]


def row(figure: str, name: str, claimed: float | None = None, data: str = "digits") -> Any:
    (found,) = (
        each for each in rows(figure, data) if (each["name"], each["claimed"]) == (name, claimed)
    )
    return found


def test_every_row_has_its_seeds_and_their_mean() -> None:
    for each in stored()["rows"]:
        assert len(each["accuracies"]) == stored()["seeds"] == 5
        assert each["accuracy"] == pytest.approx(np.mean(each["accuracies"]))
        assert each["deviation"] == pytest.approx(np.std(each["accuracies"], ddof=1))
    for figure in ("2", "3a", "3b", "3c", "3d", "4", "2 classes", "bad data", "pieces"):
        assert rows(figure), figure


def test_parts_of_a_claim_make_it() -> None:
    for each in rows("3a"):
        if each["claimed"] is not None:
            parts = each["parts"]
            total = published_total(parts["pca"], parts["training"], parts["selection"], 2)
            assert total == pytest.approx(each["claimed"])


@for_each("figure", ["3a", "3b", "3c", "3d", "4", "2 classes", "bad data"])
def test_with_the_printed_noise_a_network_is_a_guess_and_nothing_is_proven(figure: str) -> None:
    for each in rows(figure):
        if each["name"].startswith(("basic, ", "enhanced, ")) and each["claimed"] is not None:
            assert each["accuracy"] < GUESSED
            assert each["proven"] is None


def test_where_noise_is_proven_it_is_for_the_claim() -> None:
    for each in (*rows("pieces"), *rows("pieces", "synthetic-digits")):
        if "proven" in each["name"] or each["name"].startswith("delm-linear"):
            assert 0.99 * each["claimed"] < each["proven"] <= each["claimed"]


@for_each("data", ["digits", "synthetic-digits"])
def test_one_release_of_all_clients_learns_what_the_printed_scheme_does_not(data: str) -> None:
    sound = row("pieces", "delm-linear, Gaussian", 1.0, data)
    printed = row("pieces", "network, as published", 1.0, data)
    assert sound["accuracy"] > printed["accuracy"] + 0.5


def test_the_printed_delta_stands_beside_the_proven_one() -> None:
    for each in stored()["deltas"]:
        classes = 2 if each["model"] == "logistic" else 10
        objective = Objective(each["model"], each["features"], classes=classes)
        assert each["printed"] == delta_as_published(each["model"], each["features"], classes)
        assert each["proven"] == sensitivity(objective, "replace-one").l1
    (largest,) = (
        each
        for each in stored()["deltas"]
        if (each["model"], each["features"]) == ("logistic", 784)
    )
    assert largest["printed"] == 154_448
    assert largest["proven"] < 28.0 + 784.0 / 4.0


def test_the_largest_odds_of_a_choice_are_next_to_one() -> None:
    assert stored()["largest_odds"] == pytest.approx(math.exp(3.0 / 200.0))


def test_a_choice_by_divergence_agrees_with_a_uniform_one() -> None:
    """Pairs of 25 runs without noise, at one false alarm in 100."""
    agreement = stored()["agreement"]
    pairs = agreement["divergence"], agreement["uniform"]
    assert agreement["seeds"] == len(pairs[0]) == 25
    assert agreement["p_value"] == pytest.approx(stats.ttest_rel(*pairs).pvalue)
    assert agreement["p_value"] > 0.01
    assert abs(np.mean(pairs[0]) - np.mean(pairs[1])) < 0.02


def test_gaps_are_those_of_the_rows() -> None:
    """And each printed one is there, whatever it is here."""
    printed = [each["printed"] for each in stored()["pairs"] if each["printed"] is not None]
    assert {9.6, 5.4, 15.6, 8.6, 16.2, 5.1, 22.9} <= set(printed)
    (first,) = (each for each in stored()["pairs"] if each["printed"] == 9.6)
    gap = row("3a", "basic, p 0.5", 0.1)["accuracy"] - row("3a", "LDP-FL", 0.1)["accuracy"]
    assert first["points"] == pytest.approx(100.0 * gap)
