"""Sums modulo 2^64 without a bound: by all protocols that of numpy, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

pytest.importorskip("cryptography")

from privplan.accountant.arrays import IntArray
from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.fl.aggregation.choice import aggregator
from privplan.fl.aggregation.masked_sums import MaskedAggregator
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.aggregation.sums import PlainAggregator
from privplan.fl.crypto.additive import WholeRing
from privplan.fl.settings.schema import SecuritySettings

from ..cases import for_each

SILOS = 4
FALSE_ALARM = 1e-9
EXTREMES = np.array([-(2**63), 2**63 - 1, -1, 0, 1, 2**62, -(2**62)], np.int64)

AGGREGATORS: dict[str, Callable[..., Any]] = {
    "plain": PlainAggregator,
    "masked": partial(MaskedAggregator, SILOS),
    "shares": partial(ShareAggregator, SILOS, whole_ring=True),
}


def vectors(length: int, seed: int) -> list[IntArray]:
    """Return words from the whole ring, the ends of it among them."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(-(2**63), 2**63, (SILOS, length), dtype=np.int64, endpoint=False)
    drawn[:, : len(EXTREMES)] = rng.permuted(np.tile(EXTREMES, (SILOS, 1)), axis=1)[:, :length]
    return list(drawn)


@for_each("length", [7, 8, 41, 1000])
@for_each("protocol", AGGREGATORS)
def test_the_sum_is_that_of_words_bit_for_bit(protocol: str, length: int) -> None:
    by = AGGREGATORS[protocol]()
    for number in (1, 2):
        sent = vectors(length, seed=number)
        received = by.total(number, [partial(np.copy, each) for each in sent], length)
        exact = [sum(map(int, column)) % 2**64 for column in np.array(sent).T]
        assert [int(value) % 2**64 for value in received.total] == exact
        assert received.total.dtype == np.int64
        assert received.silos == (0, 1, 2, 3)


def test_a_bounded_ring_refuses_what_the_whole_one_takes_and_settings_choose() -> None:
    sent = [np.full(3, 2**62, np.int64)] * SILOS
    with pytest.raises(InvalidInput, match="at most"):
        ShareAggregator(SILOS).total(1, [lambda: sent[0]] * SILOS, 3)
    whole = ShareAggregator(SILOS, whole_ring=True).total(1, [lambda: sent[0]] * SILOS, 3)
    assert whole.total.tolist() == [0, 0, 0]
    security = SecuritySettings(aggregation="shares")
    sent = [lambda: np.full(2, -(2**63), np.int64)] * SILOS
    assert aggregator(security, SILOS, whole_ring=True).total(1, sent, 2).total.tolist() == [0, 0]
    with pytest.raises(InvalidInput):
        aggregator(security, SILOS).total(1, sent, 2)


@for_each("wrong", [np.zeros(3), np.zeros(3, np.int32), np.zeros((1, 3), np.int64)])
def test_what_is_no_vector_of_words_is_refused(wrong: Any) -> None:
    by = ShareAggregator(SILOS, whole_ring=True)
    with pytest.raises((InvalidInput, ProtocolFault)):
        by.total(1, [lambda: wrong] * SILOS, 3)


def test_what_peers_receive_looks_uniform_whatever_is_summed() -> None:
    """All vectors are one number; a chi-square test of bytes gives a false alarm once in 10^9."""
    length = 8192
    by = ShareAggregator(SILOS, whole_ring=True, keep=True)
    total = by.total(1, [lambda: np.full(length, -(2**63) + 5, np.int64)] * SILOS, length).total
    partials = [m for m in by.network.view("silo-0") if m.kind == "peer-partial"]
    assert len(partials) == SILOS - 1
    for message in partials:
        counts = np.bincount(np.frombuffer(message.body, np.uint8), minlength=256)
        assert chisquare(counts).pvalue > FALSE_ALARM
    counts = np.bincount(total.view(np.uint8), minlength=256)
    assert chisquare(counts).pvalue < FALSE_ALARM  # the test can tell


def test_a_ring_says_what_it_is() -> None:
    ring = WholeRing(terms=3)
    assert (ring.modulus, ring.bytes_needed) == (2**64, 8)
    assert np.array_equal(ring.from_ring(ring.to_ring(EXTREMES)), EXTREMES)
    with pytest.raises(InvalidInput, match="`terms`"):
        WholeRing(terms=0)
    with pytest.raises(InvalidInput, match="this ring's type"):
        ring.from_ring(EXTREMES)  # type: ignore[arg-type]
