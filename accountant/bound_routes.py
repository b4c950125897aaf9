"""Every route to a bound for one event, side by side: the looser ones, and those that do not hold.

`account` takes the tightest bound that holds; this lists all of them.  A module that knows more
routes enters a function in `ROUTE_SOURCES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from . import events as ev
from . import validate
from .account import engine_named
from .amplification.shuffling.rounds import shuffle_routes
from .composition import Composition
from .engine_order import engine_order
from .engines.base import Engine, guarded
from .errors import Unsupported
from .event_tree import group_sizes
from .guarantee import Bounds
from .neighbours import Neighbours, as_neighbours

if TYPE_CHECKING:
    from .amplification.group import Divergence
    from .arrays import FloatArray


@dataclass(frozen=True)
class Route:
    """One route to bounds on epsilon, or why it has none here.

    `bounds` is None where the route is refused, and `refused` says why; its upper end is infinite
    where the route holds and proves no finite epsilon.  `source` is where the argument stands and
    what it covers.
    """

    name: str
    bounds: Bounds | None
    source: str
    refused: str = ""


def routes(
    event: ev.EventLike, *, delta: float, neighbours: str = "add-remove"
) -> tuple[Route, ...]:
    """Return every route to epsilon at `delta` in (0, 1) for an event.

    For groups of records: the lemma, Mironov's rule (as it is stated, and as far as its proof
    goes), the optimised triangle inequality, and the mixture of all records together by Renyi
    curves and by pld.  For all events: the engines that know them, each by itself.

    Raises `InvalidInput` for values out of range; a route that does not hold is listed as refused.

    >>> event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    >>> [route.name for route in routes(ev.Group(2, event), delta=1e-5)][:2]
    ['lemma', "Mironov's rule"]
    """
    at = validate.open_probability(delta=delta)
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    return tuple(
        route
        for source_of_routes in ROUTE_SOURCES
        for route in source_of_routes(known, at, relation)
    )


def _route(name: str, source: str, find: Callable[[], Bounds]) -> Route:
    """Return the route of what `find` returns, or of its refusal."""
    try:
        with guarded(name):
            return Route(name, find(), source)
    except Unsupported as refusal:
        return Route(name, None, source, str(refusal.unforced()))


# --- groups of records --------------------------------------------------------------------------

_CHAIN: Final = "any chain of k changes"
_ALL_RECORDS: Final = "all k records at once"


def _of_groups(event: ev.Event, delta: float, relation: Neighbours) -> Iterator[Route]:
    """Yield the routes from one record's Renyi curve to that of the unit."""
    size, record = _per_record(event)
    if size == 1:
        return
    from .amplification.group import (
        MIRONOV_PROVEN_MIN_ORDER,
        MIRONOV_STATED_MIN_ORDER,
        by_mironov,
        triangle,
    )
    from .engines.rdp.conversion import best_epsilon
    from .engines.rdp.engine import lemma_epsilon

    of_record = Composition.of(record)

    def by(rule: Callable[[Divergence], Divergence], above: float = 1.0) -> Callable[[], Bounds]:
        def find() -> Bounds:
            total = _summed([(rule(at), count) for at, count in _curves(of_record, size, relation)])
            return Bounds(0.0, best_epsilon(total, delta, above=above).value)

        return find

    yield _route(
        "lemma",
        f"derived in amplification/group.py; {_CHAIN}",
        lambda: Bounds(0.0, lemma_epsilon(of_record, size, delta, relation)),
    )
    rule = f"Mironov 2017, Proposition 2, arXiv 1702.07476v3; {_CHAIN}"
    yield _route(
        "Mironov's rule",
        f"{rule}; orders of at least 2k, as it is stated",
        by(lambda at: by_mironov(at, size, MIRONOV_STATED_MIN_ORDER), MIRONOV_STATED_MIN_ORDER),
    )
    yield _route(
        "Mironov's rule, as proven",
        f"{rule}; final orders of at least 1.5, where its proof holds",
        by(lambda at: by_mironov(at, size, MIRONOV_PROVEN_MIN_ORDER), MIRONOV_PROVEN_MIN_ORDER),
    )
    yield _route(
        "optimised triangle inequality",
        f"derived in amplification/group.py; {_CHAIN}",
        by(lambda at: triangle(at, size)),
    )
    yield _route(
        "mixture Renyi",
        f"derived in engines/rdp/mixture.py; {_ALL_RECORDS}",
        lambda: Bounds(0.0, best_epsilon(_mixtures(of_record, size, relation), delta).value),
    )


