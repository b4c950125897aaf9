"""`--sampling` of `privplan calibrate` and `privplan plan`."""

from __future__ import annotations

from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.events import from_json
from privplan.cli.inputs import options, schedule

from ..cases import for_each
from .conftest import Outcome, Refused, Run

TARGET = ("--epsilon", "3", "--delta", "1e-4")
EPOCHS = ("--records", "400", "--batch", "20", "--epochs", "3")
WRAPPERS = {
    "poisson": ev.Poisson,
    "shuffled": ev.ShuffledBatches,
    "fixed-size": ev.FixedSize,
    "with-replacement": ev.WithReplacement,
    "random-allocation": ev.RandomAllocation,
}
SEARCHED = [  # a search over draws with replacement takes seconds
    pytest.param(word, marks=pytest.mark.slow) if word == "with-replacement" else word
    for word in WRAPPERS
]
QUICK = tuple(word for word in WRAPPERS if word != "with-replacement")
PLAN = """
[target]
epsilon = 3.0
delta = 1e-4

[[phase]]
name = "count"
mechanism = "gaussian"
rounds = 2

[[phase]]
name = "train"
mechanism = "gaussian"
records = 400
batch = 20
epochs = 3
"""


def test_the_words_have_names() -> None:
    words = (schedule.POISSON, schedule.SHUFFLED, schedule.FIXED_SIZE, schedule.REPLACED)
    assert (*words, schedule.ALLOCATED, schedule.FULL) == options.SAMPLERS
    assert set(WRAPPERS) == set(options.SAMPLERS) - {schedule.FULL}


def calibrated(asked: Run, sampler: str, neighbours: str = "zero-out") -> Outcome:
    words = ("calibrate", *TARGET, *EPOCHS, "--sampling", sampler, "--neighbours", neighbours)
    outcome = asked(*words, "--json")
    assert outcome.code == 0, outcome.err
    return outcome


@for_each("sampler", SEARCHED, items=5)
@for_each("neighbours", ["zero-out", "replace-one"])
def test_the_calibrated_noise_proves_the_target(sampler: str, neighbours: str, asked: Run) -> None:
    outcome = calibrated(asked, sampler, neighbours)
    result = outcome.json["result"]
    event = from_json(result["event"])
    assert isinstance(event, ev.Repeat)
    assert isinstance(event.event, WRAPPERS[sampler])
    assert result["sampling"] == sampler
    assert pp.account(event, delta=1e-4, neighbours=neighbours).epsilon.upper <= 3.0
    warned = any("a loader that shuffles" in text for text in outcome.json["warnings"])
    assert warned is (sampler == "poisson")


def test_the_line_says_how_it_is_drawn(run: Run) -> None:
    words = ("calibrate", *TARGET, *EPOCHS, "--neighbours", "zero-out", "--sampling")
    said = {
        "shuffled": "over               3 passes of 20 shuffled batches\n",
        "random-allocation": "3 passes of 20 steps, each record in 1 of them at random\n",
        "fixed-size": "60 steps, each on exactly 20 of 400 records\n",
    }
    for sampler, line in said.items():
        assert line in run(*words, sampler).out


def noise_of(asked: Run, sampler: str) -> float:
    return calibrated(asked, sampler).json["result"]["noise_multiplier"]


def test_without_amplification_more_noise_is_needed(run: Run, asked: Run) -> None:
    noise = {sampler: noise_of(asked, sampler) for sampler in QUICK}
    assert noise["shuffled"] > noise["fixed-size"] > noise["random-allocation"]
    full = ("--records", "400", "--batch", "400", "--epochs", "3", "--sampling", "full", "-q")
    # One use in each of three passes, and no amplification: what three full rounds need.
    assert noise["shuffled"] == pytest.approx(float(run("calibrate", *TARGET, *full).out), rel=1e-4)


@for_each(
    ("words", "said"),
    [
        (("--sampling", "bernoulli", *EPOCHS), "`sampling` must be one of"),
        (("--sampling", "full", *EPOCHS), "`sampling` is full"),
        (("--sampling", "fixed-size", "--rate", "0.1", "--rounds", "3"), "fixed-size"),
        (("--sampling", "with-replacement", "--rate", "1", "--rounds", "3"), "with-replacement"),
        (("--sampling", "random-allocation", "--rate", "0", "--rounds", "3"), "above 0"),
    ],
)
@for_each("command", ["calibrate"])
def test_a_sampler_that_a_schedule_does_not_fit(
    command: str, words: tuple[str, ...], said: str, refused: Refused
) -> None:
    assert said in refused(command, *TARGET, *words)


def test_draws_with_replacement_are_said_in_words(run: Run) -> None:
    words = ("account", "--noise-multiplier", "5", *EPOCHS, "--sampling", "with-replacement")
    assert "60 x Gaussian noise 5, 20 draws of 400 records, put back" in run(*words).out


