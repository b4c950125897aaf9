"""Runs on a table: they are what they promise, and show no record but through a noised number."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.errors import InvalidInput
from privplan.audit.budget import audit_budget
from privplan.fl.parties.transcripts import FOLDER, read_transcript

from ...cases import for_each
from .hospitals import MARKER, SCHEMA, SILOS, assert_data_refused, configuration, write

SYSTEMS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("uldp-avg", {}),
    ("uldp-avg", {"privacy": {"noise_multiplier": 2.0, "sampling_rate": 0.5}}),
    ("uldp-avg", {"privacy": {"noise": "banded", "cohorts": 2, "noise_multiplier": 2.0}}),
    ("uldp-avg", {"security": {"aggregation": "masked"}, "training": {"weighting": "records"}}),
    ("uldp-avg", {"security": {"aggregation": "shares"}}),
    ("uldp-sgd", {"training": {"weighting": "records"}}),
    ("uldp-naive", {}),
    ("uldp-group", {"uldp": {"group_records": 4}}),
    (
        "statistics",
        {
            "run": {"rounds": 1},
            "privacy": {"unit": "user", "noise_multiplier": 2.0},
            "statistics": {"rows_per_user": 6, "row_norm": 2.0},
        },
    ),
    ("statistics", {"run": {"rounds": 1}, "statistics": {"row_norm": 2.0}}),
    ("fedpower-one-shot", {"run": {"rounds": 1}, "fedpower": {"rank": 2, "row_norm": 2.0}}),
    ("fedpower-power", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
    ("fedpower", {"run": {"rounds": 1}, "fedpower": {"rank": 2, "row_norm": 2.0}}),
    ("fedpower-original", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
    ("fedpower-utility", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
    ("fedpower-private", {"fedpower": {"rank": 2, "row_norm": 2.0, "divisor": 60}}),
    (
        "fedpower-private",
        {"fedpower": {"rank": 2, "row_norm": 2.0, "as_published": True, "synchronise_every": 2}},
    ),
    ("disco", {"privacy": {"unit": "silo", "noise_multiplier": 2.0}}),
    (
        "disco",
        {"privacy": {"unit": "record", "noise_multiplier": 2.0}, "disco": {"divisor": 100}},
    ),
    ("delm-linear", {"run": {"rounds": 1}, "delm": {"row_norm": 2.0}}),
    (
        "delm-linear",
        {
            "run": {"rounds": 1},
            "privacy": {"unit": "user", "noise_multiplier": 2.0},
            "delm": {"row_norm": 2.0, "rows_per_user": 6, "loss": "logistic"},
        },
    ),
    ("delm-basic", {"delm": {"row_norm": 2.0, "pca": "gaussian", "objective": "once"}}),
    ("delm-basic", {"delm": {"row_norm": 2.0, "pca": "none", "sensitivity": "proven"}}),
    ("delm-basic", {"delm": {"row_norm": 2.0, "pca": "wishart", "components": 4}}),
    ("delm-enhanced", {"delm": {"row_norm": 2.0, "pca": "gaussian", "sensitivity": "proven"}}),
    ("delm-enhanced", {"training": {"model": "mlp"}, "delm": {"row_norm": 2.0, "pca": "none"}}),
)

LISTED_SYSTEMS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("flame-simple", {"flame": {"transport": "ideal"}}),
    ("flame-simple", {"flame": {"transport": "ideal", "randomizer": "responses", "steps": 4}}),
    ("flame-double", {"flame": {"transport": "ideal", "chosen": 4, "padded_to": 22}}),
    ("flame-topk", {"flame": {"transport": "ideal", "chosen": 2, "decoys": 3}}),
    (
        "uldp-avg",
        {
            "data": {"users_public": "x"},
            "privacy": {"noise_multiplier": 2.0, "sampling_rate": 0.5},
        },
    ),
)
"""Systems that run where the list of users is public, without a message that is encrypted."""

SENT_SYSTEMS: tuple[tuple[str, dict[str, dict[str, Any]]], ...] = (
    ("uldp-avg", {"security": {"aggregation": "masked"}}),
    ("uldp-avg", {"security": {"aggregation": "private-weighting", "key_bits": 2048}}),
    (
        "uldp-avg",
        {
            "privacy": {"noise_multiplier": 2.0, "sampling_rate": 0.5},
            "security": {"aggregation": "private-weighting", "key_bits": 2048},
        },
    ),
    (
        "uldp-sgd",
        {
            "privacy": {"noise_multiplier": 2.0, "sampling_rate": 0.5},
            "security": {"aggregation": "private-weighting", "key_bits": 2048, "slots": 4},
        },
    ),
    ("flame-simple", {}),
    ("flame-double", {"flame": {"chosen": 4, "padded_to": 22}}),
    ("flame-topk", {"flame": {"chosen": 2, "decoys": 3}}),
)
"""Systems whose parties send messages."""

PROVES_NOTHING = ("wishart", "mlp", "as_published")
"""Words of configurations of a method as it is published."""

NASTY = (
    f"{MARKER},{MARKER},{MARKER},{MARKER},{MARKER},{MARKER},yes",
    f'{MARKER},40,f,I,y,"{MARKER}\n',
    f"{MARKER},1e400,\udcff,I,y,,yes",
    f"{MARKER},40,f,I,y,,yes,{MARKER}",
    f"{MARKER},{'9' * 70_000},f,I,y,,yes",
    f"{MARKER},40,f,I,y,,{MARKER}",
    f" {MARKER} ,-5,m,III,n,,no",
    f"{MARKER},40,f,I,y,\0,yes",
    "",
)
"""What the rows of one patient may be."""


def beside(lines: list[str]) -> list[str]:
    """Give the files one patient more, between the others' rows."""
    return [*lines[:3], *NASTY, *lines[3:]]


