"""From one record to a unit of several: what a group of k records loses.

Three ways that need no more than a record's guarantee, each for any chain of k + 1 data sets in
which neighbours differ in one record; so they cover every order and mixture of changes.

**The lemma.**  If one record is (e, d)-protected, k are (k e, d (1 + e^e + ... + e^((k-1) e)))
protected: on any set of outputs P0 <= e^e P1 + d <= e^e (e^e P2 + d) + d <= ...

**The optimised triangle inequality.**  For distributions P, M, Q, an order a > 1 and any p > 1,

    R_a(P||Q) <= (a - 1/p)/(a - 1) R_{p a}(P||M) + R_{(p a - 1)/(p - 1)}(M||Q).

Proof: the integral of P^a Q^(1-a) is that of [P^a M^(1/p - a)] [M^(a - 1/p) Q^(1-a)]; Hoelder's
inequality with exponents p and p/(p-1) gives the p-th root of the moment of order p a of P
against M, times a power of the moment of order b = (p a - 1)/(p - 1) of M against Q, since
b - 1 = (a - 1) p/(p - 1).  Logarithms over a - 1 give the claim.

**Mironov's rule** is that with p = 2, every order rounded up to p a: the second order is 2a - 1,
and (a - 1/2)/(a - 1) + 1 <= 3 exactly when a >= 3/2.  So each doubling of the group halves the
order and triples the divergence, as long as the order that is left is at least 3/2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np

from .. import events as ev
from .. import validate
from ..arrays import FloatArray
from ..errors import InvalidInput, Unsupported
from ..guarantee import Neighbours, Step
from ..neighbours import GROUP_WORDS

Divergence: TypeAlias = Callable[[FloatArray], FloatArray]
"""From orders above 1 to upper bounds on both Renyi divergences of neighbours, in nats."""

MIRONOV_STATED_MIN_ORDER: Final = 2.0
"""Least final order for which Mironov states his rule: orders of at least 2k for a group of k."""

MIRONOV_PROVEN_MIN_ORDER: Final = 1.5
"""Least final order for which its proof holds."""


def group_step(size: int, neighbours: Neighbours) -> Step:
    """Return the step that says what a unit of `size` records is, and what a number covers.

    Range: `size` 1 or above.
    """
    conditions = [f"both ends hold for all {size:,} records at once", f"neighbours: {neighbours}"]
    if neighbours == "replace-one":
        conditions.append("a user whose records are exchanged for as many others is this unit")
    else:
        conditions.append(
            "under sampling, records of which some come while others go are covered by the lemma, "
            "Mironov's rule and the triangle inequality only"
        )
    return Step(
        "group",
        f"A unit is {size:,} records, which {GROUP_WORDS[neighbours]}.",
        "definition of the relation between data sets",
        tuple(conditions),
    )


def along_chain(event: ev.Event, size: int, neighbours: Neighbours) -> ev.Event:
    """Return the event whose guarantee for one record holds on every step of a chain of `size`.

    Under add-remove the data sets on the way grow smaller by one record each.  A sample of fixed
    size then draws a record more often, at most at batch / (population - size + 1), and that rate
    covers all steps.  Other events do not depend on the number of records.

    Raises `Unsupported` where a batch cannot be drawn from what is left, and for samples that are
    cut at a size, whose guarantee neither grows nor falls with the population.

    >>> along_chain(ev.FixedSize(10, 100, ev.Gaussian(1.0)), 3, "add-remove").population
    98
    """
    if neighbours != "add-remove" or size == 1:
        return event
    match event:
        case ev.Compose(parts):
            return ev.Compose(tuple(along_chain(part, size, neighbours) for part in parts))
        case ev.FixedSize(batch, population, inner):
            if batch > population - size:
                raise Unsupported(
                    f"A batch of {batch:,} cannot be drawn from {population:,} records without a "
                    f"unit of {size:,}.",
                    "Both data sets must hold as many records as the batch has.",
                    "Use a smaller batch, or ask under replace-one.",
                )
            smallest = population - size + 1
            return ev.FixedSize(batch, smallest, along_chain(inner, size, neighbours))
        case ev.WithReplacement(batch, population, inner):
            if size >= population:
                raise Unsupported(
                    f"{batch:,} draws cannot be made from {population:,} records without a unit of "
                    f"{size:,}.",
                    "Both data sets must hold a record to draw.",
                    "Ask under replace-one.",
                )
            smallest = population - size + 1
            return ev.WithReplacement(batch, smallest, along_chain(inner, size, neighbours))
        case ev.TruncatedPoisson():
            raise Unsupported(
                "A truncated Poisson sample is not converted to groups under add-remove.",
                "How often it is cut depends on the population, which changes with each record, "
                "and the guarantee neither grows nor falls with it.",
                "Ask under zero-out or replace-one, or account for single records.",
            )
        case ev.Group(records, inner):
            # Each of the other units takes `many` records away; the rest is this group's own chain.
            return ev.Group(records, along_chain(inner, (size - 1) * records + 1, neighbours))
        case _:
            inner_event = getattr(event, "event", None)
            if not isinstance(inner_event, ev.Event):
                return event
            return replace(event, **{"event": along_chain(inner_event, size, neighbours)})


def type_of(event: ev.Event) -> str:
    """Return the type of an event and of what it samples, for a sentence.

    >>> type_of(ev.Poisson(0.1, ev.Pure(1.0)))
    '`pure` under `poisson`'
    """
    inner = getattr(event, "event", None)
    return f"`{event.type}`" if inner is None else f"`{inner.type}` under `{event.type}`"


# --- the lemma ----------------------------------------------------------------------------------


def log_growth(epsilon: FloatArray, size: int) -> FloatArray:
    """Return log(1 + e^epsilon + ... + e^((size-1) epsilon)), by which a group's delta grows.

    Exact to a few units in the last place, also where e^epsilon overflows.

    >>> import numpy as np
    >>> log_growth(np.array([0.0, 1000.0]), 8).round(3).tolist()
    [2.079, 7000.0]
    """
    positive = np.maximum(epsilon, 1e-300)
    log_quotient = np.log(np.expm1(-size * positive) / np.expm1(-positive))
    # The quotient tends to `size` as epsilon vanishes, and is never more.
    return np.asarray((size - 1) * epsilon + np.clip(log_quotient, 0.0, math.log(size)))


def lemma(epsilon: float, log_delta: float, size: int) -> tuple[float, float]:
    """Return (epsilon, log delta) of a group of `size` records, from those of one record.

        epsilon_k = k epsilon,   delta_k = delta (e^(k epsilon) - 1) / (e^epsilon - 1),

    in logarithms, because delta of one record may be 1e-1500 and below.  Holds for every
    relation, chain of changes and mechanism.  Range: `epsilon` 0 or above, `size` 1 or above.
    Source: derived in the docstring of this module; Dwork and Roth 2014, Theorem 2.2, for delta 0.

    >>> lemma(1.0, math.log(1e-9), 1) == (1.0, math.log(1e-9))
    True
    """
    record_epsilon = validate.non_negative(epsilon=epsilon)
    records = validate.count(size=size)
    if records == 1:
        return record_epsilon, log_delta
    growth = float(log_growth(np.array([record_epsilon]), records)[0])
    return math.nextafter(records * record_epsilon, math.inf), log_delta + growth * (1.0 + 1e-14)


# --- Mironov's rule -----------------------------------------------------------------------------


def mironov(
    divergence: Divergence, size: int, orders: FloatArray, least: float = MIRONOV_STATED_MIN_ORDER
) -> tuple[FloatArray, FloatArray]:
    """Return orders and divergences of a group of `size` records by Mironov's rule.

        R_k(a / 2^c) <= 3^c R_1(a),   2^c >= k,

    for each record-level order a in `orders`.  A size that is no power of two counts as the next
    one (the missing records do not change).  `least` is the smallest final order a / 2^c that is
    taken: 2 as the rule is stated, down to 1.5, where its proof ends.
    Source: Mironov 2017, Proposition 2, arXiv 1702.07476v3.

    Raises `Unsupported` for an order that is too small, `InvalidInput` for a `least` below 1.5.

    >>> import numpy as np
    >>> finals, values = mironov(lambda a: a / 2, 4, np.array([8.0, 16.0]))
    >>> finals.tolist(), values.round(6).tolist()
    ([2.0, 4.0], [36.0, 72.0])
    """
    records = validate.count(size=size)
    if not MIRONOV_PROVEN_MIN_ORDER <= least <= MIRONOV_STATED_MIN_ORDER:
        raise InvalidInput(
            f"`least` must be in [1.5, 2]; it is {least!r}.",
            "Below a final order of 1.5 one doubling costs more than a factor of 3.",
            "Use 2 for the rule as it is stated, 1.5 for what its proof gives.",
        )
    doublings = (records - 1).bit_length()
    # 2^c >= k doublings: order a becomes a/2^c, the divergence 3^c times as large.
    finals = np.asarray(orders, np.float64) / 2.0**doublings
    refuse_small_orders(finals, records, least)
    factor = float(3**doublings)
    return finals, np.asarray(factor * divergence(np.asarray(orders)) * (1.0 + 1e-15))


def refuse_small_orders(finals: FloatArray, size: int, least: float) -> None:
    """Raise `Unsupported` where Mironov's rule leaves an order below `least`."""
    smallest = float(finals.min(initial=math.inf))
    if smallest >= least:
        return
    doubled = 1 << (size - 1).bit_length()
    raise Unsupported(
        f"Mironov's rule for {size:,} records needs orders of at least {least * doubled:g}; "
        f"{smallest * doubled:g} was asked.",
        f"Order a becomes a / {doubled}, here {smallest:.4g}. The rule is stated for a final order "
        "of at least 2, and its factor of 3 holds down to 1.5: below, one doubling costs more.",
        "Use larger orders, or the optimised triangle inequality, which holds at every order.",
    )


