"""What of one round reaches whom: one table for the systems that state it, and for audits.

By aggregation, where the facts of its protocol fit (an audit reads those that do not as `plain`):

                 plain         masked, private-weighting   shares          shuffle
    model        sum           sum                         sum             shuffled
    server       each          sum                         sum             shuffled
    coordinator  each          sum                         nothing         as shuffler
    silo         sum-less-own  sum-less-own                as peer         each, or as client
    client       sum-less-own  sum-less-own                as peer         shuffled, its own known
    peer         each          sum-less-own                sum-less-own    as silo
    server+c     each, c told  sum, c told (if borne)      each, c told    each, c told
    shuffler     each          each                        each            each; nothing, encrypted
    analyzer     each          sum                         sum             shuffled

A silo under `shuffle` sends for its users, and is as a client only where the silo is the unit.
The model under `shuffle` is computed from what the analyzer sees.  Who draws the sample knows it,
who trains on those who were drawn does, and who sees messages with their senders does.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import InvalidInput, PrivplanError, kind_of
from ...accountant.records import Reach, Sampling, Security
from .names import (
    ANALYZER,
    CLIENT,
    COORDINATOR,
    MODEL,
    PEER,
    SERVER,
    SHUFFLER,
    SILO,
    SILO_WITH_RECORDS,
    WORDS,
    Coalition,
    coalition_of,
    holds_part,
)

CURVE_KEY: Final = 256
LEAST_KEY: Final = 2048
"""Bits of the analyzer's key under which messages count as encrypted: a curve's, or a modulus's."""


@dataclass(frozen=True)
class Route:
    """How one round's terms travel: what the table depends on.

    `unit` is what is clipped together, `messages` says that each unit sends a message of its own,
    and `dropouts` of the noise shares may be missing.
    """

    aggregation: str
    silos: int
    security: Security | None = None
    dropouts: int = 0
    sampling: Sampling = field(default_factory=Sampling)
    unit: str = "user"
    messages: bool = False

    @property
    def shuffled(self) -> bool:
        """Whether messages lose their senders."""
        return self.aggregation == "shuffle"

    @property
    def told(self) -> int:
        """How many of the parties may tell what they know."""
        return 0 if self.security is None else self.security.colluders


def reach_of(observer: str, route: Route) -> Reach | None:
    """Return what of one round reaches an observer; None for a name that the table does not have.

    >>> reach_of("server", Route("masked", 5)).sees
    'sum'
    """
    coalition = coalition_of(observer)
    if coalition is not None:
        reach = _of_coalition(coalition, route)
    elif observer in _ROWS:
        reach = _ROWS[observer](route)
    else:
        return None
    return replace(
        reach,
        holds="part" if holds_part(observer) else "nothing",
        dropouts=route.dropouts,
        knows_sample=reach.knows_sample or knows_sample(observer, route),
    )


def reaches_of(observers: Iterable[str], route: Route) -> dict[str, Reach]:
    """Return what of one round reaches each of some observers that the table has."""
    reaches = {name: reach_of(name, route) for name in observers}
    return {name: reach for name, reach in reaches.items() if reach is not None}


def is_encrypted(security: Security | None) -> bool:
    """Return whether a shuffler holds ciphertexts only."""
    if security is None or security.protocol != "shuffler":
        return False
    return security.key_bits == CURVE_KEY or security.key_bits >= LEAST_KEY


# --- the rows -----------------------------------------------------------------------------------


def _as_sum(route: Route) -> Reach:
    """Return the row of who sees what is summed, or mixed."""
    return _mixed(route) if route.shuffled else Reach("sum")


def _of_server(route: Route) -> Reach:
    return Reach("each") if route.aggregation == "plain" else _as_sum(route)


def _of_coordinator(route: Route) -> Reach:
    if route.shuffled:
        return _of_shuffler(route)
    if route.aggregation == "shares":
        return Reach("nothing", also=("identities", "sizes"))
    return _of_server(route)


def _of_client(route: Route) -> Reach:
    if route.shuffled:
        seen = _mixed(route)
        return replace(seen, colluders=seen.colluders + 1)
    return _of_peer(route) if route.aggregation == "shares" else Reach("sum-less-own")


def _of_peer(route: Route) -> Reach:
    if route.shuffled:
        return _of_silo(route)
    if route.aggregation == "plain":
        return Reach("each")
    told = route.told if route.aggregation == "shares" else 0
    return Reach("sum-less-own", colluders=told)


