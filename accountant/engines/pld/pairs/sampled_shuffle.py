"""Dominating pairs of shuffled rounds, and of some coordinates of each user, through shufflers.

A shuffled round is the convex hull of its certified bound, as outcomes.  Sampled shuffling:

| shuffled by | choice | what is proven |
|---|---|---|
| coordinate | oblivious | the better of double amplification and of k shuffles, `double` |
| coordinate | data-dependent | k shuffles if no dimension overflows, 2 k if one is cut, `overlap` |
| tuple | oblivious | k local releases: who reads whole tuples sees a user's messages together |
| tuple | data-dependent | nothing: tuples carry the chosen dimensions |
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

import numpy as np

from .... import events as ev
from ....amplification.shuffling.attained import LogPair, lower_epsilon
from ....amplification.shuffling.counting import sampled_test
from ....amplification.shuffling.double import Copies, oblivious_bound
from ....amplification.shuffling.overlap import data_dependent_bound
from ....amplification.shuffling.profile import Profile, atoms
from ....amplification.shuffling.randomizers import randomizer_of
from ....amplification.shuffling.rounds import class_tests, round_pair, round_tests
from ....arrays import FloatArray
from ....errors import Unsupported
from ....guarantee import Neighbours, Step
from ..grid.pair import LaterPair, Pair
from ..grid.pair_parts import AtomPair
from .registry import DominatedMechanism, each_alone, from_above, pairs, repeated, single_pair


@dataclass(frozen=True, eq=False)
class OneSidedAtoms(AtomPair):
    """Outcomes of a lower bound on P against Q; the reverse bound has outcomes `backward`.

    Swapping the two would turn what was rounded down into what was rounded up.
    """

    backward: LogPair = (np.zeros(0), np.zeros(0))

    def reverse(self) -> AtomPair:
        """Return the lower bound on Q against P."""
        return OneSidedAtoms(
            *self.backward, has_heavy_atoms=self.has_heavy_atoms, backward=(self.log_p, self.log_q)
        )


def one_sided_pair(forward: LogPair, backward: LogPair) -> Pair:
    """Return the pair of two lower bounds, each (log P, log Q): P against Q, and Q against P."""
    return Pair.of_outcomes(OneSidedAtoms(*forward, has_heavy_atoms=False, backward=backward))


TEST_CHOICE_DELTA: Final = 1e-6
"""The delta at which the sharpest of several tests is chosen; any of them is sound."""


@pairs.register(ev.Shuffle)
def _shuffle(event: ev.Shuffle, neighbours: Neighbours) -> DominatedMechanism:
    return shuffled_round(event, neighbours)


@lru_cache(maxsize=64)
def shuffled_round(event: ev.Event, neighbours: Neighbours) -> DominatedMechanism:
    """Return the pair of a shuffled round, or of one of `FixedSize` or `Poisson` users.

    Replace-one, and zero-out as a case of it.  Raises `Unsupported` under add-remove, and for
    other events.
    """
    known = round_pair(event, neighbours)
    pair = Pair.of_outcomes(AtomPair(*known.outcomes, has_heavy_atoms=False))
    lower_pair = _sharpest(round_tests(event, neighbours))
    class_pair = _sharpest(class_tests(event, neighbours))
    steps = known.steps
    if lower_pair is not None:
        test = Step(
            "shuffling",
            "Lower end: an exact test on one concrete pair of data sets.",
            "derived in amplification/shuffling/attained.py",
        )
        steps = (*steps, test)
    return DominatedMechanism.of(pair, [lower_pair], True, steps, class_pair)


def _sharpest(tests: tuple[LogPair, ...]) -> Pair | None:
    """Return the pair of the test with the largest lower bound, with its bounds in both
    directions."""
    if not tests:
        return None
    sharpness = [lower_epsilon((test,), TEST_CHOICE_DELTA) for test in tests]
    best = sharpness.index(max(sharpness))
    return one_sided_pair(tests[best], tests[best ^ 1])  # tests come in twos, one for each order


DEFAULT_FAILURE = 1e-13
"""What dummies are counted on but for, where delta is not known beforehand."""


LOCAL_ORDERS = 17
"""Orders at which a shuffled message is compared with one alone."""

LOCAL_LOG_ROUNDING = 1e-9
"""How far the logs of equal deltas may differ there."""


@pairs.register(ev.SampledShuffle)
def _sampled_shuffle(event: ev.SampledShuffle, neighbours: Neighbours) -> DominatedMechanism:
    if event.granularity == "tuple":
        return _tuples(event, neighbours)
    return _coordinates(event, neighbours, DEFAULT_FAILURE)


@lru_cache(maxsize=64)
def _coordinates(
    event: ev.SampledShuffle, neighbours: Neighbours, failure: float
) -> DominatedMechanism:
    if event.selection == "oblivious":
        bound = oblivious_bound(event, neighbours, failure)
    else:
        overlap_bound = data_dependent_bound(event, neighbours)
        if overlap_bound is None:
            return _no_guarantee(
                "A dimension can overflow its padding: the choice depends on the data, "
                f"{event.users:,} users may choose the same one, and {event.padded_to:,} messages "
                "fit. What happens then is visible.",
                neighbours,
            )
        bound = overlap_bound
    lower_pair, copies = _lower_pair(event, neighbours)
    steps = bound.steps if lower_pair is None else (*bound.steps, _test_step(event))

    def fitted(delta: float) -> DominatedMechanism:
        return _coordinates(event, neighbours, _failure(delta))

    pair = LaterPair(partial(_pair, event, bound, neighbours))
    return DominatedMechanism(
        ((pair, bound.copies),),
        each_alone([lower_pair], copies),
        lower_pair is None or neighbours == "replace-one",
        steps,
        fitted if event.selection == "oblivious" else None,
    )


def _pair(event: ev.SampledShuffle, bound: Copies, neighbours: Neighbours) -> Pair:
    """Return the pair of one copy."""
    local = _local_pair(event, bound, neighbours)
    if local is not None:
        return local
    outcomes = _outcomes(bound)
    return Pair(None, outcomes, tuple(outcomes.losses[-1:].tolist()))  # the end of the support


def _local_pair(event: ev.SampledShuffle, bound: Copies, neighbours: Neighbours) -> Pair | None:
    """Return the pair of one message alone, where a shuffler is not known to hide it; else None.

    It is exact, and what stands for a shuffled message is a hull.  Proof that k copies of it
    dominate: the one user's data are in k messages alone (whichever are chosen, of dimensions that
    depend on data: `overlap`), and what is shuffled is made of these and of draws that depend on
    the others.  That is so under replace-one; nothing is charged for an overflow.
    """
    laws = (ev.Laplace, ev.RandomizedResponse)
    if neighbours != "replace-one" or not isinstance(event.event, laws):
        return None
    if bound.failure > 0.0 or bound.copies != event.chosen:
        return None
    law = randomizer_of(event.event)
    assert law is not None
    orders = np.linspace(0.0, law.largest_loss, LOCAL_ORDERS, endpoint=False)
    for epsilon in orders.tolist():
        if bound.profile.log_delta(epsilon) < law.log_local_delta(epsilon) - LOCAL_LOG_ROUNDING:
            return None
    return single_pair(pairs(event.event, neighbours))


@lru_cache(maxsize=64)
def _lower_pair(event: ev.SampledShuffle, neighbours: Neighbours) -> tuple[Pair | None, int]:
    """Return what a test attains, if there is one, and how many copies of it."""
    test = sampled_test(event, neighbours)
    return (None, 1) if test is None else (one_sided_pair(test.forward, test.backward), test.copies)


def _failure(delta: float) -> float:
    """Return about a hundredth of delta, as a power of ten so that few pairs are made."""
    return 10.0 ** math.floor(math.log10(delta / 50.0)) if delta > 1e-100 else DEFAULT_FAILURE


@lru_cache(maxsize=64)
def _atoms(profile: Profile) -> tuple[FloatArray, FloatArray]:
    return atoms(profile)


def _outcomes(bound: Copies) -> AtomPair:
    """Return the pair of one copy; the failure is spread evenly, as an infinite loss."""
    log_p, log_q = _atoms(bound.profile)
    if bound.failure > 0.0:
        if bound.failure >= 1.0:
            none, certain = np.array([-np.inf]), np.zeros(1)
            return AtomPair(np.append(certain, none), np.append(none, certain))
        # 1 - (1 - each)^copies = failure, rounded up.
        each = -math.expm1(math.log1p(-bound.failure) / bound.copies) * (1.0 + 1e-12)
        log_success, lost = math.log1p(-each), np.array([math.log(each)])
        none = np.array([-np.inf])
        log_p = np.concatenate((log_p + log_success, lost, none))
        log_q = np.concatenate((log_q + log_success, none, lost))
    return AtomPair(log_p, log_q, has_heavy_atoms=False)


def _tuples(event: ev.SampledShuffle, neighbours: Neighbours) -> DominatedMechanism:
    if event.selection != "oblivious":
        return _no_guarantee(
            "Whole tuples carry the chosen dimensions, which depend on the data: whoever reads "
            "them may read the data.",
            neighbours,
        )
    if neighbours == "add-remove":
        raise Unsupported(
            "Shuffled tuples are not accounted under add-remove.",
            "The number of tuples is visible, so one more or less is certain to be noticed.",
            "Ask under replace-one or zero-out.",
        )
    local = pairs(event.event, neighbours)
    step = Step(
        "shuffling",
        f"No gain from the shuffler: a tuple of {event.chosen:,} messages composes locally.",
        "a user's messages travel together, so one tuple may stand out by itself",
        (
            "every user chooses dimensions whatever the data",
            f"neighbours: {neighbours}",
        ),
    )
    return replace(from_above(repeated(local, event.chosen)), steps=(*local.steps, step))


def _no_guarantee(reason: str, neighbours: Neighbours) -> DominatedMechanism:
    """Return what is proven where there is no guarantee: nothing, and why."""
    known = pairs(ev.NoGuarantee(reason), neighbours)
    step = Step("shuffling", f"No guarantee. {reason}", "by an example of such data")
    return replace(known, steps=(step,))


def _test_step(event: ev.SampledShuffle) -> Step:
    rule = "" if event.selection == "oblivious" else ", and a rule such as the k largest values"
    return Step(
        "shuffling",
        "Lower end: the messages of one concrete pair of data sets are sorted into bins and "
        f"counted{rule}.",
        "exact test: amplification/shuffling/counting.py",
    )
