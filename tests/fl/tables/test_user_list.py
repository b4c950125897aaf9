"""Public lists of users: who is on one takes part, and no row decides who that is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.preparation import prepare
from privplan.fl.running.run_data import federation_of
from privplan.fl.tables.federated_table import files_of
from privplan.fl.tables.schema_text import schema_in
from privplan.fl.tables.table import TableColumns
from privplan.fl.tables.user_list import public_users
from privplan.fl.tables.value_checks import checked_table

from ...cases import for_each
from .hospitals import LISTED, MARKER, SCHEMA, assert_data_refused, configuration, listed, write
from .test_table_runs import facts, ran, without

FLAME: dict[str, dict[str, Any]] = {"flame": {"transport": "ideal"}}


def federated(tables: dict[str, Any]) -> Any:
    """Return the federation of a configuration, in a folder with the files."""
    return federation_of(Configuration.of(tables).settings)[0]


def test_who_is_on_the_list_takes_part_with_rows_or_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    private, public = federated(configuration()), federated(listed(configuration()))
    assert private.users == 20
    assert public.users == len(LISTED) == 22
    assert public.records == private.records
    (places,) = np.nonzero(public.counts.sum(axis=1))
    assert np.array_equal(public.names[places], private.names)


def test_no_row_moves_anybody_else_in_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that draws users knows places, so a place must stand for the same person."""
    monkeypatch.chdir(tmp_path)
    said = listed(configuration())
    write(tmp_path)
    whole = federated(said)
    write(tmp_path, without)
    lacking = federated(said)
    assert np.array_equal(whole.names, lacking.names)
    gone = np.flatnonzero((whole.counts != lacking.counts).any(axis=1))
    assert len(gone) == 1
    assert lacking.counts[gone].sum() == 0


def test_rows_of_others_are_left_out_each_by_its_own_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = listed(configuration())
    write(tmp_path)
    alone = federated(said)
    write(tmp_path, lambda lines: [*lines, "p999,40,f,I,y,,yes", "P1,40,f,I,y,,yes"])
    beside = federated(said)
    for name in ("features", "labels", "user", "silo", "names"):
        assert np.array_equal(getattr(alone, name), getattr(beside, name)), name


