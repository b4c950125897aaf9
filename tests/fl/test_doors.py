"""The doors of the life cycle: what a program gives by mistake is refused; nothing is written."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.fl.running import RunInterrupted
from privplan.fl.settings.toml_file import read_settings

from .wards import command, ward, written


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def endless() -> list[Any]:
    held: list[Any] = []
    held.append(held)
    return held


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        pytest.param("run", "rounds", 10**5000, id="rounds"),
        pytest.param("privacy", "noise_multiplier", Fraction(10**400), id="noise"),
        ("privacy", "observers", endless()),
    ],
)
def test_a_value_without_an_end_is_refused_by_its_key(table: str, key: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=rf"`{key}` in \[{table}\]"):
        pp.plan_run(ward(**{table: {key: value}}))


@pytest.mark.parametrize("field", ["run", "data", "privacy", "training", "security", "log"])
def test_a_table_of_settings_that_is_none_is_refused_by_its_name(field: str) -> None:
    settings = read_settings(written(ward()))
    with pytest.raises(InvalidInput, match=f"`{field}` must be"):
        replace(settings, **{field: {"rounds": 3}})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("table", "key", "value"),
    [
        ("run", "rounds", np.array([1.0, 2.0])),
        pytest.param("run", "rounds", 10**5000, id="rounds"),
        ("run", "seed", object()),
        ("data", "path", 3),
        ("privacy", "observer", float("nan")),
        ("privacy", "observers", np.float64(3.0)),
        pytest.param("log", "save_models", 10**5000, id="save_models"),
        ("log", "sign_key", ("a",)),
    ],
)
def test_settings_made_by_hand_hold_what_a_file_can(table: str, key: str, value: object) -> None:
    settings: Any = read_settings(written(ward()))
    odd = replace(settings, **{table: replace(getattr(settings, table), **{key: value})})
    with pytest.raises(InvalidInput, match="settings"):
        pp.run(odd, "out")
    assert not Path("out").exists()


def test_an_array_is_no_table() -> None:
    with pytest.raises(InvalidInput, match="`table` is ndarray"):
        replace(read_settings(written(ward())), table=np.array([1.0, 2.0]))


ODD_FOLDERS = {
    "nothing": None,
    "a number": 3,
    "bytes": b"out",
    "a null": "a\0b",
    "too long": "a" * 300,
    "half a character": "\ud800",
}


@pytest.mark.parametrize("name", ODD_FOLDERS)
def test_what_is_no_path_of_a_folder_is_refused(name: str) -> None:
    folder: Any = ODD_FOLDERS[name]
    before = set(Path().iterdir())
    calls: tuple[Callable[[], Any], ...] = (
        lambda: pp.run(ward(), folder),
        lambda: pp.resume(folder),
    )
    for call in calls:
        with pytest.raises(InvalidInput, match=r"`folder` must be a path|The folder .* cannot be"):
            call()
    assert set(Path().iterdir()) == before


def test_a_name_that_is_too_long_is_refused_by_the_command_too() -> None:
    code, said = command("run", written(ward()), "--out", "a" * 300)
    assert (code, said["error"]["what"][:10]) == (2, "The folder")


def test_what_is_no_function_no_head_and_no_truth_is_refused() -> None:
    pytest.importorskip("torch")
    odd: Any = 3
    with pytest.raises(InvalidInput, match="`report` must be a function; it is an int"):
        pp.run(ward(), "out", report=odd)
    with pytest.raises(InvalidInput, match="`accept_delta` must be true or false"):
        pp.run(ward(), "out", accept_delta=odd)
    assert not Path("out").exists()
    with pytest.raises(RunInterrupted):
        pp.run(ward(), "out", report=interrupting)
    with pytest.raises(InvalidInput, match="head must be 32 to 64 hexadecimal"):
        pp.resume("out", head=odd)
    with pytest.raises(InvalidInput, match="`report` must be a function"):
        pp.resume("out", report=odd)


def interrupting(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_folder_is_the_same_wherever_the_program_goes_meanwhile() -> None:
    """Else a run would write its model over that of another run of the same name."""
    pytest.importorskip("torch")
    Path("elsewhere/out").mkdir(parents=True)
    Path("elsewhere/out/checkpoint.npz").write_text("another run's")
    start = Path.cwd()

    def tell(*_: object) -> None:
        os.chdir(start / "elsewhere")

    assert pp.run(ward(), "out", report=tell).result.rounds == 3
    os.chdir(start)
    assert Path("elsewhere/out/checkpoint.npz").read_text() == "another run's"
    assert [path.name for path in Path("elsewhere/out").iterdir()] == ["checkpoint.npz"]
    assert (Path("out") / "model.npz").is_file()


def test_what_is_said_of_a_run_that_stopped_is_not_of_another_run_elsewhere() -> None:
    pytest.importorskip("torch")
    pp.run(ward(), "elsewhere/out")
    start = Path.cwd()

    def tell(*_: object) -> None:
        os.chdir(start / "elsewhere")
        raise KeyboardInterrupt

    with pytest.raises(RunInterrupted) as stopped:
        pp.run(ward(), "out", report=tell)
    os.chdir(start)
    assert "--resume" in stopped.value.next_step  # the one elsewhere is closed
    assert pp.resume("out").result.rounds == 3


def test_a_configuration_without_a_log_is_no_run_to_go_on_with() -> None:
    Path("out").mkdir()
    Path("out/config.toml").write_text("x")
    with pytest.raises(InvalidInput, match="is not an empty folder") as refused:
        pp.run(ward(), "out")
    assert refused.value.next_step == "Give a new folder."
