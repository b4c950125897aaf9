"""What a person types: numbers as people write them, and the command or option that was meant."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import typer.core

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest

THOUSANDS: Final = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+")
SCIENTIFIC: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?[eE]\+?[0-9]{1,2}")
DECIMAL_COMMA: Final = re.compile(r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?")


def digits_of(text: str, option: str, *, whole: bool) -> str:
    """Return a number as Python reads it, from `60,000` (whole numbers alone), `6e4` or `60_000`.

    Raises `InvalidInput` for a comma that may be a decimal point, and for what is no such number.

    >>> digits_of("60,000", "--records", whole=True), digits_of("6e4", "--records", whole=True)
    ('60000', '60000')
    """
    text = text.strip()
    if whole and THOUSANDS.fullmatch(text):
        return text.replace(",", "")
    if DECIMAL_COMMA.fullmatch(text):
        point, joined = text.replace(",", "."), text.replace(",", "")
        may_be = f" or {option} {joined}" if THOUSANDS.fullmatch(text) else ""
        raise InvalidInput(
            f"{option} is {text!r}, and a comma is no decimal point here.",
            "A number that is read otherwise than it was meant gives a wrong guarantee.",
            f"Give {option} a whole number." if whole else f"Write {option} {point}{may_be}",
        )
    if whole and SCIENTIFIC.fullmatch(text) and Decimal(text) == Decimal(text).to_integral_value():
        return str(int(Decimal(text)))
    try:
        int(text) if whole else float(text)
    except ValueError:
        kind = "a whole number" if whole else "a number"
        raise InvalidInput(
            f"{option} takes {kind}; it is {text!r}.", "", f"Give {option} {kind}."
        ) from None
    return text


def read_as_people_write(parameters: Iterable[Any]) -> None:
    """Let each option take numbers as people write them, and its words in whichever case."""
    for parameter in parameters:
        kind = _number_kind(parameter)
        is_option = parameter.opts[0].startswith("-")
        words = (parameter.metavar or "").strip("[]").split("|") if is_option else []
        if kind is not None:
            parameter.process_value = _reading(parameter, partial(digits_of, whole=kind is int))
        elif len(words) > 1:
            parameter.process_value = _reading(parameter, partial(_word, words=tuple(words)))


def _word(text: str, _: str, *, words: tuple[str, ...]) -> str:
    return next((each for each in words if each.lower() == text.lower()), text)


def _number_kind(parameter: Any) -> type | None:
    """Return whether a parameter takes `int` or `float`; None for another one.

    Older releases of Typer stand on Click, whose parameters have types of its own.
    """
    described = getattr(parameter, "type_descriptor", None)
    if described is not None:
        return described.annotation if described.annotation in (int, float) else None
    return {"integer": int, "float": float}.get(parameter.type.name.split()[0])


def _reading(parameter: Any, read: Callable[[str, str], str]) -> Callable[[Any, Any], Any]:
    """Return how a parameter takes its value, once `read` has made of a text what it means."""
    taken = parameter.process_value

    def process_value(context: Any, value: Any) -> Any:
        text = isinstance(value, str)
        return taken(context, read(value, parameter.opts[0]) if text else value)

    return process_value


class CommandGroup(typer.core.TyperGroup):
    """A group of commands that suggests what was meant by a word that is none of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first word names, in whichever case it is written.

        Raises `InvalidInput` for another word.
        """
        word = args[0]
        if self.get_command(ctx, word) is None and self.get_command(ctx, word.lower()) is not None:
            args = [word.lower(), *args[1:]]
        elif self.get_command(ctx, word) is None and not word.startswith("-"):
            path = " ".join(ctx.command_path.split())
            raise _no_command(path, args, self.commands)
        return super().resolve_command(ctx, args)


def _no_command(path: str, words: Sequence[str], commands: Mapping[str, Any]) -> InvalidInput:
    """Return the error of a word that is no command, with the one that was meant."""
    word = words[0]
    meant = nearest(word.lower(), commands)
    step = f"Did you mean {path} {meant}?" if meant else f"{path} --help"
    if Path(word).is_dir() and path in ("privplan", "privplan audit"):
        step = f"Did you mean privplan audit budget {word}?"
    elif Path(word).is_file() and path == "privplan":
        step = f"Did you mean privplan check {word}?"
    elif path == "privplan" and word == "risk":
        step = "What attacks reach: privplan account EVENT --risk, or privplan explain risk"
    return InvalidInput(
        f"`{path}` has no command {word!r}.", f"It has {', '.join(sorted(commands))}.", step
    )


def meant_options(given: str, parameters: Iterable[Any]) -> tuple[str, ...]:
    """Return the options that may be meant by a word that is none: those that it begins, or near.

    At most three, in the order of the help.
    """
    known = [option for each in parameters for option in (*each.opts, *each.secondary_opts)]
    known = [option for option in known if option.startswith("--")]
    begun = [option for option in known if option.startswith(given)]
    close = nearest(given, known, least_ratio=0.75)
    return tuple(begun[:3]) or (() if close is None else (close,))