def _per_record(event: ev.Event) -> tuple[int, ev.Event]:
    """Return the size of the groups that an event is about, and the event as one record sees it.

    The size is 1 where there are none, or several, or one inside of something else.
    """
    sizes = group_sizes(event)
    if len(sizes) != 1 or sizes[0] == 1:
        return 1, event
    ungrouped = _ungrouped(event)
    return (sizes[0], ungrouped) if group_sizes(ungrouped) == (1,) else (1, event)


def _ungrouped(event: ev.Event) -> ev.Event:
    match event:
        case ev.Group(_, inner):
            return _ungrouped(inner)
        case ev.Repeat(count, inner):
            return ev.Repeat(count, _ungrouped(inner))
        case ev.Compose(parts):
            return ev.Compose(tuple(_ungrouped(part) for part in parts))
        case _:
            return event


def _curves(
    of_record: Composition, size: int, relation: Neighbours
) -> list[tuple[Divergence, int]]:
    """Return the Renyi curves of one record's releases, with their counts."""
    from .engines.rdp.curves import curve
    from .engines.rdp.engine import of_one_record

    parts = of_one_record(of_record, size, relation)
    curves = [(curve(leaf.event, relation), leaf.count) for leaf in parts]
    # Mironov's rule is about pure Renyi curves; one with a delta of its own is refused.
    if any(each.slack > 0.0 for each, _ in curves):
        raise Unsupported(
            "A release here holds outside an event of small probability only.",
            "The rule is about Renyi curves without a delta of their own.",
            "See the rdp engine's own answer.",
        )
    return [(each.at, count) for each, count in curves if each.limit > 0.0]


def _mixtures(of_record: Composition, size: int, relation: Neighbours) -> Divergence:
    from .amplification.group import type_of
    from .engines.rdp.groups import mixture_of

    curves: list[tuple[Divergence, int]] = []
    for leaf in of_record:
        mixture = mixture_of(ev.Group(size, leaf.event), relation)
        if mixture is None:
            raise Unsupported(
                f"Several records of {type_of(leaf.event)} make no mixture of Gaussians.",
                "The records' joint curve is known under Poisson sampling with Gaussian noise.",
                "See the optimised triangle inequality.",
            )
        curves.append((mixture.at, leaf.count))
    return _summed(curves)


def _summed(curves: Sequence[tuple[Divergence, int]]) -> Divergence:
    from .engines.rdp.moments import RENYI_OUTWARD_FACTOR

    def at(orders: FloatArray) -> FloatArray:
        # Renyi divergences of a composition add up; the sum is rounded up.
        total = 0.0 * orders
        for each, count in curves:
            total += count * each(orders)
        return total * RENYI_OUTWARD_FACTOR

    return at


# --- shuffling ----------------------------------------------------------------------------------


def _of_shuffles(event: ev.Event, delta: float, relation: Neighbours) -> Iterator[Route]:
    """Yield the routes that are known for a shuffled round, all under replace-one."""
    if relation != "replace-one":
        return
    for name, upper, source, refused in shuffle_routes(event, delta):
        yield Route(name, None if upper is None else Bounds(0.0, upper), source, refused)


# --- engines ------------------------------------------------------------------------------------

_SOURCES: Final = {
    "gdp": "closed form of the Gaussian mechanism",
    "pld": "certified privacy-loss distributions, both ends",
    "rdp": "Renyi curves: the smallest of all that is known about each event",
    "blanket": "privacy blanket of one shuffled round",
}


def _of_engines(event: ev.Event, delta: float, relation: Neighbours) -> Iterator[Route]:
    """Yield what each engine of our own says by itself."""
    parts = Composition.of(event)
    if not parts:
        yield Route("nothing is released", Bounds.exactly(0.0), "by definition")
        return
    # Group events at the leaves are mixtures of all records' draws, which pld takes together.
    mixed = any(isinstance(leaf.event, ev.Group) for leaf in parts)
    order = engine_order(parts)
    for name in (*order.engines, *order.shown):
        jointly = mixed and name == "pld"
        source = f"{_SOURCES[name]}; {_ALL_RECORDS}" if jointly else _SOURCES[name]

        find = partial(_bounds, engine_named(name), parts, delta, relation)
        yield _route("mixture pld" if jointly else name, source, find)


def _bounds(engine: Engine, parts: Composition, delta: float, relation: Neighbours) -> Bounds:
    return engine.epsilon(parts, delta, relation).bounds


RouteSource = Callable[[ev.Event, float, Neighbours], Iterator[Route]]

ROUTE_SOURCES: tuple[RouteSource, ...] = (_of_groups, _of_shuffles, _of_engines)
"""Event, delta and relation -> the routes that one module knows."""
