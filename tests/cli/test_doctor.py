"""`privplan doctor`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from privplan.cli.commands import doctor as doctor_command

from ..cases import for_each
from .conftest import FakeLibrary, Run

ROOT = Path(__file__).parents[2]


def test_a_sound_installation_passes(run: Run) -> None:
    outcome = run("doctor")
    assert outcome.code == 0, outcome.out
    assert outcome.out.count("passed: epsilon in [4.37") == 2
    assert run("doctor", "-q").out == "0\n"


@pytest.mark.usefixtures("library")
def test_the_json_covers_what_the_project_declares(run: Run) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    result = run("doctor", "--json").json["result"]
    assert [f"{name}" for name in result["dependencies"]] == [
        line.split(">")[0] for line in project["dependencies"]
    ]
    assert all(result["dependencies"].values())
    assert set(result["extras"]) == set(project["optional-dependencies"])
    for name, extra in result["extras"].items():
        assert extra["installed"] is not bool(extra["missing"])
        assert f"[{name}]" in extra["install"]


@pytest.mark.usefixtures("library")
def test_a_wrong_number_fails_the_check(run: Run) -> None:
    outcome = run("doctor", "--json")
    assert outcome.code == 1
    assert outcome.json["ok"] is False
    assert [test["ok"] for test in outcome.json["result"]["self_test"]] == [False, False]


def test_an_engine_that_breaks_fails_the_check(run: Run, library: FakeLibrary) -> None:
    library.answer = ZeroDivisionError("oops")
    outcome = run("doctor")
    assert outcome.code == 1
    assert "FAILED: ZeroDivisionError: oops" in outcome.out


def test_a_missing_package_fails_the_check(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor_command._version
    monkeypatch.setattr(
        doctor_command, "_version", lambda name: None if name == "scipy" else real(name)
    )
    outcome = run("doctor")
    assert outcome.code == 1
    assert "MISSING" in outcome.out


@for_each(
    ("origin", "expected"),
    [
        ({}, "'privplan[fl]'"),
        (
            {"url": "file:///a%20b", "dir_info": {"editable": True}},
            "-e '/a b[fl]'",
        ),
        ({"url": "file:///src", "dir_info": {}}, "'/src[fl]'"),
        (
            {"url": "https://h/r.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "'privplan[fl] @ git+https://h/r.git@abc'",
        ),
        (
            {"url": "https://h/privplan.whl", "archive_info": {}},
            "'privplan[fl] @ https://h/privplan.whl'",
        ),
    ],
)
def test_an_extra_is_installed_from_where_privplan_came(
    origin: dict[str, object], expected: str
) -> None:
    assert doctor_command._requirement("fl", origin) == expected