def test_an_id_is_the_same_in_the_list_as_in_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Space around it, the case where that is said, and several lines make no difference."""
    monkeypatch.chdir(tmp_path)
    said = listed(configuration())
    write(tmp_path)
    usual = federated(said)
    lines = ["site,patient", *(f"x, {user.upper()} " for user in LISTED), "y,P1"]
    (tmp_path / "patients.csv").write_text("\n".join(lines) + "\n")
    said["data"]["format"] = {"id_case": "lower"}
    assert federated(said).users == len(LISTED)
    assert federated(said).records == usual.records


def test_a_list_may_be_a_parquet_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pyarrow = pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    parquet.write_table(pyarrow.table({"patient": list(LISTED)}), "patients.parquet")
    said = listed(configuration())
    usual = federated(said)
    said["data"]["users_list"] = "patients.parquet"
    assert np.array_equal(federated(said).names, usual.names)


@for_each(
    "lines, names",
    [
        (["patient", *LISTED[1:]], ("patients.csv", "21 users", "users = 22")),
        (["patient", *LISTED, "p500"], ("23 users",)),
        (["person", *LISTED], ("patients.csv", "'patient'")),
        (["patient", *LISTED[:3], '"p3', *LISTED[4:]], ("patients.csv", "line 5", "quote")),
        (["patient,site", *(f"{user},a" for user in LISTED), " ,a"], ("line 24", "no id")),
        ([], ("patients.csv", "header")),
    ],
)
def test_a_list_is_public_so_what_is_wrong_with_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: list[str], names: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    (tmp_path / "patients.csv").write_text("\n".join(lines) + "\n" * bool(lines))
    with pytest.raises(InvalidInput) as caught:
        pp.run(configuration("flame-simple", **FLAME), "out")
    for name in names:
        assert name in str(caught.value)
    assert not (tmp_path / "out").exists()


@for_each(
    "data, names",
    [
        ({"users_public": None}, ("says `users_list`", "lacks `users_public`")),
        ({"users_list": None}, ("says `users_public`", "lacks `users_list`")),
        ({"users": None}, ("says `users_public`", "lacks `users`")),
        ({"user": None}, ("says `users_public`", "lacks `user`")),
        ({"users_at_most": 30}, ("`users_at_most` with `users_public`",)),
        ({"users_public": "see patients.csv"}, ("`path`", "`users_public`")),
        ({"users_public": "/home/me/list"}, ("`users_public`", "file")),
    ],
)
def test_what_is_said_of_a_list_goes_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any], names: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_data_refused(tmp_path, configuration("flame-simple", **FLAME), data, names)


HIDDEN = {"security": {"aggregation": "private-weighting"}}


@for_each("system, tables", [("flame-simple", FLAME), ("uldp-avg", HIDDEN)])
def test_messages_of_each_user_need_a_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, tables: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    said = configuration(system, **tables)
    gone = ("users_public", "users_list", "users")
    said["data"] = {key: value for key, value in said["data"].items() if key not in gone}
    said["data"]["users_at_most"] = 30
    with pytest.raises(InvalidInput, match="lacks `users_public`") as caught:
        pp.run(said, "out")
    assert "private" in str(caught.value)


@for_each("system, tables", [("flame-simple", FLAME), ("uldp-avg", HIDDEN)])
def test_settings_that_are_made_by_hand_need_a_list_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, tables: dict[str, Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    settings = Configuration.of(configuration(system, **tables)).settings
    for keys, names in (
        ({"users_list": None}, "not which file has it"),
        ({"users_list": None, "users_public": None}, "lacks `users_public`"),
    ):
        with pytest.raises(InvalidInput, match=names):
            prepare(replace(settings, data=replace(settings.data, **keys)))


def test_a_data_set_of_a_paper_has_a_list_already(tmp_path: Path) -> None:
    said = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {"name": "breast-cancer", "users_public": "x"},
        "privacy": {"epsilon": 8.0},
    }
    with pytest.raises(InvalidInput, match="`users_public`"):
        pp.run(said, tmp_path / "out")


def test_a_log_says_who_says_that_the_list_is_public_and_no_name_on_it(tmp_path: Path) -> None:
    folder, log = ran(tmp_path / "run", configuration("flame-simple", **FLAME))
    opening = json.loads(log.splitlines()[0])
    data = opening["configuration"]["data"]
    assert data["users_public"] == "the register of the study, doi 10.1/2"
    assert data["users"] == opening["population"]["users"] == len(LISTED)
    assert not {"users_list", "users_at_most"} & data.keys()
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "config.toml":
            assert b"patients.csv" not in path.read_bytes()
            assert MARKER.encode() not in path.read_bytes()


def test_more_users_who_send_hide_more(tmp_path: Path) -> None:
    """The number of a guarantee is made for the list, whoever of it has a row."""

    def epsilon(folder: Path, more: int) -> float:
        users = [*LISTED, *(f"q{number}" for number in range(more))]
        folder.mkdir()
        write(folder)
        (folder / "patients.csv").write_text("\n".join(["patient", *users]) + "\n")
        said = configuration("flame-simple", **FLAME)
        said["data"]["users"] = len(users)
        with pytest.MonkeyPatch.context() as patched:
            patched.chdir(folder)
            pp.run(said, "out")
        report = audit_budget(folder / "out")
        assert report.supported
        return report.total.upper

    assert epsilon(tmp_path / "more", 100) < epsilon(tmp_path / "few", 0)


def test_another_list_is_another_data_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that goes on goes on with the same users."""
    from privplan.fl.flame.system import Flame

    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    step = Flame.round

    def stopping(system: Any, number: int, *more: Any) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        return step(system, number, *more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Flame, "round", stopping)
        with pytest.raises(KeyboardInterrupt):
            pp.run(configuration("flame-simple", **FLAME), "out")
    kept = (tmp_path / "patients.csv").read_text()
    (tmp_path / "patients.csv").write_text(kept.replace("p88", "p89"))
    with pytest.raises(InvalidInput, match="same data"):
        pp.resume("out")
    (tmp_path / "patients.csv").write_text(kept)
    assert pp.resume("out").result.rounds == 2


