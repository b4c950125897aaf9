"""Declarations: every list of systems and keys follows from them, and unsound ones are refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.cli.pages import topics
from privplan.fl.declarations.checking import require_sound
from privplan.fl.declarations.declaration import Declaration, Table
from privplan.fl.declarations.registry import declaration_of, keys_by_table
from privplan.fl.declarations.toml_key import Key
from privplan.fl.declarations.toml_keys import OPTIONAL_KEYS, SHARED_KEYS
from privplan.fl.frame.expected_log import NotStated, phase_of
from privplan.fl.settings.schema import tables_of
from privplan.fl.settings.toml_file import parse
from privplan.fl.uldp.settings import TABLE

from ..cases import for_each
from .configured import AVERAGE, SYSTEMS, read

# --- ours -----------------------------------------------------------------------------------------


@for_each("system", SYSTEMS.values(), ids=SYSTEMS)
def test_every_declaration_is_sound(system: Declaration) -> None:
    require_sound(system)
    for reference in (system.make, system.determines):
        assert reference is None or system.load(reference) is not None


@for_each(
    ("table", "key"),
    [(table, key) for table, keys in keys_by_table().items() for key in keys],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_every_key_has_a_range_and_is_refused_outside_of_it_by_name(table: str, key: Key) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(f"[{table}]\n{key.name} = [[1.5]]\n".encode(), "run.toml")
    assert f"`{key.name}`" in caught.value.what
    assert f"[{table}]" in caught.value.what


@for_each("name", SYSTEMS)
def test_what_a_system_declares_can_be_written(name: str) -> None:
    found = read(name)
    assert found.system is SYSTEMS[name]
    assert set(found.to_json()) == set(tables_of(SYSTEMS[name])) - {"log", "ledger"}
    assert found.data.users > 1
    kind = SYSTEMS[name].table
    assert (found.table is None) == (kind is None)


SCHEMA = '{"columns": {"a": {"kind": "boolean"}}, "label": {"kind": "binary"}}'

VALUES = {
    ("data", "selection"): '"public"',
    ("data", "selection_source"): '"an example"',
    ("data", "columns"): '"films.csv"',
    ("data", "fewest_ratings"): "20",
    ("data", "largest_rating"): "10.0",
    ("data", "schema"): f"'{SCHEMA}'",
    ("privacy", "sampling_rate"): "0.5",
    ("privacy", "normalisation_noise"): "5.0",
    ("privacy", "noise"): '"independent"',
    ("privacy", "cohorts"): "3",
    ("privacy", "bands"): "2",
    ("privacy", "blocks"): "1",
    ("training", "weighting"): '"uniform"',
    ("training", "clip"): "0.5",
    ("training", "local_rate"): "0.5",
    ("training", "local_epochs"): "2",
    ("training", "batch"): "2",
    ("training", "dropout"): "0.0",
    ("training", "class_weights"): "[1.0, 2.0]",
    ("evaluation", "held_out"): "0.5",
    ("evaluation", "held_out_noise"): "3.0",
    ("uldp", "group_records"): "4",
    ("uldp", "record_rate"): "0.5",
}


@for_each("name", SYSTEMS)
@for_each(("table", "key"), VALUES)
def test_a_key_is_taken_where_it_is_declared_and_nowhere_else(
    name: str, table: str, key: str
) -> None:
    tables: dict[str, dict[str, str]] = {table: {key: VALUES[table, key]}}
    if key == "normalisation_noise":
        tables["data"] = {"name": '"digits"', "normalisation": '"private"'}
    if SYSTEMS[name].has_use_for(table, key):
        if key in ("cohorts", "bands", "blocks"):
            tables["privacy"] |= {"noise": '"banded"', "cohorts": "3"}
        if table == "evaluation":
            tables["evaluation"] |= {"test": '"held-out"', "held_out_noise": "3.0"}
            tables["data"] = {"schema": VALUES["data", "schema"]}
        if key == "schema" or table == "evaluation":
            tables["data"] |= {"name": '"table"', "users_at_most": "9", "user": '"b"'}
            tables["data"] |= {"label": '"c"', "silos": '{ a = "a.csv", b = "b.csv", c = "c.csv" }'}
            if table == "evaluation" and SYSTEMS[name].units == ("record",):  # each votes by itself
                del tables["data"]["user"]
            if SYSTEMS[name].aggregations == ("shuffle",):  # users send for themselves
                del tables["data"]["users_at_most"]
                tables["data"] |= {"silos": '{ a = "a.csv" }', "users": "9"}
                tables["data"] |= {"users_public": '"a register"', "users_list": '"list.csv"'}
        elif table == "data":
            tables["data"] |= {"name": '"ratings"', "path": '"u.data"', "users": "9"}
            how = ("columns",) if key == "columns" else ("selection", "selection_source")
            tables["data"] |= {key: VALUES["data", key] for key in how}
        assert read(name, **tables)
        return
    with pytest.raises(
        InvalidInput, match=f"{name} (has no use for it|cannot pay|promises noth|trains no)"
    ):
        read(name, **tables)


def test_the_keys_of_only_some_systems_are_those_that_one_has_and_one_has_not() -> None:
    assert set(VALUES) >= set(OPTIONAL_KEYS)
    readers = any(system.has_use_for("data", "columns") for system in SYSTEMS.values())
    for table, key in OPTIONAL_KEYS:
        uses = [system.has_use_for(table, key) for system in SYSTEMS.values()]
        assert any(uses) or (table == "data" and not readers), key
        # All of ours run on tables, and those of other packages where they say so.
        assert not all(uses) or key == "schema", key
        assert key in [one.name for one in SHARED_KEYS[table]]


def test_the_page_lists_every_system_and_says_whose_a_key_is() -> None:
    page = topics.page("run")
    for name, system in SYSTEMS.items():
        assert f"\n  {name} " in page
        assert " ".join(system.summary.split()[:4]) in page
    assert "probability that a user joins a round (uldp-avg, uldp-sgd)" in " ".join(page.split())
    assert (
        "bound on one contribution, L2, 1e-9 to 1e9 (not for delm-basic, delm-enhanced, fedavg)"
        in " ".join(page.split())
    )


@for_each("name", SYSTEMS)
def test_aggregations_are_those_that_are_declared(name: str) -> None:
    for word in ("plain", "masked", "private-weighting"):
        tables = {"security": {"aggregation": f'"{word}"'}}
        if name == "disco":  # by default its noise is for sums that nobody sees the terms of
            tables["disco"] = {"noise": '"local"'}
        if word in SYSTEMS[name].aggregations:
            assert read(name, **tables).security.aggregation == word
        else:
            with pytest.raises(InvalidInput, match=f"{name} (has no weights|cannot sum)"):
                read(name, **tables)


def test_a_system_that_promises_nothing_protects_no_unit() -> None:
    assert [name for name, one in SYSTEMS.items() if not one.promises] == ["fedavg"]
    assert read("fedavg").privacy.unit is None
    with pytest.raises(InvalidInput, match="promises nothing"):
        read("fedavg", privacy={"delta": "1e-6"})


@for_each(
    ("name", "tables", "what"),
    [
        ("uldp-group", {"uldp": {"record_rate": "0.5"}, "training": {"batch": "4"}}, "both"),
        ("uldp-naive", {"uldp": {"as_published": "true"}, "privacy": {"epsilon": "8"}}, "epsilon"),
        ("uldp-sgd", {"uldp": {"as_published": "true"}}, "sound as it is published"),
        (
            "uldp-naive",
            {
                "uldp": {"as_published": "true"},
                "data": {"name": '"digits"', "normalisation": '"private"'},
                "privacy": {"normalisation_noise": "5.0"},
            },
            "as published cannot pay for it",
        ),
    ],
)
def test_rules_of_a_system_hold_for_it(name: str, tables: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        read(name, **tables)


def test_lists_and_pages_load_nothing_heavy() -> None:
    program = (
        "import sys; from privplan.cli.pages.topics import page; page('run'); "
        "from privplan.fl.declarations.registry import declared; declared(); "
        "print([name for name in ('numpy', 'scipy', 'torch') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_rounds_of_a_system_that_determines_nothing_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are not stated, which is neither right nor wrong; so is a system that is not known."""
    monkeypatch.setitem(SYSTEMS, "uldp-avg", replace(AVERAGE, determines=None))
    intent: Any = SimpleNamespace(phase="train")
    with pytest.raises(NotStated, match="rounds of uldp-avg"):
        phase_of(lambda _, key: {"system": "uldp-avg"}.get(key), intent, None)
    with pytest.raises(NotStated, match=r"\[run\] system from-elsewhere"):
        phase_of(lambda _, key: {"system": "from-elsewhere"}.get(key), intent, None)


