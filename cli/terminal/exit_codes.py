"""From an error to the exit code of a command, and to what, why and what next.

An interruption (Ctrl-C, a scheduler's SIGTERM) is an error that says how to go on.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import typer

from .typed_words import meant_options

if TYPE_CHECKING:
    from ...accountant.errors import PrivplanError


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
    "ServiceFault": (NOT_COMPUTABLE, "What rests on the service's answer was not done."),
    "ProtocolFault": (CHECK_FAILED, "The protocol stops for everybody, and nothing is released."),
    "MissingParty": (CHECK_FAILED, "The protocol stops for everybody, and nothing is released."),
}
"""The exit code of each kind of error, and its reason where the error itself gives none."""


class Unwritten(OSError):
    """What was to be printed could not be written: the disk is full, say."""


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
    if type(error).__name__ == "NoSuchOption" and error.ctx is not None:
        meant = meant_options(error.option_name, error.ctx.command.params)
        step = f"Did you mean {' or '.join(meant)}?" if meant else f"{command} --help"
        return f"`{command}` has no option {error.option_name}.", "Nothing was done.", step
    return error.format_message(), f"`{command}` does not take it so.", f"{command} --help"


def exit_of(error: Exception) -> tuple[int, str, str, str]:
    """Return the exit code of an error, what happened, why, and what to do next.

    Raises the error itself where it is none of privplan's and `PRIVPLAN_DEBUG` is set.
    """
    from ...accountant.errors import PrivplanError

    if isinstance(error, PrivplanError):
        return _of_privplan(error)
    if isinstance(error, (Interruption, typer.Abort)):
        stopped = error if isinstance(error, Interruption) else Interruption()
        return INTERRUPTED, stopped.what, stopped.why, stopped.next_step
    if isinstance(error, _UsageError):
        return USAGE, *_usage(error)
    if isinstance(error, Unwritten):
        return (
            NOT_COMPUTABLE,
            f"The answer could not be written: {error.strerror}.",
            "Where the output goes takes no more; what was asked may have been done.",
            "Make room there, or send the output elsewhere, and ask again.",
        )
    if os.environ.get("PRIVPLAN_DEBUG"):
        raise error
    if isinstance(error, (MemoryError, RecursionError)):
        deep = isinstance(error, RecursionError)
        return (
            NOT_COMPUTABLE,
            "This is nested too deeply." if deep else "This needs more memory than there is.",
            "What was given is larger than anything that a run writes, or made to be so.",
            "Give a smaller file, or fewer steps and phases.",
        )
    if isinstance(error, ModuleNotFoundError):
        what = f"The package `{error.name}` is not installed."
        return NEEDS_EXTRA, what, _EXIT_BY_ERROR["MissingExtra"][1], "privplan doctor"
    # Not its text: a library's message may show the values that it was given.
    of_system = f": {error.strerror}" if isinstance(error, OSError) else ""
    return (
        NOT_COMPUTABLE,
        f"privplan stopped on an error of its own: {type(error).__name__}{of_system}",
        "This is a fault in privplan, not in what you gave it.",
        "Set PRIVPLAN_DEBUG=1, run it again, and report what it prints.",
    )


def _of_privplan(error: PrivplanError) -> tuple[int, str, str, str]:
    # The nearest class in the table, so that a subclass leaves with its parent's code.
    kind = next((cls.__name__ for cls in type(error).__mro__ if cls.__name__ in _EXIT_BY_ERROR), "")
    code, usual = _EXIT_BY_ERROR.get(kind, (NOT_COMPUTABLE, ""))
    why, step = error.why or usual, error.next_step or "privplan --help"
    said = "; ".join(note for note in getattr(error, "__notes__", ()) if note)
    return code, error.what, f"{why} (It was set {said}.)" if said else why, step
