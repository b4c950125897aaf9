"""An event that was stated for another unit, relation or observer than those of a data set.

It is converted with a derivation, or refused.  What comes out is an event for the data set's unit,
to be priced under the data set's relation.

**Noise over the contribution bound of a unit** (`Gaussian`, `Laplace`, their discrete forms, and
Poisson samples of them) says what is released, whatever the relation: the engines know what it
costs under each.  **Stated numbers** (`Pure`, `Approximate`, `ZCDP`, `Exponential`, `Local`,
`RandomizedResponse`) hold for the relation they were stated for, and another relation is a chain of
its steps, by the lemma for groups:

    add-remove  -> replace-one, zero-out    2 steps: the old data go, the new ones come
    zero-out    -> replace-one              2 steps: through zeros
    replace-one -> zero-out                 1 step: zeros are other data
    others      -> add-remove               refused: nothing is said of whether somebody is there

**A larger unit** (a user of k records, for an event about records) is a group of k.  **A smaller
one** lies in a larger one: the change of a record is one of its user's data, so it is the user's
replacement, and under add-remove possibly the user's coming or going.  Stated numbers for added or
removed users need two steps for that; noise without sampling moves by at most two bounds, which is
a group of two, or what replace-one already counts.  A sample under add-remove is refused there: a
user who is drawn in both data sets, with other data, is not what its pair covers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from .. import events as ev
from .. import validate
from ..composition import Composition
from ..errors import InvalidInput, Unsupported
from ..event_tree import check_depth, events_inside
from ..guarantee import Step
from ..neighbours import GROUP_WORDS, Neighbours, as_neighbours

UNITS_BY_SIZE: Final = ("entry", "record", "user", "silo")
"""Units, each made of those before it."""

_NOISE: Final = (ev.Gaussian, ev.Laplace, ev.DiscreteGaussian, ev.DiscreteLaplace)
"""Noise over the contribution bound of one unit."""

_STATED_NUMBERS: Final = (
    ev.Pure,
    ev.Approximate,
    ev.ZCDP,
    ev.Exponential,
    ev.Local,
    ev.RandomizedResponse,
)
"""Stated numbers, which hold for one relation."""

_STEPS: Final[dict[tuple[Neighbours, Neighbours], int]] = {
    ("add-remove", "add-remove"): 1,
    ("replace-one", "replace-one"): 1,
    ("zero-out", "zero-out"): 1,
    ("add-remove", "replace-one"): 2,
    ("add-remove", "zero-out"): 2,
    ("zero-out", "replace-one"): 2,
    ("replace-one", "zero-out"): 1,
}
"""How many steps of the first relation make one of the second, of the same unit."""

_STEPS_INSIDE: Final[dict[tuple[Neighbours, Neighbours], int]] = {
    ("replace-one", "replace-one"): 1,
    ("replace-one", "zero-out"): 1,
    ("add-remove", "add-remove"): 2,
    ("add-remove", "replace-one"): 2,
    ("add-remove", "zero-out"): 2,
    ("zero-out", "replace-one"): 2,
    ("zero-out", "zero-out"): 2,
}
"""How many steps of a unit, in the first relation, cover one of a part of it in the second."""

_SOURCE: Final = "derived in odometer/conversions.py"


@dataclass(frozen=True)
class Conversion:
    """An event for the data set's unit, relation and observer, and how it follows."""

    event: ev.Event
    derivation: tuple[Step, ...]


def converted(
    event: ev.Event,
    from_unit: str,
    to_unit: str,
    records_per_unit: int | None,
    from_relation: str,
    to_relation: str,
    *,
    from_observer: str = "model",
    to_observer: str = "model",
) -> Conversion:
    """Return an event that was stated for one unit and relation as one for another.

    `records_per_unit` is how many of the smaller unit the larger one has at most; it is needed
    where `to_unit` is the larger.  Units are `entry`, `record`, `user` and `silo`.  Raises
    `InvalidInput` for unknown words, `Unsupported` where nothing follows.

    >>> converted(ev.Pure(1.0), "record", "user", 3, "add-remove", "add-remove").event
    Group(size=3, event=Pure(epsilon=1.0))
    """
    check_depth(event)
    smaller = UNITS_BY_SIZE.index(validate.choice(UNITS_BY_SIZE, from_unit=from_unit))
    larger = UNITS_BY_SIZE.index(validate.choice(UNITS_BY_SIZE, to_unit=to_unit))
    stated, wanted = as_neighbours(from_relation), as_neighbours(to_relation)
    steps = _seen(from_observer, to_observer)
    inside = larger < smaller
    if larger > smaller:
        size = _size(records_per_unit, from_unit, to_unit)
        if stated == wanted == "replace-one":
            _require_any_number(event, from_unit, to_unit)
        event = event if size == 1 else ev.Group(size, event)
        steps += (_group_step(size, from_unit, to_unit, stated),)
    if inside or stated != wanted:
        parts = tuple(
            ev.Repeat(leaf.count, _release(leaf.chain or leaf.event, stated, wanted, inside))
            for leaf in Composition.of(event)
        )
        event = parts[0] if len(parts) == 1 else ev.Compose(parts)
        steps += (_relation_step(stated, wanted, from_unit if inside else to_unit, inside),)
    return Conversion(event, steps)


