"""`privplan data`: a schema for tables of one's own, what is wrong in them, and hidden ids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..inputs.options import option_group, optional
from ..inputs.request import OutputOptions, takes
from ..terminal.output import Report, plain, table, wrapped
from .doctor import naming_install_command

if TYPE_CHECKING:
    from ...fl.tables.schema import TextFormat
    from ...fl.tables.value_checks import CheckedTable, Finding

Files = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="CSV, TSV, Parquet or Arrow files.")
]
Delimiter = Annotated[str, typer.Option(help="What stands between two fields of a text file.")]
Encoding = Annotated[str, typer.Option(help="Encoding of text files.")]
Public = Annotated[
    str | None,
    optional("FILE", "A file whose records are published: kinds and ranges are filled in from it."),
]
Source = Annotated[
    str | None, typer.Option(help="Who published the --public file, and where.", show_default=False)
]
Configuration = Annotated[
    str, typer.Argument(metavar="CONFIG.toml", help='A run on name = "table" in [data].')
]
Column = Annotated[str, typer.Option(help="The column with the ids of users.")]
KeyFile = Annotated[
    str, typer.Option("--key-file", help="File with the key, 32 bytes or more, of all silos.")
]
Out = Annotated[str, typer.Option(help="The copy to write.")]

PRIVATE: Final = (
    "This report is about private records: it is for whoever owns them. A run says none of it."
)


@option_group
class SchemaRequest(OutputOptions):
    """Files of a table, and what is known of them publicly."""

    files: Files
    public: Public = None
    source: Source = None
    delimiter: Delimiter = ","
    encoding: Encoding = "utf-8"


@option_group
class DataCheckRequest(OutputOptions):
    """A configuration of a run on a table."""

    configuration: Configuration


@option_group
class IdsRequest(OutputOptions):
    """A file whose ids are hidden in a copy."""

    files: Annotated[str, typer.Argument(metavar="FILE", help="A CSV or TSV file.")]
    column: Column
    key_file: KeyFile
    out: Out
    delimiter: Delimiter = ","
    encoding: Encoding = "utf-8"
    id_case: Annotated[
        str, typer.Option(metavar="[keep|lower]", help="Whether case tells ids apart.")
    ] = "keep"


@takes(SchemaRequest)
def schema(_: typer.Context, asked: SchemaRequest) -> Report:
    """Write a draft of the schema of a table, to be filled in by hand.

    It has the names of the columns, and the types that Parquet declares.  Kinds of columns of text
    files and all ranges stay open: looking at private records to fill them in is a release.  With
    --public FILE they are taken from a file whose records are published, with its --source.
    """
    from ...accountant.errors import InvalidInput
    from ...fl.declarations.data_table import public_source

    if (asked.public is None) != (asked.source is None):
        raise InvalidInput(
            "--public and --source go together.",
            "That a file is public is said by somebody, and the schema names them.",
            'Give --public FILE --source "who published it, and where".',
        )
    source = "" if asked.source is None else public_source(source=asked.source)
    with naming_install_command("fl"):
        from ...fl.tables.schema_draft import draft_of

        public = None if asked.public is None else Path(asked.public)
        files = [Path(file) for file in asked.files]
        draft = draft_of(
            files, _format(asked.delimiter, asked.encoding), public=public, source=source
        )
    return Report(result={"schema": draft}, text=draft.rstrip("\n"), number=draft.rstrip("\n"))


@takes(DataCheckRequest)
def check(_: typer.Context, asked: DataCheckRequest) -> Report:
    """Say what is wrong with the values of a table: file, line and column, and never a value.

    It is a private report for whoever owns the data.  A run treats such values by the rules of the
    schema and says nothing of them, as its output would depend on one person's record.  Leaves with
    exit code 1 where anything was found.
    """
    from ...accountant.errors import InvalidInput
    from ...fl.declarations.toml_key import TABLE
    from ...fl.settings.toml_file import read_settings

    data = read_settings(asked.configuration).data
    if data.name != TABLE:
        raise InvalidInput(
            f'{asked.configuration} names "{data.name}" in [data], which is no table.',
            "Data sets of papers are checked when they are read.",
            f'Give the configuration of a run on name = "{TABLE}".',
        )
    with naming_install_command("fl"):
        from ...fl.tables.federated_table import files_of
        from ...fl.tables.row_reading import TableColumns
        from ...fl.tables.schema_text import schema_in
        from ...fl.tables.user_list import public_users
        from ...fl.tables.value_checks import checked_table

        columns = TableColumns(user=data.user, label=data.label, silo=data.silo)
        checked = checked_table(
            files_of(data),
            schema_in(data.schema or ""),
            columns,
            listed=public_users(data),
            seed=data.seed,
        )
    return Report(
        result=checked.to_json(),
        text=_checked_text(checked),
        number=str(sum(finding.count for finding in checked.findings)),
        assumptions=(PRIVATE,),
        ok=not checked.findings,
    )


@takes(IdsRequest)
def ids(_: typer.Context, asked: IdsRequest) -> Report:
    """Copy a file with keyed hashes in place of its ids.

    All silos use one key, so that one person has one id everywhere.  The hashes hide ids from a
    server that has no key and colludes with no silo; it still sees how many there are, and which
    silos share them.
    """
    with naming_install_command("fl"):
        from ...fl.tables.hidden_ids import hide_ids, key_of

        left_out: list[int] = []
        rows = hide_ids(
            Path(asked.files),
            Path(asked.out),
            asked.column,
            key_of(Path(asked.key_file)),
            _format(asked.delimiter, asked.encoding, asked.id_case),
            lambda line, _column, _why: left_out.append(line),
        )
    said = [("wrote", f"{plain(asked.out)}, {rows:,} rows")]
    if left_out:
        lines = ", ".join(f"{line:,}" for line in sorted(left_out)[:10])
        said.append(("left out", f"{len(left_out):,} lines, first {lines}"))
    return Report(
        result={"rows": rows, "left_out": sorted(left_out)},
        text=table(said),
        number=str(rows),
        assumptions=(PRIVATE,),
    )


def _format(delimiter: str, encoding: str, id_case: str = "keep") -> TextFormat:
    from ...fl.tables.schema_file import schema_of

    said = {"delimiter": delimiter.replace("\\t", "\t"), "encoding": encoding}
    said["id_case"] = id_case
    return schema_of({"columns": {"any": {"kind": "ignored"}}, "format": said}).format


def _checked_text(checked: CheckedTable) -> str:
    rows = [(silo, f"{count:,} rows") for silo, count in checked.rows.items()]
    if checked.users is not None:
        rows.append(("users", f"{checked.users:,}"))
    for finding in checked.findings:
        rows += _finding_rows(finding)
    if not checked.findings:
        rows.append(("found", "nothing"))
    return "\n".join([table(rows), "", PRIVATE])


def _finding_rows(finding: Finding) -> list[tuple[str, str]]:
    lines = ", ".join(f"{line:,}" for line in finding.lines)
    more = "" if finding.count == len(finding.lines) else f", and {finding.count:,} in all"
    where = "" if finding.column is None else f", column {plain(finding.column)}"
    return wrapped(plain(finding.file), f"line {lines}{more}{where}: {finding.why}")
