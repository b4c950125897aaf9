"""Bounds, contradictions and relations."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import privplan
from privplan.accountant.engines.pld.ask import engine
from privplan.accountant.errors import EnginesDisagree, InvalidInput
from privplan.accountant.guarantee import Bounds, agreed, as_neighbours


def test_bounds_are_ordered_numbers():
    assert Bounds(1.0, math.inf).upper == math.inf
    for lower, upper in ((2.0, 1.0), (math.nan, 1.0), (0.0, math.nan)):
        with pytest.raises(InvalidInput, match="ordered numbers"):
            Bounds(lower, upper)


def test_ends_that_contradict_each_other_are_no_answer():
    assert agreed(0.1, 0.1) == 0.1
    assert agreed(math.inf, math.inf) == math.inf
    with pytest.raises(EnginesDisagree, match=r"^A test shows at least 0\.2.*, and at most 0\.1"):
        agreed(0.2, 0.1)
    with pytest.raises(EnginesDisagree, match=r"^One loses at least 1, all of them at most 0\.99"):
        agreed(1.0, 0.999, "One loses", "all of them")


def test_what_rounding_explains_is_no_contradiction_and_never_raises_the_upper_end():
    assert agreed(1.0 + 1e-10, 1.0, rounding=1e-9) == Bounds(1.0, 1.0)
    with pytest.raises(EnginesDisagree):
        agreed(1.0 + 1e-8, 1.0, rounding=1e-9)


def test_contradictions_are_decided_in_one_place():
    root = Path(privplan.__file__).parent / "accountant"
    raising = [p.name for p in root.rglob("*.py") if "raise EnginesDisagree" in p.read_text()]
    assert raising == ["guarantee.py"]


def test_an_engine_that_contradicts_itself_gives_no_number(monkeypatch):
    shown = engine.lower_ends
    monkeypatch.setattr(engine, "lower_ends", lambda *asked: (2.0 * end for end in shown(*asked)))
    sampled = privplan.events.Poisson(0.1, privplan.events.Gaussian(1.0))
    with pytest.raises(EnginesDisagree, match="The pld engine shows at least"):
        privplan.account(sampled, delta=1e-5, engine="pld")


def test_an_interval_of_one_number_equals_that_number():
    assert Bounds.exactly(2.0) == 2
    assert Bounds(1.0, 2.0) != 1.0
    assert Bounds(1.0, 2.0) == Bounds(1.0, 2.0)
    assert hash(Bounds.exactly(2.0)) == hash(2.0)
    assert Bounds.exactly(2.0) != "2"
    assert Bounds(math.inf, math.inf).gap == 0.0


def test_relations_are_a_closed_list():
    assert as_neighbours("replace-one") == "replace-one"
    for wrong in ("replace", "", None, 3):
        with pytest.raises(InvalidInput, match="`neighbours` must be one of"):
            as_neighbours(wrong)