def by_mironov(
    divergence: Divergence, size: int, least: float = MIRONOV_PROVEN_MIN_ORDER
) -> Divergence:
    """Return Mironov's rule as a curve of the group: infinite at orders below `least`."""
    doubled = float(1 << (size - 1).bit_length())

    def at(orders: FloatArray) -> FloatArray:
        # Where the rule does not hold it says nothing: infinite.
        values = np.full_like(orders, np.inf)
        fits = orders >= least
        if fits.any():
            values[fits] = mironov(divergence, size, orders[fits] * doubled, least)[1]
        return values

    return at


# --- the optimised triangle inequality ----------------------------------------------------------

NODES_PER_DOUBLING: Final = 32
"""Orders in the tables: a - 1 grows by a factor 2^(1/32) from one to the next."""

_FIRST_NODE, _LAST_NODE = -24 * NODES_PER_DOUBLING, 23 * NODES_PER_DOUBLING
_ORDER_NODES: Final = np.exp2(np.arange(_FIRST_NODE, _LAST_NODE + 1) / NODES_PER_DOUBLING)
"""The a - 1 of the tables, from 6e-8 to 8e6."""

_NODE_STEPS: Final = np.unique(
    np.concatenate((np.arange(1, 9), np.arange(10, 64, 2), np.arange(64, 257, 16)))
)
"""How many nodes above a - 1 one of the two orders of the inequality is looked for."""


