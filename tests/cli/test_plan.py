"""`privplan plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.plan import cheapest_split, planning
from privplan.cli.inputs import options
from privplan.cli.inputs.plan_design import PhaseDesign
from privplan.cli.inputs.schedule import steps
from privplan.cli.reports.forecast import is_run

from ..cases import for_each
from .conftest import Refused, Run

TARGET = ("--epsilon", "2", "--delta", "1e-5")
EPOCHS = ("--records", "60000", "--batch", "256", "--epochs", "10")

PLAN = """
[target]
epsilon = 2.0
delta = 1e-5

[[phase]]
name = "clip"
mechanism = "gaussian"
rounds = 4
observers = "server"
scale = 3

[[phase]]
name = "select"
event = {type = "exponential", epsilon = 0.05}
rounds = 2
observers = ["server"]

[[phase]]
name = "train"
mechanism = "gaussian"
rate = 1.0
epochs = 25
observers = ["model", "server"]
views = {silo = 0.9}
"""


@pytest.fixture
def write(tmp_path: Path):
    """Write a plan, each (old, new) replaced in it, and return its name."""

    def call(*changes: tuple[str, str], text: str = PLAN) -> str:
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        (tmp_path / "plan.toml").write_text(text)
        return "plan.toml"

    return call


# One phase, from flags.


def test_one_phase_is_what_calibrate_says(run: Run) -> None:
    result = run("plan", *TARGET, *EPOCHS, "--json").json["result"]
    alone = run("calibrate", *TARGET, *EPOCHS, "--json").json["result"]
    (phase,) = result["phases"]
    assert phase["noise_multiplier"] == alone["noise_multiplier"]
    assert phase["rounds"] == 2344
    assert result["event"] == alone["event"]
    (guarantee,) = result["guarantees"]
    assert guarantee["observer"] == "model"
    assert guarantee["epsilon"] == alone["epsilon"]
    assert guarantee["delta"] == 1e-5
    assert guarantee["derivation"]
    assert run("plan", *TARGET, *EPOCHS, "-q").out == "0.786074\n"


def test_several_designs_are_a_table(run: Run) -> None:
    words = ("plan", *TARGET, "--rates", "1", "--epochs", "1,4,16", "--group-sizes", "1,2")
    outcome = run(*words)
    assert outcome.code == 0, outcome.err
    assert outcome.err == ""
    assert outcome.out == (
        "target   epsilon 2 at delta 1e-05, adding or removing one unit\n"
        "\n"
        "group   epochs   rounds   noise   epsilon   cost (variance)\n"
        "1       1        1        1.994   2.000     3.976\n"
        "1       4        4        3.988   2.000     63.61\n"
        "1       16       16       7.976   2.000     1,018\n"
        "2       1        1        3.988   2.000     15.91\n"
        "2       4        4        7.976   2.000     254.5\n"
        "2       16       16       15.96   2.000     4,071\n"
    )
    result = run(*words, "--json").json["result"]
    rows = result["alternatives"]
    assert [(row["group"], row["epochs"]) for row in rows] == [
        *((1, 1.0), (1, 4.0), (1, 16.0)),
        *((2, 1.0), (2, 4.0), (2, 16.0)),
    ]
    for row in rows:
        assert row["rate"] == 1.0
        assert row["refused"] is None
        assert row["epsilon"]["upper"] <= 2.0
        assert row["observer"] == "model"
    assert result["phases"][0]["noise_multiplier"] == rows[0]["phases"][0]["noise_multiplier"]
    printed = [float(word) for word in run(*words, "-q").out.split()]
    noise = [row["phases"][0]["noise_multiplier"] for row in rows]
    assert printed == pytest.approx(noise, rel=1e-5)
    assert all(shown >= exact for shown, exact in zip(printed, noise, strict=True))


def test_steps_cost_more_and_the_loader_is_mentioned(run: Run) -> None:
    words = ("--records", "60000", "--batch", "256", "--epochs", "2,10")
    outcome = run("plan", *TARGET, *words)
    assert [line.split()[:3] for line in outcome.out.splitlines()[3:]] == [
        ["2", "469", "0.6827"],
        ["10", "2,344", "0.7861"],
    ]
    assert "not Poisson sampling" in " ".join(outcome.err.split())


@for_each("neighbours", ["add-remove", "replace-one", "zero-out"])
def test_what_is_printed_meets_the_target(neighbours: str, run: Run) -> None:
    words = ("plan", *TARGET, "--rates", ".1,1", "--rounds", "9", "--neighbours", neighbours)
    rows = run(*words, "--json").json["result"]["alternatives"]
    printed = run(*words, "-q").out.split()
    for row, noise in zip(rows, printed, strict=True):
        assert float(noise) >= row["phases"][0]["noise_multiplier"]
        step: ev.Event = ev.Gaussian(float(noise))
        step = step if row["rate"] == 1.0 else ev.Poisson(row["rate"], step)
        again = pp.account(ev.Repeat(9, step), delta=1e-5, neighbours=neighbours)
        assert again.epsilon.upper <= 2.0


def test_steps_are_counted_exactly() -> None:
    assert [steps(rate, epochs) for rate, epochs in ((0.1, 3.0), (0.3, 1.0), (1.0, 2.5))] == [
        *(30, 4, 3)
    ]
    assert steps(1e-9, 1.0) == 10**9


# A file.


def test_a_file_describes_phases_observers_and_views(run: Run, write) -> None:
    result = run("plan", write(), "--json").json["result"]
    assert [phase["name"] for phase in result["phases"]] == ["clip", "select", "train"]
    clip, select, train = result["phases"]
    assert clip["noise_multiplier"] == train["noise_multiplier"]
    assert select["noise_multiplier"] is None
    assert select["event"] == {"type": "exponential", "epsilon": 0.05}
    assert (clip["rounds"], select["rounds"], train["rounds"]) == (4, 2, 25)
    assert train["observers"] == ["model", "server", "silo"]
    seen = train["views"]["silo"]["noise_multiplier"]
    assert seen == pytest.approx(0.9 * train["noise_multiplier"])
    assert {guarantee["observer"] for guarantee in result["guarantees"]} == {
        "model",
        "server",
        "silo",
    }
    assert all(guarantee["epsilon"]["upper"] <= 2.0 for guarantee in result["guarantees"])
    assert result["split"] == "equal-noise"
    assert result["cost"]["name"] == "variance"
    noise = clip["noise_multiplier"]
    assert result["cost"]["value"] == pytest.approx(4 * (3 * noise) ** 2 + 25 * noise**2)
    (row,) = result["alternatives"]
    assert [phase["name"] for phase in row["phases"]] == ["clip", "select", "train"]


def test_a_file_for_a_person(run: Run, write) -> None:
    outcome = run("plan", write())
    lines = outcome.out.splitlines()
    assert lines[0] == "target          epsilon 2 at delta 1e-05, adding or removing one record"
    assert lines[1] == "split           equal-noise"
    assert any(line.startswith("before silo     epsilon ") for line in lines)
    assert lines[-4].split() == ["phase", "noise", "rounds", "each", "round", "seen", "by"]
    assert lines[-2].split()[:3] == ["select", "fixed", "2"]
    assert lines[-1].endswith("model, server, silo")


def test_the_assumptions_say_what_is_fixed(run: Run, write) -> None:
    envelope = run("plan", write(), "--json").json
    said = " ".join(envelope["assumptions"])
    assert "fixed before the first release" in said
    assert "does not see influences nothing" in said
    assert "server" in said


def test_weights_and_cheapest(run: Run, write) -> None:
    half = write(('name = "clip"', 'name = "clip"\nweight = 0.5'))
    words = ("plan", half, "--split", "weights", "--json")
    clip, _, train = run(*words).json["result"]["phases"]
    assert clip["noise_multiplier"] == pytest.approx(0.5 * train["noise_multiplier"])
    equal = run("plan", write(), "--json").json["result"]["cost"]["value"]
    cheap = run("plan", write(), "--split", "cheapest", "--json").json["result"]
    assert cheap["split"] == "cheapest"
    assert cheap["cost"]["value"] < 0.9 * equal
    written = write(text=PLAN + '[split]\nhow = "cheapest"\ncost = "deviation"\n')
    assert run("plan", written, "--json").json["result"]["cost"]["name"] == "deviation"


def test_flags_replace_the_target_of_a_file(
    run: Run, write, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = run("plan", write(), "-q").out
    monkeypatch.setenv("PRIVPLAN_EPSILON", "1")
    monkeypatch.setenv("PRIVPLAN_EPOCHS", "3")
    monkeypatch.setenv("PRIVPLAN_BATCH", "3")
    assert run("plan", write(), "-q").out == base  # a variable does not change what a file says
    small = run("plan", write(), "--epsilon", "1", "--delta", "1e-7", "--json").json["result"]
    assert (small["epsilon"], small["delta"]) == (1.0, 1e-7)
    assert all(guarantee["epsilon"]["upper"] <= 1.0 for guarantee in small["guarantees"])
    without = write(("epsilon = 2.0\ndelta", "delta"))
    assert run("plan", without, "--json").json["result"]["epsilon"] == 1.0  # nothing else says it


def test_epochs_rates_and_groups_vary_a_file(run: Run, write) -> None:
    words = ("plan", write(), "--epochs", "9,25", "--rates", "1", "--group-sizes", "1,2", "--json")
    rows = run(*words).json["result"]["alternatives"]
    assert [[phase["rounds"] for phase in row["phases"]] for row in rows] == [
        *([4, 2, 9], [4, 2, 25], [4, 2, 9], [4, 2, 25]),
    ]
    noise = [row["phases"][0]["noise_multiplier"] for row in rows]
    assert noise[0] < noise[1] < noise[3]
    assert noise[0] < noise[2] < noise[3]
    base = run("plan", write(), "-q").out.split()
    assert float(base[0]) == pytest.approx(noise[1], rel=1e-5)


@for_each(
    ("sampling", "expected"),
    [
        (None, ev.Poisson(0.25, ev.Gaussian(2.0))),
        ("poisson", ev.Poisson(0.25, ev.Gaussian(2.0))),
        ("fixed-size", ev.FixedSize(10, 40, ev.Gaussian(2.0))),
        ("shuffled", ev.ShuffledBatches(4, ev.Gaussian(2.0))),
    ],
)
def test_samplers(sampling: str | None, expected: ev.Event) -> None:
    design = PhaseDesign(
        "a", "gaussian", records=40, batch=10, epochs=3.0, sampling=sampling, views=(("x", 0.5),)
    )
    phase = design.phase().at(2.0)
    assert phase.event == expected
    assert phase.rounds == (3 if sampling == "shuffled" else 12)
    assert phase.views["x"] == design.phase().at(1.0).event
    varied = design.varied(epochs=5.0, rate=0.5).phase()
    assert varied.rounds == (5 if sampling == "shuffled" else 10)
    assert type(varied.at(1.0).event) is type(expected)


def test_the_words_are_those_of_the_accountant() -> None:
    assert options.SPLITS == planning.SPLITS
    assert options.COSTS == cheapest_split.NAMES


def test_defaults_from_the_configuration(run: Run, tmp_path: Path) -> None:
    (tmp_path / "privplan.toml").write_text(
        '[plan]\nepsilon = 2\ndelta = 1e-5\nrates = 1\nepochs = "1,4"\ncost = "largest"\n'
    )
    result = run("plan", "--json").json["result"]
    assert [row["epochs"] for row in result["alternatives"]] == [1.0, 4.0]
    assert result["cost"]["name"] == "largest"


# What cannot be done.


def test_a_design_out_of_reach_is_a_row_and_not_the_end(run: Run, write) -> None:
    leak = write(("epsilon = 0.05}", "epsilon = 0.7}"))
    outcome = run("plan", leak, "--group-sizes", "1,2", "--json")
    assert outcome.code == 0
    first, second = outcome.json["result"]["alternatives"]
    assert first["refused"] is None
    assert second["phases"] is second["epsilon"] is second["cost"] is None
    assert "noise multiplier" in second["refused"]
    shown = run("plan", leak, "--group-sizes", "1,2")
    assert shown.out.splitlines()[-1].startswith("2       -        ")
    assert run("plan", leak, "--group-sizes", "1,2", "-q").out.splitlines()[1] == "-"


def test_no_design_within_reach_is_an_error(refused: Refused, write) -> None:
    leak = write(("epsilon = 0.05}", "epsilon = 9}"))
    assert "'server'" in refused("plan", leak, code=3)
    assert "'server'" in refused("plan", leak, "--group-sizes", "1,2", code=3)


@pytest.mark.parametrize(
    ("old", "new", "said", "step"),
    [
        ("[target]", "[targte]", "unknown table or key `targte`", "`target`"),
        ("[[phase]]", "[[phases]]", "unknown table or key `phases`", "`phase`"),
        ("delta =", "dleta =", "unknown key `dleta` in [target]", "`delta`"),
        ("epochs =", "epoch =", "unknown key `epoch` in phase 'train'", "`epochs`"),
        ('observers = ["m', 'observer = ["m', "unknown key `observer`", "`observers`"),
        ("rounds = 4", "round = 4", "unknown key `round` in phase 'clip'", "`rounds`"),
        ('name = "clip"', 'nmae = "clip"', "unknown key `nmae` in phase number 1", "`name`"),
        ('name = "clip"\n', "", "lacks `name` in phase number 1", "name"),
        ('name = "clip"', "name = 3", "phase number 1: `name` must be", "name"),
        ("[target]", "extra = 1\n[target]", "unknown table or key `extra`", "target"),
        ("epsilon = 2.0", "epsilon = -2.0", "[target]: `epsilon` must be", "epsilon"),
        ("epsilon = 2.0", 'epsilon = "two"', "[target]: `epsilon` must be", "epsilon"),
        ("epsilon = 2.0", "epsilon = true", "[target]: `epsilon` must be", "epsilon"),
        ("epsilon = 2.0", "epsilon = inf", "[target]: `epsilon` must be", "epsilon"),
        ("delta = 1e-5", "delta = 1", "[target]: `delta` must be", "delta"),
        (
            "delta = 1e-5",
            'delta = 1e-5\nneighbours = "add"',
            "[target]: `neighbours` must be",
            "neighbours",
        ),
        ("delta = 1e-5", "delta = 1e-5\ngroup = 0", "[target]: `group` must be", "group"),
        ("delta = 1e-5", "delta = 1e-5\nunit = 4", "[target]: `unit` must be", "unit"),
        ("rounds = 4", "rounds = 0", "phase 'clip': `rounds` must be", "rounds"),
        ("rounds = 4", "rounds = 4.5", "phase 'clip': `rounds` must be", "rounds"),
        ("rate = 1.0", "rate = 1.5", "phase 'train': `rate` must be", "rate"),
        ("rate = 1.0", "rate = nan", "phase 'train': `rate` must be", "rate"),
        ("rate = 1.0", "rate = 0", "`rate` must be above 0", "rate"),
        ("epochs = 25", "epochs = 0", "phase 'train': `epochs` must be", "epochs"),
        ("scale = 3", "scale = 0", "phase 'clip': `scale` must be", "scale"),
        ("scale = 3", "weight = -1", "phase 'clip': `weight` must be", "weight"),
        ("scale = 3", "weight = 2", "Weights have no use", "weights"),
        (
            'observers = "server"',
            "observers = []",
            "phase 'clip': `observers` must be",
            "observers",
        ),
        (
            'observers = "server"',
            "observers = [3]",
            "phase 'clip': `observers` must be",
            "observers",
        ),
        ("silo = 0.9", "silo = 0", "`silo` must be", "silo"),
        ("silo = 0.9", "model = 0.9", "names 'model'", "one"),
        ("{silo = 0.9}", "0.9", "phase 'train': `views` must be", "views"),
        ('mechanism = "gaussian"\nrounds', 'mechanism = "gauss"\nrounds', "one of", "gaussian"),
        ('mechanism = "gaussian"\nrounds', "rounds", "either `mechanism` or `event`", "gaussian"),
        ('"exponential"', '"exponentiel"', "phase 'select'", ""),
        ("rounds = 2", 'mechanism = "laplace"', "either `mechanism` or `event`", ""),
        ("rounds = 2", "scale = 2", "gives `scale` to phase 'select'", "scale"),
        ("rounds = 2", "rate = 0.5", "both `event` and `rate`", "rate"),
        ("rate = 1.0\n", "", "needs a schedule, and has epochs", "rounds"),
        ("rate = 1.0\n", "rate = 1.0\nrounds = 3\n", "needs a schedule", "rounds"),
        ("rate = 1.0\n", "records = 4\nbatch = 5\n", "a batch (5) above its records (4)", "batch"),
        ("rate = 1.0\n", 'rate = 1.0\nsampling = "shuffled"\n', "needs `records`", "sampling"),
        ("rate = 1.0\n", 'rate = 1.0\nsampling = "shufled"\n', "`sampling`", "shuffled"),
        ('name = "clip"', 'name = "train"', "Two phases are called 'train'", "name"),
    ],
)
def test_every_key_is_checked(
    old: str, new: str, said: str, step: str, refused: Refused, write
) -> None:
    error = refused("plan", write((old, new)))
    what, _, advice = error.splitlines()
    assert said in what
    assert step in advice


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[target", "plan.toml is not TOML"),
        ("", "plan.toml has no phase"),
        ("phase = 3", "plan.toml has no phase"),
        ("phase = [3]", "list of tables"),
        ("target = 3\n[[phase]]\n", "[target] to be a table"),
        ("[split]\nhow = 'cheap'\n[[phase]]\n", "[split]: `how` must be"),
        ("[split]\ncots = 'variance'\n[[phase]]\n", "unknown key `cots`"),
        ("# " + "x" * 2**20, "larger than 1 MiB"),
    ],
)
def test_a_file_that_is_no_plan(text: str, said: str, refused: Refused, write) -> None:
    assert said in refused("plan", write(text=text)).splitlines()[0]


def test_a_file_that_cannot_be_read(refused: Refused, tmp_path: Path) -> None:
    assert "cannot be read" in refused("plan", "nowhere.toml")
    assert "cannot be read" in refused("plan", str(tmp_path))
    (tmp_path / "plan.toml").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refused("plan", "plan.toml")


@for_each(
    ("words", "said"),
    [
        ([*EPOCHS], "`epsilon` is missing"),
        (["--epsilon", "2", *EPOCHS], "`delta` is missing"),
        (["--epsilon", "0", "--delta", "1e-5", *EPOCHS], "`epsilon` must be"),
        (["--epsilon", "2", "--delta", "1", *EPOCHS], "`delta` must be"),
        ([*TARGET], "`records` is missing"),
        ([*TARGET, "--epochs", "2"], "`records` is missing"),
        ([*TARGET, "--records", "60", "--batch", "6"], "`epochs` is missing"),
        ([*TARGET, "--records", "60", "--epochs", "6"], "`batch` is missing"),
        ([*TARGET, "--records", "5", "--batch", "6", "--epochs", "1"], "a batch (6) above"),
        ([*TARGET, *EPOCHS, "--rates", ".1"], "given twice"),
        ([*TARGET, *EPOCHS, "--rounds", "1"], "given twice"),
        ([*TARGET, "--rates", ".1"], "either `rounds` or `epochs`"),
        ([*TARGET, "--rates", ".1", "--rounds", "1", "--epochs", "1"], "either `rounds` or"),
        ([*TARGET, "--rates", "1.5", "--rounds", "1"], "`rates` must be"),
        ([*TARGET, "--rates", "0", "--epochs", "1"], "`rate` must be above 0"),
        ([*TARGET, "--rates", ".1,", "--rounds", "1"], "numbers with commas"),
        ([*TARGET, "--rates", "1", "--epochs", "2;5"], "numbers with commas"),
        ([*TARGET, "--rates", "1", "--epochs", "2,nan"], "`epochs` must be"),
        ([*TARGET, "--rounds", "1", "--epochs", "2"], "No phase of this plan has epochs"),
        ([*TARGET, "--rounds", "1", "--group-sizes", "1.5"], "numbers with commas"),
        ([*TARGET, "--rounds", "1", "--group-sizes", "0"], "`group-sizes` must be"),
        ([*TARGET, "--rounds", "0"], "`rounds` must be"),
        ([*TARGET, "--rounds", "1", "--split", "cheap"], "`split` must be one of"),
        ([*TARGET, "--rounds", "1", "--cost", "varience"], "Did you mean --cost variance"),
        ([*TARGET, "--rounds", "1", "--mechanism", "gauss"], "Did you mean --mechanism gaussian"),
        ([*TARGET, "--rounds", "1", "--neighbours", "add"], "`neighbours` must be one of"),
        ([*TARGET, "--rates", "1", "--epochs", ",".join(map(str, range(1, 203)))], "202 designs"),
        (["nowhere.toml", "--batch", "3"], "--batch contradicts it"),
    ],
)
def test_options_are_checked_at_the_door(words: list[str], said: str, refused: Refused) -> None:
    assert said in refused("plan", *words)


def test_the_json_is_what_the_library_says(run: Run, write) -> None:
    result = run("plan", write(), "--json").json["result"]
    again = json.loads(json.dumps(result))
    whole = pp.account(ev.from_json(again["event"]), delta=1e-5)
    (server,) = [
        guarantee for guarantee in again["guarantees"] if guarantee["observer"] == "server"
    ]
    assert whole.epsilon.upper == server["epsilon"]["upper"]


def test_an_integer_of_too_many_digits_is_refused_as_a_run_refuses_it(refused: Refused) -> None:
    Path("int.toml").write_text("[run]\nrounds = " + "9" * 5000 + "\n")
    error = refused("plan", "int.toml")
    assert "int.toml is not TOML" in error
    assert error == refused("run", "int.toml", "--out", "out")
    assert not Path("out").exists()


def test_a_configuration_with_a_byte_order_mark_is_a_run() -> None:
    text = '[run]\nsystem = "uldp-avg"\n'
    Path("run.toml").write_text(text, encoding="utf-8-sig")
    assert is_run("run.toml")
    Path("run.toml").write_bytes(text.encode("utf-16"))
    assert not is_run("run.toml")


def test_a_forecast_of_a_configuration_with_a_byte_order_mark(run: Run) -> None:
    for name in ("torch", "sklearn", "cryptography"):
        pytest.importorskip(name)
    text = (
        '[run]\nsystem = "uldp-avg"\nrounds = 1\n[data]\nname = "breast-cancer"\n'
        "users = 6\nsilos = 2\n[privacy]\nnoise_multiplier = 5.0\n"
    )
    Path("run.toml").write_text(text, encoding="utf-8-sig")
    marked = run("plan", "run.toml")
    assert marked.code == 0, marked.err
    Path("run.toml").write_text(text)
    assert run("plan", "run.toml").out == marked.out
