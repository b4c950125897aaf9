"""`privplan account`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from privplan.accountant import events as ev
from privplan.cli.inputs.curve_file import MAX_EVENT_BYTES

from ..cases import for_each
from .conftest import FakeLibrary, Refused, Run

GAUSSIAN = '{"type": "gaussian", "noise_multiplier": 1}'


@pytest.mark.usefixtures("library")
def test_the_json_of_an_epsilon(run: Run, event_file: str) -> None:
    outcome = run("account", event_file, "--delta", "1e-6", "--json")
    assert outcome.code == 0
    envelope = outcome.json
    assert envelope["schema"] == "privplan/1"
    assert envelope["ok"] is True
    assert envelope["result"] == {
        "epsilon": {"lower": 1.82811, "upper": 1.82824},
        "delta": 1e-6,
        "neighbours": "add-remove",
        "engine": "pld",
        "unit": "record",
        "observer": "model",
        "lower_of_class": False,
        "derivation": [
            {
                "stage": "mechanism",
                "statement": "Gaussian noise.",
                "source": "A paper",
                "conditions": ["noise above 0"],
            },
            {
                "stage": "composition",
                "statement": "All rounds.",
                "source": "Another paper",
                "conditions": [],
            },
        ],
    }
    assert "adding or removing one record" in envelope["assumptions"][0]


@pytest.mark.usefixtures("library")
def test_the_json_of_a_delta(run: Run, event_file: str) -> None:
    result = run("account", event_file, "--epsilon", "2", "--json").json["result"]
    assert result["epsilon"] == {"lower": 2.0, "upper": 2.0}
    assert result["delta"] == {"lower": 1e-6, "upper": 2.00001e-6}
    assert run("account", event_file, "--epsilon", "2", "-q").out == "2.00001e-06\n"


@pytest.mark.usefixtures("library")
def test_for_a_person_the_ends_are_rounded_outwards(run: Run, event_file: str) -> None:
    assert run("account", event_file, "--delta", "1e-6").out == (
        "proves     epsilon 1.829 at delta 1e-06, adding or removing one record\n"
        "at least   epsilon 1.828, by any accounting\n"
        "by         PLD\n"
        "against    whoever sees the released models\n"
        "for        Gaussian noise 1\n"
    )
    assert "delta 2.001e-06 at epsilon 2" in run("account", event_file, "--epsilon", "2").out


def test_what_is_asked_reaches_the_library(run: Run, library: FakeLibrary, event_file: str) -> None:
    run("account", event_file, "--neighbours", "replace-one", "--engine", "rdp")
    assert library.asked[-1] == {
        "event": ev.Gaussian(1.0),
        "delta": 1e-5,
        "epsilon": None,
        "neighbours": "replace-one",
        "engine": "rdp",
    }


@pytest.mark.usefixtures("library")
def test_a_delta_that_nobody_gave_is_an_assumption(run: Run, event_file: str) -> None:
    assert "1e-05 is assumed" in run("account", event_file).out
    assert "1e-05 is assumed" in run("account", event_file, "--json").json["assumptions"][-1]
    given = run("account", event_file, "--delta", "1e-5", "--json").json
    assert not any("assumed" in sentence for sentence in given["assumptions"])


@pytest.mark.usefixtures("library")
def test_standard_input_and_a_byte_order_mark(run: Run) -> None:
    assert run("account", "-", stdin=GAUSSIAN).code == 0
    assert run("account", "-", stdin=b"\xef\xbb\xbf" + GAUSSIAN.encode()).code == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--delta", "2"], "`delta` must be a number, 0 or above and below 1; it is 2.0."),
        (["--delta", "-1e-9"], "`delta`"),
        (["--delta", "nan"], "`delta`"),
        (["--delta", "x"], "--delta"),
        (["--epsilon", "-1"], "`epsilon` must be a finite number, 0 or above"),
        (["--epsilon", "nan"], "`epsilon`"),
        (["--epsilon", "inf"], "`epsilon`"),
        (["--epsilon", "1", "--delta", "1e-5"], "exclude each other"),
        (["--neighbours", "replace_one"], "Did you mean --neighbours replace-one"),
        (["--neighbours", "zzz"], "`neighbours` must be one of"),
        (["--engine", "plds"], "Did you mean --engine pld"),
    ],
)
def test_options_are_checked_at_the_door(
    flags: list[str], said: str, refused: Refused, event_file: str
) -> None:
    assert said in refused("account", event_file, *flags)


@for_each(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"  \n", "is empty"),
        (b"\xff\xfe{", "not UTF-8"),
        (b"{", "not JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"type": "gausian", "noise_multiplier": 1}', "Did you mean `gaussian`?"),
        (b'{"type": "gaussian", "noise_multiplier": NaN}', "NaN"),
        (b'{"type": "gaussian", "noise_multiplier": -1}', "`noise_multiplier`"),
        (b'{"type": "gaussian", "noise_multiplier": 1, "x": 2}', "unknown field"),
        (b"[" * 100_000, "nested"),
        (b'{"type": "repeat", "count": 1, "event": ' * 70 + b"0" + b"}" * 70, "nested"),
        (b" " * (MAX_EVENT_BYTES + 1), "larger than"),
    ],
)
def test_a_bad_event_is_named(content: bytes, said: str, refused: Refused) -> None:
    Path("bad.json").write_bytes(content)
    text = refused("account", "bad.json")
    assert said in text
    assert "bad.json" in text
    assert "Standard input" in refused("account", "-", stdin=content)


def test_a_path_that_is_no_readable_file(refused: Refused) -> None:
    Path("folder").mkdir()
    assert "directory" in refused("account", "folder")
    assert "No such file" in refused("account", "missing.json")
    assert "too long" in refused("account", "x" * 5000)
    Path("secret.json").write_text(GAUSSIAN)
    Path("secret.json").chmod(0)
    if os.geteuid() != 0:
        assert "Permission" in refused("account", "secret.json")


@pytest.mark.usefixtures("library")
@for_each(
    ("event", "said"),
    [
        ('{"type": "compose", "events": []}', "nothing"),
        (f'{{"type": "repeat", "count": 1000000, "event": {GAUSSIAN}}}', "1,000,000"),
        (f'{{"type": "compose", "events": [{", ".join([GAUSSIAN] * 5)}]}}', "5 releases, from"),
        ('{"type": "pure", "epsilon": 0.5}', "pure (epsilon 0.5)"),
        (
            f'{{"type": "fixed-size", "batch": 2, "population": 9, "event": {GAUSSIAN}}}',
            "Gaussian noise 1, 2 of 9 records drawn",
        ),
        (f'{{"type": "group", "size": 8, "event": {GAUSSIAN}}}', "a unit of 8 records in Gau"),
    ],
)
def test_every_event_has_a_short_line(event: str, said: str, run: Run) -> None:
    line = next(
        line for line in run("account", "-", stdin=event).out.splitlines() if "for " in line
    )
    assert said in line
    assert len(line) <= 111


@pytest.mark.parametrize(
    ("neighbours", "expected"), [("add-remove", 4.377178096), ("replace-one", 9.997256146)]
)
def test_the_real_library_brackets_a_known_answer(
    neighbours: str, expected: float, run: Run, event_file: str
) -> None:
    outcome = run("account", event_file, "--delta", "1e-5", "--neighbours", neighbours, "--json")
    assert outcome.code == 0, outcome.err
    bounds = outcome.json["result"]["epsilon"]
    assert bounds["lower"] - 1e-8 <= expected <= bounds["upper"] + 1e-8
    assert bounds["upper"] - bounds["lower"] < 1e-2
    quiet = run("account", event_file, "--delta", "1e-5", "--neighbours", neighbours, "-q")
    assert float(quiet.out) >= bounds["upper"]


def test_the_real_library_refuses_what_has_no_mathematics(refused: Refused) -> None:
    Path("shuffle.json").write_text(f'{{"type": "shuffle", "users": 8, "event": {GAUSSIAN}}}')
    refused("account", "shuffle.json", code=3)  # add-remove: the number of users is seen


@for_each(
    ("outside", "sampled"), [(False, "Each record joins"), (True, "Each group of 4 records joins")]
)
def test_inside_a_group_the_records_are_clipped_and_drawn(
    outside: bool, sampled: str, run: Run
) -> None:
    """The mixture is of single draws: a group that is drawn as one loses far more."""
    noisy: dict[str, object] = json.loads(GAUSSIAN)
    rate = 0.01
    grouped = {"type": "group", "size": 4, "event": noisy}
    event = {"type": "poisson", "rate": rate, "event": grouped}
    if not outside:
        event = {**grouped, "event": {"type": "poisson", "rate": rate, "event": noisy}}
    said = run("account", "-", "--json", stdin=json.dumps(event)).json["assumptions"]
    assert said[0].startswith("What is hidden: adding or removing one group of 4 records")
    assert any(sentence.startswith(sampled) for sentence in said)
    assert any(sentence.startswith("Each record's contribution") for sentence in said)
    assert not any(sentence.startswith("Each group of 4 records's") for sentence in said)


def test_of_shuffled_tuples_nothing_is_claimed(run: Run) -> None:
    event = {
        **{"type": "sampled-shuffle", "users": 9, "dimensions": 4, "chosen": 2, "padded_to": 9},
        **{"granularity": "tuple", "selection": "oblivious", "overflow": "refuse"},
        "event": json.loads(GAUSSIAN),
    }
    words = ("account", "-", "--neighbours", "zero-out", "--json")
    said = " ".join(run(*words, stdin=json.dumps(event)).json["assumptions"])
    assert "stay together in one tuple" in said
    assert "shuffled by itself" not in said


def test_what_a_cap_costs_is_said_on_standard_error(run: Run) -> None:
    release = {"type": "gaussian", "noise_multiplier": 2.0}
    capped = {"rate": 0.1, "batch": 14, "population": 100, "event": release}
    rounds = {"type": "repeat", "count": 50, "event": {"type": "truncated-poisson", **capped}}
    outcome = run("account", "-", "--delta", "1e-5", stdin=json.dumps(rounds))
    assert outcome.err.startswith("warning: The cap of 14 units")
    assert "would keep epsilon" in " ".join(outcome.err.split())
    capped["batch"] = 60
    free = {"type": "repeat", "count": 50, "event": {"type": "truncated-poisson", **capped}}
    assert run("account", "-", "--delta", "1e-5", stdin=json.dumps(free)).err == ""


def test_how_far_apart_the_ends_are_is_said_in_json(run: Run) -> None:
    event = {
        "type": "best-of",
        "distribution": "geometric",
        "mean": 10,
        "event": {"type": "gaussian", "noise_multiplier": 4.0},
    }
    envelope = run("account", "-", "--delta", "1e-5", "--json", stdin=json.dumps(event)).json
    epsilon = envelope["result"]["epsilon"]
    assert 0.0 < epsilon["lower"] < epsilon["upper"]
    assert any("apart by a factor of" in text for text in envelope["warnings"])
