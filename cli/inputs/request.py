"""What a command is asked, as one frozen class: each field is an option, with its help and default.

Groups of options that several commands take are classes of their own, which a request inherits.
The help lists the groups, the last base first, then what is of the command alone, then the groups
that are `TRAILING`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from typing import Any, Final, TypeAlias, TypeVar, get_type_hints

import typer
from typer.models import ArgumentInfo

from ...accountant.decoding import remembered
from ..terminal.output import Report, show
from . import options
from .anchors import AnchorOptions


@options.option_group
class OutputOptions:
    """How the answer is printed."""

    as_json: options.Json = False
    quiet: options.Quiet = False


@options.option_group
class LossOptions:
    """Whose loss is asked about, and by which engine."""

    neighbours: options.Neighbours = "add-remove"
    group: options.Group = 1
    engine: options.Engine = None


@options.option_group
class QuestionOptions(LossOptions):
    """Epsilon at a delta, or delta at an epsilon."""

    delta: options.Delta = None
    epsilon: options.Epsilon = None


TRAILING: Final = (AnchorOptions, OutputOptions)
"""Groups that the help lists last, in this order."""

R = TypeVar("R", bound=OutputOptions)

Answer: TypeAlias = Callable[[typer.Context, R], Report]
"""What a command is: from what it is asked to its report."""


def takes(request: type[R]) -> Callable[[Answer[R]], Callable[..., None]]:
    """Have a command take the options that a class declares, and print the report it returns.

    Typer reads options from a signature: the command gets one with a parameter for each field.
    """
    by_name = inspect.Parameter.KEYWORD_ONLY
    listed = [inspect.Parameter("context", by_name, annotation=typer.Context)]
    for field in _in_order(request):
        default = inspect.Parameter.empty if field.default is MISSING else field.default
        annotation = _annotations(request)[field.name]
        listed.append(
            inspect.Parameter(field.name, by_name, default=default, annotation=annotation)
        )

    def decorated(answer: Answer[R]) -> Callable[..., None]:
        def command(context: typer.Context, **given: Any) -> None:
            asked = request(**given)
            show(answer(context, asked), as_json=asked.as_json, quiet=asked.quiet)

        command.__name__, command.__doc__ = answer.__name__, answer.__doc__
        command.__signature__ = inspect.Signature(listed)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in listed}
        return command

    return decorated


def keys_of(request: type[OutputOptions]) -> tuple[str, ...]:
    """Return the options of a request that `privplan.toml` and variables may set."""
    keys = []
    for field in _in_order(request):
        declared, *marks = _annotations(request)[field.name].__metadata__
        if not isinstance(declared, ArgumentInfo) and options.PER_CALL not in marks:
            keys.append(field.name)
    return tuple(keys)


@remembered
def _annotations(request: type[OutputOptions]) -> dict[str, Any]:
    return get_type_hints(request, include_extras=True)


def _in_order(request: type[OutputOptions]) -> list[Field[Any]]:
    """Return the fields of a request in the order of its help."""
    trailing = [group for group in TRAILING if issubclass(request, group)]
    last = [field.name for group in trailing for field in fields(group)]
    return sorted(
        fields(request), key=lambda field: last.index(field.name) if field.name in last else -1
    )
