"""Canaries in the training of another library: their coins, and what is seen of them.

    canaries.json             the secret coins, for the owner alone: the first line of the log
                              commits to them, before any noise
    canary-observations.bin   a row for each step: the noisy sum in the direction of each canary,
                              which is a function of what the training releases

A canary is one unit more of the training, in or out by a coin: its gradient is ten times as long as
the clip, the loader draws it as it draws any unit, and the optimizer clips it as it clips any
gradient.  Directions of canaries are orthogonal: each has coordinates of its own, with signs from
the key.  In every second step a canary points the other way, so that noise which is used again
cancels out and the canary is left.

**What canaries change.**  The sensitivity is the clip still, and epsilon that of the plan: coins,
and not data, decide who is in.  A sum is divided by what the plan says, whoever is in it, so that
canaries which are in add to the mean.  Under replace-one a canary that is out has the opposite
gradient, under zero-out none.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Self

import numpy as np

from ...accountant import validate
from ...accountant.arrays import BoolArray, Float32Array, FloatArray
from ...accountant.errors import InvalidInput, LogBroken
from ...accountant.regular_file import regular_content
from ...fl.canaries import CANARY_NORM_IN_CLIPS
from ...fl.log.append_file import sync_folder
from ...fl.log.hash_chain import canonical, digest, is_hash, parsed

COINS_FILE: Final = "canaries.json"
OBSERVATIONS_FILE: Final = "canary-observations.bin"

CANARIES: Final = "canaries"
"""The part of a loop's table in the first line that speaks of canaries."""

MIN_CANARIES: Final = 40
"""Fewer would show nothing, however they are guessed."""

MAX_INSERTED_CANARIES: Final = 10**6
MAX_OBSERVED_BYTES: Final = 2**31

KEY_BYTES: Final = 32
_ROW_TYPE: Final = np.dtype("<f4")


