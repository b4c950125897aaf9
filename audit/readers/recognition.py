"""Which reader a file is for: recognised by what is in it, never by its name.

Formats of libraries are asked first, and exactly one must recognise a file: two formats in one
file are refused, since their facts could be of two runs.  Tables, configurations and logs of text,
which have no mark of their own, are asked in their order where no library's format is recognised.

No file is read beyond its limit: 64 MiB, or 16 MiB of text.  Of a zip archive, which a PyTorch
checkpoint is, only the member `data.pkl` is read, and of its older form only the first 64 MiB, so
that both may have any size.  Nothing that is read is run, and no other library is imported.

Regular files of strangers, read to the size that they state.

Files of /proc and their like are regular by name and have the size 0: reading one may wait for
ever, or never end.  Nothing of them is read.
"""

from __future__ import annotations

import importlib
import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from ...accountant import regular_file
from ...accountant.errors import InvalidInput, counted
from ..description.run_description import Reading
from . import privplan_log
from .content import NOT_JSON, json_of, text_of
from .torch_archive import looks_like_legacy, pickled_member


def is_folder(path: str | Path) -> bool:
    """Return whether a path is a folder; not for what is no path at all."""
    try:
        return Path(path).is_dir()
    except OSError:
        return False


@contextmanager
def open_regular(path: str | Path) -> Iterator[tuple[BinaryIO, int]]:
    """Open a regular file, and give it with its size in bytes.

    Raises `InvalidInput` for what is no regular file, is empty, or cannot be read.
    """
    name = str(path)
    try:
        with regular_file.open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise _empty(name)
            yield file, size
    except (regular_file.NoRegularFile, IsADirectoryError):
        raise _no_regular(name) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        trouble = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(
            f"{name} cannot be read: {trouble}.",
            "The file has to be there and readable.",
            "Check the path and the permissions.",
        ) from None


def whole_content(file: BinaryIO, head: bytes, size: int, name: str) -> bytes:
    """Return a file of which `head` was read; raises `InvalidInput` if its size changed since."""
    content = head + file.read(size + 1 - len(head))
    if len(content) != size:
        raise InvalidInput(
            f"{name} changed while it was read.",
            "A file that is being written says what the run was until now, or less.",
            "Give the file when the run has ended, or a copy.",
        )
    return content


def _no_regular(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is no regular file.",
        "Reading a pipe or a device may never end.",
        "Save what it gives into a file.",
    )


def _empty(name: str) -> InvalidInput:
    return InvalidInput(
        f"{name} is empty, or no file on a disk.",
        "It states the size 0, as the files of /proc do; nothing of it was read.",
        "Name the file that holds the run's numbers, or save what this one gives.",
    )


MAX_BINARY_FILE_BYTES: Final = 64 * 2**20
MAX_TEXT_FILE_BYTES: Final = 16 * 2**20
HEAD_BYTES: Final = 2**16
"""How much of a file says whether it is text."""

ZIP: Final = b"PK\x03\x04"
LOG_FILE: Final = "log.jsonl"

LIBRARY_FORMATS: Final = (
    "written_description",
    "privplan_log",
    "opacus",
    "dp_accounting_events",
    "jax_privacy",
    "tf_privacy",
    "flower",
    "nvflare",
    "opake",
    "diffprivlib",
)
"""Modules of formats that a file either has or has not."""

GENERAL_FORMATS: Final = ("csv_history", "jsonl_history", "keyed_config", "text_log")
"""Modules of formats that are recognised by words; the first that recognises reads."""

FORMATS: Final = (
    "a description (TOML or JSON), Opacus checkpoints and accountant states, dp_accounting events, "
    "jax_privacy configurations, statements of TF-Privacy, states of Flower's, opake's and "
    "diffprivlib's accountants, NVFlare's budgets, histories as CSV or JSONL, configurations, "
    "training logs, and privplan's own logs"
)


class Reader(Protocol):
    """What every module of a format has."""

    def recognises(self, content: bytes, name: str) -> bool:
        """Return whether the content has this format."""

    def read(self, content: bytes, name: str) -> Reading:
        """Return what the content says of a run; raises `InvalidInput` for what is wrong in it."""


def read_file(path: str | Path) -> Reading:
    """Return what a file says of a run, or the format of a run's folder.

    Raises `InvalidInput` for files that cannot be read, are too large, are no regular files, change
    while they are read, or have no format, or two, that is known.
    """
    name = str(path)
    if is_folder(path):
        return _folder(Path(path), name)
    with open_regular(path) as (file, size):
        content = _limited(file, size, name)
    return read_content(content, name)


