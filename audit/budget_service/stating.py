"""An event of a claim that was stated for another unit, relation or observer than the data set's.

It is converted with a derivation, which stands in its entry, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ...accountant import events as ev
from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.neighbours import as_neighbours
from ...accountant.odometer.conversions import Conversion, converted
from ...fl.log.hash_chain import canonical, digest
from .names import name_of
from .terms import Terms

FIELDS: Final = ("unit", "neighbours", "observer", "records_per_unit")
"""What a claim may state of its event; without, it is stated as the data set is."""


def stated_in(source: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what a claim states of its event, checked; None where it states nothing."""
    stated = {name: source[name] for name in FIELDS if source.get(name) is not None}
    if not stated:
        return None
    for name in ("unit", "observer"):
        if name in stated:
            name_of(**{name: stated[name]})
    if "neighbours" in stated:
        as_neighbours(stated["neighbours"])
    if "records_per_unit" in stated:
        validate.count(records_per_unit=stated["records_per_unit"])
    return stated


def audit_noted(record: Mapping[str, Any]) -> dict[str, object]:
    """Return what is kept of the entry of an audit with its claim: the same is not told twice."""
    content = digest(canonical([record["event"], record.get("stated")]))
    return {"verdict": record["verdict"], "charged": record["charged"], "content": content}


def as_charged(
    event: ev.Event, stated: Mapping[str, Any] | None, terms: Terms
) -> tuple[ev.Event, list[str]]:
    """Return the event that a data set is charged for, and how it follows from the stated one.

    Raises `InvalidInput` for words that are none, `Unsupported` where nothing follows.
    """
    if stated is None:
        return event, []
    if set(stated) - set(FIELDS):
        raise InvalidInput("The event states what no claim states.")
    currency = terms.currency
    conversion: Conversion = converted(
        event,
        stated.get("unit", currency.unit),
        currency.unit,
        stated.get("records_per_unit"),
        stated.get("neighbours", currency.neighbours),
        currency.neighbours,
        from_observer=stated.get("observer", terms.observer),
        to_observer=terms.observer,
    )
    return conversion.event, [step.statement for step in conversion.derivation]
