"""FLAME's headlines, as they are kept in `bench/flame_headlines.json`: their accounting, again."""

from __future__ import annotations

import importlib
import json
import math
from dataclasses import fields
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from ..source_tree import ROOT
from ..sweeps import sweep

KEPT: dict[str, Any] = json.loads((ROOT / "bench" / "flame_headlines.json").read_text())


@pytest.fixture
def accounting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the accounting of the benchmark as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("flame_accounting")


@pytest.fixture
def headlines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the benchmark as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("flame_headlines")


def rows(group: str, name: str) -> list[dict[str, Any]]:
    return [each for each in KEPT["rows"] if (each["group"], each["name"]) == (group, name)]


def row(group: str, name: str) -> dict[str, Any]:
    (found,) = rows(group, name)
    return found


def sent_of(accounting: ModuleType, kept: dict[str, Any]) -> Any:
    return accounting.Sent(**{one.name: kept[one.name] for one in fields(accounting.Sent)})


# --- accounting -----------------------------------------------------------------------------------


def test_every_claimed_number_is_the_papers_formula(accounting: ModuleType) -> None:
    sent = [each for each in KEPT["rows"] if "epsilon0" in each]
    assert len(sent) >= 20
    for each in sent:
        again = accounting.claimed(sent_of(accounting, each), KEPT["delta"])
        assert again == pytest.approx(each["claimed"], rel=1e-9)


def test_every_number_of_central_noise_is_proven_again(accounting: ModuleType) -> None:
    central = [each for each in KEPT["rows"] if each["way"] == "central"]
    assert len(central) >= 7
    for each in central:
        noise = each["noise_multiplier"]
        assert accounting.proven_central(noise) == pytest.approx(each["proven"], rel=1e-9)
        again = accounting.proven_central(noise, KEPT["rounds"])
        assert again == pytest.approx(each["proven_all"], rel=1e-9)


def test_the_headline_is_proven_again(accounting: ModuleType) -> None:
    """k = d / 50, local epsilon .5: .022 is claimed of a round, and .206 proven."""
    topk = row("headline", "topk")
    assert (topk["chosen"], topk["epsilon0"], topk["dimensions"]) == (13, 0.5, 650)
    again = accounting.proven(sent_of(accounting, topk))
    assert again == pytest.approx(topk["proven"], rel=1e-9)
    assert topk["claimed"] == pytest.approx(0.022, abs=5e-4)
    assert topk["proven"] == pytest.approx(0.206, abs=1e-3)
    at_claim = row("headline", "DP-FL at the claim")["noise_multiplier"]
    assert accounting.central_as_claimed(topk["claimed"]) == pytest.approx(at_claim, rel=1e-9)


def test_the_baseline_has_less_noise_than_it_says(accounting: ModuleType) -> None:
    assert accounting.baseline() == KEPT["baseline"]
    large, small = KEPT["baseline"]
    assert (large["claimed"], small["claimed"]) == (20.53, 0.238)
    assert large["proven"] == pytest.approx(26.0, abs=0.05)
    assert small["proven"] == pytest.approx(0.161, abs=5e-4)


def test_index_privacy_is_as_kept(accounting: ModuleType) -> None:
    assert accounting.index_privacy() == KEPT["index_privacy"]
    assert (KEPT["index_privacy"]["sets"], KEPT["index_privacy"]["nu"]) == (16, 3.125)
    assert KEPT["index_privacy"]["posterior_over_prior"][-1] == pytest.approx(44.18, abs=0.01)


@pytest.mark.parametrize("at", sweep(range(len(KEPT["amplification"])), quick=3))
def test_amplification_is_proven_again(accounting: ModuleType, at: int) -> None:
    kept = KEPT["amplification"][at]
    sent = sent_of(accounting, kept)
    assert accounting.proven(sent) == pytest.approx(kept["proven"], rel=1e-9)
    assert accounting.claimed(sent, kept["delta"]) == pytest.approx(kept["claimed"], rel=1e-9)
    assert kept["proven_ratio"] == pytest.approx(sent.k * sent.epsilon0 / kept["proven"])


def test_equal_means_equal() -> None:
    topk = row("equal claimed", "topk")
    for name in ("double", "simple"):
        assert row("equal claimed", name)["claimed"] == pytest.approx(0.238, rel=1e-6)
    for name in ("double", "simple", "central", "local"):
        assert row("equal proven", name)["proven"] == pytest.approx(topk["proven"], rel=1e-3)
        assert row("equal proven", name)["proven"] <= topk["proven"] * (1 + 1e-9)
    for name in ("double", "simple"):
        kept = row("equal local", name)
        sent = kept["dimensions"] if name == "simple" else kept["chosen"]
        assert sent * kept["epsilon0"] == pytest.approx(6.5)


def test_topk_below_n_has_no_guarantee(accounting: ModuleType) -> None:
    small = [each for each in rows("by n_p", "topk") if each["padded_to"] < KEPT["users"]]
    assert len(small) == 2
    for each in small:
        assert each["proven"] == each["proven_all"] == "inf"
        assert math.isinf(accounting.proven(sent_of(accounting, each)))


# --- what was measured ----------------------------------------------------------------------------


@pytest.mark.parametrize("padded_to", sweep([1_000, 333, 120], quick=1))
def test_the_width_of_a_sum_is_measured_again(headlines: ModuleType, padded_to: int) -> None:
    (kept,) = [each for each in KEPT["deviation"] if each["padded_to"] == padded_to]
    again = headlines.measured_deviation(padded_to, 0.5)
    assert again == pytest.approx(kept["measured"], rel=1e-9)
    assert kept["predicted"] == math.sqrt(2 * padded_to) * 4.0


def test_the_width_of_a_sum_is_as_predicted() -> None:
    """5,200 sums: a relative standard error of 1 %, and the seeds are fixed."""
    for each in KEPT["deviation"]:
        assert each["measured"] == pytest.approx(each["predicted"], rel=0.04)


def test_gaps_follow_from_the_rows(headlines: ModuleType) -> None:
    again = headlines.gap_table(KEPT["rows"])
    assert [{**each, "points": None} for each in again] == [
        {**each, "points": None} for each in KEPT["gaps"]
    ]
    points = [each["points"] for each in KEPT["gaps"]]
    assert [each["points"] for each in again] == pytest.approx(points)


def test_the_headline_both_ways() -> None:
    """It wins where its claim is believed, and loses where both have what is proven."""
    topk, believed = row("headline", "topk"), row("headline", "DP-FL at the claim")
    proven = row("headline", "central at the proof")
    assert topk["accuracy"] > believed["accuracy"] + 2 * believed["deviation"] / math.sqrt(5)
    assert topk["accuracy"] < proven["accuracy"] - 2 * proven["deviation"] / math.sqrt(5)


def test_local_noise_lies_below_simple() -> None:
    assert row("equal proven", "local")["accuracy"] < row("equal proven", "simple")["accuracy"]