def _release(release: ev.Event, stated: Neighbours, wanted: Neighbours, inside: bool) -> ev.Event:
    """Return one release under another relation, or for a part of its unit."""
    if isinstance(release, ev.NoGuarantee):
        return release
    core = events_inside(release)
    sampled = any(isinstance(each, ev.Poisson) for each in core)
    if all(isinstance(each, (*_NOISE, ev.Poisson, ev.Group)) for each in core):
        if not inside or wanted == "replace-one":
            return release
        if not sampled:
            return ev.Group(2, release)
        raise Unsupported(
            f"What a sample of larger units says of a part of one is not known under {wanted}.",
            "A part that changes is drawn with its unit in both data sets.",
            "Keep the data set's budget under replace-one, or for the unit that is sampled.",
        )
    if all(isinstance(each, (*_STATED_NUMBERS, ev.Group)) for each in core):
        table = _STEPS_INSIDE if inside else _STEPS
        count = table.get((stated, wanted))
        if count is None:
            raise Unsupported(
                f"A number that holds under {stated} says nothing under {wanted}.",
                "Whether somebody is in the data may be told by what it allows.",
                "State what holds when one is added or removed, or the noise itself.",
            )
        return release if count == 1 else ev.Group(count, release)
    raise Unsupported(
        f"Events of type `{release.type}` are not known to hold under another relation than the "
        "one that they were stated for, nor for a part of their unit.",
        "That is known of noise over a contribution bound, of Poisson samples of it, and of stated "
        "numbers without sampling.",
        "State the event for the data set's unit and relation.",
    )


def _size(records_per_unit: int | None, from_unit: str, to_unit: str) -> int:
    if records_per_unit is None:
        raise InvalidInput(
            f"An event about one {from_unit} needs to be told how many of them one {to_unit} has.",
            "What it says grows with their number.",
            "Give `records_per_unit`, the most that any has.",
        )
    return validate.count(records_per_unit=records_per_unit)


def _require_any_number(event: ev.Event, from_unit: str, to_unit: str) -> None:
    """Raise `Unsupported` where a unit may be replaced by one that has fewer parts, or more.

    Noise over a bound covers that, also in a Poisson sample: a part that is missing is one that
    contributes nothing.  A stated number need not: how many records there are is no secret where
    one replaces another.
    """
    covered = (*_NOISE, ev.Poisson, ev.Group, ev.Repeat, ev.Compose, ev.NoGuarantee)
    for each in events_inside(event):
        if not isinstance(each, covered):
            raise Unsupported(
                f"What holds of `{each.type}` when one {from_unit} replaces another is not known "
                f"for one {to_unit} that replaces another with fewer or more of them.",
                "An exact count of them could cost nothing by it, and tells them apart.",
                f"State what holds when one {from_unit} is added or removed, or the noise itself.",
            )


def _group_step(size: int, from_unit: str, to_unit: str, relation: Neighbours) -> Step:
    return Step(
        "group",
        f"One {to_unit} is at most {size:,} {from_unit}s, which {GROUP_WORDS[relation]}.",
        "accountant/amplification/group.py",
        (f"no {to_unit} has more than {size:,} {from_unit}s",),
    )


def _relation_step(stated: Neighbours, wanted: Neighbours, unit: str, inside: bool) -> Step:
    what = f"a part of one {unit}" if inside else f"one {unit}"
    conditions = ["noise is stated over the contribution bound of one unit"]
    if wanted == "zero-out":
        conditions.append("zeros are data that a unit may have")
    return Step(
        "conversion",
        f"Stated under {stated} for one {unit}; here for {what} under {wanted}.",
        _SOURCE,
        tuple(conditions),
    )


_SERVER: Final = re.compile(r"server(?:\+([0-9]+))?")


def _seen(stated: str, wanted: str) -> tuple[Step, ...]:
    """Return the step from one observer to another who sees no more; nothing for the same one."""
    if stated == wanted:
        return ()
    server, other = _SERVER.fullmatch(stated), _SERVER.fullmatch(wanted)
    fewer = server and other and int(server[1] or 0) >= int(other[1] or 0)
    if not fewer and not (server and wanted == "model"):
        raise Unsupported(
            f"What holds before {stated!r:.40} is not known to hold before {wanted!r:.40}.",
            "It holds before whoever sees no more: of a server, before who sees its models, and of "
            "a server with silos, before one with fewer of them.",
            "State the event as the data set's observer sees it.",
        )
    statement = f"It holds before {stated}, who sees all that {wanted} sees."
    return (Step("conversion", statement, "post-processing"),)
