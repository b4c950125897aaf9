"""Deltas that promise nothing: refused where something is promised, unless they are accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from privplan import account, calibrate
from privplan.accountant import events as ev
from privplan.accountant.delta_checks import (
    allows_publishing,
    delta_below_half,
    require_delta_below_units,
)
from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Population
from privplan.audit.configuration.logged_settings import settings_in
from privplan.fl.frame.privacy import PrivacyTarget
from privplan.fl.log import read
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from .conftest import Refused, Run

RUN = """\
[run]
system = "uldp-avg"
rounds = 2
[data]
name = "breast-cancer"
users = 8
silos = 2
[privacy]
noise_multiplier = 5.0
delta = {delta}
{accept}
[training]
local_epochs = 1
"""

CALIBRATE = ("calibrate", "--epsilon", "2", "--records", "1000", "--batch", "100", "--epochs", "1")
PLAN = ("plan", "--epsilon", "2", "--records", "1000", "--batch", "100", "--epochs", "1")

PUBLISHING = "Publishing the data of one"


def configured(delta: str, accept: str = "") -> str:
    Path("run.toml").write_text(RUN.format(delta=delta, accept=accept))
    return "run.toml"


def event() -> str:
    Path("event.json").write_text(json.dumps(ev.Gaussian(2.0).to_json()))
    return "event.json"


# The number itself


@for_each(
    ("delta", "units", "allowed"),
    [(0.001, 1000, True), (0.0001, 10_000, True), (1e-5, 99_999, False), (0.3, 3, False)],
)
def test_a_delta_of_one_in_n_allows_publishing_one_of_n(
    delta: float, units: int, allowed: bool
) -> None:
    """As it is written, too: the nearest float to .0001 and others may lie below."""
    assert allows_publishing(delta, units) == allowed


def test_every_written_fraction_counts_as_what_it_says() -> None:
    assert all(allows_publishing(float(f"1e-{digits}"), 10**digits) for digits in range(1, 16))


def test_what_is_not_stated_or_accepted_is_not_compared() -> None:
    for units, accepted in ((None, False), (10, True)):
        require_delta_below_units(0.1, units, "user", accepted=accepted, accept="")
    with pytest.raises(InvalidInput, match=r"Delta 0\.1 is at least 1 / 10"):
        require_delta_below_units(0.1, 10, "user", accepted=False, accept="")


@for_each("delta", [0.5, 0.7, 0.999])
def test_half_is_never_taken(delta: float) -> None:
    with pytest.raises(InvalidInput, match=r"below 0\.5"):
        delta_below_half(delta=delta)
    with pytest.raises(InvalidInput, match=r"below 0\.5"):
        PrivacyTarget(delta=delta, epsilon=1.0)
    with pytest.raises(InvalidInput, match=r"below 0\.5"):
        parse(RUN.format(delta=delta, accept="accept_delta = true").encode(), "run.toml")


def test_in_python_arithmetic_is_done_for_any_delta() -> None:
    """`account` and `calibrate` compute, for (0, 1); the doors above them refuse."""
    assert account(ev.Gaussian(2.0), delta=0.6).epsilon.upper == 0.0
    assert calibrate(ev.Gaussian, epsilon=1.0, delta=0.6).guarantee.delta.upper == 0.6


def test_units_are_those_that_are_promised_something() -> None:
    there = Population(50, 5)
    counted = [there.units(unit) for unit in ("user", "silo", "record", "entry")]
    assert counted == [50, 5, None, None]
    assert there.units("record", most_records=8) == 400
    assert Population(50, 5, 300).units("record", most_records=8) == 300


# privplan run


@for_each("delta", ["0.125", "0.2"])
def test_a_run_refuses_it_and_leaves_no_folder(refused: Refused, delta: str) -> None:
    pytest.importorskip("torch")
    said = refused("run", configured(delta), "--out", "out")
    assert f"Delta {delta} is at least 1 / 8, and 8 users are protected." in said
    assert PUBLISHING in said
    assert "accept_delta = true under [privacy]" in said
    assert not Path("out").exists()


def test_a_run_below_it_is_made_with_a_warning(run: Run) -> None:
    pytest.importorskip("torch")
    outcome = run("run", configured("0.12"), "--out", "out")
    assert outcome.code == 0
    assert "not well below 1 / 8 users" in " ".join(outcome.err.split())
    assert run("audit", "budget", "out").code == 0


def test_what_was_accepted_is_in_the_log_and_its_audit_is_an_error(run: Run) -> None:
    pytest.importorskip("torch")
    outcome = run("run", configured("0.2", "accept_delta = true"), "--out", "out")
    assert outcome.code == 0, outcome.err
    assert "satisfies the promise. The audit of this log" in " ".join(outcome.err.split())
    opened = next(iter(read("out"))).record
    assert opened.configuration["privacy"]["accept_delta"] is True
    assert settings_in(opened).privacy.accept_delta  # so it can be attacked
    outcome = run("audit", "budget", "out")
    assert outcome.code == 1
    assert "error delta-too-large" in outcome.out
    assert "the run was begun with accept_delta" in " ".join(outcome.out.split())
    page = run("report", "out", "-o", "page.html")
    assert page.code == 1
    assert "error: <code>delta-too-large</code>" in Path("page.html").read_text()


def test_a_run_that_was_begun_goes_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Earlier versions began such runs; what is left of one has to end, and its audit says so."""
    pytest.importorskip("torch")
    from privplan.fl.running import Configuration, ready_new_run, session

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as earlier:
        for module in ("privplan.fl.running.preparation", "privplan.fl.running.session"):
            earlier.setattr(f"{module}.require_small_delta", lambda _: None)
        ready = ready_new_run(Configuration.read(Path(configured("0.2"))), Path("cut"))
        with ready.writer, pytest.raises(KeyboardInterrupt):
            session.execute(ready.prepared, ready.folder, ready.writer, report=stop)
    assert run("run", "--resume", "--out", "cut").code == 0
    assert run("audit", "budget", "cut").code == 1