def without(lines: list[str]) -> list[str]:
    """Take one patient out of all files."""
    return [line for line in lines if not line.startswith("p7,")]


def of_nobody(_: list[str]) -> list[str]:
    """Leave no row in any file."""
    return []


def turned(lines: list[str]) -> list[str]:
    """Write the rows in another order."""
    return lines[::-1]


def ran(folder: Path, tables: dict[str, Any], edited: Any = None) -> tuple[Path, str]:
    """Run a configuration, seeded, in a folder with the files; return its folder."""
    folder.mkdir()
    write(folder, edited)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        pp.run(tables, "out")
    return folder / "out", (folder / "out" / "log.jsonl").read_text()


def released(folder: Path) -> Any:
    """Return the last model of a run."""
    with np.load(folder / "model.npz") as model:
        return model["parameters"]


VALUES_AFTER_NOISE = (
    "aggregate",
    "model_in",
    "model_out",
    "model",
    "dataset",
    "head",
    "values",
    "state_out",
)
"""Facts of a line that are made of what was noised, or commit to it."""


def facts(log: str) -> list[dict[str, Any]]:
    """Return the lines of a log without hashes, times, and digests of what was noised."""
    lines = [json.loads(line) for line in log.splitlines()]
    gone = {"hash", "prev", "run_id", "opened", "sealed", *VALUES_AFTER_NOISE}
    return [
        {
            **{key: value for key, value in line.items() if key not in gone},
            "keys": sorted(line),
            "sealed": sorted(line.get("sealed") or ()),
        }
        for line in lines
    ]


@for_each("system, tables", [*SYSTEMS, *LISTED_SYSTEMS], items=4)
def test_a_log_says_the_same_of_neighbouring_files(
    tmp_path: Path, system: str, tables: dict[str, Any]
) -> None:
    """Neighbours are made of the files: one patient's rows come, whatever they are, or go."""
    said = configuration(system, **{**tables, "run": {"seed": 5, **tables.get("run", {})}})
    _, plain = ran(tmp_path / "plain", said)
    for number, edited in enumerate((beside, without, of_nobody)):
        folder, log = ran(tmp_path / f"edited{number}", said, edited)
        assert facts(log) == facts(plain), edited.__name__
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            path.name for path in (tmp_path / "plain" / "out").iterdir()
        )
        for path in folder.rglob("*"):
            if path.is_file() and edited is beside:
                assert MARKER.encode() not in path.read_bytes()


@for_each("system, tables", [*SYSTEMS, *LISTED_SYSTEMS, *SENT_SYSTEMS[2:4]], items=2)
def test_an_audit_derives_what_a_run_on_a_table_states(
    tmp_path: Path, system: str, tables: dict[str, Any]
) -> None:
    folder, _ = ran(tmp_path / "run", configuration(system, **tables))
    budget = audit_budget(folder)
    if any(word in repr(tables) for word in PROVES_NOTHING):
        assert not budget.supported
        assert {hazard.id for hazard in budget.hazards} & {"as-published"}
        return
    assert budget.supported, budget
    assert not [hazard for hazard in budget.hazards if hazard.severity == "error"]


