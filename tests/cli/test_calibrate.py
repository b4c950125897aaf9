"""`privplan calibrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from privplan.accountant import errors
from privplan.cli.inputs.schedule import from_epochs

from ..cases import for_each
from .conftest import FakeLibrary, Refused, Run

TARGET = ("--epsilon", "2", "--delta", "1e-5")
EPOCHS = ("--records", "60000", "--batch", "256", "--epochs", "10")
ROUNDS = ("--rate", "0.01", "--rounds", "1000")


@pytest.mark.usefixtures("library")
def test_the_json(run: Run) -> None:
    envelope = run("calibrate", *TARGET, *EPOCHS, "--json").json
    result = envelope["result"]
    assert result["noise_multiplier"] == 0.786012
    assert result["epsilon"] == {"lower": 2 * 0.9999, "upper": 2 * 0.99999}
    assert result["delta"] == 1e-5
    assert result["gap"] == pytest.approx(2e-5)
    assert result["neighbours"] == "add-remove"
    assert result["engine"] == "pld"
    assert result["event"] == {
        "type": "repeat",
        "count": 2344,
        "event": {
            "type": "poisson",
            "rate": 256 / 60000,
            "event": {"type": "gaussian", "noise_multiplier": 0.786012},
        },
    }
    assert result["noise_multiplier_by_rdp"] == 0.855111
    assert "not Poisson sampling" in envelope["warnings"][0]
    assert any("independently" in sentence for sentence in envelope["assumptions"])


@pytest.mark.usefixtures("library")
def test_for_a_person(run: Run) -> None:
    outcome = run("calibrate", *TARGET, *EPOCHS)
    assert outcome.out == (
        "noise multiplier   0.7861        standard deviation = 0.7861 x clip norm\n"
        "proves             epsilon 2.000 at delta 1e-05, adding or removing one record\n"
        "at least           epsilon 1.999, by any accounting\n"
        "by                 PLD           (RDP alone needs 0.8552)\n"
        "over               2,344 steps, Poisson sampling, rate 0.004266667\n"
    )
    assert outcome.err.startswith("warning: a loader that shuffles is not Poisson sampling.")
    assert "privplan explain sampling" in " ".join(outcome.err.split())


def test_quiet_prints_one_number_rounded_up(run: Run, library: FakeLibrary) -> None:
    library.noise = 0.78601201
    assert run("calibrate", *TARGET, *ROUNDS, "-q").out == "0.786013\n"


def test_a_comparison_that_does_not_exist_is_left_out(run: Run, library: FakeLibrary) -> None:
    library.unsupported_rdp = True
    outcome = run("calibrate", *TARGET, *ROUNDS)
    assert outcome.code == 0
    assert "RDP" not in outcome.out
    assert outcome.err == ""


@pytest.mark.usefixtures("library")
def test_laplace_speaks_of_its_scale(run: Run) -> None:
    outcome = run("calibrate", *TARGET, *ROUNDS, "--mechanism", "laplace")
    assert "scale = 0.7861 x L1 bound" in outcome.out


def test_the_warning_composes_one_release_per_pass(run: Run, library: FakeLibrary) -> None:
    run("calibrate", *TARGET, *EPOCHS[:-1], "2.5")
    event = library.asked[-1]["event"].to_json()
    assert event == {
        "type": "repeat",
        "count": 3,
        "event": {"type": "gaussian", "noise_multiplier": 0.786012},
    }
    assert library.asked[-1]["neighbours"] == "add-remove"


@pytest.mark.usefixtures("library")
def test_the_warning_names_the_change_that_it_covers(run: Run) -> None:
    words = ("calibrate", *TARGET, *EPOCHS, "--json")
    assert "one record replaced by zeros" in run(*words).json["warnings"][0]
    replaced = run(*words, "--neighbours", "replace-one").json
    assert "one record replaced by another" in replaced["warnings"][0]


@pytest.mark.usefixtures("library")
def test_whole_batches_need_neither_sampling_nor_warning(run: Run) -> None:
    outcome = run(
        "calibrate", *TARGET, "--records", "50", "--batch", "50", "--epochs", "4", "--json"
    )
    assert outcome.json["result"]["event"] == {
        "type": "repeat",
        "count": 4,
        "event": {"type": "gaussian", "noise_multiplier": 0.786012},
    }
    assert outcome.json["warnings"] == []
    assert outcome.err == ""


@pytest.mark.usefixtures("library")
def test_a_group_wraps_the_whole_run(run: Run) -> None:
    result = run("calibrate", *TARGET, *ROUNDS, "--group", "8", "--json").json["result"]
    assert result["event"]["type"] == "group"
    assert result["event"]["size"] == 8
    assert result["event"]["event"]["type"] == "repeat"


@pytest.mark.parametrize("kind", [errors.TargetUnreachable, errors.TargetTrivial])
def test_a_target_out_of_reach(
    kind: type[errors.PrivplanError], refused: Refused, library: FakeLibrary
) -> None:
    library.answer = kind("No such noise.")
    assert "No such noise." in refused("calibrate", *TARGET, *ROUNDS, code=3)


@for_each(
    ("records", "batch", "epochs", "rounds", "passes"),
    [
        (60000, 256, 10.0, 2344, 10),
        (1000, 10, 0.1, 10, 1),
        (1000, 10, 0.3, 30, 1),
        (3, 2, 1.0, 2, 1),
        (10**15, 1, 1.0, 10**15, 1),
        (7, 7, 2.5, 3, 3),
        (10, 1, 1e-9, 1, 1),
    ],
)
def test_steps_are_counted_exactly(
    records: int, batch: int, epochs: float, rounds: int, passes: int
) -> None:
    schedule = from_epochs(records, batch, epochs)
    assert (schedule.rounds, schedule.passes) == (rounds, passes)


@for_each(
    ("words", "said"),
    [
        ([*ROUNDS], "`epsilon` is missing"),
        (["--epsilon", "2", *ROUNDS], "`delta` is missing"),
        (["--epsilon", "-1", "--delta", "1e-5", *ROUNDS], "`epsilon` must be"),
        (["--epsilon", "0", "--delta", "1e-5", *ROUNDS], "`epsilon` must be"),
        (["--epsilon", "nan", "--delta", "1e-5", *ROUNDS], "`epsilon` must be"),
        (["--epsilon", "inf", "--delta", "1e-5", *ROUNDS], "`epsilon` must be"),
        (["--epsilon", "2", "--delta", "2", *ROUNDS], "`delta` must be"),
        (["--epsilon", "2", "--delta", "-1e-9", *ROUNDS], "`delta` must be"),
        ([*TARGET], "The schedule is missing"),
        ([*TARGET, *ROUNDS, *EPOCHS], "The schedule is given twice"),
        ([*TARGET, *ROUNDS, "--batch", "3"], "The schedule is given twice"),
        ([*TARGET, "--rate", ".1"], "`rounds` is missing"),
        ([*TARGET, "--rounds", "1"], "`rate` is missing"),
        ([*TARGET, "--rate", "1.5", "--rounds", "1"], "`rate` must be a number in [0, 1]"),
        ([*TARGET, "--rate", "-.1", "--rounds", "1"], "`rate` must be"),
        ([*TARGET, "--rate", "nan", "--rounds", "1"], "`rate` must be"),
        ([*TARGET, "--rate", ".1", "--rounds", "0"], "`rounds` must be a positive integer"),
        ([*TARGET, "--rate", ".1", "--rounds", "-4"], "`rounds` must be"),
        ([*TARGET, "--rate", ".1", "--rounds", "1.5"], "--rounds"),
        ([*TARGET, "--records", "60000", "--epochs", "1"], "`batch` is missing"),
        ([*TARGET, "--batch", "6", "--epochs", "1"], "`records` is missing"),
        ([*TARGET, "--records", "60000", "--batch", "6"], "`epochs` is missing"),
        ([*TARGET, "--records", "5", "--batch", "6", "--epochs", "1"], "`batch` must be at most"),
        ([*TARGET, "--records", "5", "--batch", "0", "--epochs", "1"], "`batch` must be"),
        ([*TARGET, "--records", "0", "--batch", "1", "--epochs", "1"], "`records` must be"),
        ([*TARGET, "--records", "5", "--batch", "1", "--epochs", "0"], "`epochs` must be"),
        ([*TARGET, "--records", "5", "--batch", "1", "--epochs", "inf"], "`epochs` must be"),
        ([*TARGET, "--records", "6.5", "--batch", "1", "--epochs", "1"], "--records"),
        ([*TARGET, *ROUNDS, "--group", "0"], "`group` must be"),
        ([*TARGET, *ROUNDS, "--mechanism", "gauss"], "Did you mean --mechanism gaussian"),
        ([*TARGET, *ROUNDS, "--neighbours", "add"], "`neighbours` must be one of"),
        ([*TARGET, *ROUNDS, "--engine", "x"], "`engine` must be one of"),
        ([*TARGET, *ROUNDS, "surplus"], "surplus"),
    ],
)
def test_options_are_checked_at_the_door(words: list[str], said: str, refused: Refused) -> None:
    assert said in refused("calibrate", *words)


@pytest.mark.quick(4)
@for_each("schedule", [EPOCHS, ROUNDS])
@for_each("mechanism", ["gaussian", "laplace"])
@for_each("neighbours", ["add-remove", "replace-one"])
def test_the_printed_noise_meets_the_target(
    schedule: tuple[str, ...], mechanism: str, neighbours: str, run: Run
) -> None:
    words = (*TARGET, *schedule, "--mechanism", mechanism, "--neighbours", neighbours)
    outcome = run("calibrate", *words, "--json")
    assert outcome.code == 0, outcome.err
    result = outcome.json["result"]
    assert result["epsilon"]["lower"] <= result["epsilon"]["upper"] <= 2.0
    printed = float(run("calibrate", *words, "-q").out)
    shown = float(run("calibrate", *words).out.split()[2])
    assert result["noise_multiplier"] <= printed <= shown
    for noise in (printed, shown):
        event = json.loads(json.dumps(result["event"]))
        event["event"]["event"]["noise_multiplier"] = noise
        Path("event.json").write_text(json.dumps(event))
        outcome = run(
            "account", "event.json", "--delta", "1e-5", "--neighbours", neighbours, "--json"
        )
        bounds = outcome.json["result"]["epsilon"]
        assert bounds["lower"] <= 2.0
        assert bounds["upper"] <= 2.0 * (1 + 1e-3)  # `account` asks less of its grid


def test_the_sample_of_the_manual(run: Run) -> None:
    outcome = run("calibrate", *TARGET, *EPOCHS)
    assert outcome.code == 0, outcome.err
    assert outcome.out.startswith("noise multiplier   0.786")
    assert "epsilon 2.000 at delta 1e-05, adding or removing one record" in outcome.out
    assert "(RDP alone needs 0.85" in outcome.out
    assert "only epsilon 24.6" in " ".join(outcome.err.split())


def test_a_group_needs_more_noise(run: Run) -> None:
    single = run("calibrate", *TARGET, *ROUNDS, "--json").json["result"]
    four = run("calibrate", *TARGET, *ROUNDS, "--group", "4", "--json").json["result"]
    assert single["noise_multiplier"] < four["noise_multiplier"] < 4 * single["noise_multiplier"]
    assert four["event"]["type"] == "group"
    assert four["unit"] == "group of 4 records"
    assert four["epsilon"]["upper"] <= 2.0


@pytest.mark.usefixtures("library")
def test_delta_is_compared_with_the_units_where_no_records_are_given(
    run: Run, refused: Refused
) -> None:
    target = ("--epsilon", "2", "--delta", "0.3", *ROUNDS)
    unsaid = run("calibrate", *target, "--json").json
    assert "Delta 0.3 is below 1 / units: their number is not stated" in unsaid["assumptions"][-1]
    assert "at least 1 / 50, and 50 units" in refused("calibrate", *target, "--units", "50")
    accepted = run("calibrate", *target, "--units", "50", "--accept-delta", "--json").json
    assert any("50 units are protected" in warning for warning in accepted["warnings"])
    small = run("calibrate", *target, "--units", "3", "--json").json
    assert not any("not stated" in sentence for sentence in small["assumptions"])
    assert "`units` must be" in refused("calibrate", *target, "--units", "0")
    assert "with `records`" in refused("calibrate", *TARGET, *EPOCHS, "--units", "50")
    Path("privplan.toml").write_text("[calibrate]\nunits = 50\n")
    assert run("calibrate", *TARGET, *EPOCHS).code == 0  # flags silence the file
    assert "at least 1 / 50" in refused("calibrate", *target)


@pytest.mark.usefixtures("library")
def test_an_account_says_that_delta_was_not_compared(run: Run, event_file: str) -> None:
    asked = ("account", event_file, "--delta", "1e-3")
    assert "Delta 0.001 is below 1 / units" in run(*asked, "--json").json["assumptions"][-1]
    stated = run(*asked, "--units", "50", "--json").json
    assert not any("not stated" in sentence for sentence in stated["assumptions"])
