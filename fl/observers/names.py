"""Observers of a run by their names: whom a guarantee holds against.

    model                  whoever sees the released models
    server                 the server
    silo                   a silo that holds nothing of the unit
    silo-with-records      a silo that holds some of it
    server+c               the server and c silos that tell it all they know, and hold nothing of
                           the unit
    server+c-with-records  likewise, where one of the silos holds some of it
    peer                   one of those who sum among themselves, without a server
    client                 one of those who send something and get the released models
    coordinator            who passes messages on and decides who takes part, and sums nothing
    shuffler               who takes the senders off messages
    analyzer               who gets the messages without their senders
    colluding              the shuffler and the analyzer, who tell each other all they know

What a guarantee against one of them assumes is in `assumptions`, how each is described in `words`,
what reaches each in `reaches`.  Nothing heavy is imported here: a configuration is checked by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest

MODEL: Final = "model"
SERVER: Final = "server"
SILO: Final = "silo"
SILO_WITH_RECORDS: Final = "silo-with-records"
PEER: Final = "peer"
CLIENT: Final = "client"
COORDINATOR: Final = "coordinator"
SHUFFLER: Final = "shuffler"
ANALYZER: Final = "analyzer"
COLLUDING: Final = "colluding"

DEFAULT_OBSERVERS: Final = (MODEL, SERVER, SILO)
"""Those whose numbers a verdict is about, where a configuration names no others."""

PEER_OBSERVERS: Final = (MODEL, PEER)
"""Likewise, where silos are peers and there is no server; nobody else sees anything there."""

OBSERVERS: Final = (
    *(MODEL, SERVER, SILO, SILO_WITH_RECORDS),
    *(PEER, CLIENT, COORDINATOR, SHUFFLER, ANALYZER, COLLUDING),
)

_COALITION: Final = re.compile(r"server\+([1-9][0-9]{0,4})(-with-records)?")

_KNOWN_NAMES: Final = (
    f"Known: {', '.join(OBSERVERS)}, and server+2 for the server with two silos; which of them a "
    "run has, its system decides."
)


@dataclass(frozen=True)
class Coalition:
    """The server and `colluders` silos, of which one `holds` a part of the unit, or none does."""

    colluders: int
    holds: bool = False

    @property
    def name(self) -> str:
        """Its name in configurations, plans and logs."""
        return f"{SERVER}+{self.colluders}{'-with-records' * self.holds}"


def coalition_of(observer: str) -> Coalition | None:
    """Return the coalition that a name stands for; None for another observer."""
    match = _COALITION.fullmatch(observer)
    return None if match is None else Coalition(int(match[1]), match[2] is not None)


def coalitions_in(observers: Iterable[str]) -> tuple[int, ...]:
    """Return how many colluders the coalitions among some observers have, each number once."""
    coalitions = map(coalition_of, observers)
    return tuple(sorted({each.colluders for each in coalitions if each is not None}))


def coalition_sizes(aggregation: str, observers: Iterable[str], colluders: int) -> tuple[int, ...]:
    """Return the sizes of coalitions of the server that guarantees are computed for.

    Those of the observers that are asked for, and of the silos that are said to collude.  Empty
    among peers, where there is no server: a peer's own event counts its colluders.

    >>> coalition_sizes("masked", ["model", "server+2"], 1), coalition_sizes("shares", [], 1)
    ((1, 2), ())
    """
    if aggregation == "shares":
        return ()
    return tuple(sorted({*coalitions_in(observers), colluders} - {0}))


def holds_part(observer: str) -> bool:
    """Return whether an observer holds a part of the unit, and knows that it is there."""
    coalition = coalition_of(observer)
    return observer == SILO_WITH_RECORDS or (coalition is not None and coalition.holds)


def observer_fields(observer: str, dropouts: int) -> dict[str, object]:
    """Return the fields that name an observer in a row of JSON.

    >>> observer_fields("server+2", 1)
    {'observer': 'server', 'colluders': 2, 'dropouts': 1, 'holds': False}
    """
    coalition = coalition_of(observer)
    if coalition is None:
        return {"observer": observer}
    return {
        "observer": SERVER,
        "colluders": coalition.colluders,
        "dropouts": dropouts,
        "holds": coalition.holds,
    }


def observer_name(**field: object) -> str:
    """Return the name of an observer; raise `InvalidInput`, with the nearest one, for no name."""
    ((key, value),) = field.items()
    if isinstance(value, str) and (value in OBSERVERS or coalition_of(value) is not None):
        return value
    close = nearest(str(value).lower(), (*OBSERVERS, "server+2"))
    raise InvalidInput(
        f"`{key}` must name an observer; it is {value!r:.60}.",
        "A number is for somebody, who sees some things and not others.",
        f'Did you mean "{close}"?' if close else _KNOWN_NAMES,
    )


def observer_names(**field: object) -> tuple[str, ...]:
    """Return the names of one observer or more, each once; raise `InvalidInput` otherwise."""
    ((key, value),) = field.items()
    if not isinstance(value, (list, tuple)) or not value:
        raise InvalidInput(
            f"`{key}` must be a list of one observer or more; it is {value!r:.60}.",
            "The verdict on a run names the worst of them.",
            f'Write {key} = ["model"], for example, or leave it out for the usual ones.',
        )
    names = tuple(observer_name(**{key: name}) for name in value)
    if len(set(names)) < len(names):
        raise InvalidInput(
            f"`{key}` names an observer twice: {', '.join(names)[:60]}.",
            "Each has one number.",
            "Name each of them once.",
        )
    return names
