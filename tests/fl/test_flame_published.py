"""FLAME as published: the paper's epsilon is claimed, and nothing is called a guarantee."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.claims.flame_published import (
    published_delta,
    published_simple,
    published_theorem_4_with_double_counting,
)
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import UnblanketedResponses
from privplan.accountant.mechanisms.unblanketed_responses import sent_words
from privplan.audit.budget import audit_budget
from privplan.fl.flame.published import PublishedFlame, printed_sums, published_claim
from privplan.fl.flame.settings import FlameSettings
from privplan.fl.flame.terms import FlameTerms
from privplan.fl.running.preparation import prepare

from ..audit.forging import Line, each, forged
from ..cases import for_each
from .flame_runs import USERS, flame, run
from .small_runs import of
from .test_flame_words import FALSE_ALARM, opened

PUBLISHED = {"as_published": "true", "transport": '"ideal"'}
WAYS = {
    "simple": ("flame-simple", {}),
    "simple, words": ("flame-simple", {"randomizer": '"responses"', "steps": "4"}),
    "double": ("flame-double", {"padded_to": "12"}),
    "topk": ("flame-topk", {"padded_to": "6", "overflow": '"cap"', "decoys": "3"}),
    "topk, words": ("flame-topk", {"randomizer": '"responses"', "transport": '"sealed"'}),
}


def configured(way: str, **tables: dict[str, str]) -> Any:
    system, table = WAYS[way]
    privacy = {"noise_multiplier": "4.0", **tables.pop("privacy", {})}
    return flame(system, flame={**PUBLISHED, **table}, privacy=privacy, **tables)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the folders of runs as published, by name."""
    base = tmp_path_factory.mktemp("flame")
    made = {way: base / str(number) for number, way in enumerate(WAYS)}
    for way, folder in made.items():
        run(configured(way), folder)
    return made


@for_each("way", WAYS)
def test_the_log_has_no_number_but_the_claim(folders: dict[str, Path], way: str) -> None:
    (first,) = of(folders[way], records.RunOpen)
    assert first.as_published
    assert set(first.plan.events) == {"model", "analyzer", "shuffler", "client", "colluding"}
    for intent in of(folders[way], records.RoundIntent):
        stated = [intent.event, *intent.views.values()]
        assert all(isinstance(event, ev.NoGuarantee) for event in stated)
        assert {reach.sees for reach in intent.reaches.values()} == {"each"}
    (last,) = of(folders[way], records.RunClose)
    assert all(math.isinf(epsilon) for epsilon in last.epsilon.values())


@for_each("way", WAYS)
def test_the_audit_says_why_there_is_no_guarantee(folders: dict[str, Path], way: str) -> None:
    report = audit_budget(folders[way])
    found = report.to_json()
    (first,) = of(folders[way], records.RunOpen)
    assert not report.ok
    assert not found["supported"]
    assert found["claimed"] == first.claim.epsilon
    assert [row["epsilon"]["upper"] for row in found["observers"]] == [math.inf] * 5
    for row in found["observers"]:
        assert "whole tuples are mixed" in row["refused"]
        assert ("the word 0" in row["refused"]) == ("words" in way)
        assert ("largest is raw data" in row["refused"]) == ("topk" in way)
        # In the runs above n_p is below n in one of them.
        assert ("more users may send" in row["refused"]) == (way == "topk")
    # A seed is a hazard of any run; of the method it is the one that says so.
    assert {hazard.id for hazard in report.hazards} == {"as-published", "seeded"}


