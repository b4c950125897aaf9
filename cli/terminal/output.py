"""Streams and JSON: the one place where a result or an error meets a person.

Standard output carries the answer; standard error carries warnings and errors.  Which exit code an
error has says `exit_codes`.

Text for a terminal is plain: paragraphs and tables of at most 88 characters or so.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import typer

from .exit_codes import CHECK_FAILED, Unwritten, exit_of

MAX_LINE_CHARACTERS: Final = 88
"""Characters of a line behind its label."""


def plain(text: str) -> str:
    """Return `text` on one line, with what a terminal would obey (or not show) written out."""
    # A line break inside a value could forge a line of ours.
    return printable(" ".join(text.split()))


def one_line(text: str) -> str:
    """Return `text` as it is named, with line breaks written out too: a name is no sentence."""
    return printable(text).replace("\n", "\\n")


def printable(text: str) -> str:
    """Return `text` in its lines, with what a terminal would obey (or not show) written out."""
    return "".join(
        char
        if char == "\n" or char.isprintable()
        else char.encode("unicode_escape").decode("ascii")
        for char in text
    )


def paragraph(label: str, text: str) -> str:
    """Return `text` plain and wrapped, behind a label and as far in as it."""
    return textwrap.fill(
        plain(text),
        width=88,
        initial_indent=label,
        subsequent_indent=" " * len(label),
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Return rows of a label and a text, the labels in one column.

    A row is one line: a name in it (of a folder, say) could otherwise forge another row.
    """
    width = max((len(label) for label, _ in rows), default=0) + 3
    return "\n".join(f"{one_line(label):<{width}}{one_line(text)}".rstrip() for label, text in rows)


def wrapped(label: str, text: str) -> list[tuple[str, str]]:
    """Return a text as rows of a table: the label next to its first line."""
    lines = textwrap.wrap(
        plain(text), MAX_LINE_CHARACTERS, break_long_words=False, break_on_hyphens=False
    )
    labels = [label, *[""] * len(lines)]
    return list(zip(labels, lines, strict=False))


SCHEMA: Final = "privplan/1"


@dataclass(frozen=True)
class Report:
    """What a command found, in the three forms in which it can be printed.

    `result` is for `--json`, `text` for a person, `number` for `--quiet`.  `failure` is the exit
    code where it is not `ok`.  The first line of the text is a verdict if `is_verdict`: a terminal
    shows it in colour.
    """

    result: Mapping[str, object]
    text: str
    number: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ok: bool = True
    failure: int = CHECK_FAILED
    is_verdict: bool = False


def show(report: Report, *, as_json: bool, quiet: bool) -> None:
    """Print a report; leave with its exit code if what it checked failed."""
    if as_json:
        _to_stdout(_envelope(report.ok, report.result, report.assumptions, report.warnings))
    else:
        # Names of files and folders are a stranger's words, too.
        text = printable(report.number if quiet else report.text)
        _to_stdout(_coloured(report, text) if report.is_verdict and not quiet else text)
    # On standard error, so that what a pipe reads is the answer alone; JSON holds them itself.
    for warning in () if as_json else report.warnings:
        _to_stderr(_label("warning:", "yellow") + " " + _wrapped(plain(warning)))
    if not report.ok:
        raise typer.Exit(report.failure)


def note(text: str) -> None:
    """Print one line on standard error, with the answer; nothing for an empty text."""
    if text:
        _to_stderr(plain(text))


def fail(error: Exception, *, as_json: bool) -> int:
    """Print an error in three lines (what, why, next) and return its exit code."""
    code, *said = exit_of(error)
    # A message may quote a file of a stranger: nothing in it reaches the terminal unescaped.
    what, why, step = map(plain, said)
    _to_stderr(f"{_label('error:', 'red')} {what}\n  why: {why}\n next: {step}")
    if as_json:
        with contextlib.suppress(OSError):  # standard output may be what failed
            _to_stdout(_envelope(False, None, (), (), {"what": what, "why": why, "next": step}))
    return code


def jsonable(value: object) -> object:
    """Return `value` with every infinite number as the string "inf", which JSON can carry."""
    if isinstance(value, float) and math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(item) for item in value]
    return value


def _envelope(
    ok: bool,
    result: Mapping[str, object] | None,
    assumptions: tuple[str, ...],
    warnings: tuple[str, ...],
    error: Mapping[str, str] | None = None,
) -> str:
    envelope: dict[str, object] = {
        "schema": SCHEMA,
        "ok": ok,
        "result": result,
        "assumptions": assumptions,
        "warnings": warnings,
    }
    if error is not None:
        envelope["error"] = error
    return json.dumps(jsonable(envelope), allow_nan=False)


def _coloured(report: Report, text: str) -> str:
    """Return a text whose first line is green, red (a check failed) or yellow (nobody knows)."""
    failed = "red" if report.failure == CHECK_FAILED else "yellow"
    first, *others = text.split("\n", 1)
    return "\n".join([_label(first, "green" if report.ok else failed), *others])


def _label(word: str, colour: str) -> str:
    return word if os.environ.get("NO_COLOR") else typer.style(word, fg=colour, bold=True)


def _has_colour() -> bool | None:
    """Return whether what is printed has colour whoever reads it; None: on a terminal alone."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        width=88,
        initial_indent=" " * 9,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    ).lstrip()


def _to_stdout(text: str) -> None:
    _write(text, to_error=False)


def _to_stderr(text: str) -> None:
    _write(text, to_error=True)


def discard_unwritten() -> None:
    """Leave nothing in the buffer of standard output that the interpreter would fail to write.

    After an error on standard output (a full disk), its text is still buffered; the last flush at
    exit would fail again and replace the exit code.
    """
    if sys.stdout is None:  # it was closed before the program began
        return
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write(text: str, *, to_error: bool) -> None:
    """Print; a reader that has gone away (`| head`) changes nothing about the exit code."""
    stream = sys.stderr if to_error else sys.stdout
    if stream is None:
        return
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        typer.echo(
            text.encode(encoding, "backslashreplace").decode(encoding),
            err=to_error,
            color=_has_colour(),
        )
    except OSError as error:
        # What standard error does not take can be said nowhere: the answer counts all the same.
        if not (to_error or isinstance(error, BrokenPipeError)):
            raise Unwritten(error.errno, error.strerror) from None
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
