"""More than three hundred random configurations against each of dp_accounting and prv_accountant.

Nothing here depends on chance: the configurations come from a fixed seed, and every comparison
is between bounds that must be ordered.  By default the other libraries' answers are those kept in
`peers.json`; the slow tests ask the libraries again, and compare with their answers and with what
is kept of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest

from privplan.accountant.account import account
from privplan.accountant.composition import leaves
from privplan.accountant.errors import Unsupported
from privplan.accountant.guarantee import Bounds

from ...sweeps import sweep
from .peers import DP_ACCOUNTING, PRV_ACCOUNTANT, WIDTH, Configuration, Peer

PARTS = range(6)
"""Of 80 configurations each, of which 50 must be comparable: together three hundred."""


@functools.cache
def ours(one: Configuration) -> Bounds:
    """Return what our own engine proves, computed once whoever compares."""
    return account(one.event, delta=one.delta, neighbours=one.neighbours, engine="pld").epsilon


def comparable(peer: Peer, part: int) -> list[tuple[Configuration, Any]]:
    """Return the questions with epsilon up to 100, and the answers that are kept."""
    found = list(zip(peer.configurations, peer.kept(), strict=True))[part :: len(PARTS)]
    return [(one, kept) for one, kept in found if 0.0 < ours(one).upper <= 100.0]


def is_close_to_dp_accounting(one: Configuration, theirs: float) -> bool:
    """Assert the order of the ends; return whether ours is at most one in ten thousand above.

    What is true is at least theirs less its known excess, and never above ours.
    """
    own = ours(one)
    assert own.lower <= theirs, one
    rounds = sum(leaf.count for leaf in leaves(one.event))
    tilt = 1.0 + 5.0 / min(own.upper, 5.0)
    excess = rounds * WIDTH**2 * tilt + 1e-3 * own.upper + 2 * WIDTH
    assert own.upper >= theirs - excess, one
    return own.upper <= theirs + 1e-4 * theirs


def is_between_those_of_prv_accountant(one: Configuration, theirs: tuple[float, float]) -> bool:
    """Assert that the two intervals meet."""
    assert ours(one).lower <= theirs[1], one
    assert theirs[0] <= ours(one).upper, one
    return True


CHECKS = {
    DP_ACCOUNTING.package: is_close_to_dp_accounting,
    PRV_ACCOUNTANT.package: is_between_those_of_prv_accountant,
}


def compare(peer: Peer, part: int, answer: Callable[[Configuration, Any], Any]) -> None:
    """Check our ends against the answers of a peer, as `answer(question, kept)` gives them."""
    answers = [(one, answer(one, kept)) for one, kept in comparable(peer, part)]
    close = [CHECKS[peer.package](one, theirs) for one, theirs in answers if theirs is not None]
    assert len(close) >= 50
    assert sum(close) >= 0.9 * len(close)


@pytest.mark.quick(3)
@pytest.mark.parametrize("part", PARTS)
def test_ends_are_ordered_with_those_that_dp_accounting_gave(part):
    compare(DP_ACCOUNTING, part, lambda _, kept: kept)


@pytest.mark.parametrize("part", sweep(PARTS, quick=2))
def test_ends_are_ordered_with_those_that_prv_accountant_gave(part):
    compare(PRV_ACCOUNTANT, part, lambda _, kept: kept)


@pytest.mark.slow
@pytest.mark.parametrize("peer", [DP_ACCOUNTING, PRV_ACCOUNTANT], ids=lambda peer: peer.package)
@pytest.mark.parametrize("part", PARTS)
def test_the_peers_say_it_again(part, peer):
    same = version(peer.package) == peer.kept_by()

    def asked(one, kept):
        theirs = peer.ask(one)
        assert (theirs is None) == (kept is None), one
        if theirs is not None and same:
            assert theirs == pytest.approx(kept, rel=1e-6), one
        return theirs

    compare(peer, part, asked)


def test_ends_are_ordered_with_those_of_rdp():
    compared = 0
    for one in DP_ACCOUNTING.configurations:
        own = ours(one)
        assert own.gap <= 1e-3 * own.upper + 1e-12 or own.lower == 0.0, one
        try:
            theirs = account(one.event, delta=one.delta, neighbours=one.neighbours, engine="rdp")
        except Unsupported:
            continue
        compared += 1
        assert own.lower <= theirs.epsilon.upper
    assert compared >= 400
