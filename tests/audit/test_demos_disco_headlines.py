"""DISCO's headlines, as they are kept in `bench/disco_headlines.json`, computed again."""

from __future__ import annotations

import importlib
import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")
pytest.importorskip("nacl")

from privplan.accountant.claims import table as tables

from ..source_tree import ROOT
from ..sweeps import sweep

KEPT: dict[str, Any] = json.loads((ROOT / "bench" / "disco_headlines.json").read_text())


@pytest.fixture
def headlines(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the benchmark as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("disco_headlines")


@pytest.mark.parametrize("magnitude", [1.0, 100.0, 10_000.0])
@pytest.mark.parametrize("parties", sweep([3, 10], quick=1))
def test_the_error_of_shares_is_what_is_kept(
    headlines: ModuleType, parties: int, magnitude: float
) -> None:
    again = headlines.reconstruction(parties, magnitude)
    kept = next(
        each
        for each in KEPT["reconstruction"]
        if (each["parties"], each["magnitude"]) == (parties, magnitude)
    )
    assert again == pytest.approx(kept, rel=1e-9)
    assert again["ring"] == 0


def test_the_error_of_shares_grows_by_a_decade_with_each_decade() -> None:
    """A float is rounded in proportion to its size, so the error over M stays what it is."""
    for parties in (3, 10):
        errors = [each for each in KEPT["reconstruction"] if each["parties"] == parties]
        relative = [each["rms"] / each["magnitude"] for each in errors]
        assert [each["magnitude"] for each in errors] == [1.0, 100.0, 10_000.0]
        assert max(relative) < 1.1 * min(relative)


def test_what_the_text_says_of_the_error() -> None:
    """10e-8 M: above the root mean square, and among ten parties below the largest."""
    for each in KEPT["reconstruction"]:
        assert each["published"] == pytest.approx(10e-8 * each["magnitude"])
        assert each["rms"] < each["published"]
        assert (each["largest"] > each["published"]) or each["parties"] == 3


def test_the_kept_noise_is_that_of_the_table() -> None:
    kept = [(each["setting"], each["way"], each["deviation"], each["in"]) for each in KEPT["noise"]]
    lines = tables.noise("disco")
    assert [line[:2] for line in kept] == [(line.setting, line.way) for line in lines]
    for (_, _, deviation, symbol), line in zip(kept, lines, strict=True):
        assert deviation == pytest.approx(line.deviation, rel=1e-9)
        assert symbol == line.symbol


def test_the_kept_epsilons_are_those_of_the_table() -> None:
    claims = {claim.setting: claim for claim in tables.table("disco")}
    for each in KEPT["observers"]:
        claim = claims[each["setting"]]
        assert float(each["proven"]) == pytest.approx(claim.proven)
        assert each["claimed"] == claim.claimed
        assert each["verdict"] == claim.verdict
        assert each["measured"] <= float(each["proven"])
        assert (each["measured"] > each["claimed"]) == (claim.verdict == "no-guarantee")
    assert {each["observer"] for each in KEPT["observers"]} == {
        *("peer", "model", "coordinator, who has the model")
    }


def test_peers_end_with_one_total_in_the_ring_and_not_in_floats(
    headlines: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five rounds; the kept ones are fifty, and of ten peers with floats none had one total."""
    monkeypatch.setattr(headlines, "TOTAL_ROUNDS", 5)
    floats = headlines.float_totals(10, 100.0)
    assert floats["rounds_that_differ"] == 5
    assert floats["largest_difference"] > 0.0
    ring = headlines.ring_totals(10)
    assert (ring["rounds_that_differ"], ring["rounds_with_a_wrong_total"]) == (0, 0)
    for each in KEPT["ring_totals"]:
        assert each["rounds_that_differ"] == each["rounds_with_a_wrong_total"] == 0
    assert all(each["rounds_that_differ"] > 0 for each in KEPT["float_totals"])


def test_the_searches_find_everything_in_floats_and_nothing_in_the_ring() -> None:
    floats, ring = KEPT["searches"]
    assert floats["differences_equal"] == floats["differences"] == ring["differences"]
    assert ring["differences_equal"] == 0
    assert floats["advantage"] > 0.4
    assert ring["advantage"] == 0.0


def test_infinite_numbers_are_words_in_json(headlines: ModuleType) -> None:
    given = {"a": [1.0, float("inf")], "b": {"c": float("inf")}}
    assert json.loads(json.dumps(headlines.finite(given), allow_nan=False)) == {
        "a": [1.0, "inf"],
        "b": {"c": "inf"},
    }
    assert np.isinf(float(KEPT["observers"][0]["proven"]))