def shapes_of_messages(folder: Path) -> dict[str, list[tuple[int, str, str, int]]]:
    """Return what is seen of the messages that each party received, but for what is in them."""
    return {
        path.stem: [
            (message.round, message.kind, message.sender, len(message.body))
            for message in read_transcript(folder, path.stem)
        ]
        for path in (folder / FOLDER).iterdir()
    }


@for_each("system, tables", SENT_SYSTEMS, items=2)
def test_messages_are_as_many_and_as_long_of_neighbouring_files(
    tmp_path: Path, system: str, tables: dict[str, Any]
) -> None:
    security = {**tables.get("security", {}), "keep_transcripts": True}
    said = configuration(
        system, **{**tables, "security": security, "run": {"seed": 5, "rounds": 1}}
    )
    plain, of_plain = ran(tmp_path / "plain", said)
    seen = shapes_of_messages(plain)
    assert sum(map(len, seen.values())) > 0
    for number, edited in enumerate((beside, without, of_nobody)):
        folder, log = ran(tmp_path / f"edited{number}", said, edited)
        assert shapes_of_messages(folder) == seen, edited.__name__
        assert facts(log) == facts(of_plain), edited.__name__


@for_each("system, tables", [SYSTEMS[0], SYSTEMS[1], SYSTEMS[5], SYSTEMS[7]])
def test_where_a_row_stands_makes_no_difference(
    tmp_path: Path, system: str, tables: dict[str, Any]
) -> None:
    said = configuration(system, run={"seed": 5}, **tables)
    one, _ = ran(tmp_path / "one", said)
    two, _ = ran(tmp_path / "two", said, turned)
    assert np.array_equal(released(one), released(two))


@for_each("user", [None, "patient"])
def test_a_record_is_drawn_for_by_what_it_holds(tmp_path: Path, user: str | None) -> None:
    """The gradient of a record, dropout and all, is the same whichever other records go."""
    from privplan.fl.running.configuration import Configuration
    from privplan.fl.running.preparation import local_of, model_of
    from privplan.fl.running.run_data import federation_of

    tables = configuration(
        "disco",
        privacy={"unit": "record", "noise_multiplier": 2.0},
        disco={"divisor": 100},
        training={"model": "mlp", "dropout": 0.5},
    )
    if user is None:
        del tables["data"]["user"]
        tables["data"]["columns"] = {**SCHEMA["columns"], "patient": {"kind": "ignored"}}

    def gradients(edited: Any) -> list[tuple[bytes, bytes]]:
        write(tmp_path, edited)
        settings = Configuration.of(tables).settings
        federation, _ = federation_of(settings)
        local = local_of(settings, federation, model_of(settings, federation))
        models = np.tile(local.initial(), (federation.silos, 1))
        rows = local.record_gradients(models, np.arange(federation.records), 1)
        held = zip(federation.silo, federation.features, federation.labels, rows, strict=True)
        return sorted(
            (bytes([silo]) + features.tobytes() + bytes([label]), row.tobytes())
            for silo, features, label, row in held
        )

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        whole, lacking = gradients(None), gradients(lambda lines: lines[1:])
    assert len(lacking) == len(whole) - len(SILOS)
    assert set(lacking) <= set(whole)


CELLS = (
    *("p1", "p2", " p1 ", "", "NA", "40", "-1e400", "nan", "f", "x", "I", "y", "n", "yes", "no"),
    *('"', '"a"', '""', '"yes"', "\0", "\r", "\udcff", "\u00e9", ",", "\t", "9" * 400),
)


