"""Every way to the number for one event, side by side: those that lose, and those that do not hold.

`account` takes the best of what holds; this lists all of it.  A room that knows more ways enters
a function in `ROUTE_SOURCES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from . import events as ev
from . import validate
from .account import engine_named, guarded
from .amplification.shuffling.routes import shuffle_routes
from .composition import Leaf, group_sizes, leaves
from .engine_order import engine_order
from .engines.base import Engine
from .errors import InvalidInput, Unsupported, kind_of
from .guarantee import Bounds
from .neighbours import Neighbours, as_neighbours

if TYPE_CHECKING:
    from .amplification.group import Divergence, FloatArray


@dataclass(frozen=True)
class Route:
    """One way to bounds on epsilon, or why it has none here.

    `bounds` is None where the way is refused, and `refused` says why; its upper end is infinite
    where the way holds and says nothing.  `source` is where the argument stands and what it
    covers.
    """

    name: str
    bounds: Bounds | None
    source: str
    refused: str = ""


def routes(event: ev.Event, *, delta: float, neighbours: str = "add-remove") -> tuple[Route, ...]:
    """Return every way to epsilon at `delta` in (0, 1) for an event.

    For groups of records: the lemma, Mironov's rule (as it is stated, and as far as its proof
    goes), the optimised triangle inequality, and the mixture of all records together by Renyi
    curves and by pld.  For all events: the engines that know them, each by itself.

    Raises `InvalidInput` for values out of range; a way that does not hold is listed, refused.

    >>> event = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    >>> [route.name for route in routes(ev.Group(2, event), delta=1e-5)][:2]
    ['lemma', "Mironov's rule"]
    """
    at = validate.open_probability(delta=delta)
    relation = as_neighbours(neighbours)
    if not isinstance(event, ev.Event) or not event.type:
        raise InvalidInput(f"`event` must be an event; it is {kind_of(event)}.")
    return tuple(route for way in ROUTE_SOURCES for route in way(event, at, relation))


def _asked(name: str, source: str, find: Callable[[], Bounds]) -> Route:
    """Return the route of what `find` returns, or of its refusal."""
    try:
        with guarded(name):
            return Route(name, find(), source)
    except Unsupported as refusal:
        return Route(name, None, source, str(refusal.unforced()))


# --- groups of records --------------------------------------------------------------------------

_CHAIN: Final = "any chain of k changes"
_TOGETHER: Final = "all k records at once"


def _of_groups(event: ev.Event, delta: float, relation: Neighbours) -> Iterator[Route]:
    """Yield the ways from one record's Renyi curve to that of the unit."""
    size, record = _one_record(event)
    if size == 1:
        return
    from .amplification.group import AS_PROVEN, AS_STATED, by_mironov, triangle
    from .engines.rdp.conversion import best_epsilon
    from .engines.rdp.engine import lemma_epsilon

    alone = leaves(record)

    def by(rule: Callable[[Divergence], Divergence], above: float = 1.0) -> Callable[[], Bounds]:
        def find() -> Bounds:
            total = _added([(rule(at), count) for at, count in _curves(alone, size, relation)])
            return Bounds(0.0, best_epsilon(total, delta, above=above).value)

        return find

    yield _asked(
        "lemma",
        f"derived in amplification/group.py; {_CHAIN}",
        lambda: Bounds(0.0, lemma_epsilon(alone, size, delta, relation)),
    )
    rule = f"Mironov 2017, Proposition 2, arXiv 1702.07476v3; {_CHAIN}"
    yield _asked(
        "Mironov's rule",
        f"{rule}; orders of at least 2k, as it is stated",
        by(lambda at: by_mironov(at, size, AS_STATED), AS_STATED),
    )
    yield _asked(
        "Mironov's rule, as proven",
        f"{rule}; final orders of at least 1.5, where its proof holds",
        by(lambda at: by_mironov(at, size, AS_PROVEN), AS_PROVEN),
    )
    yield _asked(
        "optimised triangle inequality",
        f"derived in amplification/group.py; {_CHAIN}",
        by(lambda at: triangle(at, size)),
    )
    yield _asked(
        "mixture Renyi",
        f"derived in engines/rdp/mixture.py; {_TOGETHER}",
        lambda: Bounds(0.0, best_epsilon(_mixtures(alone, size, relation), delta).value),
    )


def _one_record(event: ev.Event) -> tuple[int, ev.Event]:
    """Return the size of the groups that an event is about, and the event as one record sees it.

    The size is 1 where there are none, or several, or one inside of something else.
    """
    sizes = group_sizes(event)
    if len(sizes) != 1 or sizes[0] == 1:
        return 1, event
    alone = _ungrouped(event)
    return (sizes[0], alone) if group_sizes(alone) == (1,) else (1, event)


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


def _curves(alone: Sequence[Leaf], size: int, relation: Neighbours) -> list[tuple[Divergence, int]]:
    """Return the Renyi curves of one record's releases, with their counts."""
    from .engines.rdp.curves import curve
    from .engines.rdp.engine import record_leaves

    parts = record_leaves(alone, size, relation)
    curves = [(curve(leaf.event, relation), leaf.count) for leaf in parts]
    if any(each.slack > 0.0 for each, _ in curves):
        raise Unsupported(
            "A release here holds outside an event of small probability only.",
            "The rule is about Renyi curves without a delta of their own.",
            "See the rdp engine's own answer.",
        )
    return [(each.at, count) for each, count in curves if each.limit > 0.0]


def _mixtures(alone: Sequence[Leaf], size: int, relation: Neighbours) -> Divergence:
    from .amplification.group import type_of
    from .engines.rdp.groups import mixture_of

    curves: list[tuple[Divergence, int]] = []
    for leaf in alone:
        mixture = mixture_of(ev.Group(size, leaf.event), relation)
        if mixture is None:
            raise Unsupported(
                f"Several records of {type_of(leaf.event)} make no mixture of Gaussians.",
                "The records' joint curve is known under Poisson sampling with Gaussian noise.",
                "See the optimised triangle inequality.",
            )
        curves.append((mixture.at, leaf.count))
    return _added(curves)


def _added(curves: Sequence[tuple[Divergence, int]]) -> Divergence:
    from .engines.rdp.moments import OUTWARD

    def at(orders: FloatArray) -> FloatArray:
        total = 0.0 * orders
        for each, count in curves:
            total += count * each(orders)
        return total * OUTWARD

    return at


# --- shuffling ----------------------------------------------------------------------------------


def _of_shuffles(event: ev.Event, delta: float, relation: Neighbours) -> Iterator[Route]:
    """Yield the ways that are known for a shuffled round, all under replace-one."""
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
    parts = leaves(event)
    if not parts:
        yield Route("nothing is released", Bounds.exactly(0.0), "by definition")
        return
    mixed = any(isinstance(leaf.event, ev.Group) for leaf in parts)
    row = engine_order(parts)
    for name in (*row.engines, *row.shown):
        together = mixed and name == "pld"
        source = f"{_SOURCES[name]}; {_TOGETHER}" if together else _SOURCES[name]

        find = partial(_bounds, engine_named(name), parts, delta, relation)
        yield _asked("mixture pld" if together else name, source, find)


def _bounds(engine: Engine, parts: Sequence[Leaf], delta: float, relation: Neighbours) -> Bounds:
    return engine.epsilon(parts, delta, relation).bounds


RouteSource = Callable[[ev.Event, float, Neighbours], Iterator[Route]]

ROUTE_SOURCES: tuple[RouteSource, ...] = (_of_groups, _of_shuffles, _of_engines)
"""Event, delta and relation -> the routes that one room knows."""
