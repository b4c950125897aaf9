"""Files of models (`.npz`), read as a stranger's: bounded, and without running anything in them.

`fl.running.checkpoint` writes arrays one behind the other, none of them compressed.  So what a file
may make a reader allocate is no more than the file itself, and the digest of a large model is taken
piece by piece.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import math
import struct
import zipfile
from array import array
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import regular_content
from ...fl.files import stored_arrays

MODEL_FORMAT: Final = "privplan-model/1"
MODEL_ARRAY: Final = "parameters"
ABOUT_ARRAY: Final = "about"
RELEASED_MOMENTS: Final = "normalisation_released"
RELEASED_MATRIX: Final = "pca_released"
RELEASED_VOTES: Final = "held_out_released"
"""Names of the arrays: the model, a text about it, the moments, or the matrix that features are
projected by, that were released before the training, and the votes that were released after it."""

MAX_TEXT_BYTES: Final = 2**26
"""Most bytes of a text that is read whole, 64 MiB."""

MAX_STATE_ARRAYS: Final = 8
"""Most arrays of a state (`fl.frame.state`)."""

_RELEASED_ONCE: Final = ("normalisation_", "pca_", "held_out_")
"""How the names of arrays begin that are released once, or follow from what is."""

_NPY_MAGIC: Final = b"\x93NUMPY\x01\x00"
_NPY_HEADER_LENGTH: Final = struct.Struct("<H")
_PIECE_BYTES: Final = 2**20


@dataclass(frozen=True)
class StoredModel:
    """What a file of a model holds: the digests of its arrays, and what it says of itself.

    `moments`, `matrix` and `votes` are None where it holds none.  `other_arrays` are those of
    float64, by name, as the digest of a state takes them (`fl.frame.state`).
    """

    digest: str
    moments: str | None
    run_id: str
    round: int
    measured: tuple[tuple[int, Mapping[str, float]], ...]
    other_arrays: tuple[tuple[str, bytes], ...] = ()
    matrix: str | None = None
    votes: str | None = None

    def holds_state(self, digests: Collection[str]) -> bool:
        """Return whether arrays with the model are a state of one of these digests."""
        if len(self.other_arrays) > MAX_STATE_ARRAYS:
            return False
        return any(
            hashlib.sha256(b"".join(content for _, content in some)).hexdigest() in digests
            for size in range(len(self.other_arrays), 0, -1)
            # At most 2^8 subsets: a checkpoint may hold released moments and others with the
            # state.
            for some in itertools.combinations(self.other_arrays, size)
        )

    @classmethod
    def read(cls, path: Path) -> StoredModel:
        """Return what a file holds; raise `InvalidInput` for one that is no model of a run."""
        try:
            with stored_arrays.opened(path, within=path.parent) as arrays:
                names = set(arrays.namelist())
                moments = f"{RELEASED_MOMENTS}.npy" in names
                matrix = f"{RELEASED_MATRIX}.npy" in names
                votes = f"{RELEASED_VOTES}.npy" in names
                about = parsed_json(_text(arrays, ABOUT_ARRAY), parse_constant=float)
                if about["format"] != MODEL_FORMAT:
                    raise ValueError
                return cls(
                    _digest(arrays, MODEL_ARRAY),
                    _digest(arrays, RELEASED_MOMENTS) if moments else None,
                    str(about["run_id"]),
                    int(about["round"]),
                    tuple((int(n), _numbers(values)) for n, values, _ in about["measured"]),
                    tuple(
                        state for name in _others(names) if (state := _state_array(arrays, name))
                    ),
                    _digest(arrays, RELEASED_MATRIX) if matrix else None,
                    _digest(arrays, RELEASED_VOTES) if votes else None,
                )
        except OSError as error:
            raise InvalidInput(f"{path.name} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, RecursionError):
            raise _refused(path) from None
        except (zipfile.BadZipFile, RuntimeError, SyntaxError, MemoryError, struct.error):
            raise _refused(path) from None


def text_of(path: Path) -> Any:
    """Return what a JSON file says; raise `InvalidInput` for one that is none, or too long."""
    try:
        return parsed_json(
            regular_content(path, MAX_TEXT_BYTES, within=path.parent), parse_constant=float
        )
    except OSError as error:
        raise InvalidInput(f"{path.name} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"{path.name} is no JSON, or longer than 64 MiB.") from None


@contextmanager
def _array(
    arrays: zipfile.ZipFile, name: str, kinds: tuple[str, ...], size: int
) -> Iterator[tuple[IO[bytes], str, int]]:
    """Open one array of one dimension, of a type of this size: its bytes, type and length.

    Raises `ValueError` for another, and for one whose header does not say how long it is.
    """
    member = f"{name}.npy"
    with arrays.open(member) as file:
        if file.read(len(_NPY_MAGIC)) != _NPY_MAGIC:
            raise ValueError
        # A header is a Python literal of at most 65,535 bytes; evaluating one runs no code.
        header = ast.literal_eval(
            file.read(*_NPY_HEADER_LENGTH.unpack(file.read(_NPY_HEADER_LENGTH.size))).decode()
        )
        left = arrays.getinfo(member).file_size - file.tell()
        (shape,) = header["shape"]
        if header["descr"] not in kinds or shape * size != left:
            raise ValueError
        yield file, header["descr"], left


def _digest(arrays: zipfile.ZipFile, name: str) -> str:
    """Return the SHA-256 of an array as the log names it: little-endian float64 bytes."""
    sha256 = hashlib.sha256()
    with _array(arrays, name, ("<f8", ">f8"), 8) as (file, kind, left):
        while left:
            piece = array("d", file.read(min(_PIECE_BYTES, left)))
            if not piece:
                raise EOFError
            left -= 8 * len(piece)
            if kind == ">f8":
                piece.byteswap()
            sha256.update(piece.tobytes())
    return sha256.hexdigest()


def _others(names: set[str]) -> list[str]:
    """Return the names of arrays that may be a state with a model; at most 9."""
    arrays = sorted(name.removesuffix(".npy") for name in names)
    others = [name for name in arrays if name not in (MODEL_ARRAY, ABOUT_ARRAY)]
    return [name for name in others if not name.startswith(_RELEASED_ONCE)][: MAX_STATE_ARRAYS + 1]


def _state_array(arrays: zipfile.ZipFile, name: str) -> tuple[str, bytes] | None:
    """Return an array of any shape as the digest of a state takes it; None for one of no floats.

    Raises `ValueError` where its header does not say how long it is.
    """
    import numpy as np

    member = f"{name}.npy"
    with arrays.open(member) as file:
        if np.lib.format.read_magic(file) != (1, 0):
            raise ValueError
        shape, turned, kind = np.lib.format.read_array_header_1_0(file)
        left = arrays.getinfo(member).file_size - file.tell()
        if kind not in (np.dtype("<f8"), np.dtype(">f8")):
            return None
        if math.prod(shape) * 8 != left:
            raise ValueError
        content = np.frombuffer(file.read(left), kind).reshape(shape, order="F" if turned else "C")
    return name, f"{name}{shape}\n".encode() + content.astype("<f8").tobytes()


def _text(arrays: zipfile.ZipFile, name: str) -> bytes:
    with _array(arrays, name, ("|u1",), 1) as (file, _, left):
        if left > MAX_TEXT_BYTES:
            raise ValueError
        return file.read(left)


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}


def _refused(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path.name} is no model of a run, or it was altered.",
        "A model is stored as a few arrays, none of them compressed.",
        "Take the file from a copy that nobody has touched.",
    )
