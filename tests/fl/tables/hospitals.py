"""Three hospitals' files, small, with patients that are in several of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput

SCHEMA = {
    "label": {"kind": "binary", "values": ["no", "yes"]},
    "columns": {
        "age": {"kind": "number", "range": [0, 110], "gap": 50, "gap_indicator": True},
        "sex": {"kind": "category", "values": ["f", "m"]},
        "stage": {"kind": "ordinal", "values": ["I", "II", "III"]},
        "smoker": {"kind": "boolean", "values": ["n", "y"]},
        "note": {"kind": "ignored"},
    },
}

HEADER = "patient,age,sex,stage,smoker,note,outcome"

SILOS = ("north", "south", "west")


MARKER = "Zyx-4711-Marker"
"""A patient who is on the public list and has no row, until a test gives rows."""

LISTED = (*(f"p{number}" for number in range(20)), "p88", MARKER)
"""The public list of patients, of whom two have no row."""


def rows(seed: int, count: int = 40) -> list[str]:
    """Return lines of a file, some of them with gaps, unknown words and quotes."""
    rng = np.random.default_rng(seed)
    words = (
        ("f", "m", "x"),
        ("I", "II", "III", ""),
        ("n", "y"),
        ("", "ok", '"a, b"'),
        ("no", "yes"),
    )
    return [
        ",".join(
            [
                f"p{rng.integers(20)}",
                f"{rng.normal(60, 20):.1f}",
                *(choices[rng.integers(len(choices))] for choices in words),
            ]
        )
        for _ in range(count)
    ]


def write(folder: Path, edited: Callable[[list[str]], list[str]] | None = None) -> None:
    """Write the files of the three hospitals; `edited` changes the lines of each."""
    for number, silo in enumerate(SILOS):
        lines = rows(number)
        if edited is not None:
            lines = edited(lines)
        text = "\n".join([HEADER, *lines]) + "\n"
        (folder / f"{silo}.csv").write_bytes(text.encode("utf-8", "surrogateescape"))
    (folder / "patients.csv").write_text("\n".join(["patient", *LISTED]) + "\n")


def listed(tables: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a configuration in which the list of patients is public."""
    data = {key: value for key, value in tables["data"].items() if key != "users_at_most"}
    data |= {
        "users_public": "the register of the study, doi 10.1/2",
        "users_list": "patients.csv",
        "users": len(LISTED),
    }
    return {**tables, "data": data}


def configuration(system: str = "uldp-avg", **tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a configuration of a run on them, for a working directory that holds the files."""
    data = {
        "name": "table",
        "silos": {silo: f"{silo}.csv" for silo in SILOS},
        "user": "patient",
        "label": "outcome",
        "users_at_most": 30,
        "columns": SCHEMA["columns"],
    }
    if system.startswith("fedpower"):  # a matrix is a table without a label
        data["columns"] = {**SCHEMA["columns"], "outcome": {"kind": "ignored"}}
        del data["label"]
    else:
        data["label"] = {"column": "outcome", **SCHEMA["label"]}
    privacy = {} if system == "fedavg" else {"privacy": {"noise_multiplier": 2.0}}
    if system in ("delm-basic", "delm-enhanced"):  # noise follows from parts of epsilon
        privacy = {"privacy": {"epsilon": 8.0}}
    if system.startswith("flame"):  # users send for themselves
        data["silos"] = {"everywhere": list(data["silos"].values())}
    usual = {"run": {"system": system, "rounds": 2}, "data": data, **privacy}
    said = {name: {**usual.get(name, {}), **tables.get(name, {})} for name in {**usual, **tables}}
    hidden = said.get("security", {}).get("aggregation") == "private-weighting"
    public = "users_public" in said["data"]
    return listed(said) if public or hidden or system.startswith("flame") else said


def assert_data_refused(
    folder: Path, tables: dict[str, Any], data: dict[str, Any], names: tuple[str, ...]
) -> None:
    """A run in this folder is refused with these keys of [data] (None: without), and names them."""
    write(folder)
    given = {**tables["data"], **data}
    tables["data"] = {key: value for key, value in given.items() if value is not None}
    with pytest.raises(InvalidInput) as caught:
        pp.run(tables, "out")
    for name in names:
        assert name in str(caught.value)
    assert not (folder / "out").exists()