def _of_silo(route: Route) -> Reach:
    """Return the row of a silo, which knows the messages of all of its users, however many."""
    return Reach("each") if route.shuffled and route.unit != "silo" else _of_client(route)


def _of_shuffler(route: Route) -> Reach:
    if route.shuffled and is_encrypted(route.security):
        return Reach("nothing", also=("identities", "sizes"))
    return Reach("each")


def _of_coalition(coalition: Coalition, route: Route) -> Reach:
    borne = route.aggregation == "masked" and coalition.colluders <= route.told
    return Reach("sum" if borne else "each", colluders=coalition.colluders)


def _mixed(route: Route) -> Reach:
    """Return what the analyzer sees, of all parties of the protocol."""
    users = None if route.security is None else route.security.parties
    return Reach("shuffled", colluders=route.told, users=users)


_ROWS: Final[Mapping[str, Callable[[Route], Reach]]] = {
    MODEL: _as_sum,
    SERVER: _of_server,
    SILO: _of_silo,
    SILO_WITH_RECORDS: _of_silo,
    PEER: _of_peer,
    CLIENT: _of_client,
    COORDINATOR: _of_coordinator,
    SHUFFLER: _of_shuffler,
    ANALYZER: _of_server,
}


# --- who knows the sample -------------------------------------------------------------------------


def knows_sample(observer: str, route: Route) -> bool:
    """Return whether an observer knows who was drawn; False where nobody is drawn.

    A server knows a sample that it draws, or that messages show it; with oblivious transfer under
    private weighting it does not know which slots are real.  Silos know a common sample, except
    one of users of whom they have nothing, under private weighting.
    """
    drawn = route.sampling
    if drawn.method == "none" or observer == MODEL:
        return False
    inside = drawn.of in ("entry", "record")  # of one silo, which may draw by itself
    private = route.aggregation == "private-weighting"
    transferred = drawn.drawn_by == "oblivious-transfer"
    if observer in (SERVER, COORDINATOR, ANALYZER):
        if route.messages and route.aggregation == "plain":
            return True  # who sends no message was not drawn
        if observer == COORDINATOR and route.shuffled:
            return True
        hidden = drawn.drawn_by in ("silos", "shared-secret") or (transferred and private)
        return not hidden
    if observer == SHUFFLER:
        return True
    if coalition_of(observer) is None and observer != SILO_WITH_RECORDS and not inside:
        return not (private and drawn.of == "user" and (transferred or drawn.drawn_by == "server"))
    return not (inside and drawn.drawn_by == "silos")


SAMPLERS: Final = (
    ev.Poisson,
    ev.FixedSize,
    ev.TruncatedPoisson,
    ev.ShuffledBatches,
    ev.RandomAllocation,
)
"""Events that say that a unit hides in a sample."""


def parts_of(event: ev.Event | None) -> list[ev.Event]:
    """Return an event and everything inside it."""
    parts, waiting = [], [] if event is None else [event]
    while waiting:
        part = waiting.pop()
        parts.append(part)
        waiting += getattr(part, "events", ())
        inner = getattr(part, "event", None)
        if isinstance(inner, ev.Event):
            waiting.append(inner)
    return parts


def is_sampled(event: ev.Event | None) -> bool:
    """Return whether an event counts on a sample anywhere."""
    return any(isinstance(part, SAMPLERS) for part in parts_of(event))


# --- statements that cannot be --------------------------------------------------------------------

_DETAILS: Final = ("users", "padded_to", "granularity", "overflow")
"""Fields that only messages without senders have."""


def misfits(reach: Reach) -> Iterator[tuple[str, str]]:
    """Yield the fields of a reach that do not go together, each with what is wrong, in words."""
    if reach.sees != "shuffled":
        for name in _DETAILS:
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
        yield "chosen" if reach.chosen is None else "dimensions", "is missing beside the other"
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
        if not isinstance(name, str) or (name not in WORDS and coalition_of(name) is None):
            close = difflib.get_close_matches(str(name).lower()[:60], (*WORDS, "server+2"), n=1)
            raise InvalidInput(
                f"{who} states in `reaches` an observer that nobody knows: {name!r:.60}.",
                "Each observer has a phrase, and a number that an audit derives.",
                f"Did you mean {close[0]!r}?" if close else f"Known: {', '.join(WORDS)}.",
            )
        reach = _as_reach(stated, name, who)
        for key, what in misfits(reach):
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