def triangle(divergence: Divergence, size: int) -> Divergence:
    """Return the Renyi curve of a group of `size` records from that of one.

        R_{i+j}(a) <= min over p > 1 of (a - 1/p)/(a - 1) R_i(p a) + R_j((p a - 1)/(p - 1)),

    by halves: any size, any chain of changes.  `divergence` must bound both directions and every
    pair of neighbours on the chain.  Curves are kept at fixed orders; between them (a - 1) R(a)
    is convex, so a chord lies above it; below the first order R is no larger than there, and
    above the last nothing is known (infinite).
    Source: derived in the docstring of this module; van Erven and Harremoes 2014, Corollary 2,
    arXiv 1206.2459v2, for the convexity.

    >>> import numpy as np
    >>> at = triangle(lambda a: 0.02 * a, 8)
    >>> round(float(at(np.array([5.0]))[0]), 2)  # a Gaussian; exactly 64 x 0.02 x 5
    6.4
    """
    tables = {1: _record_table(divergence)}
    final = _table_by_halves(validate.count(size=size), tables)
    return lambda orders: _chord(final, orders - 1.0)


def _record_table(divergence: Divergence) -> FloatArray:
    # In short pieces: a curve may cost as much for all orders as for the largest of them.
    pieces = [
        divergence(1.0 + nodes) for nodes in np.array_split(_ORDER_NODES, _ORDER_NODES.size // 16)
    ]
    values = np.concatenate(pieces)
    values[np.isnan(values)] = np.inf
    # R never falls as the order grows, so a bound at a larger order is one here, too.
    return np.asarray(np.minimum.accumulate(values[::-1])[::-1])


def _table_by_halves(size: int, tables: dict[int, FloatArray]) -> FloatArray:
    if size not in tables:
        # R_k from R_{k/2} and R_{k - k/2}: log2 k combinations, each table kept.
        smaller = size // 2
        tables[size] = _combined_table(
            _table_by_halves(smaller, tables), _table_by_halves(size - smaller, tables)
        )
    return tables[size]


def _combined_table(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the table of R_{i+j} from those of R_i and R_j."""
    best = np.full(_ORDER_NODES.size, np.inf)
    for step in _NODE_STEPS.tolist():
        b, node = _ORDER_NODES[:-step], _ORDER_NODES[step:]
        # The first order, p a = 1 + node, is one of the table, and p - 1 = (node - b)/(b + 1) ...
        other = (node + 1.0) * (b / (node - b)) * (1.0 + 1e-14)
        weight = 1.0 + (node - b) / ((node + 1.0) * b)
        best[:-step] = np.fmin(best[:-step], weight * first[step:] + _chord(second, other))
        # ... or the second is, 1 + p b/(p - 1) = 1 + node, and p - 1 = b/(node - b).
        p_minus_1 = b / (node - b)
        other = (p_minus_1 + b + p_minus_1 * b) * (1.0 + 1e-14)
        weight = 1.0 + 1.0 / node
        best[:-step] = np.fmin(best[:-step], weight * _chord(first, other) + second[step:])
    return np.asarray(np.minimum.accumulate(best[::-1])[::-1] * (1.0 + 1e-13))


def _chord(table: FloatArray, b: FloatArray) -> FloatArray:
    """Return an upper bound on R at order 1 + b, from its values at the nodes."""
    position = np.log2(np.maximum(b, _ORDER_NODES[0])) * NODES_PER_DOUBLING - _FIRST_NODE
    index = np.clip(position.astype(np.intp), 0, _ORDER_NODES.size - 2)
    # The logarithm may be a unit off near a node.
    index = np.where(_ORDER_NODES[index] > b, np.maximum(index - 1, 0), index)
    index = np.where(
        _ORDER_NODES[index + 1] < b, np.minimum(index + 1, _ORDER_NODES.size - 2), index
    )
    low, high = _ORDER_NODES[index], _ORDER_NODES[index + 1]
    # (a-1) R(a) is convex: its chord between two nodes, divided by a - 1, is above R.
    share = np.clip((b - low) / (high - low), 0.0, 1.0)
    with np.errstate(invalid="ignore"):
        left = np.where(share < 1.0, (1.0 - share) * low * table[index], 0.0)
        right = np.where(share > 0.0, share * high * table[index + 1], 0.0)
        value = (left + right) / np.clip(b, low, high) * (1.0 + 1e-13)
    value = np.where(b <= _ORDER_NODES[0], table[0], value)
    return np.where(b > _ORDER_NODES[-1], np.inf, value)
