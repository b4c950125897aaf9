"""Lower bounds for the best of a random number K of runs, from orders on the outputs.

Which run is the best is decided by an order on the outputs, and any order may be the one in use.

**An order that says nothing** picks a run by chance.  Where at least one is made, what is released
has the distribution of one run; that none is made looks the same with either data set.  So over a
whole composition, with h the hockey stick of one run of each in the place of its best,

    delta(eps) >= P(at least one run is made, every time) h(eps).

**An order by a test.**  A set S of outputs goes before all others: the best is in S if any run is,
and outside if there are runs and all of them are.  With A(x) = 1 - E[(1 - x)^K], and p and q the
probabilities of S in one run,

    delta(eps) >= A(p) - e^eps A(q),   delta(eps) >= (A(1) - A(q)) - e^eps (A(1) - A(p)).

S is that the loss of a run exceeds t.  With h the hockey stick of a run, convex in x = e^t,
p = h(t) + x q, and q = -dh/dx lies between the slopes of chords on both sides.  Certified values of
h on a few t bound q from both sides, and the worst q in between counts.  This is for a single
search; a run may be any composition with a lower end.

Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from .... import events as ev
from ....arrays import FloatArray
from ....composition import Composition, Leaf
from ....errors import Unsupported
from ....events.run_counts import log_inverse_success
from ....guarantee import Neighbours, Step
from ..compose.delta_bounds import DeltaBound, fitting_width, lower_delta_bound, upper_delta_bound
from ..compose.directions import Direction, directions_of, initial_width
from ..compose.questions import MIN_CERTIFIED_DELTA, EpsilonAt, Question
from ..grid.loss_grid import GridTooFine
from .engine import PldEngine

SEARCH_ROUNDING_RELATIVE: Final = 1e-9
"""Relative error of A, and of what it is used in."""

TEST_LOSS_STEPS: Final = np.arange(-8.0, 41.0) * 0.25
"""Where tests are tried, in steps by which the delta of a run falls by a factor e."""

TESTS_BELOW_ANSWER: Final = 96
"""How many more tests are tried between a loss of 0 and the answer of one run."""

Q_PIECES: Final = 64
"""Into how many pieces the range of q is cut."""

MAX_LAW_LOG_INVERSE: Final = 300.0
"""Largest log(1/g) of a number of runs: the odds of the other runs are a float."""

MAX_SEARCH_GRIDS: Final = 8
"""Most grids that are tried."""


def best_of_lower(
    parts: Composition,
    neighbours: Neighbours,
    *,
    delta: float | None = None,
    epsilon: float | None = None,
) -> tuple[float, Step] | None:
    """Return a lower bound and its step for an event with a search of random length.

    For the epsilon at `delta`, or the delta at `epsilon`.  None where there is no such search, or
    nothing is known of its runs.
    """
    searches = [leaf for leaf in parts if isinstance(leaf.event, ev.BestOf)]
    if not searches or not all(leaf.fully_observed for leaf in searches):
        return None
    try:
        lower, how = 0.0, "puts what tells most before all else"
        by_chance = math.inf
        if parts.single is not None:
            lower, by_chance = _test_order_bound(parts.single, neighbours, delta, epsilon)
        if by_chance > lower:
            chance = _random_choice_bound(parts, neighbours, delta, epsilon)
            if chance >= lower:
                lower, how = chance, "picks a run by chance"
    except Unsupported:
        return None
    step = Step(
        "composition",
        f"Lower end: the best of a random number of runs, by an order that {how}.",
        "derived in engines/pld/ask/best_of_runs.py",
        ("the order on the outputs may be any",),
    )
    return lower, step


@dataclass(frozen=True)
class RunCount:
    """A random number of runs.

    `hit(x)` is A(x), `miss(x)` is A(1) - A(x), and `log_any_run` the log of the probability that
    there is a run at all.
    """

    hit: Callable[[FloatArray], FloatArray]
    miss: Callable[[FloatArray], FloatArray]
    log_any_run: float = 0.0

    @classmethod
    def of(cls, search: ev.BestOf) -> RunCount:
        """Return the number of runs of a search of random length."""
        mean = search.mean
        if search.distribution == "poisson":
            return cls(
                lambda x: -np.expm1(-mean * x),
                lambda x: -np.exp(-mean * x) * np.expm1(-mean * (1.0 - x)),
                math.log(-math.expm1(-mean)),
            )
        if mean <= 1.0:
            return cls(lambda x: x, lambda x: 1.0 - x)
        shape = {"geometric": 1.0, "logarithmic": 0.0}.get(search.distribution, search.shape)
        assert shape is not None
        return cls._negative_binomial(shape, log_inverse_success(shape, mean))

    @classmethod
    def _negative_binomial(cls, shape: float, log_inverse: float) -> RunCount:
        """Return the law with log(1/g) = l, d = e^l - 1 and h(y) = (1 - e^(-eta y)) / eta:

        A(x) = h(log(1 + d x)) / h(l), for eta = 0 with h(y) = y.
        """
        if log_inverse > MAX_LAW_LOG_INVERSE:
            raise Unsupported("A success probability this small leaves no digits of its law.")
        odds = math.expm1(log_inverse)

        def h(y: FloatArray) -> FloatArray:
            return y if shape == 0.0 else np.asarray(-np.expm1(-shape * y) / shape)

        whole = float(h(np.array(log_inverse)))

        def miss(x: FloatArray) -> FloatArray:
            # h(l) - h(y) = e^(-eta y) h(l - y), without cancelling.
            y, left = np.log1p(odds * x), np.log1p(odds * (1.0 - x) / (1.0 + odds * x))
            return np.asarray(np.exp(-shape * y) * h(left) / whole)

        return cls(lambda x: np.asarray(h(np.log1p(odds * x)) / whole), miss)


# --- an order that says nothing -------------------------------------------------------------------


def _random_choice_bound(
    parts: Composition, neighbours: Neighbours, delta: float | None, epsilon: float | None
) -> float:
    single: list[Leaf] = []
    log_any_run = 0.0
    for leaf in parts:
        if not isinstance(leaf.event, ev.BestOf):
            single.append(leaf)
            continue
        log_any_run += leaf.count * RunCount.of(leaf.event).log_any_run
        single += [
            Leaf(run.event, run.count * leaf.count, run.fully_observed)
            for run in Composition.of(leaf.event.event)
        ]
    one_run = Composition(single)
    any_run = math.exp(log_any_run) * (1.0 - SEARCH_ROUNDING_RELATIVE)
    engine = PldEngine()
    if delta is not None:
        if delta >= any_run:
            return 0.0
        return engine.epsilon(one_run, delta / any_run, neighbours).bounds.lower
    assert epsilon is not None
    return any_run * engine.delta(one_run, epsilon, neighbours).bounds.lower


# --- an order by a test ---------------------------------------------------------------------------


def _test_order_bound(
    search: ev.Event, neighbours: Neighbours, delta: float | None, epsilon: float | None
) -> tuple[float, float]:
    """Return the bound of the best test, and what an order that says nothing shows at most.

    The second is infinite where that is not known.
    """
    assert isinstance(search, ev.BestOf)
    run_count = RunCount.of(search)
    if delta is not None:
        level = max(delta / max(search.mean, 1.0), MIN_CERTIFIED_DELTA)
    else:
        assert epsilon is not None
        runs = Composition.of(search.event)
        question, _ = PldEngine().delta_question(runs, neighbours, epsilon)
        # Tests hold at every epsilon: questions whose deltas are close share them.
        level = _shared_level(question.least_delta)
    tests = _tests(search.event, neighbours, level)
    points = [point for each in tests for point in each.points]
    bounds = [_worst_case_bound(run_count, *point, delta, epsilon) for point in points]
    by_chance = math.inf
    if epsilon is not None and all(each.shown is not None for each in tests):
        shown = [math.exp(each.shown(epsilon)) for each in tests if each.shown is not None]
        by_chance = max(shown, default=0.0) * math.exp(run_count.log_any_run)
    return max(bounds, default=0.0), by_chance


def _shared_level(delta: float) -> float:
    """Return one of few deltas at or below, the farther apart the smaller they are.

    Powers 4^-k, with k of three binary digits at most.
    """
    power = max(math.ceil(-math.log(delta) / math.log(4.0)), 0)
    step = 1 << max(power.bit_length() - 3, 0)
    return float(max(4.0 ** -(-(-power // step) * step), MIN_CERTIFIED_DELTA))


@dataclass(frozen=True, eq=False)
class _Tests:
    """Rows (x, h, q low, q high): orders x = e^t and bounds on the hockey stick and q there.

    `shown` bounds the log of that hockey stick from above, None where other data sets may show
    more.
    """

    points: tuple[tuple[float, float, float, float], ...]
    shown: DeltaBound | None


@lru_cache(maxsize=256)
def _tests(run: ev.Event, neighbours: Neighbours, level: float) -> tuple[_Tests, ...]:
    """Return the tests of a run that tell most around the epsilon whose delta is `level`."""
    question = EpsilonAt(level)
    directions = directions_of(Composition.of(run), neighbours, level)
    return tuple(
        _tests_of(direction, question) for direction in directions if direction.lower_pairs
    )


def _tests_of(direction: Direction, question: Question) -> _Tests:
    saddle = question.saddle(direction.lower_estimate)
    scale = question.scale(saddle)
    ends = _hockey_stick_bounds(direction, question, scale)
    if ends is None:
        return _Tests((), None)
    fall = 1.0 / max(saddle.tilt, 1e-3)
    centre = max(saddle.epsilon, 0.0)
    at = np.concatenate(
        (centre + fall * TEST_LOSS_STEPS, np.linspace(0.0, centre, TESTS_BELOW_ANSWER))
    )
    at = np.unique(at[at >= 0.0])
    at = at[np.append(True, np.diff(at) > 0.02 * fall)]
    # Convexity: the chords on both sides of x bound the slope -q of h there.
    low, high = ([math.exp(bound(float(t))) for t in at] for bound in ends)
    x = np.exp(at)
    points = tuple(
        (
            float(x[i]),
            low[i],
            max((low[i] - high[i + 1]) / float(x[i + 1] - x[i]), 0.0)
            * (1.0 - SEARCH_ROUNDING_RELATIVE),
            (high[i - 1] - low[i]) / float(x[i] - x[i - 1]) * (1.0 + SEARCH_ROUNDING_RELATIVE),
        )
        for i in range(1, at.size - 1)
    )
    return _Tests(points, None if direction.other_lower_pairs else ends[1])


def _hockey_stick_bounds(
    direction: Direction, question: Question, scale: float
) -> tuple[DeltaBound, DeltaBound] | None:
    """Return a lower and an upper bound on the hockey stick of what the runs attain."""
    saddle = question.saddle(direction.lower_estimate)
    width = initial_width(direction, saddle, PldEngine().accuracy)
    for _ in range(MAX_SEARCH_GRIDS):
        fitted = fitting_width(direction.lower_pairs, width)
        try:
            return (
                lower_delta_bound(direction.lower_pairs, fitted, saddle, scale),
                upper_delta_bound(direction.lower_pairs, fitted, saddle, scale),
            )
        except GridTooFine:
            width *= 2.0
    return None


def _worst_case_bound(
    run_count: RunCount,
    x: float,
    hockey_stick: float,
    q_low: float,
    q_high: float,
    delta: float | None,
    epsilon: float | None,
) -> float:
    """Return the lower bound of a test with q in [`q_low`, `q_high`], at the worst q."""
    q_high = min(q_high, 1.0)
    if not q_low < q_high:
        return 0.0
    # The true q lies in one of the pieces, so the smallest bound over all pieces holds.
    q = np.linspace(q_low, q_high, Q_PIECES + 1)
    # A rises with q, and p with it, so the ends of a piece bound them.
    p = np.minimum(hockey_stick + x * q[:-1], 1.0)
    tests = (run_count.hit(p), run_count.hit(q[1:])), (run_count.miss(q[1:]), run_count.miss(p))
    return max(
        _test_bound(
            above * (1.0 - SEARCH_ROUNDING_RELATIVE),
            below * (1.0 + SEARCH_ROUNDING_RELATIVE),
            delta,
            epsilon,
        )
        for above, below in tests
    )


def _test_bound(
    above: FloatArray, below: FloatArray, delta: float | None, epsilon: float | None
) -> float:
    """Return the lower bound of a test with P mass at least `above` and Q mass at most `below`."""
    if delta is not None:
        if not float(below.min()) > 0.0:
            return 0.0
        ratio = float(((above - delta) / below).min()) * (1.0 - SEARCH_ROUNDING_RELATIVE)
        return math.log(ratio) if ratio > 1.0 else 0.0
    assert epsilon is not None
    return max(float((above - math.exp(min(epsilon, 700.0)) * below).min()), 0.0)
