"""Streams, JSON, errors and exit codes: the one place where a result or an error meets a person.

Standard output carries the answer; standard error carries warnings and errors.

An interruption (Ctrl-C, a scheduler's SIGTERM) is an error that says how to go on.

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
from typing import Any, Final

import typer

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


class Interruption(Exception):
    """What a command was doing was interrupted: what, why, and what to do next."""

    def __init__(
        self,
        what: str = "privplan was interrupted.",
        why: str = "It had not finished, so there is no answer.",
        next_step: str = "Give the same command again.",
    ) -> None:
        super().__init__(what)
        self.what, self.why, self.next_step = what, why, next_step


SCHEMA: Final = "privplan/1"

OK: Final = 0
CHECK_FAILED: Final = 1
USAGE: Final = 2
NOT_COMPUTABLE: Final = 3
NEEDS_EXTRA: Final = 4
INTERRUPTED: Final = 130

_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""Typer's base of all usage errors, whichever Click it stands on."""

_EXIT_BY_ERROR: Final[Mapping[str, tuple[int, str]]] = {
    "InvalidInput": (USAGE, "privplan refuses what it cannot account for, rather than guess."),
    "Unsupported": (NOT_COMPUTABLE, "privplan gives a number only where a sound argument exists."),
    "TargetUnreachable": (NOT_COMPUTABLE, "Every value that was tried proves less than is asked."),
    "TargetTrivial": (NOT_COMPUTABLE, "The target already holds without any noise."),
    "EnginesDisagree": (NOT_COMPUTABLE, "Two calculations exclude each other, so one is wrong."),
    "BudgetExceeded": (CHECK_FAILED, "What is left of the budget does not pay for it."),
    "MissingExtra": (NEEDS_EXTRA, "This part of privplan needs packages that are not installed."),
    "LogBroken": (NOT_COMPUTABLE, "Nothing is released that is not in the log."),
    "ProtocolFault": (CHECK_FAILED, "The protocol stops for everybody, and nothing is released."),
    "MissingParty": (CHECK_FAILED, "The protocol stops for everybody, and nothing is released."),
}
"""The exit code of each kind of error, and its reason where the error itself gives none."""


class _Unwritten(OSError):
    """What was to be printed could not be written: the disk is full, say."""


@dataclass(frozen=True)
class Report:
    """What a command found, in the three forms in which it can be printed.

    `result` is for `--json`, `text` for a person, `number` for `--quiet`.  `failure` is the exit
    code where it is not `ok`.
    """

    result: Mapping[str, object]
    text: str
    number: str
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    ok: bool = True
    failure: int = CHECK_FAILED


def show(report: Report, *, as_json: bool, quiet: bool) -> None:
    """Print a report; leave with its exit code if what it checked failed."""
    if as_json:
        _to_stdout(_envelope(report.ok, report.result, report.assumptions, report.warnings))
    else:
        # Names of files and folders are a stranger's words, too.
        _to_stdout(printable(report.number if quiet else report.text))
    # On standard error, so that what a pipe reads is the answer alone.
    for warning in report.warnings:
        _to_stderr(_label("warning:", "yellow") + " " + _wrapped(plain(warning)))
    if not report.ok:
        raise typer.Exit(report.failure)


def note(text: str) -> None:
    """Print one line on standard error, with the answer; nothing for an empty text."""
    if text:
        _to_stderr(plain(text))


def fail(error: Exception, *, as_json: bool) -> int:
    """Print an error in three lines (what, why, next) and return its exit code."""
    from ...accountant.errors import PrivplanError

    if isinstance(error, PrivplanError):
        # The nearest class in the table, so that a subclass leaves with its parent's code.
        kind = next(
            (cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _EXIT_BY_ERROR), ""
        )
        code, usual = _EXIT_BY_ERROR.get(kind, (NOT_COMPUTABLE, ""))
        what, why, step = error.what, error.why or usual, error.next_step or "privplan --help"
        said = "; ".join(note for note in getattr(error, "__notes__", ()) if note)
        why = f"{why} (It was set {said}.)" if said else why
    elif isinstance(error, (Interruption, typer.Abort)):
        code, stopped = INTERRUPTED, error if isinstance(error, Interruption) else Interruption()
        what, why, step = stopped.what, stopped.why, stopped.next_step
    elif isinstance(error, _UsageError):
        code = USAGE
        what, why, step = _usage(error)
    elif isinstance(error, _Unwritten):
        code = NOT_COMPUTABLE
        what = f"The answer could not be written: {error.strerror}."
        why = "Where the output goes takes no more; what was asked may have been done."
        step = "Make room there, or send the output elsewhere, and ask again."
    elif os.environ.get("PRIVPLAN_DEBUG"):
        raise error
    elif isinstance(error, (MemoryError, RecursionError)):
        code = NOT_COMPUTABLE
        deep = isinstance(error, RecursionError)
        what = "This is nested too deeply." if deep else "This needs more memory than there is."
        why = "What was given is larger than anything that a run writes, or made to be so."
        step = "Give a smaller file, or fewer steps and phases."
    elif isinstance(error, ModuleNotFoundError):
        code = NEEDS_EXTRA
        what = f"The package `{error.name}` is not installed."
        why, step = _EXIT_BY_ERROR["MissingExtra"][1], "privplan doctor"
    else:
        code = NOT_COMPUTABLE
        # Not its text: a library's message may show the values that it was given.
        of_system = f": {error.strerror}" if isinstance(error, OSError) else ""
        what = f"privplan stopped on an error of its own: {type(error).__name__}{of_system}"
        why = "This is a fault in privplan, not in what you gave it."
        step = "Set PRIVPLAN_DEBUG=1, run it again, and report what it prints."
    # A message may quote a file of a stranger: nothing in it reaches the terminal unescaped.
    what, why, step = plain(what), plain(why), plain(step)
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


def _usage(error: Any) -> tuple[str, str, str]:
    context = getattr(error, "ctx", None)
    words: list[str] = []
    while context is not None and context.parent is not None:
        words.insert(0, context.info_name or "")
        context = context.parent
    command = " ".join(["privplan", *words])
    if words == ["check"] and type(error).__name__ == "NoSuchOption":
        step = (
            "Say facts with --set KEY=VALUE, such as --set noise_multiplier=1.1 or "
            "--set method=shuffled: privplan explain check"
        )
        return error.format_message(), "`privplan check` takes facts by their keys.", step
    if not words and "'risk'" in error.format_message():
        step = "privplan account EVENT --risk, or privplan explain risk"
        return error.format_message(), "What attacks reach is an option of `account`.", step
    return error.format_message(), f"`{command}` does not take it so.", f"{command} --help"


def _label(word: str, colour: str) -> str:
    return word if os.environ.get("NO_COLOR") else typer.style(word, fg=colour, bold=True)


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
        typer.echo(text.encode(encoding, "backslashreplace").decode(encoding), err=to_error)
    except OSError as error:
        # What standard error does not take can be said nowhere: the answer counts all the same.
        if not (to_error or isinstance(error, BrokenPipeError)):
            raise _Unwritten(error.errno, error.strerror) from None
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