def test_a_log_says_nothing_of_what_was_not_accepted() -> None:
    """So the configuration of an earlier log is still the same one."""
    settings = parse(RUN.format(delta="1e-5", accept="").encode(), "run.toml")
    assert "accept_delta" not in settings.to_json()["privacy"]


# privplan calibrate, plan, account


@for_each("words", [CALIBRATE, PLAN], ids=["calibrate", "plan"])
def test_noise_is_not_found_for_it_unless_it_is_accepted(
    run: Run, refused: Refused, words: tuple[str, ...]
) -> None:
    said = refused(*words, "--delta", "0.001")
    assert "Delta 0.001 is at least 1 / 1,000, and 1,000 records are protected." in said
    assert PUBLISHING in said
    assert "--accept-delta" in said
    accepted = run(*words, "--delta", "0.001", "--accept-delta")
    assert accepted.code == 0
    assert PUBLISHING in " ".join(accepted.err.split())
    usual = run(*words, "--delta", "0.0009")
    assert usual.code == 0
    assert PUBLISHING not in " ".join(usual.err.split())
    assert "below 0.5" in refused(*words, "--delta", "0.5", "--accept-delta")


def test_where_records_are_not_stated_it_is_not_compared_and_said(run: Run) -> None:
    words = ("--epsilon", "2", "--delta", "0.01", "--rounds", "10")
    for command in (("calibrate", *words, "--rate", "0.1"), ("plan", *words, "--rates", "0.1")):
        outcome = run(*command, "--json")
        assert outcome.code == 0
        assert any("not stated" in sentence for sentence in outcome.json["assumptions"])


def test_a_plan_file_states_its_records(run: Run, refused: Refused) -> None:
    plan = '[target]\nepsilon = 2.0\ndelta = {}\n[[phase]]\nname = "a"\nmechanism = "gaussian"\n'
    schedule = "records = 100\nbatch = 10\nepochs = 1\n"
    Path("plan.toml").write_text(plan.format(0.01) + schedule)
    assert "1 / 100" in refused("plan", "plan.toml")
    assert run("plan", "plan.toml", "--accept-delta").code == 0
    assert run("plan", "plan.toml", "--delta", "1e-5").code == 0
    Path("plan.toml").write_text(plan.format(0.5) + schedule)
    assert "below 0.5" in refused("plan", "plan.toml")


