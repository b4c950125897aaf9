"""What describes a run to a program: a file, tables or settings, all checked alike."""

from __future__ import annotations

import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privplan as pp
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.fl.running import Configuration
from privplan.fl.running.toml_writer import toml_bytes
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import read_settings

from .wards import Tables, ward, written

EARLIER: Final = Path(__file__).parents[1] / "audit" / "earlier" / "runs.zip"


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_a_description_is_checked_as_a_file_is() -> None:
    cases: list[tuple[Any, str]] = [
        (ward(run={"round": 3}), "unknown key `round` in .run.*Did you mean `rounds`"),
        (ward(wards={"rounds": 3}), "unknown table `wards`"),
        (ward(privacy={"delta": 2.0}), "`delta`"),
        (ward(privacy={"epsilon": None}), "`epsilon` in .privacy. is a NoneType.*Leave it out"),
        (ward(run={"rounds": object()}), "`rounds` in .run. is an object"),
        (ward(run={"rounds": {"many": 3}}), "`rounds` must be a positive integer"),
        (ward(run={"rounds": {3}}), "`rounds` in .run. is a set"),
        ({"run": 3}, "'run' to be a table; it is an int"),
        ({3: {}}, "is an int"),
        ([("run", {})], "must be a mapping of tables; it is a list"),
        ({"run": {"system": "uldp-avg"}}, "lacks `name` in .data."),
        (ward(data={"path": "\ud800"}), "half a character"),
        ("no-such.toml", "no-such.toml cannot be read"),
    ]
    for described, message in cases:
        for refusing in (pp.plan_run, lambda own: pp.run(own, "out")):
            with pytest.raises((InvalidInput, Unsupported), match=message):
                refusing(described)
    assert not Path("out").exists()


def test_numbers_of_numpy_are_numbers() -> None:
    tables = ward(
        run={"rounds": np.int64(3)},
        data={"name": np.str_("breast-cancer"), "users": np.array(20)},
        privacy={"delta": np.float64(1e-3), "observers": ("model",)},
        log={"save_models": np.bool_(True)},
    )
    plain = ward(privacy={"observers": ["model"]}, log={"save_models": True})
    assert Configuration.of(tables).settings == Configuration.of(plain).settings


def configurations() -> dict[str, bytes]:
    """Return the configurations of earlier runs: every system, aggregation and sampling."""
    with zipfile.ZipFile(EARLIER) as packed:
        names = [name for name in packed.namelist() if name.endswith("/config.toml")]
        return {name: packed.read(name) for name in names}


EXTRA: Final[dict[str, Tables]] = {
    "paths": {
        "data": {"name": "mnist", "path": 'data/mnist \\ "x" é', "silos": 3},
        "log": {"sign_key": "key.pem", "fsync": "always", "save_models": True},
        "evaluation": {"test": "none"},
    },
    "weighted": {"security": {"aggregation": "private-weighting", "processes": 2}},
    "coalition": {"privacy": {"observer": "server+1"}, "security": {"aggregation": "masked"}},
    "dropout": {"training": {"model": "mlp", "dropout": 0.25}},
    "accepted": {"privacy": {"accept_delta": True, "delta": 0.1}},
}


def test_settings_are_written_so_that_they_read_back() -> None:
    described = {**configurations(), **{name: toml_bytes(ward(**x)) for name, x in EXTRA.items()}}
    assert len(described) > 60
    for name, content in described.items():
        Path("run.toml").write_bytes(content)
        expected = read_settings("run.toml")
        configuration = Configuration.of(expected)
        assert configuration.settings == expected, name
        Path("again.toml").write_bytes(configuration.content)
        assert read_settings("again.toml") == expected, name
        assert read_settings("again.toml").to_json() == expected.to_json(), name


def test_settings_that_no_file_says_are_refused() -> None:
    from dataclasses import replace

    usual = read_settings(written(ward()))
    cases: list[tuple[Callable[[], Settings], str]] = [
        (lambda: replace(usual, privacy=replace(usual.privacy, group=3)), "`group` in .privacy."),
        (lambda: replace(usual, run=replace(usual.run, rounds=0)), "`rounds`"),
        (lambda: replace(usual, run=replace(usual.run, system="uldp-avgg")), "`system`"),
        (lambda: replace(usual, privacy=replace(usual.privacy, noise_multiplier=None)), "epsilon"),
        (lambda: replace(usual, security=replace(usual.security, dropouts=1)), "no use for"),
    ]
    for changed, message in cases:
        with pytest.raises(InvalidInput, match=message):
            pp.plan_run(changed())


VALUES = st.one_of(
    st.text(st.characters(exclude_categories=("Cs",))),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
)


@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
        st.dictionaries(
            st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
            VALUES | st.lists(VALUES, max_size=3),
            max_size=4,
        ),
        max_size=4,
    )
)
@settings(max_examples=200, deadline=None)
def test_flat_tables_read_back(tables: Tables) -> None:
    again = tomllib.loads(toml_bytes(tables).decode())
    assert again == tables
    assert repr(again) == repr(tables)  # True is not 1, and -0.0 is not 0.0
