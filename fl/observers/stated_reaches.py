"""Whether what a system states of who sees what can be so: every observer and every field."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...accountant.errors import InvalidInput, PrivplanError, kind_of
from ...accountant.nearest_names import nearest
from ...accountant.records import Reach
from .names import OBSERVERS, coalition_of

_MIXING_FIELDS: Final = ("users", "padded_to", "granularity", "overflow")
"""Fields that only messages without senders have."""


def inconsistent_fields(reach: Reach) -> Iterator[tuple[str, str]]:
    """Yield the fields of a reach that do not go together, each with what is wrong, in words."""
    if reach.sees != "shuffled":
        for name in _MIXING_FIELDS:
            if getattr(reach, name) is not None:
                yield name, f"says how messages are mixed, and `sees` is {reach.sees!r}"
    elif reach.users is None:
        yield "users", "is missing: how many messages are mixed"
    elif reach.users < 1:
        yield "users", "must be 1 or above"
    elif reach.colluders + reach.dropouts >= reach.users:
        yield (
            "colluders",
            f"and `dropouts` leave none of {reach.users:,} messages to hide among",
        )
    if (reach.dimensions is None) != (reach.chosen is None):
        yield (
            "chosen" if reach.chosen is None else "dimensions",
            "is missing where the other is given",
        )
    elif reach.dimensions is not None and reach.chosen is not None:
        yield from _coordinates(reach, reach.dimensions, reach.chosen)
    elif reach.padded_to is not None:
        yield "padded_to", "is of dimensions, and `dimensions` is missing"


def _coordinates(reach: Reach, dimensions: int, chosen: int) -> Iterator[tuple[str, str]]:
    if chosen < 1:
        yield "chosen", "must be 1 or above"
    if chosen > dimensions:
        yield "chosen", f"is {chosen:,}, and there are {dimensions:,} dimensions"
    if reach.sees != "shuffled":
        return
    needed = ["granularity"]
    if chosen < dimensions or reach.padded_to is not None:
        needed += ["selection", "padded_to", "overflow"]
    for name in needed:
        if getattr(reach, name) is None:
            yield name, f"is missing: {chosen:,} of {dimensions:,} dimensions are sent"
    if reach.padded_to == 0:
        yield "padded_to", "must be 1 or above"


def checked_reaches(
    reaches: Mapping[str, Reach | Mapping[str, object]],
    system: str,
    package: str = "privplan",
) -> dict[str, Reach]:
    """Return what a system states of who sees what, if every observer and field can be so.

    Raises `InvalidInput`, which names the package, the system and the field.
    """
    who = f"System {system!r:.60} of package {package!r:.60}"
    if not isinstance(reaches, Mapping):
        raise InvalidInput(
            f"{who} must state `reaches` by observer; it is {kind_of(reaches)}.",
            next_step='Give an object such as {"model": Reach("sum")}.',
        )
    checked: dict[str, Reach] = {}
    for name, stated in reaches.items():
        if not isinstance(name, str) or (name not in OBSERVERS and coalition_of(name) is None):
            close = nearest(str(name).lower(), (*OBSERVERS, "server+2"))
            raise InvalidInput(
                f"{who} states in `reaches` an observer that nobody knows: {name!r:.60}.",
                "Each observer has a phrase, and a number that an audit derives.",
                f"Did you mean {close!r}?" if close else f"Known: {', '.join(OBSERVERS)}.",
            )
        reach = _as_reach(stated, name, who)
        for key, what in inconsistent_fields(reach):
            raise InvalidInput(
                f"{who} states `reaches.{name}.{key}` wrongly: `{key}` {what}.",
                "What reaches an observer decides its number, so no field is guessed.",
                "Correct what the system's `reaches` returns.",
            )
        checked[name] = reach
    return checked


def _as_reach(stated: object, name: str, who: str) -> Reach:
    if isinstance(stated, Reach):
        return stated
    try:
        return Reach(**stated)  # type: ignore[arg-type]
    except PrivplanError as error:
        raise InvalidInput(f"{who} states `reaches.{name}` wrongly: {error.what}") from None
    except TypeError:
        raise InvalidInput(
            f"{who} states `reaches.{name}` with fields that a Reach does not have, or as no "
            f"Reach: {stated!r:.60}.",
            next_step="Give an `accountant.records.Reach`.",
        ) from None