def read_content(content: bytes, name: str) -> Reading:
    """Return what the content of a file says of a run; `name` is what messages call it."""
    if content.startswith(ZIP):
        content = pickled_member(io.BytesIO(content), name)
    # A log may be far longer than what was read of it, and nothing else begins as it does.
    if privplan_log.recognises(content, name):
        return privplan_log.read(content, name)
    reader = _reader_of(content, name)
    try:
        return reader.read(content, name)
    except InvalidInput as error:
        raise _of_file(name, error) from None


def _reader_of(content: bytes, name: str) -> Reader:
    known = [
        (module, reader)
        for module in LIBRARY_FORMATS
        if _recognises(reader := _reader(module), content, name)
    ]
    if len(known) > 1:
        listed = " and ".join(module.replace("_", " ") for module, _ in known)
        raise InvalidInput(
            f"{name} has two formats: {listed}.",
            "What it says could be of two runs, and nobody but its author can choose.",
            "Split it into one file for each.",
        )
    if known:
        return known[0][1]
    for module in GENERAL_FORMATS:
        reader = _reader(module)
        if _recognises(reader, content, name):
            return reader
    raise InvalidInput(
        f"{name} has no format that is known: {looks_like(content)}.",
        f"Known are {FORMATS}.",
        "Describe the run in a TOML file (privplan explain check).",
    )


def _recognises(reader: Reader, content: bytes, name: str) -> bool:
    try:
        return reader.recognises(content, name)
    except InvalidInput as error:
        raise _of_file(name, error) from None


def _of_file(name: str, error: InvalidInput) -> InvalidInput:
    """Return a refusal that names the file, as some readers do already."""
    what = error.what if name in error.what else f"{name}: {error.what}"
    return InvalidInput(what, error.why, error.next_step)


def _reader(module: str) -> Reader:
    return cast(Reader, importlib.import_module(f".{module}", __package__))


def looks_like(content: bytes) -> str:
    """Return what a content looks like, for the sentence that refuses it.

    >>> looks_like(b""), looks_like(b'{"loss": 1, "acc": 2}')
    ('it is empty', 'it is a JSON object with the keys `loss`, `acc`')
    """
    text = text_of(content)
    if text is None:
        return "it is binary"
    if not text.strip():
        return "it is empty"
    value = json_of(content)
    if value is NOT_JSON:
        # Its words are not repeated: a link may lead to a file that is nobody's business.
        return f"it is text of {counted(text.count(chr(10)) + 1, 'line')}"
    if isinstance(value, dict):
        keys = ", ".join(f"`{key:.30}`" for key in list(value)[:8])
        more = f" and {counted(len(value) - 8, 'other')}" if len(value) > 8 else ""
        return f"it is a JSON object with the keys {keys}{more}" if keys else "it is {}"
    if isinstance(value, list):
        return f"it is a JSON list of {len(value):,}"
    return "it is a single JSON value"


def _folder(folder: Path, name: str) -> Reading:
    if (folder / LOG_FILE).is_file():
        return Reading(name, privplan_log.FORMAT, {})
    raise InvalidInput(
        f"{name} is a folder without {LOG_FILE}.",
        "Of folders, only those of privplan's runs can be read.",
        "Name the file that holds the run's numbers.",
    )


def _limited(file: BinaryIO, size: int, name: str) -> bytes:
    """Return the content of a file within its limit; of an archive, that of its one member."""
    head = file.read(min(size, HEAD_BYTES))
    if head.startswith(ZIP):
        return pickled_member(file, name)
    if privplan_log.recognises(head, name):
        return head
    if looks_like_legacy(head):
        # Of old files of torch.save, what is read comes first, and tensors come last.
        return head + file.read(max(0, min(size, MAX_BINARY_FILE_BYTES) - len(head)))
    limit = MAX_BINARY_FILE_BYTES if _is_binary(head) else MAX_TEXT_FILE_BYTES
    if size > limit:
        raise InvalidInput(
            f"{name} is larger than {limit // 2**20} MiB.",
            "The files that hold a run's privacy are small; nothing of it was read.",
            "Save the accountant's state or the history on its own.",
        )
    return whole_content(file, head, size, name)


def _is_binary(head: bytes) -> bool:
    # The last character may be cut off: up to three bytes of it are left aside.
    return all(text_of(head[: len(head) - cut]) is None for cut in range(4))