def test_no_file_with_a_good_header_is_refused_whatever_its_rows_hold() -> None:
    """300 random tables, each of which is read into the federation of the same public facts."""
    from privplan.fl.tables.federated_table import federation_of_table
    from privplan.fl.tables.row_reading import TableColumns
    from privplan.fl.tables.schema_file import schema_of
    from privplan.fl.tables.table import read_table

    rng = np.random.default_rng(11)
    columns = TableColumns(user="patient", label="outcome")
    survival = {"kind": "survival", "range": [0, 9], "event": "smoker", "values": ["n", "y"]}
    others = {name: said for name, said in SCHEMA["columns"].items() if name != "smoker"}
    schemas = [
        schema_of(SCHEMA),
        schema_of({**SCHEMA, "label": {"kind": "classes", "values": ["no", "yes", "x"]}}),
        schema_of({"columns": others, "label": survival}),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(300):

            def drawn(_: list[str]) -> list[str]:
                return [
                    ",".join(CELLS[i] for i in rng.integers(len(CELLS), size=rng.integers(6, 9)))
                    for _ in range(rng.integers(0, 6))
                ]

            write(Path(folder), drawn)
            schema = schemas[rng.integers(len(schemas))]
            table = read_table(
                {silo: [Path(folder) / f"{silo}.csv"] for silo in SILOS}, schema, columns
            )
            federation = federation_of_table(table)
            assert (federation.silos, federation.features.shape[1]) == (3, schema.width)
            assert (np.abs(federation.features) <= 1.0).all()


def test_what_a_patient_sends_does_not_depend_on_who_else_is_there(tmp_path: Path) -> None:
    """The update of each user is the same when another's rows go."""
    from privplan.fl.running.configuration import Configuration
    from privplan.fl.running.preparation import local_of, model_of
    from privplan.fl.running.run_data import federation_of

    def updates(edited: Callable[[list[str]], list[str]] | None) -> dict[Any, Any]:
        write(tmp_path, edited)
        settings = Configuration.of(
            configuration(training={"batch": 2, "local_epochs": 3, "model": "mlp", "dropout": 0.5})
        ).settings
        federation, _ = federation_of(settings)
        model = model_of(settings, federation)
        local = local_of(settings, federation, model)
        everybody = [np.arange(federation.users)] * federation.silos
        found = {}
        for block in local.user_deltas(local.initial(), everybody, 1):
            for user, silo, row in zip(block.user, block.silo, block.rows, strict=True):
                found[int(federation.names[user]), int(silo)] = row
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        whole, lacking = updates(None), updates(without)
    assert 0 < len(lacking) < len(whole)
    for pair, row in lacking.items():
        assert np.array_equal(row, whole[pair])


def test_a_resumed_run_goes_on_with_the_table(tmp_path: Path) -> None:
    from privplan.fl.uldp.averaging import UldpAvg

    write(tmp_path)
    step = UldpAvg.server_step

    def stopping(system: Any, parameters: Any, noisy: Any, state: Any, number: int) -> Any:
        if number == 2:
            raise KeyboardInterrupt
        return step(system, parameters, noisy, state, number)

    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        patched.setattr(UldpAvg, "server_step", stopping)
        with pytest.raises(KeyboardInterrupt):
            pp.run(configuration(run={"rounds": 3}), "out")
        patched.setattr(UldpAvg, "server_step", step)
        write(tmp_path, turned)
        outcome = pp.resume("out")
    assert outcome.result.rounds == 2  # the round that was cut off is spent


@for_each(
    "data, names",
    [
        ({"users_at_most": None}, ("`users_at_most`", "private")),
        ({"user": None}, ("`user`", "protected")),
        ({"users": 30}, ("`users`", "users_at_most")),
        ({"allocation": "zipf"}, ("`allocation`",)),
        ({"normalisation": "private"}, ("`normalisation`",)),
        ({"silos": 3}, ("`silos`", "north.csv")),
        ({"silos": ["north", "south"]}, ("files of some `silos`",)),
        ({"path": "all.csv"}, ("`path`",)),
        ({"label": "outcome"}, ("[label]",)),
        ({"columns": None, "label": "outcome"}, ("`schema`",)),
        ({"schema": "schema.toml"}, ("`schema`", "[data.columns]")),
    ],
)
def test_what_does_not_go_together_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, Any], names: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert_data_refused(tmp_path, configuration(), data, names)


NUMBER = {"column": "outcome", "kind": "number", "range": [0, 3]}
SURVIVAL = {"column": "outcome", "kind": "survival", "range": [0, 3], "event": "note"}