def test_settings_with_a_list_are_written_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    outcome = pp.run(configuration("flame-simple", **FLAME), "out")
    again = pp.run(outcome.prepared.settings, "again")
    assert again.prepared.settings == outcome.prepared.settings


def test_whoever_owns_the_data_is_told_which_ids_are_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, lambda lines: [*lines[:2], "p999,40,f,I,y,,yes"])
    data = Configuration.of(listed(configuration())).settings.data
    columns = TableColumns(user=data.user, label=data.label)
    checked = checked_table(
        files_of(data), schema_in(data.schema or ""), columns, listed=public_users(data)
    )
    found = [one for one in checked.findings if "list of users" in one.why]
    assert [(one.file, one.column, one.lines) for one in found] == [
        (f"{silo}.csv", "patient", (4,)) for silo in data_silos(data)
    ]


def data_silos(data: Any) -> tuple[str, ...]:
    return tuple(silo for silo, _ in data.silo_files)


def test_a_list_changes_no_number_of_a_system_that_needs_none(tmp_path: Path) -> None:
    """It is allowed there: users are then exactly as many as are listed."""
    said = configuration(run={"seed": 5})
    said["data"]["users_at_most"] = len(LISTED)
    private, of_private = ran(tmp_path / "private", said)
    public, of_public = ran(tmp_path / "public", listed(said))
    with np.load(private / "model.npz") as one, np.load(public / "model.npz") as two:
        assert np.array_equal(one["parameters"], two["parameters"])
    for one, two in zip(facts(of_private)[1:], facts(of_public)[1:], strict=True):
        assert one == two


@for_each("unit", ["entry"])
@for_each("system", ["fedpower", "fedpower-power", "fedpower-original", "fedpower-private"])
def test_a_cell_is_no_entry_of_a_matrix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, unit: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    said = configuration(
        system,
        privacy={"unit": unit, "neighbours": "replace-one"},
        fedpower={"rank": 2, "row_norm": 2.0, "largest_change": 2.0},
    )
    with pytest.raises(InvalidInput, match="takes the whole row with it"):
        pp.run(said, "out")


@for_each("system", ["fedpower-original", "fedpower-utility"])
def test_steps_of_nodes_would_tell_that_a_silo_has_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    published = {"rank": 2, "row_norm": 2.0, "as_published": True, "synchronise_every": 2}
    with pytest.raises(InvalidInput, match="how many rows a silo has is private"):
        pp.run(configuration(system, fedpower=published), "out")


def test_schema_columns_of_the_list_are_no_columns_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list has the ids; what else stands in it is nobody's feature."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    lines = ["patient,age", *(f"{user},1" for user in LISTED)]
    (tmp_path / "patients.csv").write_text("\n".join(lines) + "\n")
    assert federated(listed(configuration())).features.shape[1] == len(
        schema_in(json.dumps({"columns": SCHEMA["columns"]})).feature_names
    )


@for_each(
    "system, tables, names",
    [
        (
            "uldp-avg",
            {**HIDDEN, "uldp": {"as_published": True}},
            ("as_published = true", "somebody who has no row"),
        ),
        (
            "flame-topk",
            {"flame": {"transport": "ideal", "chosen": 2, "padded_to": 10}},
            ("padded_to = 10", "would tell of them"),
        ),
        (
            "flame-simple",
            {**FLAME, "data": {"silos": {"north": "north.csv", "south": "south.csv"}}},
            ("silos = 2", "send for themselves", "files of one silo"),
        ),
    ],
)
def test_what_rows_would_decide_is_refused_whatever_they_hold(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    tables: dict[str, Any],
    names: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    with pytest.raises(InvalidInput) as caught:
        pp.run(configuration(system, **tables), "out")
    for name in names:
        assert name in str(caught.value)
    assert not (tmp_path / "out").exists()


@for_each("path", [".", "..", "a", "10"])
def test_a_source_names_no_file_by_a_part_of_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.chdir(tmp_path)
    said = listed(configuration())
    said["data"] |= {"users_list": path, "users_public": "the data of the ward, vol. 103."}
    assert Configuration.of(said).settings.data.users_list == Path(path)
    said["data"] |= {"users_list": "ward", "users_public": "the data of the (ward)."}
    with pytest.raises(InvalidInput, match="`path`"):
        Configuration.of(said)