@dataclass(frozen=True, eq=False)
class CanaryCoins:
    """The secret coins of the canaries: `into` (m,), and the key of the signs of their directions.

    `blind` hides the coins in the commitment.
    """

    into: BoolArray
    key: bytes = field(repr=False)
    blind: str = field(repr=False)

    def __repr__(self) -> str:
        """Say how many there are; a coin must not slip into a message."""
        return f"CanaryCoins({len(self)} canaries)"

    def __len__(self) -> int:
        return len(self.into)

    @classmethod
    def drawn(cls, canaries: int) -> Self:
        """Return fair coins, drawn by the operating system.  Raises `InvalidInput`."""
        count = validate.count(canaries=canaries)
        if not MIN_CANARIES <= count <= MAX_INSERTED_CANARIES:
            raise InvalidInput(
                f"`canaries` is {count:,}; it must be from {MIN_CANARIES} to "
                f"{MAX_INSERTED_CANARIES:,}.",
                "Fewer show nothing, however well they are guessed.",
                "Give 1,000 or so.",
            )
        bits = np.frombuffer(secrets.token_bytes(-(-count // 8)), np.uint8)
        into = np.unpackbits(bits, count=count).astype(bool)
        return cls(into, secrets.token_bytes(KEY_BYTES), secrets.token_hex(KEY_BYTES))

    @cached_property
    def commitment(self) -> str:
        """The digest that stands in the first line; without the blind it says nothing of a coin."""
        return digest(canonical(self._content()))

    def signs(self, values: int) -> Float32Array:
        """Return the sign of each of so many coordinates, +1 or -1: (values,)."""
        bits = np.frombuffer(hashlib.shake_256(self.key).digest(-(-values // 8)), np.uint8)
        return np.unpackbits(bits, count=values).astype(np.float32) * 2.0 - 1.0

    def stated(self) -> dict[str, object]:
        """Return what the first line says of the canaries; no coin is in it."""
        return {
            "canaries": len(self),
            "commitment": self.commitment,
            "norm_in_clips": repr(CANARY_NORM_IN_CLIPS),
        }

    def _content(self) -> dict[str, object]:
        coins = "".join("1" if coin else "0" for coin in self.into.tolist())
        return {"coins": coins, "key": self.key.hex(), "blind": self.blind}

    def keep(self, folder: Path) -> None:
        """Keep the coins in the folder of the log, readable for its owner alone, unless they are.

        Raises `LogBroken` where they cannot be written: then no canary may be drawn.
        """
        if (folder / COINS_FILE).exists():
            return  # of a run that goes on, whose commitment they were held against
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(folder / COINS_FILE, flags, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(canonical(self._content()) + "\n")
                file.flush()
                os.fsync(descriptor)
            sync_folder(folder)
        except OSError as error:
            raise _unwritten(error) from None

    @classmethod
    def read(cls, folder: Path, stated: object = None) -> Self:
        """Return the coins of a folder, held against what the first line of its log states.

        Raises `InvalidInput` for coins that are missing, not those of the log, or open to others.
        """
        path = folder / COINS_FILE
        try:
            open_to_others = stat.S_IMODE(path.lstat().st_mode) & 0o077
            text = regular_content(path, MAX_OBSERVED_BYTES, within=folder).decode(
                "ascii", "replace"
            )
        except OSError as error:
            raise _bad(path, f"cannot be read: {error.strerror}", "Ask the owner.") from None
        if open_to_others:
            asked = "Find out who has read it: coins that are known test nothing. chmod 600 it."
            raise _bad(path, "may be read by others than its owner", asked)
        try:
            content = parsed(text)
            into = np.array([{"0": False, "1": True}[coin] for coin in content["coins"]], bool)
            given = cls(into, bytes.fromhex(content["key"]), str(content["blind"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _bad(path, "does not hold coins", "Take the file from a trusted copy.") from None
        if stated is not None and given.stated() != stated:
            raise _bad(
                path,
                "does not hold the coins that the log committed to",
                "Take the file from a copy that nobody has touched.",
            )
        return given


def coins_for(folder: Path, canaries: int) -> CanaryCoins:
    """Return fresh coins, or those of a run in the folder that goes on, which its log holds.

    Raises `InvalidInput` for another number of canaries than that of the run.
    """
    if not (folder / COINS_FILE).exists():
        return CanaryCoins.drawn(canaries)
    coins = CanaryCoins.read(folder)
    if len(coins) != canaries:
        raise InvalidInput(
            f"`canaries` is {canaries:,}, and the run has {len(coins):,}.",
            "A run that goes on keeps the canaries that its log committed to.",
            f"Give {len(coins):,}, or a new folder.",
        )
    return coins


def _unwritten(error: OSError) -> LogBroken:
    return LogBroken(
        f"What is known of the canaries cannot be kept: {error.strerror}.",
        "Without their coins, and what is seen of them, nobody can judge them.",
        "Make room on the disk, and start in a new folder.",
    )


def _bad(path: Path, what: str, next_step: str) -> InvalidInput:
    return InvalidInput(
        f"{path} {what}.", "A test rests on coins that were fixed beforehand.", next_step
    )


class ObservationWriter:
    """Writes what is seen of the canaries: one row of m numbers for each step."""

    def __init__(self, folder: Path, canaries: int) -> None:
        self._row = canaries * _ROW_TYPE.itemsize
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        try:
            descriptor = os.open(folder / OBSERVATIONS_FILE, flags, 0o600)
        except OSError as error:
            raise _unwritten(error) from None
        self._file = os.fdopen(descriptor, "r+b", buffering=0)
        kept = self._file.read()
        # A row that was cut off has no end: what was seen of its step is lost.
        self.rows = len(kept) // self._row
        self._file.truncate(self.rows * self._row)
        self._file.seek(self.rows * self._row)
        self._digest = hashlib.sha256(kept[: self.rows * self._row])

    def append(self, row: FloatArray | Float32Array) -> None:
        """Add the row of a step; raises `LogBroken` where it cannot be written."""
        content = np.ascontiguousarray(row, _ROW_TYPE).tobytes()
        assert len(content) == self._row
        try:
            whole = self._file.write(content) == len(content)
        except OSError as error:
            raise _unwritten(error) from None
        if not whole:
            raise _unwritten(OSError(0, "the disk took a part of it"))
        self._digest.update(content)
        self.rows += 1

    def digest(self) -> str | None:
        """Return the digest of all rows so far, which a release states; None before the first."""
        return self._digest.hexdigest() if self.rows else None

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def observations(folder: Path, canaries: int, stated: Sequence[str]) -> FloatArray:
    """Return what was seen of the canaries: (steps, m), in units of the noise of the plan.

    `stated` are the digests of the releases of the log, in their order: each is that of all rows up
    to one of its own, behind the one before.  Rows behind the last are of steps that were never
    released, and are left out.  Raises `InvalidInput` where the file is not the log's.
    """
    path = folder / OBSERVATIONS_FILE
    try:
        content = regular_content(path, MAX_OBSERVED_BYTES, within=folder)
    except OSError as error:
        raise _bad(path, f"cannot be read: {error.strerror}", "Ask the owner.") from None
    rows = _rows_of(content, canaries * _ROW_TYPE.itemsize, list(stated))
    if rows is None:
        raise _bad(
            path,
            "is not what the releases of the log state",
            "Take the file from a copy that nobody has touched.",
        )
    seen = np.frombuffer(content, _ROW_TYPE, rows * canaries).reshape(rows, canaries)
    return seen.astype(np.float64)


def _rows_of(content: bytes, row: int, stated: list[str]) -> int | None:
    """Return how many rows the releases state; None where a digest fits none."""
    running, last = hashlib.sha256(), 0
    for number, piece in enumerate(_pieces(content, row), 1):
        running.update(piece)
        while stated and is_hash(stated[0]) and running.hexdigest() == stated[0]:
            stated.pop(0)
            last = number
    return None if stated else last


def _pieces(content: bytes, row: int) -> Iterator[bytes]:
    for start in range(0, len(content) - row + 1, row):
        yield content[start : start + row]