@for_each("system", ["statistics", "delm-linear", "delm-basic"])
@for_each(
    "label, names",
    [(None, "lacks `label`"), (NUMBER, 'kind = "number"'), (SURVIVAL, 'kind = "survival"')],
)
def test_sums_by_classes_need_a_label_of_classes(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    label: dict[str, Any] | None,
    names: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    tables = configuration(system)
    tables["delm" if system.startswith("delm") else system] = {"row_norm": 2.0}
    tables["run"]["rounds"] = 1
    tables["data"]["label"] = label
    if label is None:
        del tables["data"]["label"]
        tables["data"]["columns"] = {**SCHEMA["columns"], "outcome": {"kind": "ignored"}}
    with pytest.raises(InvalidInput, match=names):
        pp.run(tables, "out")


@for_each(
    "header, names",
    [
        ("patient,age,sex,stage,smoker,note,note,outcome", ("two columns", "note")),
        ("patient,age,sex,stage,smoker,outcome", ()),
        ("patient,age,sex,stage,smoker,note", ("outcome",)),
        ("patient,agee,sex,stage,smoker,note,outcome", ("'age'", "'agee'")),
        ("patient,age,sex,stage,smoker,note,outcome,more", ("'more'", "does not describe")),
    ],
)
def test_a_file_with_other_columns_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, header: str, names: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path)
    (tmp_path / "south.csv").write_text(header + "\n")
    if not names:  # an ignored column may be missing
        pp.run(configuration(), "out")
        return
    with pytest.raises(InvalidInput) as caught:
        pp.run(configuration(), "out")
    assert "south.csv" in str(caught.value)
    for name in names:
        assert name in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_rows_of_all_silos_may_stand_in_one_file(tmp_path: Path) -> None:
    one, _ = ran(tmp_path / "one", configuration(run={"seed": 3}))
    folder = tmp_path / "two"
    folder.mkdir()
    write(folder)
    lines = ["hospital," + (folder / "north.csv").read_text().splitlines()[0]]
    for silo in SILOS:
        lines += [
            f"{silo},{line}" for line in (folder / f"{silo}.csv").read_text().splitlines()[1:]
        ]
    (folder / "all.csv").write_text("\n".join([*lines, "nowhere,p1,3,f,I,y,,yes"]) + "\n")
    tables = configuration(run={"seed": 3})
    tables["data"] |= {"silos": list(SILOS), "path": "all.csv", "silo": "hospital"}
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        pp.run(tables, "out")
    assert np.array_equal(released(one), released(folder / "out"))


def test_a_model_is_measured_on_a_public_file(tmp_path: Path) -> None:
    write(tmp_path)
    lines = ["age,sex,stage,smoker,outcome", "40,f,I,n,no", "90,m,III,y,yes", "1e400,x,,y,yes"]
    (tmp_path / "test.csv").write_text("\n".join([*lines, "40,f,I,n,maybe"]) + "\n")
    said = configuration(evaluation={"test": "test.csv", "source": "a registry, doi 10.1/2"})
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        outcome = pp.run(said, "out")
        again = pp.run(outcome.prepared.settings, "again")
        lacking = {**said, "evaluation": {"test": "test.csv"}}
        with pytest.raises(InvalidInput, match="lacks `source`"):
            pp.run(lacking, "none")
        (tmp_path / "test.csv").write_text(lines[0] + "\n")
        with pytest.raises(InvalidInput, match="no row"):
            pp.run(said, "none")
    assert outcome.prepared.federation.test_records == 3
    assert outcome.result.measured[-1].metrics
    assert again.prepared.settings == outcome.prepared.settings
    log = (tmp_path / "out" / "log.jsonl").read_text()
    assert "test.csv" not in log
    assert "a registry" in log


def test_a_data_set_of_a_paper_has_test_data_of_its_own(tmp_path: Path) -> None:
    said = {
        "run": {"system": "uldp-avg", "rounds": 1},
        "data": {"name": "breast-cancer"},
        "privacy": {"epsilon": 8.0},
        "evaluation": {"test": "test.csv", "source": "x"},
    }
    with pytest.raises(InvalidInput, match="names a file as `test`"):
        pp.run(said, tmp_path / "out")


def test_who_promises_nothing_needs_no_column_of_users(tmp_path: Path) -> None:
    tables = configuration("fedavg")
    del tables["data"]["user"]
    tables["data"]["columns"] = {**SCHEMA["columns"], "patient": {"kind": "ignored"}}
    folder, _ = ran(tmp_path / "run", tables)
    assert (folder / "model.npz").exists()
