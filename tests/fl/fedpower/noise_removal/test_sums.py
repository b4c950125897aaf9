"""What the server learns is the sum of all noise but one node's, bit for bit."""

from __future__ import annotations

import doctest
import pickle
import re

import numpy as np
import pytest
from scipy import stats

from privplan.accountant.errors import InvalidInput

pytest.importorskip("gmpy2")
pytest.importorskip("phe")

from privplan.fl.aggregation.masked_sums import MaskedAggregator
from privplan.fl.fedpower.noise_removal import driver
from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval
from privplan.fl.fedpower.noise_removal.server import hidden_index
from privplan.fl.fedpower.noise_removal.terms import RoundTerms, Terms
from privplan.fl.parties.network import SERVER

from ....cases import for_each
from .sessions import KEY_BITS, drawn, keep_noise_of, network_of, session_of

NODES = 8
FALSE_ALARM = 1e-9


def test_examples() -> None:
    assert doctest.testmod(driver) == (0, 6)


def test_every_hidden_node(monkeypatch: pytest.MonkeyPatch) -> None:
    session, _ = session_of(NODES)
    rng = np.random.default_rng(1)
    for node in range(NODES):
        keep_noise_of(monkeypatch, node)
        noises = rng.integers(-(2**29), 2**29 + 1, (NODES, 70))
        removed = session.removed(node + 1, drawn(noises), largest=2**29)
        assert removed.dtype == np.int64
        assert removed.tolist() == (noises.sum(axis=0) - noises[node]).tolist()