@pytest.mark.slow
def test_the_line_of_a_calibration_says_the_draws(run: Run) -> None:
    words = ("calibrate", *TARGET, *EPOCHS, "--sampling", "with-replacement")
    assert "60 steps, each of 20 draws of 400 records, put back\n" in run(*words).out


@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
def test_all_records_drawn_with_replacement_are_not_all_records(neighbours: str, run: Run) -> None:
    """Three draws of three records: one of them may be drawn three times, and moves the sum so."""
    words = ("--records", "3", "--batch", "3", "--epochs", "2", "--neighbours", neighbours)
    noise = ("account", "--noise-multiplier", "5")
    asked = ("--delta", "0.01", "--sampling", "with-replacement", "--json")
    result = run(*noise, *words, *asked).json["result"]
    event = ev.Repeat(2, ev.WithReplacement(3, 3, ev.Gaussian(5.0)))
    assert result["event"] == event.to_json()
    proven = pp.account(event, delta=0.01, neighbours=neighbours).epsilon
    assert result["epsilon"]["upper"] == pytest.approx(proven.upper, rel=1e-5)
    full = run(*noise, *words, "--delta", "0.01", "--sampling", "full", "-q").out
    assert proven.lower > float(full)


def test_a_claim_of_draws_with_replacement_is_checked_as_such(run: Run) -> None:
    few = ("--records", "40", "--batch", "4", "--epochs", "1")
    words = ("--noise-multiplier", "1", *few, "--sampling", "with-replacement")
    about = ("--delta", "1e-4", "--neighbours", "replace-one")
    for claimed, verdict in (("30", "holds"), ("0.1", "false")):
        outcome = run("account", *words, *about, "--claimed", claimed, "--json")
        assert outcome.json["result"]["check"]["verdict"] == verdict
    # At a batch of all records too: they are not all in every step.
    whole = ("--noise-multiplier", "1", "--records", "40", "--batch", "40", "--epochs", "3")
    poor = ("--sampling", "with-replacement", "--delta", "1e-3", "--claimed", "7", "--json")
    assert run("account", *whole, *poor).json["result"]["check"]["verdict"] == "false"


def test_the_sampler_of_a_single_phase(run: Run, asked: Run) -> None:
    words = ("plan", *TARGET, *EPOCHS, "--neighbours", "zero-out", "--json", "--sampling")
    for sampler in QUICK:
        result = run(*words, sampler).json["result"]
        noise = result["alternatives"][0]["phases"][0]["noise_multiplier"]
        assert noise == pytest.approx(noise_of(asked, sampler), rel=1e-3)


def test_the_sampler_of_a_file_is_that_of_its_poisson_phases(run: Run) -> None:
    Path("plan.toml").write_text(PLAN)
    words = ("plan", "plan.toml", "--neighbours", "zero-out", "--json")
    rounds = {
        sampler: [phase["rounds"] for phase in row["phases"]]
        for sampler in ("poisson", "shuffled", "random-allocation", "fixed-size")
        if (
            row := run(*words, *(("--sampling", sampler) * (sampler != "poisson"))).json["result"][
                "alternatives"
            ][0]
        )
    }
    assert rounds == {
        "poisson": [2, 60],
        "shuffled": [2, 3],
        "random-allocation": [2, 3],
        "fixed-size": [2, 60],
    }


@for_each(
    ("old", "new", "sampler", "said"),
    [
        ("records = 400\nbatch = 20\n", "rate = 0.05\n", "shuffled", "needs `records`"),
        ("epochs = 3", 'epochs = 3\nsampling = "fixed-size"', "shuffled", "No phase"),
        ("records = 400\nbatch = 20\nepochs = 3", "rounds = 4", "shuffled", "No phase"),
        ("epochs = 3", "epochs = 3", "full", "uses a part of its records"),
        ("epochs = 3", 'epochs = 3\nsampling = "full"', "shuffled", "uses a part of its records"),
    ],
)
def test_a_phase_that_cannot_be_drawn_so(
    old: str, new: str, sampler: str, said: str, refused: Refused
) -> None:
    Path("plan.toml").write_text(PLAN.replace(old, new))
    assert said in refused("plan", "plan.toml", "--sampling", sampler)


def test_full_states_what_a_phase_of_all_records_is(run: Run) -> None:
    words = ("plan", *TARGET, "--rounds", "4", "-q")
    assert run(*words, "--sampling", "full").out == run(*words).out


def test_costs_of_samplers_count_every_draw(run: Run) -> None:
    """Two epochs of 10 batches are 20 draws, whether or not they are counted in passes."""
    words = ("plan", "--epsilon", "2", "--delta", "1e-5", "--records", "1000", "--batch", "100")
    for sampler in ("poisson", "random-allocation"):
        given = (*words, "--epochs", "2", "--sampling", sampler, "--json")
        (row,) = run(*given).json["result"]["alternatives"]
        (phase,) = row["phases"]
        assert phase["draws"] == 20
        assert abs(row["cost"] - 20 * phase["noise_multiplier"] ** 2) < 1e-6 * row["cost"]
