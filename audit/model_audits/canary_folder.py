"""A folder of canaries: its files, and which rows of them belong to one coin.

    canaries.json   the coins, for the owner alone; the manifest commits to them
    insert.csv      the canaries that are in, in the columns of the data: they go into the training
    score.csv       all canaries, in or out, each with an id: the trained model scores them
    remove.csv      of wrong labels: the rows whose originals leave the training, of all canaries
    manifest.jsonl  what was fixed beforehand; see `canary_manifest`

(`.npz` where the data are arrays.)  Only the first two hold coins; all are for the owner alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray

from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import own_folder, regular_content
from ...fl.files import atomic
from ...fl.log.append_file import new_folder
from ...fl.tables.schema import TextFormat
from ..adapters.canary_files import COINS_FILE, CanaryCoins
from . import canary_manifest
from .example_files import ExampleTable, read_examples

ID: Final = "canary"
OWNER: Final = "canary_user"

INSERT: Final = "insert"
SCORE: Final = "score"
REMOVE: Final = "remove.csv"

MOST_TABLE_BYTES: Final = 2**31


@dataclass(frozen=True, eq=False)
class CanaryFolder:
    """A folder of canaries and its manifest; coins are read when the canaries are scored."""

    folder: Path
    manifest: canary_manifest.Manifest = field(repr=False)

    @classmethod
    def of(cls, folder: str | Path) -> Self:
        """Return the canaries of a folder; raises `InvalidInput` where its manifest is changed."""
        return cls(Path(folder), canary_manifest.read_manifest(Path(folder)))

    @property
    def head(self) -> str:
        """The hash of the manifest: kept elsewhere, it shows that nothing was changed since."""
        return self.manifest.head

    @property
    def user(self) -> str | None:
        """The column of the data that says whose a record is, None where there is none."""
        named = self.manifest.drawn["user"]
        return None if named is None else str(named)

    @property
    def files(self) -> dict[str, str]:
        """The names of the files in the folder, by what they are for; no coin is in a name."""
        drawn = self.manifest.drawn
        names = {stem: f"{stem}{drawn['suffix']}" for stem in (INSERT, SCORE)}
        removed = {"remove": REMOVE} if drawn["removed"] else {}
        return {**names, **removed, "coins": COINS_FILE, "manifest": canary_manifest.MANIFEST}

    @property
    def effects(self) -> tuple[str, ...]:
        """What inserting the canaries does to the training and to its proven epsilon, as sentences.

        A proof is of the training as it ran.
        """
        drawn = self.manifest.drawn
        canaries, each = int(drawn["canaries"]), int(drawn["records_each"])
        said: tuple[str, ...] = (
            f"About {canaries * each // 2:,} records more are trained on. At a fixed sampling rate "
            "epsilon is that of the plan; where the rate is batch / records it falls, and an epoch "
            "has more steps: account for the training as it ran, with its number of records.",
            "How many records there are follows from the coins: take rate and divisor from a "
            f"number that is fixed beforehand, such as the records and {canaries * each // 2:,} "
            "more, and not from the length of the table, or the proof does not cover them.",
            "The model learns wrong or random labels: it is the one that is audited, and less "
            "accurate than one without canaries.",
        )
        if drawn["removed"]:
            said += (
                f"The originals of all {int(drawn['removed']):,} canaries, in or out, leave the "
                f"training ({REMOVE}): with one next to it a wrong label is unlearnt.",
            )
        if drawn["unit"] == "user":
            said += (
                f"A canary is a user of {each:,} records with one coin: what it shows is about an "
                "epsilon of users.",
            )
        return said

    @property
    def insert(self) -> dict[str, NDArray[Any]]:
        """The canaries that are in, by column: they tell the coins, and go to the training alone.

        Raises `InvalidInput` where the file cannot be read.
        """
        return self._table(INSERT)

    @property
    def to_score(self) -> dict[str, NDArray[Any]]:
        """All canaries by column, each with its id in the column `canary`, in a random order."""
        return self._table(SCORE)

    @property
    def removed(self) -> IntArray:
        """Rows of the data, from 0, that leave the training: the originals of wrong labels."""
        path = self.folder / REMOVE
        if not self.manifest.drawn["removed"]:
            return np.zeros(0, np.int64)
        try:
            content = regular_content(path, MOST_TABLE_BYTES, within=self.folder)
            _, *rows = content.decode("ascii").split()
            return np.array([int(row) for row in rows], np.int64)
        except (OSError, ValueError, OverflowError):
            raise InvalidInput(
                f"{path} cannot be read as rows that leave the data.",
                "Originals of wrong labels would stay in the training.",
                "Draw canaries anew.",
            ) from None

    def _table(self, stem: str) -> dict[str, NDArray[Any]]:
        suffix = str(self.manifest.drawn["suffix"])
        return dict(read_examples(self.folder / f"{stem}{suffix}", text_format(self)).columns)


def units_of(score: Mapping[str, NDArray[Any]]) -> IntArray:
    """Return the unit of each row, numbered in the order in which they appear: coin j is unit j's.

    >>> units_of({"canary": np.array(["a", "b", "c"]), "canary_user": np.array(["v", "u", "v"])})
    array([0, 1, 0])
    """
    named = score[OWNER] if OWNER in score else score[ID]
    _, first, place = np.unique(named.astype(str), return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[place]


def inserted(score: ExampleTable, into: BoolArray, user: str | None) -> ExampleTable:
    """Return the rows of the canaries that are in, in the columns of the data.

    Where these have no column `user`, one says whose a record is if canaries are users.
    """
    chosen = score.only(into[units_of(score.columns)])
    extra = (ID,) if user is None else (ID, OWNER)
    return ExampleTable(
        {name: values for name, values in chosen.columns.items() if name not in extra}
    )


def write_canaries(
    folder: Path,
    coins: CanaryCoins,
    score: ExampleTable,
    removed: IntArray,
    suffix: str,
    format: TextFormat,
    user: str | None,
    drawn: Mapping[str, object],
) -> None:
    """Write all files into a new folder, the manifest last: without one it was never finished.

    Raises `InvalidInput` for a folder that is not empty, or cannot be written.
    """
    new_folder(folder)
    try:
        own_folder(folder, 0o700)
        coins.keep(folder)
        content = score.content(suffix, format)
        atomic.write(folder / f"{SCORE}{suffix}", content, private=True)
        into = inserted(score, coins.into, user).content(suffix, format)
        atomic.write(folder / f"{INSERT}{suffix}", into, private=True)
        if len(removed):
            lines = "\n".join(["row", *map(str, removed.tolist()), ""])
            atomic.write(folder / REMOVE, lines.encode("ascii"), private=True)
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be written: {error.strerror}.",
            "Canaries of which a part is missing are worth nothing.",
            "Make room, and draw them into a new folder.",
        ) from None
    canary_manifest.begin(
        folder,
        {
            **drawn,
            "user": user,
            "commitment": coins.commitment,
            "score": digest_of(content),
            "suffix": suffix,
            "delimiter": format.delimiter,
            "encoding": format.encoding,
            "removed": len(removed),
        },
    )


def text_format(canaries: CanaryFolder) -> TextFormat:
    """Return how the text files of a folder are written."""
    drawn = canaries.manifest.drawn
    return TextFormat(delimiter=str(drawn["delimiter"]), encoding=str(drawn["encoding"]))


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of some bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def score_content(canaries: CanaryFolder) -> bytes:
    """Return the bytes of the file to score; raises `InvalidInput` unless they are as drawn."""
    path = canaries.folder / f"{SCORE}{canaries.manifest.drawn['suffix']}"
    try:
        content = regular_content(path, MOST_TABLE_BYTES, within=canaries.folder)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None
    if digest_of(content) != canaries.manifest.drawn["score"]:
        raise InvalidInput(
            f"{path} is not the file that was drawn.",
            "Coins belong to its rows: with other rows they would be somebody else's.",
            "Take the file from a copy that nobody has touched.",
        )
    return content
