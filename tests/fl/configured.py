"""Configurations of systems, as short as can be."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from privplan.accountant.errors import PrivplanError
from privplan.fl.declarations.packages import built_in
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import parse

SYSTEMS = built_in()
AVERAGE = SYSTEMS["uldp-avg"]

BASE = {"run": {"system": '"uldp-avg"'}, "data": {"name": '"breast-cancer"'}}


def written(system: str, **tables: dict[str, str]) -> bytes:
    """Return a configuration of a system: what it must have, and these keys."""
    config = {"run": {"system": f'"{system}"', "rounds": "2"}, "data": dict(BASE["data"])}
    if SYSTEMS.get(system, AVERAGE).promises:
        searched = SYSTEMS.get(system, AVERAGE).noise_given is None
        config["privacy"] = {"noise_multiplier": "5.0"} if searched else {"epsilon": "5.0"}
    if system == "uldp-group":
        config["uldp"] = {"group_records": "4"}
    if system == "statistics":
        config["run"]["rounds"] = "1"
        config["statistics"] = {"row_norm": "6.0"}
    if system.startswith("delm"):
        config["run"]["rounds"] = "1"
        config["delm"] = {"row_norm": "6.0"}
    if system.startswith("fedpower"):
        config["fedpower"] = {"rank": "2", "row_norm": "6.0"}
    if system in ("flame-double", "flame-topk"):
        config["flame"] = {"chosen": "2"}
    if system == "fedpower-one-shot":
        config["run"]["rounds"] = "1"
    for name, keys in tables.items():
        config[name] = {**config.get(name, {}), **keys}
    return "".join(
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in keys.items())
        for name, keys in config.items()
    ).encode()


def read(system: str, **tables: dict[str, str]) -> Settings:
    return parse(written(system, **tables), "run.toml")


def read_lines(usual: dict[str, str], tables: dict[str, str]) -> Settings:
    """Return what a file of these tables says; `tables` take the place of usual ones."""
    text = "".join(f"[{name}]\n{lines}\n" for name, lines in {**usual, **tables}.items())
    return parse(text.encode(), "run.toml")


def assert_refused(written: Callable[[], object], what: str) -> None:
    """What is written is refused with these words, and with a way out."""
    with pytest.raises(PrivplanError, match=what) as caught:
        written()
    assert caught.value.next_step
