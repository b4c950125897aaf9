"""Rows of CSV and TSV files: one line is one row, whatever else it holds.

A row is judged by its own line alone.  A quote that is never closed, or a newline inside quotes,
makes one bad line, and cannot swallow the rows of other people that follow it.  Bad lines are left
out; only the header may refuse a file.

    bad line     longer than `longest_line` bytes, bytes that are no text in the encoding, NUL or a
                 lone carriage return, an open quote, or another number of fields than the header
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import numpy as np

from ...accountant.arrays import BoolArray, IntArray
from ...accountant.errors import InvalidInput
from ...accountant.regular_file import open_regular
from .batches import ArrayShapes, Batch, BatchReport, arrow, unheard
from .schema import TextFormat

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXT_BLOCK_BYTES: Final = 2**23
"""How much of a file is looked at at a time."""

_NEWLINE, _RETURN, _QUOTE, _NUL = b'\n\r"\0'
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, eq=False)
class TextFile:
    """A CSV or TSV file, plain or gzipped (by its name), with its header."""

    path: Path
    format: TextFormat
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path, format: TextFormat) -> TextFile:
        """Return the file; raises `InvalidInput` for a header that cannot be read."""
        with _opened(path) as file:
            first = file.readline(format.longest_line + 1)
        if not first.strip():
            raise _refused(path, "has no header line")
        if len(first) > format.longest_line:
            raise _refused(path, f"has a header of more than {format.longest_line:,} bytes")
        if first.startswith(_BYTE_ORDER_MARK) and format.encoding == "utf-8":
            first = first[len(_BYTE_ORDER_MARK) :]
        try:
            header = first.decode(format.encoding).rstrip("\r\n")
            if "\r" in header or "\0" in header:
                raise ValueError
            (names,) = csv.reader([header], delimiter=format.delimiter, strict=True)
        except (ValueError, csv.Error):
            raise _refused(
                path, f"has a header that is no line of {format.encoding} text"
            ) from None
        return cls(path, format, tuple(name.strip() for name in names))

    def require_readable(
        self, needed: tuple[str, ...], _user: str | None, arrays: ArrayShapes
    ) -> None:
        """Raise `InvalidInput` for a column of arrays; any other cell is read as a text."""
        for name in needed:
            if name in arrays:
                raise InvalidInput(
                    f'{self.path.name} has a column {name!r:.60}, and the schema says "array".',
                    "A cell of a text file is one number or one word.",
                    "Save arrays in a file .npz, or describe each number as a column.",
                )

    def is_flat(self, _column: str) -> bool:
        """Return True: a cell is a text."""
        return True

    def batches(
        self, report: BatchReport = unheard, *, columns: tuple[str, ...] = ()
    ) -> Iterator[Batch]:
        """Yield the rows below the header, with some columns, or all where none are named.

        `report` hears of every line that is left out.
        """
        kept = set(columns or self.names)
        with _opened(self.path) as file:
            file.readline()
            number = 2
            for block in _blocks(file, self.format.longest_line):
                lines = _Lines(block, number, self, report)
                for batch in lines.batch():
                    held = {name: cells for name, cells in batch.columns.items() if name in kept}
                    yield Batch(held, batch.lines)
                number += len(lines.starts)


class _Lines:
    """The lines of one block, sorted into plain ones, those with quotes, and bad ones."""

    def __init__(self, block: bytes, first: int, file: TextFile, report: BatchReport) -> None:
        self._file, self._first, self._report = file, first, report
        self._block = block
        self.bytes: NDArray[np.uint8] = np.frombuffer(block, np.uint8)
        self._ends = np.flatnonzero(self.bytes == _NEWLINE)
        self.starts = np.concatenate(([0], self._ends[:-1] + 1))[: len(self._ends)]
        returns = self.bytes[np.maximum(self._ends - 1, 0)] == _RETURN
        self._content_ends = self._ends - (returns & (self._ends > self.starts))
        self._bad = np.zeros(len(self._ends), bool)

    def batch(self) -> Iterator[Batch]:
        """Yield the rows, in the order of their lines; nothing where there is none."""
        # What makes a line bad is asked in an order in which each question may rest on the last:
        # how long it is, which bytes it holds, whether it is text, and what its fields are.
        sizes = self._content_ends - self.starts
        self._leave_out(
            sizes > self._file.format.longest_line,
            f"the line is longer than {self._file.format.longest_line:,} bytes",
        )
        self._bad |= sizes == 0  # an empty line is no row, and nothing is wrong with it
        self._leave_out(self._has(_NUL), "the line holds a NUL byte")
        returns = np.flatnonzero(self.bytes == _RETURN)
        inside = returns[~np.isin(returns, self._content_ends)]
        self._leave_out(self._lines_of(inside), "the line holds a carriage return")
        self._require_text()
        # Arrow's parser lets a quote reach over the end of a line, so it gets lines without any.
        # It takes a byte order mark off the first of them, too.
        quoted = (self._has(_QUOTE) | self._has_mark()) & ~self._bad
        delimiters = np.flatnonzero(self.bytes == ord(self._file.format.delimiter))
        fields = np.diff(np.searchsorted(delimiters, self._ends), prepend=0) + 1
        plain = ~quoted & ~self._bad
        expected = len(self._file.names)
        self._leave_out(
            plain & (fields != expected), f"the line has not the {expected:,} fields of the header"
        )
        batches = [*self._plain(plain & ~self._bad), *self._quoted(quoted)]
        if batches:
            yield batches[0] if len(batches) == 1 else _merged(*batches)

    def _plain(self, chosen: BoolArray) -> Iterator[Batch]:
        if not chosen.any():
            return
        import pyarrow.csv as arrow_csv

        text = arrow().string()
        names = [f"c{index}" for index in range(len(self._file.names))]
        table = arrow_csv.read_csv(
            arrow().BufferReader(self._utf8(chosen)),
            read_options=arrow_csv.ReadOptions(
                column_names=names, use_threads=False, block_size=2 * TEXT_BLOCK_BYTES + 2**24
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self._file.format.delimiter,
                quote_char=False,
                double_quote=False,
                escape_char=False,
                newlines_in_values=False,
                ignore_empty_lines=False,
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, text), strings_can_be_null=False
            ),
        ).combine_chunks()
        columns = {
            name: table.column(index).combine_chunks()
            for index, name in enumerate(self._file.names)
        }
        yield Batch(columns, self._first + np.flatnonzero(chosen))

    def _quoted(self, chosen: BoolArray) -> Iterator[Batch]:
        rows, lines = [], []
        for line in np.flatnonzero(chosen):
            content = self._block[self.starts[line] : self._content_ends[line]]
            row = _row(content.decode(self._file.format.encoding), self._file.format.delimiter)
            if row is None:
                self._report(self._first + int(line), None, "a quote of the line is left open")
            elif len(row) != len(self._file.names):
                expected = len(self._file.names)
                self._report(
                    self._first + int(line),
                    None,
                    f"the line has not the {expected:,} fields of the header",
                )
            else:
                rows.append(row)
                lines.append(self._first + int(line))
        if rows:
            text = arrow().string()
            columns = {
                name: arrow().array([row[index] for row in rows], text)
                for index, name in enumerate(self._file.names)
            }
            yield Batch(columns, np.array(lines, np.int64))

    def _require_text(self) -> None:
        """Leave out the lines whose bytes are no text in the encoding."""
        encoding = self._file.format.encoding
        if _is_text(self._block, encoding):
            return
        above = self._lines_of(np.flatnonzero(self.bytes >= 128)) & ~self._bad
        unreadable = np.zeros(len(self._ends), bool)
        for line in np.flatnonzero(above):
            content = self._block[self.starts[line] : self._content_ends[line]]
            unreadable[line] = not _is_text(content, encoding)
        self._leave_out(unreadable, f"the line is no {encoding} text")

    def _utf8(self, chosen: BoolArray) -> bytes:
        """Return the chosen lines in UTF-8."""
        content = self._block
        if not chosen.all():
            content = self.bytes[np.repeat(chosen, self._ends - self.starts + 1)].tobytes()
        encoding = self._file.format.encoding
        return content if encoding in ("utf-8", "ascii") else content.decode(encoding).encode()

    def _has_mark(self) -> BoolArray:
        """Return which lines begin with a byte order mark."""
        marked = np.ones(len(self.starts), bool)
        for index, byte in enumerate(_BYTE_ORDER_MARK):
            at = np.minimum(self.starts + index, len(self.bytes) - 1)
            marked &= self.bytes[at] == byte
        return marked

    def _has(self, byte: int) -> BoolArray:
        return self._lines_of(np.flatnonzero(self.bytes == byte))

    def _lines_of(self, positions: IntArray) -> BoolArray:
        there = np.zeros(len(self._ends), bool)
        there[self._line_of(positions)] = True
        return there

    def _line_of(self, positions: IntArray) -> IntArray:
        return np.searchsorted(self._ends, positions)

    def _leave_out(self, lines: BoolArray, why: str) -> None:
        for line in np.flatnonzero(lines & ~self._bad) if self._report is not unheard else ():
            self._report(self._first + int(line), None, why)
        self._bad |= lines


def _merged(plain: Batch, quoted: Batch) -> Batch:
    """Return the rows of two batches in the order of their lines."""
    lines = np.concatenate((plain.lines, quoted.lines))
    order = np.argsort(lines)
    columns = {
        name: arrow().concat_arrays([cells, quoted.columns[name]]).take(arrow().array(order))
        for name, cells in plain.columns.items()
    }
    return Batch(columns, lines[order])


def _blocks(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """Yield the rest of a file in blocks of whole lines, each of which ends with a newline.

    Of a line that is longer than `longest` a part is kept that is longer than that, and the rest is
    passed over, so that a file without newlines costs no memory.
    """
    kept = b""
    while chunk := file.read(TEXT_BLOCK_BYTES):
        end = chunk.rfind(b"\n") + 1
        if not end:
            kept += chunk[: max(0, longest + 2 - len(kept))]
            continue
        head, _, body = chunk.partition(b"\n")
        yield kept + head[: max(0, longest + 2 - len(kept))] + b"\n" + body[: end - len(head) - 1]
        kept = chunk[end : end + longest + 2]
    if kept:
        yield kept + b"\n"


def _row(line: str, delimiter: str) -> list[str] | None:
    """Return the fields of one line; None where a quote is left open or stands in the middle."""
    try:
        (row,) = csv.reader([line], delimiter=delimiter, strict=True)
    except (csv.Error, ValueError):
        return None
    return row


def _is_text(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a text file, unzipped where its name says that it is zipped; name it in refusals."""
    try:
        with open_regular(path, within=path.parent) as file:
            if path.suffix == ".gz":
                with gzip.GzipFile(fileobj=file) as content:
                    yield cast(BinaryIO, content)
            else:
                yield file
    # What these say themselves is of what the file holds: bytes of it, or the sum of all.
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise _unread(path, "cannot be unzipped: it is damaged") from None
    except OSError as error:
        raise _unread(path, f"cannot be read: {error.strerror or 'it is damaged'}") from None


def _unread(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} {what}.",
        "It must be a whole file of text, zipped where its name says so.",
        "Write it again, or take a copy that is whole.",
    )


def _refused(path: Path, what: str) -> InvalidInput:
    return InvalidInput(
        f"{path.name} {what}.",
        "The first line of a text file names its columns.",
        "Save it with a header, in the encoding and with the delimiter of the schema's [format].",
    )
