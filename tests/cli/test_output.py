"""Streams, JSON, exit codes, and text that nobody can turn into terminal commands."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from privplan.accountant import errors
from privplan.accountant.guarantee import Bounds, Guarantee
from privplan.cli.terminal import output

from .conftest import FakeLibrary, Refused, Run

PRIVPLAN = f"{shlex.quote(sys.executable)} -W error -m privplan.cli"

CODES = [
    (errors.InvalidInput, 2),
    (errors.Unsupported, 3),
    (errors.TargetUnreachable, 3),
    (errors.TargetTrivial, 3),
    (errors.EnginesDisagree, 3),
    (errors.BudgetExceeded, 1),
    (errors.MissingExtra, 4),
    (errors.LogBroken, 3),
    (errors.ServiceFault, 3),
    (errors.ProtocolFault, 1),
    (errors.MissingParty, 1),
]


@pytest.mark.parametrize(("kind", "code"), CODES)
def test_every_error_has_its_exit_code(
    kind: type[errors.PrivplanError],
    code: int,
    refused: Refused,
    library: FakeLibrary,
    event_file: str,
) -> None:
    library.answer = kind("It does not go.")
    assert "It does not go." in refused("account", event_file, code=code)


def test_all_error_classes_are_known_here() -> None:
    known = {kind for kind, _ in CODES}
    classes = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    kinds = {kind for kind in classes if issubclass(kind, errors.PrivplanError)}
    assert kinds - {errors.PrivplanError} == known
    assert set(errors.PrivplanError.__subclasses__()) <= known


def test_an_unforeseen_error_is_no_traceback_and_not_a_failed_check(
    refused: Refused, library: FakeLibrary, event_file: str
) -> None:
    library.answer = ZeroDivisionError("division by zero")
    text = refused("account", event_file, code=3)
    assert "ZeroDivisionError" in text
    assert "PRIVPLAN_DEBUG" in text


def test_a_missing_package_is_named(
    refused: Refused, library: FakeLibrary, event_file: str
) -> None:
    library.answer = ModuleNotFoundError("No module named 'scipy'", name="scipy")
    assert "`scipy` is not installed" in refused("account", event_file, code=4)


def test_debugging_shows_the_traceback(
    run: Run, library: FakeLibrary, event_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRIVPLAN_DEBUG", "1")
    library.answer = ZeroDivisionError("division by zero")
    with pytest.raises(ZeroDivisionError):
        run("account", event_file)


@pytest.mark.usefixtures("library")
def test_warnings_go_to_standard_error_or_into_the_json(run: Run, event_file: str) -> None:
    outcome = run("account", event_file, "--json")
    assert outcome.json["warnings"] == ["mind the gap"]
    assert outcome.err == ""
    assert run("account", event_file).err == "warning: mind the gap\n"
    quiet = run("account", event_file, "-q")
    assert quiet.out == "1.82824\n"
    assert "mind the gap" in quiet.err


def test_infinity_is_a_word_in_json(run: Run, library: FakeLibrary, event_file: str) -> None:
    infinite = Bounds(float("inf"), float("inf"))
    library.answer = Guarantee(infinite, Bounds.exactly(1e-5), "add-remove", "pld")
    assert run("account", event_file, "--json").json["result"]["epsilon"] == {
        "lower": "inf",
        "upper": "inf",
    }
    assert run("account", event_file, "-q").out == "inf\n"
    assert "nothing at delta 1e-05: epsilon is infinite" in run("account", event_file).out


def test_a_file_name_cannot_speak_to_the_terminal(refused: Refused) -> None:
    text = refused("account", "[bold]\x1b[31m\nred[/bold].json")
    assert "\x1b" not in text
    assert "[bold]" in text


@pytest.mark.usefixtures("library")
def test_a_reason_inside_an_event_cannot_speak_to_the_terminal(run: Run) -> None:
    event = '{"type": "no-guarantee", "reason": "\\u001b[31mred\\nline"}'
    outcome = run("account", "-", stdin=event)
    assert outcome.code == 0
    assert "\x1b" not in outcome.out
    assert "\\x1b[31mred line" in outcome.out


@pytest.mark.parametrize("words", [["foo"], ["account", "x", "y"], ["account", "x", "--nope"]])
def test_typer_errors_are_usage_errors(words: list[str], refused: Refused) -> None:
    assert "--help" in refused(*words)


def test_without_a_command_the_help_is_an_error(run: Run) -> None:
    outcome = run()
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Usage" in outcome.err


def shell(command: str) -> subprocess.CompletedProcess[str]:
    """Run `command` in bash."""
    return subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)


def test_a_reader_that_goes_away_is_not_an_error() -> None:
    done = shell(f"({PRIVPLAN} explain sampling; echo $? >&2) | true")
    assert done.stderr.strip() == "0"


def test_colour_can_be_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in output._label("error:", "red")
    monkeypatch.setenv("NO_COLOR", "1")
    assert output._label("error:", "red") == "error:"


@pytest.mark.parametrize("redirection", ["<&-", "</dev/null"])
def test_a_closed_or_empty_standard_input(redirection: str) -> None:
    done = shell(f"{PRIVPLAN} account - {redirection}")
    assert done.returncode == 2
    assert "Standard input is empty" in done.stderr


def test_an_unforeseen_error_does_not_show_the_values_it_was_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PRIVPLAN_DEBUG", raising=False)
    assert output.fail(ValueError("could not convert 'blood pressure 180'"), as_json=True) == 3
    shown = capsys.readouterr()
    assert "ValueError" in shown.err
    assert "180" not in shown.err + shown.out


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interruption_is_an_error_in_three_lines(
    monkeypatch: pytest.MonkeyPatch, refused: Refused, event_file: str
) -> None:
    monkeypatch.setattr("privplan.cli.inputs.curve_file.read_event", interrupted)
    assert "privplan was interrupted" in refused("account", event_file, code=130)


ONCE = """
import runpy, sys

class Once:
    def find_spec(self, name, *_):
        if name == {name!r}:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.argv[1:] = ["doctor", "--json"]
sys.meta_path.insert(0, Once())
runpy.run_module("privplan.cli", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "name", ["typer", "privplan.cli.terminal.output", "privplan.cli.commands.run"]
)
def test_an_interruption_while_modules_load_is_an_error_in_three_lines(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ONCE.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 130
    assert [line.split(":")[0].strip() for line in done.stderr.splitlines()] == [
        *("error", "why", "next"),
    ]
    assert json.loads(done.stdout)["error"]["what"] == "privplan was interrupted."


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("flags", ["", "--json"])
def test_an_answer_that_cannot_be_written_is_an_error(flags: str) -> None:
    done = shell(f"{PRIVPLAN} explain delta {flags} >/dev/full")
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_name_that_is_not_text() -> None:
    done = shell(f"{PRIVPLAN} account $'\\xff\\xfe.json'")
    assert done.returncode == 2
    assert done.stderr.startswith("error: The file")


def test_a_terminal_that_knows_only_ascii() -> None:
    shell("printf '{' >$'b\\xc3\\xa4d.json'")  # by its bytes: not every locale can write that name
    done = shell(f"PYTHONUTF8=1 PYTHONIOENCODING=ascii {PRIVPLAN} account b*.json")
    assert done.returncode == 2
    assert "b\\xe4d.json" in done.stderr