# --- what is refused ------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class _Undeclared:
    """A table whose field is no declared key."""

    share: float = 0.5


def _bad_table(**changes: Any) -> dict[str, Any]:
    return {"table": replace(TABLE, **changes)}


@for_each(
    ("changes", "field"),
    [
        ({"name": "Uldp Avg"}, "`name`"),
        ({"name": 3}, "`name`"),
        ({"summary": ""}, "`summary`"),
        ({"version": 2}, "`version`"),
        ({"version": True}, "`version`"),
        ({"make": "no reference"}, "`make`"),
        ({"make": None}, "`make`"),
        ({"measure": print}, "`measure`"),
        ({"determines": 3}, "`determines`"),
        ({"promises": 1}, "`promises`"),
        ({"trains": "no"}, "`trains`"),
        ({"sealed": {}}, "`sealed`"),
        ({"rules": (3,)}, "`rules`"),
        ({"rounds": 0}, "`rounds`"),
        ({"phases": ()}, "`phases`"),
        ({"phases": "train"}, "`phases`"),
        ({"phases": ["train"]}, "`phases`"),
        ({"phases": ("train", "train")}, "`phases`"),
        ({"phases": ("train", 3)}, "`phases`"),
        ({"phases": ("Train",)}, "`phases`"),
        ({"phases": ("normalise", "train")}, "`phases` must not name the phase of all systems"),
        ({"aggregations": ()}, "`aggregations`"),
        ({"aggregations": ("plane",)}, "`aggregations`"),
        ({"units": ("person",)}, "`units`"),
        ({"uses": ("training.clipp",)}, "`uses`"),
        ({"uses": "training.clip"}, "`uses`"),
        ({"trains": False}, "`uses`"),
        ({"ignores": ("shares",)}, "`ignores`"),
        (_bad_table(group="share"), "`table.group`"),
        ({"table": {}}, "`table`"),
        (_bad_table(name="run"), "`table.name`"),
        (_bad_table(about=""), "`table.about`"),
        (_bad_table(settings=dict), "`table.settings`"),
        (_bad_table(keys=(), settings=_Undeclared), "`table.keys`"),
        (_bad_table(keys=TABLE.keys[1:]), "`table.keys`"),
        (_bad_table(keys=(*TABLE.keys, TABLE.keys[0])), "`table.keys`"),
        (
            _bad_table(keys=(replace(TABLE.keys[0], check=None), *TABLE.keys[1:])),
            "as_published` must have a range",
        ),
        (
            _bad_table(keys=(replace(TABLE.keys[0], default=""), *TABLE.keys[1:])),
            "as_published, default`",
        ),
        ({"adjust": 3}, "`adjust`"),
        ({"adjust": lambda _, usual: replace(usual, clip=-1.0)}, "clip"),
        ({"adjust": lambda _, usual: replace(usual, rounds=0)}, "rounds"),
        ({"adjust": lambda _, usual: usual}, "clip"),  # which it uses, and has no bound for
        ({"adjust": lambda _: None}, "adjust, on heart-disease"),
        ({"adjust": lambda *_: None}, "adjust, on heart-disease` must give `Defaults`"),
        ({"adjust": lambda *_: sys.exit(3)}, "adjust, on heart-disease"),
        (
            _bad_table(keys=(replace(TABLE.keys[0], check=lambda **_: None), *TABLE.keys[1:])),
            "as_published` must have a range that returns what it checked",
        ),
    ],
)
def test_an_unsound_declaration_is_refused_by_package_and_field(
    changes: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        require_sound(replace(AVERAGE, package="other-toys", **changes))
    assert caught.value.what.startswith("Package other-toys: ")
    assert field in caught.value.what
    assert caught.value.next_step


def test_an_unknown_name_lists_all_and_suggests_one() -> None:
    with pytest.raises(
        InvalidInput,
        match=r"one of delm-linear, delm-basic, delm-enhanced, disco.*Did you mean uldp-s",
    ):
        declaration_of("uldp-sdg")
    for odd in (3, None, ["uldp-avg"]):
        with pytest.raises(InvalidInput, match="`system` must be one of"):
            declaration_of(odd)


def test_every_field_of_a_declaration_is_said_what_it_is() -> None:
    said = f"{Declaration.__doc__} {Table.__doc__}"
    for item in (*fields(Declaration), *fields(Table)):
        assert f"`{item.name}`" in said or item.name in ("keys", "name"), item.name
