"""The public list of a table's users: who is on it takes part, with rows or without.

A file that is published says who is on it.  So nothing that a silo holds decides how many users
there are, or where one of them stands: rows of others are left out, each by its own id, and who has
no row sends what somebody sends who has nothing to tell.  A neighbour has the same list: the rows
of one who is on it are gone, or are others.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...accountant.arrays import IntArray
from ...accountant.errors import InvalidInput, counted
from ..declarations.data_table import DataSettings
from .federated_table import require_public
from .row_reading import opened
from .schema import TextFormat
from .schema_text import schema_in
from .user_names import user_names


def public_users(data: DataSettings) -> IntArray | None:
    """Return the names of the users on the public list of `[data]`, rising; None without a list.

    Raises `InvalidInput` for a file without the column of the ids, with another number of them, or
    that is one of a silo's files.
    """
    if data.users_public is None:
        return None
    if data.users_list is None or data.user is None:
        raise InvalidInput(
            "[data] says that the list of users is public, and not which file has it.",
            "A log names no file, and a list that is made of the rows would be private.",
            "Give `users_list`, and `user`, the column of the ids.",
        )
    require_public(data, data.users_list, "users_list")
    names = listed_names(
        data.users_list, data.user, schema_in(data.schema or "").format, seed=data.seed
    )
    if not len(names):
        raise InvalidInput(
            f"{data.users_list.name} lists nobody.",
            "Whoever takes part is on the list, so nothing could be learnt.",
            f"Write the ids below the column {data.user!r:.60}, one a line.",
        )
    if len(names) != data.users:
        raise InvalidInput(
            f"{data.users_list.name} lists {counted(len(names), 'user')}, and [data] has users = "
            f"{data.users:,}.",
            "The number of those who take part is public, and the guarantee is made for it.",
            f"Write users = {len(names)}, or give the whole list.",
        )
    return names


def listed_names(path: Path, column: str, format: TextFormat, *, seed: int) -> IntArray:
    """Return the names (`.user_names`) of the ids in a column of a public file, rising: (users,).

    Other columns may be there, and an id may stand in several lines.  Raises `InvalidInput` for a
    file without that column, and for lines that are no rows or have no id, by their number.
    """
    file = opened(path, format)
    if file.names.count(column) != 1:
        raise InvalidInput(
            f"{path.name} has not one column {column!r:.60}.",
            "The list of users has the column that `user` in [data] names.",
            "Write its name above the ids, as in the files of the silos.",
        )
    file.require_readable((column,), column, {})

    # Unlike a private row, a line of the list may be refused: everybody may read it.
    def refuse(line: int, _column: str | None, why: str) -> None:
        raise InvalidInput(
            f"{path.name}, line {line:,}: {why}.",
            "Whoever is on the list takes part, so each line of it must be readable.",
            "Correct the line.",
        )

    parts = [np.zeros(0, np.int64)]
    for batch in file.batches(refuse, columns=(column,)):
        names, there = user_names(batch.columns[column], format.id_case, seed)
        if not there.all():
            refuse(int(batch.lines[np.argmin(there)]), column, "it has no id")
        parts.append(names)
    return np.unique(np.concatenate(parts))
