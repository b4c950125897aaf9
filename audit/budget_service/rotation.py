"""The next key of the service: the old one names it in every history, by a signature."""

from __future__ import annotations

import sqlalchemy as sa

from ...accountant.errors import InvalidInput
from .books import Books
from .database import Database
from .signer import Signer
from .tables import data_sets


def require_key(database: Database, signer: Signer, former: Signer | None) -> int:
    """Have every history signed by `signer`, handed over by `former`; return how many moved.

    Raises `InvalidInput` where a history is signed by a key that is neither.
    """

    def moved(connection: sa.Connection) -> int:
        count = 0
        for row in connection.execute(sa.select(data_sets).order_by(data_sets.c.id)).all():
            keys = row.keys.split()
            if keys[-1] == signer.public:
                continue
            if former is None or keys[-1] != former.public:
                raise InvalidInput(
                    f"The history of {row.name} is signed by the key {keys[-1][:16]}..., and the "
                    f"service was given {signer.public[:16]}...",
                    "One key signs a history until it names the next.",
                    "Give that key as --key, or as --former-key with the new one.",
                )
            handed_over = " ".join((*keys, signer.public))
            if row.parent_id is not None:  # a view has no history of its own
                changed = data_sets.update().where(data_sets.c.id == row.id)
                connection.execute(changed.values(keys=handed_over))
                continue
            books = Books.of_id(connection, former, row.id)
            record = {
                "type": "key.rotate",
                "key": signer.public,
                "signature": former.hand_over(books.name, books.head, signer.public),
            }
            books.append(record, keys=handed_over)
            count += 1
        return count

    (answer,) = database.write([moved])
    if isinstance(answer, Exception):
        raise answer
    return int(answer)
