"""The federation of a table: its rows, by the silo and the user that they are of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ..data.federation import Federation, Task
from ..data.held_out import HeldOutRows, held_out
from ..data.row_contents import row_contents
from ..declarations.data_table import DataSettings, SiloFiles
from ..declarations.toml_key import TABLE
from .cell_features import no_labels
from .duplicate_rows import require_apart, require_each_once
from .row_reading import TableColumns
from .schema_text import schema_in
from .table import Table, TableRows, read_table

_GLOB: Final = frozenset("*?[")

_TASKS: Final[Mapping[str, Task]] = {
    "binary": "binary",
    "classes": "multiclass",
    "number": "regression",
    "survival": "survival",
}


def table_of(data: DataSettings) -> TableRows:
    """Return the rows of the table that `[data]` names; `InvalidInput` for files that do not fit.

    Names of users follow the id and the seed of `[data]`, which is public.
    """
    if data.rows is not None:
        return _handed_over(data).rows(data.seed)
    columns = TableColumns(user=data.user, label=data.label, silo=data.silo)
    return read_table(files_of(data), schema_in(data.schema or ""), columns, seed=data.seed)


def _handed_over(data: DataSettings) -> Table:
    if isinstance(data.handed_over, Table):
        return data.handed_over
    raise _in_no_file()


def _in_no_file() -> InvalidInput:
    return InvalidInput(
        "The rows of the table are in no file, and no program hands them over.",
        'That is what rows = "program" in [data] says.',
        "In Python: pp.run(..., data=table), pp.resume(folder, data=table) or table.check(), with "
        "table = pp.Table.from_frame(frame, schema=...).",
    )


def read_test_table(data: DataSettings, file: Path) -> TableRows:
    """Return the rows of a public test file, which needs neither users nor silos.

    Raises `InvalidInput` for another file, for one that has no row, and for one of a silo's.
    """
    require_public(data, file, "test")
    schema = schema_in(data.schema or "")
    # A row of tests is public, so whose it is makes no difference.
    columns = TableColumns(label=data.label)
    idle = tuple(name for name in (data.user, data.silo) if name is not None)
    table = read_table({"test": [file]}, schema, columns, ignored=idle)
    if not len(table.features):
        raise InvalidInput(
            f"{file.name} has no row that a model can be measured on.",
            "Its rows are public, and have a label each.",
            'Correct the file, or write test = "none" under [evaluation].',
        )
    return table


def files_of(data: DataSettings) -> dict[str, list[Path]]:
    """Return the files of each silo by its name; of one file, that file for each.

    Raises `InvalidInput` where a program has the rows, and for files that are not there.
    """
    if data.rows is not None:
        raise _in_no_file()
    silos: SiloFiles = data.silo_files or ()
    if data.path is not None:
        return {silo: [data.path] for silo, _ in silos}
    files = {silo: [path for said in of for path in _paths(silo, said)] for silo, of in silos}
    require_each_once([path for paths in files.values() for path in paths], ())
    return files


def require_public(data: DataSettings, file: Path, key: str) -> None:
    """Raise `InvalidInput` where a file that `key` names as public is one of the silos'."""
    handed_over = data.handed_over.sources if isinstance(data.handed_over, Table) else {}
    sources = files_of(data) if data.rows is None else handed_over
    held = [source for of_silo in sources.values() for source in of_silo]
    require_apart(file, key, [source for source in held if isinstance(source, Path)])


def _paths(silo: str, said: str) -> list[Path]:
    """Return the file of a name, or the files of a pattern in the order of their names."""
    if not _GLOB & set(said):
        return [Path(said)]
    pattern = Path(said)
    paths = sorted(Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor))))
    if not paths:
        raise InvalidInput(
            f"No file of silo {silo!r:.60} is called as `silos` in [data] says.",
            "A pattern stands for the files of one silo.",
            "Correct the pattern; a silo without rows has a file with a header.",
        )
    return paths


def federation_of_table(
    table: TableRows,
    test: TableRows | None = None,
    held_out: HeldOutRows | None = None,
    listed: IntArray | None = None,
) -> Federation:
    """Return the federation of a table's rows, with those of a test file, or of who is held out.

    Its list of users are those who have a row, or one who has none where there is no row at all.
    Where it is public, `listed` are their names, rising, and rows of others are left out.
    """
    if listed is not None:
        # A place in the list is as public as the list is.
        return _federation(rows_of_listed(table, listed), listed, test, held_out)
    # Rising names: where a user stands in the list follows from the names of the others, so nothing
    # that leaves a silo may follow from that place.
    names = np.unique(table.user)
    return _federation(table, names if len(names) else np.zeros(1, np.int64), test, held_out)


def rows_of_listed(table: TableRows, listed: IntArray) -> TableRows:
    """Return a table without the rows of users who are not on the list."""
    return table.only(np.isin(table.user, listed))


def _federation(
    table: TableRows, names: IntArray, test: TableRows | None, held_out: HeldOutRows | None
) -> Federation:
    """Return the federation of users of these names, rising, of whom every row is one's."""
    user = np.searchsorted(names, table.user)
    label = table.schema.label
    task: Task = "binary" if label is None else _TASKS[label.kind]
    classes = 2 if label is None else label.classes
    labels = np.zeros(len(user), np.int64) if table.labels is None else table.labels
    width = table.schema.width
    return Federation(
        name=TABLE,
        task=task,
        classes=classes,
        users=len(names),
        silos=len(table.silos),
        features=table.features,
        labels=labels,
        user=user,
        silo=table.silo,
        test_features=np.zeros((0, width), np.float32) if test is None else test.features,
        test_labels=no_labels(label) if test is None or test.labels is None else test.labels,
        label_range=label.range if label is not None and label.kind == "number" else None,
        user_names=names,
        held_out=held_out,
        absent_users=True,
        empty_silos=True,
    )


def digest_of(federation: Federation) -> str:
    """Return the SHA-256 digest of a table's rows: private, and for sealed records alone."""
    digest = hashlib.sha256(str(federation.features.shape).encode())
    rows = (federation.features, federation.labels, federation.user, federation.silo)
    for values in (*rows, federation.test_features, federation.test_labels):
        digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)
    digest.update(np.ascontiguousarray(federation.names, "<i8").data)
    held = federation.held_out
    if held is not None:
        for values in (held.features, held.labels, held.user, held.silo):
            digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def parted(
    table: TableRows, *, share: float, seed: int, named: bool
) -> tuple[TableRows, HeldOutRows]:
    """Return the rows that are trained on, and those on which the model is measured.

    With `named` a column says whose a row is, and all rows of a user are on one side, in every silo
    alike; without, a row is by itself, and what it holds decides.  Raises `InvalidInput` unless
    0 < `share` < 1.
    """
    names = table.user if named else row_contents(table.features, table.labels)
    out = held_out(names, share, seed)
    return table.only(~out), _held_out_rows(table.only(out))


def _held_out_rows(table: TableRows) -> HeldOutRows:
    # A user's place among these is used for nothing but to add up its own rows.
    names, user = np.unique(table.user, return_inverse=True)
    # The rules let nobody be held out where labels are no classes.
    labels = np.zeros(len(user), np.int64) if table.labels is None else table.labels
    return HeldOutRows(
        table.features,
        cast(IntArray, labels),
        user.reshape(-1),
        table.silo,
        len(names),
        len(table.silos),
        names,
    )