@for_each("largest", [1, 2**20, 10**18])
def test_noise_at_its_bound(largest: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All nodes at one end, in every slot: nothing spills, almost up to 63 bits."""
    keep_noise_of(monkeypatch, 3)
    session, _ = session_of(NODES)
    for number, sign in enumerate((1, -1), 1):
        noises = np.full((NODES, 50), sign * largest, np.int64)
        removed = session.removed(number, drawn(noises), largest=largest)
        assert removed.tolist() == [sign * (NODES - 1) * largest] * 50


def test_no_noise_at_all_and_one_value() -> None:
    session, _ = session_of(NODES)
    zeros = np.zeros((NODES, 1), np.int64)
    assert session.removed(1, drawn(zeros), largest=5).tolist() == [0]


def test_two_nodes_and_rounds_of_other_lengths() -> None:
    session, _ = session_of(2)
    session.prepare(40, largest=7)
    rng = np.random.default_rng(2)
    for number, values in enumerate((40, 3, 41), 1):
        noises = rng.integers(-7, 8, (2, values))
        removed = session.removed(10 * number, drawn(noises), largest=7).tolist()
        assert removed in noises.tolist()


def test_processes_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_noise_of(monkeypatch, 1)
    _, posts = network_of(3)
    session = NoiseRemoval(posts, 3, key_bits=KEY_BITS, weak=True, processes=2)
    noises = np.random.default_rng(3).integers(-(2**40), 2**40, (3, 70))
    removed = session.removed(1, drawn(noises), largest=2**40)
    assert removed.tolist() == (noises[0] + noises[2]).tolist()


def test_a_table_of_residues_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_noise_of(monkeypatch, 0)
    _, posts = network_of(2)
    session = NoiseRemoval(posts, 2, key_bits=512, weak=True, rounds=100)
    session.prepare(50, largest=2**30)
    assert all(node._residues.shape is not None for node in session._nodes)
    noises = np.random.default_rng(4).integers(-(2**30), 2**30, (2, 50))
    assert session.removed(1, drawn(noises), largest=2**30).tolist() == noises[1].tolist()


def test_between_masked_sums_over_the_same_posts(monkeypatch: pytest.MonkeyPatch) -> None:
    """S - R = sum_i Y_i + N_j, as FedPower uses it."""
    keep_noise_of(monkeypatch, 2)
    masked = MaskedAggregator(3)
    session = NoiseRemoval(masked.posts, 3, key_bits=KEY_BITS, weak=True)
    rng = np.random.default_rng(5)
    for number in (1, 2, 3):
        updates = rng.integers(-1000, 1000, (3, 20))
        noises = rng.integers(-(2**20), 2**20, (3, 20))
        noisy = drawn(updates + noises)
        total = masked.total(number, noisy, 20).total
        removed = session.removed(number, drawn(noises), largest=2**20)
        assert (total - removed).tolist() == (updates.sum(axis=0) + noises[2]).tolist()


# --- the hidden index -----------------------------------------------------------------------------


def uniform(indices: list[int], nodes: int) -> float:
    """Return the p-value of a chi-square test."""
    return float(stats.chisquare(np.bincount(indices, minlength=nodes)).pvalue)


def test_the_hidden_index_is_uniform() -> None:
    """False alarm 1e-9; a node drawn with .14 instead of .125 is seen with more than .999.

    By the non-central chi-square with 7 degrees of freedom.
    """
    draws, biased = 80_000, 0.14
    rest = (1 - biased) / 7
    shift = draws * 8 * ((biased - 1 / 8) ** 2 + 7 * (rest - 1 / 8) ** 2)
    assert stats.ncx2.sf(stats.chi2.isf(FALSE_ALARM, 7), 7, shift) > 0.999
    assert uniform([hidden_index(8) for _ in range(draws)], 8) > FALSE_ALARM


def test_an_index_that_is_not_uniform_is_seen() -> None:
    rng = np.random.default_rng(6)
    assert uniform(rng.choice(8, 80_000, p=[0.14, *[0.86 / 7] * 7]).tolist(), 8) < FALSE_ALARM


def test_it_is_drawn_anew_in_every_round() -> None:
    """The same node in all of 40 rounds: 2^-39."""
    session, _ = session_of(2, key_bits=256)
    noises = np.array([[1], [2]])
    stayed = {
        3 - int(session.removed(number, drawn(noises), largest=2)[0]) for number in range(1, 41)
    }
    assert stayed == {1, 2}


# --- arguments ------------------------------------------------------------------------------------


def test_arguments_are_refused_before_anybody_acts() -> None:
    session, network = session_of(3)
    sent = dict(network.sent)
    noises = drawn(np.ones((3, 2), np.int64))
    for number, draws, largest in (
        (0, noises, 1),
        (1, noises[:2], 1),
        (1, noises, 0),
        (1, noises, 2**62),
        (True, noises, 1),
    ):
        with pytest.raises(InvalidInput):
            session.removed(number, draws, largest=largest)
    assert network.sent == sent
    session.removed(5, noises, largest=1)
    for number in (5, 4):
        with pytest.raises(InvalidInput, match="later number"):
            session.removed(number, noises, largest=1)
    session.removed(6, noises, largest=1)


def test_sessions_that_are_refused() -> None:
    _, posts = network_of(3)
    for nodes, change in ((2, {}), (4, {}), (1, {}), (0, {})):
        with pytest.raises(InvalidInput):
            NoiseRemoval(posts, nodes, key_bits=KEY_BITS, weak=True, **change)
    with pytest.raises(InvalidInput, match="2048"):
        NoiseRemoval(posts, 3, key_bits=KEY_BITS)
    with pytest.raises(InvalidInput):
        NoiseRemoval({**posts, "silo-7": posts["silo-1"]}, 3, key_bits=KEY_BITS, weak=True)
    without = {name: post for name, post in posts.items() if name != SERVER}
    with pytest.raises(InvalidInput):
        NoiseRemoval(without, 3, key_bits=KEY_BITS, weak=True)


def test_slots_are_as_narrow_as_the_sum_of_all_nodes_allows() -> None:
    terms = RoundTerms(Terms(100), 5000, 2**26)
    assert (terms.packing.width, terms.packing.slots, terms.packs) == (34, 90, 56)
    assert RoundTerms(Terms(100), 5000, 2**56).packing.width == 64


def test_it_says_that_it_is_weak_and_keeps_to_itself() -> None:
    session, _ = session_of(2)
    assert "weak" in repr(session)
    for one in (session._server, session._nodes[0], session._nodes[0]._member):
        with pytest.raises(TypeError):
            pickle.dumps(one)
        assert not re.search(r"\d{5,}|[0-9a-f]{12,}", repr(one))


@pytest.mark.slow
def test_at_the_size_of_real_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_noise_of(monkeypatch, 2)
    _, posts = network_of(4)
    session = NoiseRemoval(posts, 4, processes=2)
    noises = np.random.default_rng(7).integers(-(2**26), 2**26, (4, 200))
    removed = session.removed(1, drawn(noises), largest=2**26)
    assert removed.tolist() == (noises.sum(axis=0) - noises[2]).tolist()
