"""More than three hundred random configurations against each of dp_accounting and prv_accountant.

Nothing here depends on chance: the configurations come from a fixed seed, and every comparison
is between bounds that must be ordered.  By default the other libraries' answers are those kept in
`peers.json`; the slow tests ask the libraries a third of it again, and compare with their answers
and with what is kept of them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import numpy as np
import pytest

from privplan.accountant.account import account
from privplan.accountant.composition import Composition
from privplan.accountant.errors import Unsupported
from privplan.accountant.guarantee import Bounds

from ...cases import for_each
from ...sweeps import sweep
from .peers import DP_ACCOUNTING, PRV_ACCOUNTANT, WIDTH, Configuration, Peer

PARTS = range(6)
"""Of 80 configurations each, of which 50 must be comparable: together three hundred."""

TRANSFORM_ROUNDING = 1e-11
"""What rounding in the other library's Fourier transform may add to a delta, or take from it.

Sums over the tail of 10^5 points or more, each off by some 10^-16: 5e-13 was seen between two
processors.
"""


@functools.cache
def ours(configuration: Configuration) -> Bounds:
    """Return what our own engine proves, computed once whoever compares."""
    return account(
        configuration.event,
        delta=configuration.delta,
        neighbours=configuration.neighbours,
        engine="pld",
    ).epsilon


def comparable(peer: Peer, part: int) -> list[tuple[Configuration, Any]]:
    """Return the questions with epsilon up to 100, and the answers that are kept."""
    answered = list(zip(peer.configurations, peer.kept(), strict=True))[part :: len(PARTS)]
    return [
        (configuration, kept)
        for configuration, kept in answered
        if 0.0 < ours(configuration).upper <= 100.0
    ]


def is_close_to_dp_accounting(configuration: Configuration, theirs: float) -> bool:
    """Assert the order of the ends; return whether ours is at most one in ten thousand above.

    What is true is at least theirs less its known excess, and never above ours.
    """
    proven = ours(configuration)
    assert proven.lower <= theirs, configuration
    rounds = sum(leaf.count for leaf in Composition.of(configuration.event))
    tilt = 1.0 + 5.0 / min(proven.upper, 5.0)
    excess = rounds * WIDTH**2 * tilt + 1e-3 * proven.upper + 2 * WIDTH
    assert proven.upper >= theirs - excess, configuration
    return proven.upper <= theirs + 1e-4 * theirs


def is_between_those_of_prv_accountant(
    configuration: Configuration, theirs: tuple[float, float]
) -> bool:
    """Assert that the two intervals meet."""
    assert ours(configuration).lower <= theirs[1], configuration
    assert theirs[0] <= ours(configuration).upper, configuration
    return True


CHECKS = {
    DP_ACCOUNTING.package: is_close_to_dp_accounting,
    PRV_ACCOUNTANT.package: is_between_those_of_prv_accountant,
}


def compare(peer: Peer, part: int, answer: Callable[[Configuration, Any], Any]) -> None:
    """Check our ends against the answers of a peer, as `answer(question, kept)` gives them."""
    answers = [
        (configuration, answer(configuration, kept))
        for configuration, kept in comparable(peer, part)
    ]
    close = [
        CHECKS[peer.package](configuration, theirs)
        for configuration, theirs in answers
        if theirs is not None
    ]
    assert len(close) >= 50
    assert sum(close) >= 0.9 * len(close)


@pytest.mark.quick(2)
@for_each("part", PARTS)
def test_ends_are_ordered_with_those_that_dp_accounting_gave_and_those_of_rdp(part):
    compare(DP_ACCOUNTING, part, lambda _, kept: kept)
    compared = 0
    for configuration in DP_ACCOUNTING.configurations[part :: len(PARTS)]:
        proven = ours(configuration)
        assert proven.gap <= 1e-3 * proven.upper + 1e-12 or proven.lower == 0.0, configuration
        try:
            theirs = account(
                configuration.event,
                delta=configuration.delta,
                neighbours=configuration.neighbours,
                engine="rdp",
            )
        except Unsupported:
            continue
        compared += 1
        assert proven.lower <= theirs.epsilon.upper
    assert compared >= 55


@for_each("part", sweep(PARTS, quick=1))
def test_ends_are_ordered_with_those_that_prv_accountant_gave(part):
    compare(PRV_ACCOUNTANT, part, lambda _, kept: kept)


def processor_difference(configuration: Configuration, answer: Any) -> float:
    """Return how far the answers of two processors may lie apart, whose transforms round otherwise.

    Rounding moves delta by TRANSFORM_ROUNDING at most.  Epsilon falls with the logarithm of delta
    by about epsilon / (2 log(1 / delta)) for Gaussian tails; twice that is taken.
    """
    delta, epsilon = configuration.delta, float(np.max(answer))
    return TRANSFORM_ROUNDING / delta * epsilon / math.log(1.0 / delta)


@pytest.mark.slow
@for_each("peer", [DP_ACCOUNTING, PRV_ACCOUNTANT], ids=lambda peer: peer.package, items=2)
@for_each("part", [5])
def test_the_peers_say_it_again(part, peer):
    """A sixth of all configurations, each of which is asked for when the file is made anew."""
    same = version(peer.package) == peer.kept_by()

    def asked(configuration, kept):
        theirs = peer.ask(configuration)
        assert (theirs is None) == (kept is None), configuration
        if theirs is not None and same:
            allowed = processor_difference(configuration, kept)
            assert theirs == pytest.approx(kept, rel=1e-6, abs=allowed), configuration
        return theirs

    compare(peer, part, asked)