def test_account_compares_it_where_units_are_given(run: Run, refused: Refused) -> None:
    assert run("account", event(), "--delta", "0.01").code == 0
    assert "1 / 100" in refused("account", event(), "--delta", "0.01", "--units", "100")
    words = ("account", event(), "--delta", "0.01", "--units", "100", "--accept-delta")
    accepted = run(*words)
    assert accepted.code == 0
    assert "100 units are protected" in " ".join(accepted.err.split())
    assert run("account", event(), "--delta", "0.01", "--units", "99").err == ""
    assert "below 0.5" in refused("account", event(), "--delta", "0.5")
    assert "`units` must be" in refused("account", event(), "--units", "0")


def test_a_delta_that_is_the_answer_is_told_and_compared(run: Run) -> None:
    outcome = run("account", event(), "--epsilon", "0.1", "--units", "100")
    assert outcome.code == 0
    assert "is at least 1 / 100" in " ".join(outcome.err.split())
    assert run("account", event(), "--epsilon", "0", "--json").json["warnings"] == []


@for_each("header", ["[privacy]", "[ privacy ]  # who is promised what"])
def test_a_flag_accepts_it_for_a_run_and_stands_in_folder_and_log(
    run: Run, tmp_path: Path, header: str
) -> None:
    text = RUN.format(delta="0.2", accept="").replace("[privacy]", header)
    (tmp_path / "run.toml").write_text(text)
    assert run("run", "run.toml", "--out", "out").code == 2
    assert run("run", "run.toml", "--dry-run", "--accept-delta").code == 0
    assert run("plan", "run.toml", "--accept-delta").code == 0
    assert run("run", "run.toml", "--out", "out", "--accept-delta").code == 0
    kept = (tmp_path / "out" / "config.toml").read_text()
    assert kept == text.replace(header, f"{header}\naccept_delta = true")
    (opened, *_) = (line.record for line in read(tmp_path / "out"))
    assert opened.configuration["privacy"]["accept_delta"] is True  # type: ignore[union-attr]
    (error,) = run("audit", "budget", "out", "--json").json["result"]["hazards"]
    assert (error["id"], error["severity"]) == ("delta-too-large", "error")


def test_a_flag_needs_a_place_to_stand_and_a_run_to_begin(refused: Refused, tmp_path: Path) -> None:
    text = RUN.format(delta="0.2", accept="").replace("[privacy]", "")
    dotted = "privacy.delta = 0.2\nprivacy.noise_multiplier = 5.0\n" + text.replace(
        "noise_multiplier = 5.0\ndelta = 0.2\n", ""
    )
    (tmp_path / "run.toml").write_text(dotted)
    assert "[privacy]" in refused("run", "run.toml", "--out", "out", "--accept-delta")
    assert not (tmp_path / "out").exists()
    said = refused("run", "--resume", "--out", "out", "--accept-delta")
    assert "the run was begun" in said


# Delta 0


def test_delta_0_is_answered_for_noise_whose_losses_have_a_bound(run: Run) -> None:
    Path("laplace.json").write_text(json.dumps(ev.Repeat(3, ev.Laplace(2.0)).to_json()))
    found = run("account", "laplace.json", "--delta", "0", "--json").json["result"]
    assert found["epsilon"] == {"lower": 1.5, "upper": 1.5}
    assert (found["delta"], found["engine"]) == (0.0, "pure")
    text = run("account", "laplace.json", "--delta", "0").out
    assert "epsilon 1.500 at delta 0" in text


def test_delta_0_is_infinite_for_gaussian_noise_and_says_why(run: Run) -> None:
    answered = run("account", event(), "--delta", "0")
    assert "nothing at delta 0" in answered.out
    assert "have no bound" in answered.err.replace("\n  ", " ")


def test_laplace_noise_is_calibrated_at_delta_0(run: Run) -> None:
    schedule = ("--rate", "1", "--rounds", "4", "--epsilon", "2", "--delta", "0")
    found = run("calibrate", *schedule, "--mechanism", "laplace", "--json").json["result"]
    assert found["noise_multiplier"] == pytest.approx(2.0, rel=1e-4)
    assert found["epsilon"]["upper"] <= 2.0


def test_routes_need_a_delta_above_0(refused: Refused) -> None:
    assert "above 0" in refused("account", event(), "--delta", "0", "--routes")
