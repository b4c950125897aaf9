"""The vocabulary and the front door say where each thing comes from, its range and its relation."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields

import privplan as pp
from privplan.accountant import events as ev

from ..cases import for_each

WORDS = {**ev.TYPES, **ev.STRATEGIES, **ev.PARTICIPATIONS}
PLAIN = {"compose", "no-guarantee", "single", "matrix-gaussian"}
"""Types without a number, or whose numbers are in their parts."""

ASKED = "account calibrate from_rdp gdp noise_for_rho privacy_profile rdp risk roc sensitivity"
ASKED_BESIDES = "unit_in_silos zcdp"


def words_of(thing: object) -> str:
    return " ".join((thing.__doc__ or "").split())


@for_each("name", WORDS)
def test_each_event_and_each_part_of_one_names_its_source_and_its_range(name: str) -> None:
    kind, said = WORDS[name], words_of(WORDS[name])
    assert re.search(r"Source: .*\.$", said)
    has_numbers = any(item.type != "Event" for item in fields(kind))
    if has_numbers and name not in PLAIN:
        assert re.search(r"Range: |in \[0, 1\]|must divide", said)


UNLIKE = (
    "gaussian-mixture truncated-geometric-selection threshold-selection shuffle client-sampled "
    "shuffled-batches pure"
)


@for_each("name", UNLIKE.split())
def test_an_event_that_does_not_mean_the_same_under_each_relation_says_so(name: str) -> None:
    assert re.search("replace-one|the relation that is asked for", words_of(WORDS[name]))


@for_each("asked", [getattr(pp, name) for name in f"{ASKED} {ASKED_BESIDES}".split()])
def test_each_question_of_the_front_door_names_its_source(asked: Callable[..., object]) -> None:
    said = words_of(asked)
    assert "Source: " in said
    assert "Raises `" in said or "`Unsupported`" in said
    assert re.search("add-remove|replace-one|relation", said)


def test_a_single_number_for_a_curve_has_its_formula() -> None:
    assert "mu = largest" in words_of(pp.gdp)
    assert "improved epsilon = R(a) +" in words_of(pp.from_rdp)
    assert "rho = sup" in words_of(pp.zcdp)
