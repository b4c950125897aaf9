"""`privplan plot` and `--plot`: what is drawn, where it goes, and what is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import privplan as pp
from privplan.accountant import events as ev

from ..audit import ledgers
from ..audit.test_plots import ATTACK, run_folder
from ..cases import for_each
from .conftest import Refused, Run

SCHEDULE = ("--rate", "0.02", "--rounds", "200")
EVENT = ev.Repeat(200, ev.Poisson(0.02, ev.Gaussian(1.0)))


@pytest.fixture
def quick(tmp_path: Path) -> str:
    """Write an event whose curves have closed forms."""
    (tmp_path / "quick.json").write_text(json.dumps(ev.Gaussian(2.0).to_json()))
    return "quick.json"


@pytest.fixture
def event(tmp_path: Path) -> str:
    """Write an event of 200 rounds."""
    (tmp_path / "rounds.json").write_text(json.dumps(EVENT.to_json()))
    return "rounds.json"


def marks(result: Any) -> dict[str, Any]:
    """Return the marks of a chart by their labels."""
    return {mark["label"]: mark for mark in result["marks"]}


def test_epsilon_by_round_of_an_event(run: Run, event: str) -> None:
    done = run("plot", "rounds", event, "--delta", "1e-6", "--budget", "3")
    assert done.code == 0
    assert done.out.startswith(
        "Epsilon by round\nunit: record; neighbours: add-remove; delta: 1e-06"
    )
    assert "● proven, upper end (the guarantee)\n─ budget: epsilon 3\n" in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    result = run("plot", "rounds", event, "--delta", "1e-6", "--json").json["result"]
    proven = pp.account(EVENT, delta=1e-6).epsilon
    band = marks(result)["proven, upper end (the guarantee)"]
    assert band["upper"][-1] == proven.upper
    assert band["lower"][-1] == proven.lower
    last = run("plot", "rounds", event, "--delta", "1e-6", "-q").out.splitlines()[-1]
    assert last.startswith("proven, upper end (the guarantee); x=200; lower=")


def test_epsilon_by_round_of_a_run(run: Run, refused: Refused, tmp_path: Path) -> None:
    run_folder(tmp_path / "run")
    result = run("plot", "rounds", "run", "--json").json["result"]
    assert result["subtitle"].startswith("unit: user; neighbours: add-remove")
    assert "budget: epsilon" in " ".join(marks(result))
    assert "--delta is given with a run" in refused("plot", "rounds", "run", "--delta", "1e-6")
    assert "elsewhere.json" in refused("plot", "rounds", "elsewhere.json")


def test_a_picture_is_written_and_the_path_is_said(run: Run, quick: str) -> None:
    pytest.importorskip("matplotlib")
    done = run("plot", "profile", quick, "--delta", "1e-5", "-o", "profile.svg")
    assert done.out.splitlines()[-1] == "file   profile.svg"
    text = Path("profile.svg").read_text()
    assert '<title id="title">Privacy profile</title>' in text
    assert run("plot", "profile", quick, "-o", "profile.png", "-q").out == "profile.png\n"
    assert Path("profile.png").read_bytes().startswith(b"\x89PNG")
    again = run("plot", "profile", quick, "--delta", "1e-5", "-o", "profile.svg", "--json")
    assert again.json["result"]["bytes"] == len(text.encode())
    assert Path("profile.svg").read_text() == text


def test_noise_has_one_list(run: Run, refused: Refused) -> None:
    done = run("plot", "noise", "--epsilon", "1,2", *SCHEDULE, "--json")
    points = marks(done.json["result"])["noise that is proven to be enough"]
    single = run("calibrate", "--epsilon", "2", "--delta", "1e-5", *SCHEDULE, "--json")
    assert points["x"] == [1.0, 2.0]
    assert points["y"][1] == single.json["result"]["noise_multiplier"]
    assert "No option is a list" in refused("plot", "noise", "--epsilon", "1", *SCHEDULE)
    two = refused("plot", "noise", "--epsilon", "1,2", "--rate", "0.1,0.2", "--rounds", "9")
    assert "--epsilon and --rate are lists" in two
    assert "`rate` is missing" in refused("plot", "noise", "--epsilon", "1,2", "--rounds", "9")
    words = refused("plot", "noise", "--epsilon", "1,two", *SCHEDULE)
    assert "must be numbers with commas between them; it is '1,two'" in words
    assert "`rounds`" in refused(
        "plot", "noise", "--epsilon", "1,2", "--rate", "0.1", "--rounds", "2.5"
    )


@for_each("name", ["plot.pdf", "plot", "none/plot.svg"])
def test_another_suffix_and_no_folder_are_refused_before_anything(
    name: str, refused: Refused
) -> None:
    words = ("--epsilon", "2", "--delta", "1e-5", *SCHEDULE, "--plot", name)
    assert "cannot be written" in refused("calibrate", *words)
    assert "cannot be written" in refused(
        "plot", "noise", "--epsilon", "1,2", *SCHEDULE, "-o", name
    )


def test_without_matplotlib_a_file_needs_the_extra_and_characters_nothing(
    run: Run, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    said = refused("plot", "noise", "--epsilon", "1,2", *SCHEDULE, "-o", "plot.svg", code=4)
    assert "needs the package matplotlib" in said
    assert "plots]'" in said.splitlines()[-1]
    words = ("calibrate", "--epsilon", "2", "--delta", "1e-5", *SCHEDULE, "--plot")
    assert "matplotlib" in refused(*words, "plot.svg", code=4)
    done = run(*words, "-")
    assert done.code == 0
    assert "noise multiplier" in done.out
    assert "Noise against epsilon" in done.out


def test_calibrate_draws_noise_around_its_target(run: Run, refused: Refused) -> None:
    words = ("calibrate", "--epsilon", "2", "--delta", "1e-5", *SCHEDULE)
    result = run(*words, "--plot", "-", "--json").json["result"]
    points = marks(result["plot"])["noise that is proven to be enough"]
    assert points["x"] == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert points["y"][2] == result["noise_multiplier"]
    risk = ("calibrate", "--advantage", "0.1", *SCHEDULE, "--plot", "-")
    assert "--plot does not go with an attack risk" in refused(*risk)
    gram = ("--release", "gram", "--dimension", "3", "--epsilon", "1", "--delta", "1e-6")
    assert "--plot does not go with a release" in refused("calibrate", *gram, "--plot", "-")


def test_account_draws_a_profile_or_the_trade_off(run: Run, event: str) -> None:
    answer = run("account", event, "--delta", "1e-5", "--plot", "-", "--json").json["result"]
    profile = answer["plot"]
    assert profile["title"] == "Privacy profile"
    marked = next(mark for mark in profile["marks"] if mark["kind"] == "points")
    assert (marked["x"], marked["y"]) == ([answer["epsilon"]["upper"]], [1e-5])
    by_delta = run("account", event, "--epsilon", "1", "--plot", "-", "--json").json["result"]
    marked = next(mark for mark in by_delta["plot"]["marks"] if mark["kind"] == "points")
    assert (marked["x"], marked["y"]) == ([1.0], [by_delta["delta"]["upper"]])
    risky = run("account", event, "--delta", "1e-5", "--risk", "--plot", "-", "--json")
    result = risky.json["result"]
    assert result["plot"]["title"] == "Trade-off of the best attack"
    point = marks(result["plot"])["at FPR 0.01 no attack misses less"]
    assert point["y"] == [1.0 - result["risk"]["tpr"]["upper"]]


def test_plan_draws_designs_or_the_rounds_of_one(
    run: Run, refused: Refused, tmp_path: Path
) -> None:
    words = ("plan", "--epsilon", "2", "--delta", "1e-5", "--records", "1000", "--batch", "100")
    several = run(*words, "--epochs", "1,5", "--plot", "-", "--json").json["result"]
    assert marks(several["plot"])["noise of the plan"]["x"] == [10.0, 50.0]
    groups = run(*words, "--epochs", "1", "--group-sizes", "1,2", "--plot", "-", "--json")
    assert groups.json["result"]["plot"]["title"] == "Noise against group"
    single = run(*words, "--epochs", "5", "--plot", "-", "--json").json["result"]
    assert single["plot"]["title"] == "Epsilon by round of the plan"
    assert marks(single["plot"])["budget: epsilon 2"]["y"] == 2.0
    (tmp_path / "run.toml").write_text(
        '[run]\nsystem = "uldp-avg"\nrounds = 3\n[data]\nname = "breast-cancer"\n'
        "[privacy]\nepsilon = 2.0\n"
    )
    assert "--plot does not go with it" in refused("plan", "run.toml", "--plot", "-")


def test_check_draws_a_row_for_each_run(run: Run, tmp_path: Path) -> None:
    for name, claimed in (("a", 1.0), ("b", 0.5)):
        (tmp_path / f"{name}.toml").write_text(
            f"[claim]\nepsilon = {claimed}\ndelta = 1e-5\n[noise]\nnoise_multiplier = 1.3\n"
            "[data]\nrecords = 60000\n[schedule]\nsteps = 3516\n"
            '[sampling]\nmethod = "poisson"\nbatch = 256\n'
        )
    done = run("check", "a.toml", "b.toml", "--plot", "-", "--json")
    assert done.code == 1
    plot = done.json["result"]["plot"]
    assert plot["y"]["rows"] == ["holds: a.toml", "false: b.toml"]
    assert marks(plot)["claimed"]["x"] == [1.0, 0.5]
    drawn = run("plot", "check", "a.toml", "b.toml")
    assert drawn.code == 0
    assert "holds: a.toml ┤" in drawn.out
    alone = run("check", "a.toml", "--plot", "-").out
    assert "Claimed and proven" in alone
    assert alone.startswith(run("check", "a.toml").out)


def test_claims_are_drawn(run: Run, refused: Refused) -> None:
    drawn = run("plot", "claims", "fedpower", "--json").json["result"]
    rows = run("claims", "fedpower", "--plot", "-", "--json").json["result"]
    of_epsilon = [row for row in rows["rows"] if row.get("quantity", "epsilon") == "epsilon"]
    assert len(rows["plot"]["y"]["rows"]) >= len(drawn["y"]["rows"]) == len(of_epsilon)
    assert "`system` must be one of" in refused("plot", "claims", "fedpow")


def test_the_trade_off_of_a_run_has_what_attacks_measured(run: Run, tmp_path: Path) -> None:
    from dataclasses import replace

    from privplan.audit.results import append_results

    folder = run_folder(tmp_path / "run")
    append_results(
        folder, [replace(ATTACK, unit="user"), replace(ATTACK, observer="server", unit="user")]
    )
    result = run("plot", "trade-off", "run", "--json").json["result"]
    assert marks(result)["measured, tier claim"]["y"] == [0.7, 0.3]
    assert sum(mark["label"].startswith("measured") for mark in result["marks"]) == 1
    assert "Of another observer or unit, and not drawn: 1." in result["notes"]
    assert "proven: no attack comes below" in marks(result)
    assert "claimed: epsilon" in " ".join(marks(result))


def test_audit_budget_draws_the_course_and_nothing_of_a_broken_log(
    run: Run, tmp_path: Path
) -> None:
    folder = run_folder(tmp_path / "run")
    answer = run("audit", "budget", "run", "--plot", "-", "--json").json["result"]
    band = marks(answer["plot"])["proven, upper end (the guarantee)"]
    assert band["upper"][-1] == answer["epsilon"]["upper"]
    log = folder / "log.jsonl"
    log.write_text(log.read_text().replace('"round":3', '"round":4', 1))
    broken = run("audit", "budget", "run", "--plot", "plot.svg")
    assert broken.code == 1
    assert "is bad" in broken.out
    assert not Path("plot.svg").exists()


def test_utility_of_runs(run: Run, refused: Refused, tmp_path: Path) -> None:
    run_folder(tmp_path / "a", "0.6")
    run_folder(tmp_path / "b", "0.8", rate=0.5)
    result = run("plot", "utility", "a", "b", "--json").json["result"]
    assert result["title"] == "Accuracy against epsilon"
    assert marks(result)["b"]["y"] == [0.8]
    said = refused("plot", "utility", "a", "b", "--metric", "auc")
    assert "in common they have: accuracy, loss" in said
    ledgers.written(tmp_path / "c", ledgers.weighted())
    assert "no single metric in common: none" in refused("plot", "utility", "a", "c")


def test_a_terminal_without_unicode_gets_ascii(
    run: Run, quick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.cli.reports import plots

    class Plain:
        encoding = "ascii"

    unicode = run("plot", "profile", quick).out
    with monkeypatch.context() as patch:
        patch.setattr(plots.sys, "stdout", Plain())  # type: ignore[attr-defined]
        from privplan.audit.plots.loss_curves import profile_chart, profile_of

        chart = profile_chart(profile_of(ev.Gaussian(2.0), "add-remove"), unit="record")
        text = plots.in_characters(chart)
    assert text.isascii()
    assert "* proven delta" in text
    assert "● proven delta" in unicode
