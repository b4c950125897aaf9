"""Silos that take part in some rounds only: what a schedule may be, and for whom it counts.

A silo that takes part in k of R rounds is touched by k releases.  The others are made from released
values and from other silos' data, so they are a function of what is counted already and of data
that neighbours share: the composition of the k rounds bounds the loss of a unit that lies in that
silo, whatever the rest is.  The guarantee is that of the worst silo.

That needs a unit that lies in one silo before and after: a record or an entry, or a silo whose data
are replaced.  A silo that comes or goes would change the schedule itself, a user has records in
several silos, and of a unit of many records each may lie in another one; there all rounds count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..errors import InvalidInput

_INSIDE_ONE_SILO: Final = ("record", "entry")


def require_increasing(silos: Sequence[int], name: str) -> None:
    """Raise `InvalidInput` unless numbers of silos are strictly increasing, and at least one."""
    if silos and all(first < second for first, second in pairwise(silos)):
        return
    raise InvalidInput(
        f"`{name}` must be one or more numbers of silos, strictly increasing; it is "
        f"{list(silos)!r:.60}.",
        "Each silo that takes part is named once, counted from 0.",
        "Give a tuple such as (0, 2), or None where all silos take part.",
    )


def lies_in_one_silo(unit: str) -> bool:
    """Return whether all of a unit lies in one silo: of a record, an entry, or a silo."""
    return unit == "silo" or unit in _INSIDE_ONE_SILO


def counts_by_silo(unit: str, neighbours: str, group: int) -> bool:
    """Return whether one promised unit pays only for the rounds in which its silo takes part.

    `group` is the number of records of one unit.

    >>> counts_by_silo("silo", "replace-one", 1), counts_by_silo("silo", "add-remove", 1)
    (True, False)
    """
    if group != 1:
        return False
    return unit in _INSIDE_ONE_SILO or (unit == "silo" and neighbours == "replace-one")
