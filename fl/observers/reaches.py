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
    colluding    each          each                        each            each

A silo under `shuffle` sends for its users, and is as a client only where the silo is the unit.
The model under `shuffle` is computed from what the analyzer sees.  A shuffler under encryption can
read nothing, but it knows its dummies and who sent which coordinates, and it gets the model: an
audit counts it as who sees each message, or, where it is said to see sums and to know its dummies
(`is_mixer_of_sums`), as that.  Who draws the sample knows it,
who trains on those who were drawn does, and who sees messages with their senders does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ...accountant import events as ev
from ...accountant.records import Reach, Sampling, Security
from . import names


def knows_sample(observer: str, route: Route) -> bool:
    """Return whether an observer knows who was drawn; False where nobody is drawn.

    A server knows a sample that it draws, or that messages show it; with oblivious transfer under
    private weighting it does not know which slots are real.  Silos know a common sample, except
    one of users of whom they have nothing, under private weighting.
    """
    drawn = route.sampling
    if drawn.method == "none" or observer == names.MODEL:
        return False
    inside = drawn.of in ("entry", "record")  # of one silo, which may draw by itself
    private = route.aggregation == "private-weighting"
    transferred = drawn.drawn_by == "oblivious-transfer"
    if observer in (names.SERVER, names.COORDINATOR, names.ANALYZER):
        if route.messages and route.aggregation == "plain":
            return True  # who sends no message was not drawn
        if observer == names.COORDINATOR and route.shuffled:
            return True
        hidden = drawn.drawn_by in ("silos", "shared-secret") or (transferred and private)
        return not hidden
    if observer in (names.SHUFFLER, names.COLLUDING):
        return True
    if names.coalition_of(observer) is None and observer != names.SILO_WITH_RECORDS and not inside:
        return not (private and drawn.of == "user" and (transferred or drawn.drawn_by == "server"))
    return not (inside and drawn.drawn_by == "silos")


SAMPLING_EVENTS: Final = (
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
    return any(isinstance(part, SAMPLING_EVENTS) for part in parts_of(event))


def reach_of(observer: str, route: Route) -> Reach | None:
    """Return what of one round reaches an observer; None for a name that the table does not have.

    >>> reach_of("server", Route("masked", 5)).sees
    'sum'
    """
    coalition = names.coalition_of(observer)
    if coalition is not None:
        reach = _of_coalition(coalition, route)
    elif observer in _ROWS:
        reach = _ROWS[observer](route)
    else:
        return None
    return replace(
        reach,
        holds="part" if names.holds_part(observer) else "nothing",
        dropouts=route.dropouts,
        knows_sample=reach.knows_sample or knows_sample(observer, route),
    )


def reaches_of(
    observers: Iterable[str], route: Route, sees_each: Container[str] = ()
) -> dict[str, Reach]:
    """Return what of one round reaches each of some observers that the table has.

    Those of `sees_each` are accounted as who sees every message, whatever the route shows them.
    """
    reaches = {name: reach_of(name, route) for name in observers}
    return {
        name: replace(reach, sees="each") if name in sees_each else reach
        for name, reach in reaches.items()
        if reach is not None
    }


def is_mixer_of_sums(observer: str, reach: Reach) -> bool:
    """Return whether a reach is of a shuffler that sees sums, and knows what it added to them."""
    return observer == names.SHUFFLER and reach.sees == "sum" and "dummies" in reach.also


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


def _of_colluding(route: Route) -> Reach:
    return Reach("each", also=("identities", "sizes")) if route.shuffled else Reach("each")


def _of_coalition(coalition: names.Coalition, route: Route) -> Reach:
    # Masks made for fewer colluders leave the others' updates readable one by one.
    borne = route.aggregation == "masked" and coalition.colluders <= route.told
    return Reach("sum" if borne else "each", colluders=coalition.colluders)


def _mixed(route: Route) -> Reach:
    """Return what the analyzer sees, of all parties of the protocol."""
    users = None if route.security is None else route.security.parties
    return Reach("shuffled", colluders=route.told, users=users)


_ROWS: Final[Mapping[str, Callable[[Route], Reach]]] = {
    names.MODEL: _as_sum,
    names.SERVER: _of_server,
    names.SILO: _of_silo,
    names.SILO_WITH_RECORDS: _of_silo,
    names.PEER: _of_peer,
    names.CLIENT: _of_client,
    names.COORDINATOR: _of_coordinator,
    names.SHUFFLER: _of_shuffler,
    names.ANALYZER: _of_server,
    names.COLLUDING: _of_colluding,
}


CURVE_KEY_BITS: Final = 256
MIN_MODULUS_BITS: Final = 2048
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


def is_encrypted(security: Security | None) -> bool:
    """Return whether a shuffler holds ciphertexts only."""
    if security is None or security.protocol != "shuffler":
        return False
    return security.key_bits == CURVE_KEY_BITS or security.key_bits >= MIN_MODULUS_BITS
