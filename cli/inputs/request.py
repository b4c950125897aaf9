"""What a command is asked, as one frozen class: each field is an option, with its help and default.

Groups of options that several commands take are classes of their own, which a request inherits;
the help lists those of the last base first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar, get_type_hints

import typer

from . import options

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """How the answer is printed."""

    as_json: options.Json = False
    quiet: options.Quiet = False


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """Whose loss is asked about, and by which engine."""

    neighbours: options.Neighbours = "add-remove"
    group: options.Group = 1
    engine: options.Engine = None


@dataclass(frozen=True, kw_only=True)
class QuestionOptions(LossOptions):
    """Epsilon at a delta, or delta at an epsilon."""

    delta: options.Delta = None
    epsilon: options.Epsilon = None


def takes(request: type[R]) -> Callable[[Callable[[typer.Context, R], None]], Callable[..., None]]:
    """Have a command take the options that a class declares, and be called with an instance.

    Typer reads options from a signature: the command gets one with a parameter for each field.
    """
    hints = get_type_hints(request, include_extras=True)
    listed = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    ]
    for field in fields(request):  # type: ignore[arg-type]
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        listed.append(
            inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=hints[field.name],
            )
        )

    def decorated(run: Callable[[typer.Context, R], None]) -> Callable[..., None]:
        def command(context: typer.Context, **given: Any) -> None:
            run(context, request(**given))

        command.__name__, command.__doc__ = run.__name__, run.__doc__
        command.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in listed}
        return command

    return decorated
