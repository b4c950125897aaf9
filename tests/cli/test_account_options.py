"""`privplan account` of a run that options describe, in the place of an event."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.cli.inputs.described_run import RUN_OPTIONS

from ..cases import for_each
from .conftest import FakeLibrary, Refused, Run

NOISE = ("--noise-multiplier", "1.1")
EPOCHS = ("--records", "60000", "--batch", "256", "--epochs", "15")
RUN = (*NOISE, *EPOCHS)
SMALL = ("--noise-multiplier", "2", "--records", "40", "--batch", "10", "--epochs", "3")
SMALL_DELTA = ("--delta", "1e-3")


@pytest.mark.usefixtures("library")
def test_the_event_is_built_and_returned(run: Run) -> None:
    envelope = run("account", *RUN, "--delta", "1e-5", "--json").json
    result = envelope["result"]
    assert result["event"] == {
        "type": "repeat",
        "count": 3516,
        "event": {
            "type": "poisson",
            "rate": 256 / 60000,
            "event": {"type": "gaussian", "noise_multiplier": 1.1},
        },
    }
    assert (result["rounds"], result["sampling"]) == (3516, "poisson")
    assert result["epsilon"] == {"lower": 1.82811, "upper": 1.82824}
    assert set(result) > {"derivation", "engine", "neighbours", "delta", "rate"}


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), ev.Repeat(12, ev.Poisson(0.25, ev.Gaussian(2.0)))),
        (("--sampling", "shuffled"), ev.Repeat(3, ev.ShuffledBatches(4, ev.Gaussian(2.0)))),
        (("--sampling", "fixed-size"), ev.Repeat(12, ev.FixedSize(10, 40, ev.Gaussian(2.0)))),
        (
            ("--sampling", "random-allocation"),
            ev.Repeat(3, ev.RandomAllocation(4, 1, ev.Gaussian(2.0))),
        ),
        (("--mechanism", "laplace"), ev.Repeat(12, ev.Poisson(0.25, ev.Laplace(2.0)))),
    ],
)
def test_every_sampler(
    words: tuple[str, ...], expected: ev.Event, run: Run, library: FakeLibrary
) -> None:
    result = run("account", *SMALL, *SMALL_DELTA, *words, "--json").json["result"]
    assert result["event"] == expected.to_json()
    assert library.asked[0]["event"] == expected


@pytest.mark.usefixtures("library")
@for_each(
    ("rate", "rounds", "words", "expected"),
    [
        ("0.1", "30", ("poisson",), ev.Repeat(30, ev.Poisson(0.1, ev.Gaussian(1.1)))),
        ("0.1", "31", ("shuffled",), ev.Repeat(4, ev.ShuffledBatches(10, ev.Gaussian(1.1)))),
        (
            "0.3",
            "8",
            ("random-allocation",),
            ev.Repeat(2, ev.RandomAllocation(4, 1, ev.Gaussian(1.1))),
        ),
        ("1", "7", ("full",), ev.Repeat(7, ev.Gaussian(1.1))),
        ("1", "7", ("shuffled",), ev.Repeat(7, ev.Gaussian(1.1))),
    ],
)
def test_a_rate_and_rounds(
    rate: str, rounds: str, words: tuple[str, ...], expected: ev.Event, run: Run
) -> None:
    given = ("account", *NOISE, "--rate", rate, "--rounds", rounds, "--sampling", *words, "--json")
    assert run(*given).json["result"]["event"] == expected.to_json()


@pytest.mark.usefixtures("library")
def test_full_needs_no_rate(run: Run) -> None:
    words = ("account", *NOISE, "--rounds", "7", "--sampling", "full", "--json")
    assert run(*words).json["result"]["event"] == ev.Repeat(7, ev.Gaussian(1.1)).to_json()


def test_of_a_shuffled_loader_every_relation_and_the_ways_out_are_said(run: Run) -> None:
    words = ("account", *RUN, "--delta", "1e-5", "--sampling", "shuffled")
    outcome = run(*words, "--neighbours", "zero-out", "--json")
    assert outcome.code == 0
    result = outcome.json["result"]
    assert 6.0 < result["epsilon"]["lower"] < result["epsilon"]["upper"] < 20.6
    assert set(result["known"]) == {"replace-one"}
    poisson, allocated = result["ways_out"]
    assert (poisson["sampling"], allocated["sampling"]) == ("poisson", "random-allocation")
    assert (
        allocated["event"] == ev.Repeat(15, ev.RandomAllocation(235, 1, ev.Gaussian(1.1))).to_json()
    )
    assert 1.133 < poisson["epsilon"]["upper"] < 1.134
    assert 1.092 < allocated["epsilon"]["upper"] < 1.093
    shown = run(*words, "--neighbours", "zero-out").out
    assert "With random allocation the same noise proves epsilon 1.093" in shown
    assert "With Poisson sampling the same noise proves epsilon 1.134" in shown
    assert "replacing one record by another" in shown


def test_under_add_remove_a_shuffled_loader_is_answered_by_what_is_known(run: Run) -> None:
    words = ("account", *RUN, "--delta", "1e-5", "--sampling", "shuffled")
    outcome = run(*words, "--json")
    assert outcome.code in (0, 3)  # 3 where this relation itself has no bound
    result = outcome.json["result"]
    assert (outcome.code == 0) is (result["epsilon"] is not None)
    assert set(result["known"]) == {"zero-out", "replace-one"}
    assert [way["sampling"] for way in result["ways_out"]] == ["poisson", "random-allocation"]
    assert "Traceback" not in outcome.err
    assert "also" in run(*words).out


def _batches(loader: str) -> list[list[int]]:
    """Return the batches that a shown loader draws."""
    names: dict[str, Any] = {"np": np, "data": range(60_000)}
    exec(loader, names)
    (loads,) = (value for key, value in names.items() if key.endswith("Batches"))
    drawn = list(loads())
    assert len(drawn) == len(loads())
    return drawn


def test_the_shown_loaders_draw_what_they_say(run: Run) -> None:
    """Sizes are tested at ten standard deviations: false alarms below 1e-20."""
    words = ("--noise-multiplier", "9", "--records", "4000", "--batch", "100", "--epochs", "2")
    given = ("account", *words, "--delta", "1e-5", "--sampling", "shuffled", "--json")
    ways = run(*given, "--neighbours", "zero-out").json["result"]["ways_out"]
    poisson, allocated = (_batches(way["loader"]) for way in ways)
    assert len(poisson) == len(allocated) == 80
    assert abs(sum(map(len, poisson)) - 8000) < 10 * 8000**0.5
    assert len({len(batch) for batch in poisson}) > 5
    for pass_ in (allocated[:40], allocated[40:]):
        assert sorted(number for batch in pass_ for number in batch) == list(range(4000))
    assert allocated[:40] != allocated[40:]
    assert max(abs(len(batch) - 100) for batch in allocated) < 100


def test_the_shown_loader_of_a_rate_asks_the_data_how_many_they_are(run: Run) -> None:
    given = ("--rate", "0.1", "--rounds", "20", "--sampling", "shuffled", "--json")
    words = ("account", "--noise-multiplier", "9", *given, "--neighbours", "zero-out")
    loaders = [way["loader"] for way in run(*words).json["result"]["ways_out"]]
    assert all("len(data)" in loader for loader in loaders)
    assert [len(_batches(loader)) for loader in loaders] == [20, 20]


@for_each(
    ("words", "said"),
    [
        ((), "neither an EVENT nor --noise-multiplier"),
        (EPOCHS, "neither an EVENT nor --noise-multiplier"),
        (NOISE, "The schedule is missing"),
        ((*RUN, "--rate", "0.1"), "The schedule is given twice"),
        ((*NOISE, "--records", "100", "--epochs", "3"), "`batch` is missing"),
        ((*NOISE, "--rounds", "3"), "`rate` is missing"),
        (("--noise-multiplier", "-1", *EPOCHS), "`noise_multiplier`"),
        (("--noise-multiplier", "nan", *EPOCHS), "`noise_multiplier`"),
        (("--noise-multiplier", "inf", *EPOCHS), "`noise_multiplier`"),
        ((*RUN, "--sampling", "shufled"), "Did you mean --sampling shuffled"),
        ((*RUN, "--sampling", "weighted"), "privplan check"),
        ((*RUN, "--sampling", "full"), "`sampling` is full"),
        ((*NOISE, "--rate", "0.1", "--rounds", "9", "--sampling", "fixed-size"), "fixed-size"),
        ((*NOISE, "--rate", "0", "--rounds", "9", "--sampling", "shuffled"), "above 0"),
        ((*RUN, "--mechanism", "laplacian"), "Did you mean --mechanism laplace"),
        ((*RUN, "--delta", "1e-3"), "1 / 60,000"),
        ((*RUN, "--units", "70000"), "`units` is given with `records`"),
    ],
)
def test_options_that_describe_no_run(words: tuple[str, ...], said: str, refused: Refused) -> None:
    assert said in refused("account", *words)


def test_an_event_excludes_the_options(refused: Refused, event_file: str) -> None:
    values = {"sampling": "full", "mechanism": "laplace"}
    for name in RUN_OPTIONS:
        flag = f"--{name.replace('_', '-')}"
        assert flag in refused("account", event_file, flag, values.get(name, "1"))


@pytest.mark.usefixtures("library")
def test_the_configuration_describes_a_run_and_leaves_events_alone(
    run: Run, event_file: str
) -> None:
    Path("privplan.toml").write_text(
        "[account]\nnoise_multiplier = 1.1\nrecords = 60000\nbatch = 256\nepochs = 15\n"
    )
    assert run("account", "--json").json["result"]["rounds"] == 3516
    assert "event" not in run("account", event_file, "--json").json["result"]


@pytest.mark.usefixtures("library")
def test_a_delta_above_one_over_the_records_is_accepted_by_name(run: Run) -> None:
    outcome = run("account", *RUN, "--delta", "1e-3", "--accept-delta", "--json")
    assert outcome.code == 0
    assert re.search(r"60,?000", json.dumps(outcome.json["warnings"]))


# Claims.


@for_each(
    ("words", "verdict", "code"),
    [
        (("--claimed", "1.28"), "unverifiable", 3),
        (("--claimed", "1.28", "--sampling", "poisson"), "holds", 0),
        (("--claimed", "1.13", "--sampling", "poisson"), "holds", 0),
        (("--claimed", "1.0"), "false", 1),
        (("--claimed", "1.28", "--sampling", "shuffled"), "false", 1),
        (("--claimed", "1.093", "--sampling", "random-allocation"), "holds", 0),
        (("--claimed", "1.05", "--sampling", "random-allocation"), "false", 1),
        (
            ("--claimed", "30", "--sampling", "shuffled", "--neighbours", "replace-one"),
            "unproven",
            3,
        ),
    ],
)
def test_a_claim_is_judged(words: tuple[str, ...], verdict: str, code: int, run: Run) -> None:
    outcome = run("account", *RUN, "--delta", "1e-5", *words, "--json")
    assert outcome.code == code, outcome.out
    assert outcome.json["ok"] is (code == 0)
    result = outcome.json["result"]
    assert result["check"]["verdict"] == verdict
    assert result["epsilon"]["upper"] > 0.0
    shown = run("account", *RUN, "--delta", "1e-5", *words)
    assert shown.code == code
    assert shown.out.startswith("verdict ")
    assert verdict.upper() in shown.out.splitlines()[0]
    bare = run("account", *RUN, "--delta", "1e-5", *words, "-q")
    assert bare.code == code
    assert bare.out.strip() == verdict


def test_a_default_is_no_statement(run: Run) -> None:
    """Without --sampling the claim holds if batches were Poisson samples, and no further."""
    result = run("account", *RUN, "--claimed", "1.28", "--json").json["result"]["check"]
    facts = result["facts"]
    assert "sampling.method" not in facts
    assert facts["claim.delta"]["provenance"] == "assumed"
    assert facts["claim.neighbours"]["provenance"] == "assumed"
    assert result["waits_for"] == ["sampling.method"]
    typed = ("--delta", "1e-5", "--neighbours", "add-remove", "--sampling", "poisson")
    said = run("account", *RUN, "--claimed", "1.28", *typed, "--json").json["result"]["check"]
    for key in ("sampling.method", "claim.delta", "claim.neighbours"):
        assert said["facts"][key]["provenance"] == "stated"


def test_a_verdict_and_the_proof_beside_it_agree(run: Run) -> None:
    words = ("account", *RUN, "--claimed", "1.28", "--sampling", "shuffled", "--json")
    result = run(*words).json["result"]
    # Whether the loader kept its last batch is not said, so less is certain from below.
    assert result["check"]["proven"]["upper"] == result["epsilon"]["upper"]
    assert 1.28 < result["check"]["proven"]["lower"] <= result["epsilon"]["lower"]
    checked = run(
        *("check", "--set", "noise_multiplier=1.1", "--set", "records=60000", "--set", "batch=256"),
        *("--set", "epochs=15", "--set", "method=shuffled", "--claimed", "1.28"),
        *("--delta", "1e-5", "--json"),
    )
    assert checked.json["result"]["proven"] == result["check"]["proven"]


def test_a_claim_about_an_event(run: Run) -> None:
    words = ("account", "-", "--delta", "1e-5", "--json")
    event = json.dumps(ev.Gaussian(1.0).to_json())
    assert run(*words, "--claimed", "4.38", stdin=event).code == 0
    assert run(*words, "--claimed", "4.3", stdin=event).code == 1


@for_each(
    ("words", "said"),
    [
        (("--claimed", "small"), "small"),
        (("--claimed", "nan"), "claim.epsilon"),
        (("--claimed", "-2"), "claim.epsilon"),
        (("--claimed", "1" * 500), "claim.epsilon"),
    ],
)
def test_a_claim_that_is_no_number(words: tuple[str, ...], said: str, refused: Refused) -> None:
    assert said in refused("account", *RUN, "--delta", "1e-5", *words)


def test_a_claim_goes_with_a_delta(refused: Refused) -> None:
    assert "asks for a delta" in refused("account", *RUN, "--epsilon", "2", "--claimed", "1")


def test_a_group_of_a_run_and_of_an_event_is_the_event_group(run: Run) -> None:
    five = run("account", *SMALL, *SMALL_DELTA, "--group", "5", "--json").json["result"]
    assert five["event"]["type"] == "group"
    assert (five["event"]["size"], five["unit"]) == (5, "group of 5 records")
    written = json.dumps(five["event"]["event"])
    same = run("account", "-", *SMALL_DELTA, "--group", "5", "--json", stdin=written).json["result"]
    assert same["epsilon"] == five["epsilon"]
    one = run("account", *SMALL, *SMALL_DELTA, "--json").json["result"]
    assert one["epsilon"]["upper"] < five["epsilon"]["lower"]


@for_each(
    ("words", "said"),
    [(("--group", "0"), "`group` must be a positive integer"), (("--group", "2"), "of one record")],
)
def test_groups_that_make_no_sense(words: tuple[str, ...], said: str, refused: Refused) -> None:
    assert said in refused("account", *SMALL, *SMALL_DELTA, "--claimed", "3", *words)
