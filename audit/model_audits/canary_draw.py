"""Examples to insert into somebody's training, each in or out by a secret coin.

Examples, ids and their order are drawn apart from the coins.  They are made from public records or
from a schema alone: an example that is made from a private record would hold something of it.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput
from ...fl.declarations.data_table import public_source
from ...fl.log.hash_chain import canonical, digest
from ...fl.tables.schema import Schema, TextFormat
from ...fl.tables.schema_file import read_schema, tables_of_schema
from ..adapters.canary_files import CanaryCoins
from .canary_folder import ID, OWNER, CanaryFolder, write_canaries
from .canary_score_files import Scores
from .canary_scores import CanaryAudit, score_canaries
from .example_columns import ExampleShape, fresh_users, shape_of_public, shape_of_schema
from .example_files import (
    ARCHIVE,
    TEXT,
    ExampleTable,
    column_names,
    read_examples,
    suffix_of,
    table_of,
)

KINDS: Final = ("out-of-distribution", "wrong-label", "users")

RECORDS_EACH: Final = 5
"""Records of a canary that is a user."""

GUESSED_SHARE: Final = 10
"""One in so many coins is guessed, unless it is said how many."""

LEAST_GUESSES: Final = 20

MOST_NUMBERS: Final[Mapping[str, int]] = {ARCHIVE: 2**27, TEXT: 2**22}
"""Numbers of all canaries together, at most: a gigabyte of arrays, or what a text file may hold."""


@dataclass(frozen=True, eq=False)
class DrawnCanaries(CanaryFolder):
    """Canaries in their folder: `insert`, `to_score`, `removed`, and `score` when all is done."""

    def score(
        self,
        scores: Scores,
        *,
        delta: float,
        claimed: float | None = None,
        event: ev.Event | None = None,
        unit: str = "record",
        head: str | None = None,
    ) -> CanaryAudit:
        """Open the coins for these scores; see `score_canaries`."""
        return score_canaries(
            self.folder,
            scores,
            delta=delta,
            claimed=claimed,
            event=event,
            unit=unit,
            head=head,
        )


def draw_canaries(
    data: str | Path | Mapping[str, ArrayLike] | None,
    canaries: int,
    folder: str | Path,
    *,
    kind: str = "out-of-distribution",
    public: str | None = None,
    schema: str | Path | Schema | None = None,
    label: str = "y",
    user: str | None = None,
    records_each: int = RECORDS_EACH,
    guesses: int | None = None,
) -> DrawnCanaries:
    """Draw examples to insert into a training, each in or out by a secret coin, into a new folder.

    - `data`: public records, a `.csv` or `.npz` file or arrays by column; or, with a `schema`, any
      table, of which the names of its columns are read alone (None: those of the schema).
    - `public`: who published the records, and where; it stands in the manifest.
    - `kind`: `out-of-distribution`, with random labels; `wrong-label`, public records with another
      class, whose originals must leave the training; `users`, of `records_each` records each,
      out of distribution, with one random label and one coin.
    - `label`, `user`: the columns of what is learnt, and of whose a record is; canaries are users
      of their own.
    - `guesses`: how many coins will be guessed; a tenth of them, 20 or more, where it is None.

    Range: 40 to 1,000,000 canaries.  Raises `InvalidInput` for data and options that are not so,
    and a folder that is not empty; `Unsupported` for labels that cannot be wrong.
    Source: Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Algorithm 1 (coins and guesses).
    """
    validate.choice(KINDS, kind=kind)
    coins = CanaryCoins.drawn(canaries)
    each = validate.count(records_each=records_each) if kind == "users" else 1
    asked = max(LEAST_GUESSES, canaries // GUESSED_SHARE) if guesses is None else guesses
    if validate.count(guesses=asked) > canaries:
        raise InvalidInput(f"`guesses` must be at most {canaries:,}, one for each coin.")
    source = _source(data, public, schema, kind)
    table, shape = _examples(source, label, user)
    # Of values, ids and their order, which protect nobody; it knows nothing of the coins.
    rng = np.random.default_rng(secrets.randbits(256))
    rows, removed = _rows(table, shape, kind, (canaries, each), MOST_NUMBERS[source.suffix], rng)
    known = None if table is None or user is None else table.columns[user]
    owners = fresh_users(known, canaries, rng)
    # Ids are in random order, so the rows in the order of their ids are.
    order = rng.permutation(canaries * each)
    owner = np.repeat(owners, each)[order]
    columns = {name: values[order] for name, values in rows.items()}
    columns = _in_order(columns, owner, user, source.names)
    by_user = kind == "users" or user is not None
    score = ExampleTable({ID: _ids(len(order)), **({OWNER: owner} if by_user else {}), **columns})
    write_canaries(
        Path(folder),
        coins,
        score,
        removed,
        source.suffix,
        source.format,
        user,
        {
            "kind": kind,
            "canaries": canaries,
            "unit": "user" if by_user else "record",
            "records_each": each,
            "guesses": asked,
            "label": label,
            "made_from": source.stated,
        },
    )
    return DrawnCanaries.of(folder)


@dataclass(frozen=True, eq=False)
class _Source:
    """What examples are made from: public data, or a schema with the names of columns."""

    data: Path | ExampleTable | None
    schema: Schema | None
    suffix: str
    format: TextFormat
    names: tuple[str, ...]
    stated: Mapping[str, str]


def _source(
    data: str | Path | Mapping[str, ArrayLike] | None,
    public: str | None,
    schema: str | Path | Schema | None,
    kind: str,
) -> _Source:
    """Return what examples are made from; raises `InvalidInput` unless that is public."""
    if (public is None) == (schema is None) or (public is not None and data is None):
        raise InvalidInput(
            "Either `public` says who published the records, or a `schema` describes them.",
            "A canary made from private records would hold something of them, and would be shown "
            "to whoever scores it.",
            'Give public="title or address of the publication", or schema="schema.toml".',
        )
    if kind == "wrong-label" and public is None:
        raise InvalidInput(
            "Wrong labels need public records.",
            "A schema has no record whose label could be another one.",
            'Draw kind="out-of-distribution", or give public records.',
        )
    described = read_schema(schema) if isinstance(schema, (str, Path)) else schema
    format = TextFormat() if described is None else described.format
    held = _held(data)
    if isinstance(held, Path):
        suffix = suffix_of(held)
        names = column_names(held, format)
    elif held is not None:
        suffix, names = ARCHIVE, tuple(held.columns)
    else:
        arrays = described is not None and any(each.shape for each in described.columns)
        suffix, names = ARCHIVE if arrays else TEXT, ()
    if {ID, OWNER} & set(names):
        raise InvalidInput(f"The data have a column `{ID}` or `{OWNER}`, which canaries need.")
    if described is None:
        stated = {"public": public_source(public=public)}
    else:
        stated = {"schema": digest(canonical(tables_of_schema(described)))}
    return _Source(held, described, suffix, format, names, stated)


def _held(data: object) -> Path | ExampleTable | None:
    """Return the data as a path or a table; raises `InvalidInput` for anything else."""
    if data is None or isinstance(data, (str, Path)):
        return None if data is None else Path(data)
    if isinstance(data, Mapping):
        return table_of(data)
    raise InvalidInput(
        f"`data` must be a file, or arrays by column; it is of type {type(data).__name__}.",
        next_step='Give a path, or {"x": images, "y": labels}; of a frame, dict(frame).',
    )


def _examples(
    source: _Source, label: str, user: str | None
) -> tuple[ExampleTable | None, ExampleShape]:
    """Return the public records, if any, and what an example may hold."""
    if source.schema is not None:
        as_text = source.suffix == TEXT
        return None, shape_of_schema(source.schema, source.names, label, user, as_text=as_text)
    held = source.data
    assert held is not None
    table = read_examples(held, source.format) if isinstance(held, Path) else held
    return table, shape_of_public(table, label, user)


def _rows(
    table: ExampleTable | None,
    shape: ExampleShape,
    kind: str,
    sizes: tuple[int, int],
    most: int,
    rng: np.random.Generator,
) -> tuple[dict[str, NDArray[Any]], IntArray]:
    """Return the examples of all canaries, those of one behind each other, and removed rows."""
    canaries, each = sizes
    none = np.zeros(0, np.int64)
    if kind != "wrong-label":
        numbers = sum(max(1, len(column.low)) for column in shape.columns)
        if canaries * each * numbers > most:
            raise InvalidInput(
                f"{canaries * each:,} examples of {numbers:,} numbers are too many: {most:,} "
                "numbers are the most.",
                next_step="Draw fewer canaries.",
            )
        rows = shape.drawn(canaries * each, rng)
        # All records of a user have one label.
        rows[shape.label.name] = np.repeat(rows[shape.label.name][::each], each)
        return rows, none
    assert table is not None
    labelled = shape.labelled(table.columns[shape.label.name])
    if canaries > len(labelled):
        raise InvalidInput(
            f"{canaries:,} canaries need as many public records; there are {len(labelled):,}.",
            "Each is a record with another label.",
            "Draw fewer, or out of distribution.",
        )
    chosen = rng.choice(labelled, canaries, replace=False)
    rows = dict(table.only(chosen).columns)
    rows[shape.label.name] = shape.other_labels(rows[shape.label.name], rng)
    return rows, np.sort(chosen)


def _in_order(
    columns: Mapping[str, NDArray[Any]],
    owner: NDArray[Any],
    user: str | None,
    names: tuple[str, ...],
) -> dict[str, NDArray[Any]]:
    """Return the columns in the order of the data, that of the user with the ids of canaries."""
    if user is None:
        return dict(columns)
    whole = {**columns, user: owner}
    return {name: whole[name] for name in names or whole}


def _ids(count: int) -> NDArray[np.str_]:
    """Return random ids, ascending: nothing but the order of the rows is in them.

    They begin with a letter, so that no program takes them for numbers.
    """
    ids: set[str] = set()
    while len(ids) < count:
        ids.update(f"c{secrets.token_hex(8)}" for _ in range(count - len(ids)))
    return np.array(sorted(ids))