def test_a_run_that_was_cut_off_goes_on(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Stop

    with pytest.raises(Stop):
        pp.run(configured("topk"), tmp_path / "run", report=stop)
    assert pp.resume(tmp_path / "run").result.rounds == 2
    assert not audit_budget(tmp_path / "run").ok


def test_a_target_is_refused() -> None:
    with pytest.raises(InvalidInput, match="with as_published"):
        configured("double", privacy={"epsilon": "1.0"})


def test_the_claim_is_the_papers_number() -> None:
    """0.24 and 0.91 of MNIST at their delta; rounds add up, as the paper's 2.348 and 4.696."""
    table = FlameSettings(chosen=157)
    double = FlameTerms("double", 1000, 7850, 157, 1.0, 0, 333, table)
    delta = published_delta(1000)
    assert published_claim(double, 4.0, 1, delta) == pytest.approx(0.2379266, abs=5e-8)
    assert published_claim(replace(double, protocol="topk"), 4.0, 1, delta) == published_claim(
        double, 4.0, 1, delta
    )
    tenth = replace(double, chosen=785, padded_to=666)
    assert published_claim(tenth, 4.0, 2, 2 * delta) == pytest.approx(4.69638, abs=1e-5)
    simple = FlameTerms("simple", 1000, 7850, 7850, 1.0, 0, None, table)
    assert published_claim(simple, 200.0, 1, delta) == pytest.approx(0.9100562, abs=5e-8)
    table = FlameSettings(randomizer="responses", steps=4)
    double = FlameTerms("double", 1000, 7850, 157, 1.0, 0, 333, table)
    given = {"dimensions": 7850, "chosen": 157, "padded_to": 333, "delta": 1e-6}
    expected = published_theorem_4_with_double_counting(
        0.5,
        **given,
        amplify="lemma-1",
        categories=4,  # type: ignore[arg-type]
    )
    assert published_claim(double, 4.0, 1, 1e-6) == expected
    # sqrt(14 ln(2/delta) (e^eps_l + b - 1) / (n - 1)), one coordinate, no composition
    by_hand = math.sqrt(14 * math.log(4 / 1e-6) * (math.exp(0.5) + 3) / 999)
    assert published_simple(0.5, 1000, 1, lemma_1=True, categories=4, delta=1e-6) == pytest.approx(
        by_hand, rel=1e-12
    )


@for_each("way", WAYS)
def test_a_run_claims_its_formula(folders: dict[str, Path], way: str) -> None:
    system = prepare(configured(way)).system
    assert isinstance(system, PublishedFlame)
    formula = published_claim(system.terms, 4.0, 2, 1e-5)
    (first,) = of(folders[way], records.RunOpen)
    assert formula <= first.claim.epsilon <= formula * (1 + 1e-5)


@for_each("steps", [1, 2, 4])
def test_zero_is_sent_by_one_neighbour_and_never_by_the_other(steps: int) -> None:
    """All outcomes of the coin and of the drawn word, each with its exact probability."""
    mechanism = UnblanketedResponses(1.0, steps + 1)
    low, high = mechanism.meant(200)
    odds = Fraction(math.e)
    assert low <= high
    assert float(low) == pytest.approx(float((odds - 1) / (odds + steps - 1)), rel=1e-12)
    law = np.zeros((steps + 1, steps + 1), dtype=object)
    for value, meant, drawn in product(range(steps + 1), (True, False), range(steps)):
        sent = sent_words(np.array([meant]), np.array([value]), np.array([drawn]))[0]
        law[value, sent] += (low if meant else 1 - low) * Fraction(1, steps)
    assert all(sum(row) == 1 for row in law)
    assert law[0, 0] == low > 0
    assert all(law[value, 0] == 0 for value in range(1, steps + 1))
    # Between any two of the other words it is b-ary randomized response.
    others = law[1:, 1:]
    ratios = {others[i, k] / others[j, k] for i, j, k in product(range(steps), repeat=3)}
    assert max(ratios) == pytest.approx(math.e if steps > 1 else 1.0, rel=1e-12)


def test_draws_are_the_law_and_dummies_are_never_0() -> None:
    mechanism = UnblanketedResponses(1.0, 4)
    found = mechanism.messages(opened(mechanism), np.full((20_000, 1), 1), "messages")
    assert set(found.ravel().tolist()) == {1, 2, 3}
    zeros = mechanism.messages(opened(mechanism), np.zeros((20_000, 1), int), "messages")
    low, _ = mechanism.meant(64)
    hits = int((zeros == 0).sum())
    assert binomtest(hits, 20_000, float(low)).pvalue > FALSE_ALARM
    dummies = mechanism.dummies(opened(mechanism), 3000, "dummies")
    assert set(dummies.tolist()) == {1, 2, 3}


@for_each("steps", [1, 3])
def test_sums_of_printed_words_are_unbiased(steps: int) -> None:
    """Two users and a dummy: every word that may be sent, by its probability."""
    mechanism, clip = UnblanketedResponses(0.7, steps + 1), 0.5
    chance = float(mechanism.meant(128)[0])
    drawn = np.array([0.0] + [1.0 / steps] * steps)
    law = (1 - chance) * np.tile(drawn, (steps + 1, 1)) + chance * np.eye(steps + 1)
    for words in product(range(steps + 1), repeat=2):
        mean = sum(float(law[word] @ np.arange(steps + 1)) for word in words)
        mean += float(drawn @ np.arange(steps + 1))
        found = printed_sums(np.array([mean]), 3, 2.0, 0.7, clip, steps)[0]
        values = [2 * clip * word / steps - clip for word in words]
        assert found == pytest.approx(sum(values), abs=1e-12)


def test_the_largest_coordinates_are_the_most_positive_ones() -> None:
    published = prepare(configured("topk")).system
    sound = prepare(flame("flame-topk")).system
    rows = np.zeros((1, published.terms.dimensions))  # type: ignore[attr-defined]
    rows[0, :4] = [-0.04, 0.03, 0.01, math.nan]
    assert 0 in sound._largest(rows)[0]  # type: ignore[attr-defined]
    assert published._largest(rows)[0, :2].tolist() == [1, 2]  # type: ignore[attr-defined]


def _hidden(line: Line) -> None:
    line["as_published"] = False


def _promising(line: Line) -> None:
    """State a number as if every coordinate were shuffled by itself."""
    message = {"noise_multiplier": 4.0, "type": "laplace"}
    dimensions = 31
    event: dict[str, Any] = {
        "count": dimensions,
        "event": {"event": message, "type": "shuffle", "users": USERS},
        "type": "repeat",
    }
    if line["type"] == "round.intent":
        line["event"] = event
        line["views"] = dict.fromkeys(line["views"], event)
        return
    planned = {"count": 2, "event": event, "type": "repeat"}
    line["plan"]["events"] = dict.fromkeys(line["plan"]["events"], planned)


def _configured(line: Line) -> None:
    line["configuration"]["flame"]["as_published"] = False


EDITS = {
    "the flag": (each("run.open", _hidden),),
    "the flag and the events": (
        each("run.open", _hidden),
        each("run.open", _promising),
        each("round.intent", _promising),
    ),
    "the flag, the events and the configuration": (
        each("run.open", _hidden),
        each("run.open", _configured),
        each("run.open", _promising),
        each("round.intent", _promising),
    ),
    "the configuration": (each("run.open", _configured),),
}


@for_each("edit", EDITS)
def test_a_log_that_hides_as_published_is_not_supported(
    folders: dict[str, Path], tmp_path: Path, edit: str
) -> None:
    folder = forged(folders["simple"], tmp_path / "forged", *EDITS[edit])
    report = audit_budget(folder)
    assert not report.ok
    assert not report.to_json()["supported"]
    found = {hazard.id for hazard in report.hazards}
    if edit == "the flag, the events and the configuration":
        # What reaches the analyzer still says tuples: nothing is shuffled in them.
        assert found - {"seeded"}
    else:
        assert "configuration-mismatch" in found
