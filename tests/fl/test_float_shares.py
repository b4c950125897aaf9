"""DISCO's float shares among parties: the sum is about right, and nothing is hidden."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault, Unsupported
from privplan.audit.attack_methods.transcripts import values
from privplan.audit.derivation.protocol_consistency import FLOAT_SHARES, contradictions
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.disco.float_shares import (
    FloatPartialSum,
    FloatShare,
    FloatShareAggregator,
    limits,
)
from privplan.fl.parties.network import Message, Network, silo_name
from privplan.fl.secagg.decentralised import PartialSum

from ..audit.ledgers import also, audited, evidence, intents, opening, part, upper, weighted
from ..cases import for_each

TENSORS = (4000, 2500, 1)
LENGTH = sum(TENSORS)


def updates(silos: int, seed: int = 0, scale: float = 0.1) -> Any:
    return np.random.default_rng(seed).normal(0.0, scale, (silos, LENGTH))


@for_each("silos", [2, 3, 10])
@for_each("magnitude", [1.0, 100.0, 1e4])
def test_the_mean_is_that_of_the_updates_but_for_the_published_error(
    silos: int, magnitude: float
) -> None:
    """DISCO's text: maxShareValue x 10e-8.  That is the root of the mean square, not the largest.

    Of 6,501 numbers the largest is up to 5e-7 of the magnitude; where that is above the rounding
    of updates to float32 themselves, there is an error, and in the ring there is none.
    """
    rows = updates(silos)
    totals = FloatShareAggregator(silos, magnitude=magnitude).float_totals(1, rows, TENSORS)
    for total in totals:
        error = (total - rows.sum(axis=0)) / silos
        assert np.sqrt(np.square(error).mean()) <= magnitude * 10e-8
        assert 0.0 < np.abs(error).max() <= magnitude * 5e-7 + 1e-8


def test_peers_add_in_their_own_order_and_end_with_different_totals() -> None:
    totals = FloatShareAggregator(5).float_totals(1, updates(5), TENSORS)
    assert any(not np.array_equal(totals[0], other) for other in totals[1:])


def test_some_silos_sum_and_rounds_follow_one_another() -> None:
    by = FloatShareAggregator(5, fewest=3, keep=True)
    for number, present in enumerate([(0, 2, 4), (1, 2, 3, 4), (0, 1, 2, 3, 4)], 1):
        rows = updates(len(present), number)
        total = by.float_total(number, rows, TENSORS, present=present)
        assert total.shape == (LENGTH,)
        assert total.dtype == np.float64
        assert np.abs(total - rows.sum(axis=0)).max() < 1e-3
        senders = {one.sender for one in by.network.take()}
        assert senders == {silo_name(silo) for silo in present}


def differences(view: Iterable[Message], kind: str) -> dict[str, Any]:
    """Search a transcript: of each sender, its first tensor less its second, as far as both go."""
    seen: dict[str, Any] = {}
    for message in view:
        if message.kind == kind:
            parts = [np.frombuffer(raw, "<f4").astype(float) for raw in values(message)]  # type: ignore[arg-type]
            seen[message.sender] = parts[0][: TENSORS[1]] - parts[1]
    return seen


def correlation(first: Any, second: Any) -> float:
    return float(np.corrcoef(first, second)[0, 1])


@for_each("silos", [2, 3, 5, 10])
def test_every_peer_reads_the_differences_of_everybodys_tensors(silos: int) -> None:
    """Exactly, but for the rounding of float32: from one broadcast of each, and nothing else."""
    by, rows = FloatShareAggregator(silos, keep=True), updates(silos)
    by.float_total(1, rows, TENSORS)
    for reader in range(silos):
        found = differences(by.network.view(silo_name(reader)), FloatPartialSum.kind)
        assert set(found) == {silo_name(silo) for silo in range(silos)} - {silo_name(reader)}
        for silo in range(silos):
            if silo != reader:
                truth = rows[silo, : TENSORS[1]] - rows[silo, TENSORS[0] : -1]
                assert np.abs(found[silo_name(silo)] - truth).max() < 1e-3
                assert correlation(found[silo_name(silo)], truth) > 0.99999


def ring_differences(network: Network, silos: int, width: int, cut: int) -> dict[str, Any]:
    """The same search on shares in the ring: of all slices that all peers were sent, put together.

    A peer's slice of its own partial sum is sent to nobody, and counts as 0.
    """
    found: dict[str, Any] = {}
    for sender in range(silos):
        words = np.zeros(LENGTH)
        for message in network.said(silo_name(sender)):
            if message.kind == PartialSum.kind:
                receiver = int(message.receiver.removeprefix("silo-"))
                first, last = LENGTH * receiver // silos, LENGTH * (receiver + 1) // silos
                raw = np.frombuffer(PartialSum.unpack(message.body).words, np.uint8)
                padded = np.zeros((last - first, 8), np.uint8)
                padded[:, 8 - width :] = raw.reshape(-1, width)
                words[first:last] = padded.view("<i8").ravel() >> (8 * (8 - width))
        found[silo_name(sender)] = words[: TENSORS[1]] - words[cut : cut + TENSORS[1]]
    return found


@for_each("silos", [3, 5, 10])
def test_the_same_search_finds_nothing_in_the_ring(silos: int) -> None:
    """Even with what all peers were sent: 6 standard deviations, so one false alarm in 10^7 runs.

    2,500 numbers each; the control is the same search above, with a correlation of 1.
    """
    by, rows = ShareAggregator(silos, keep=True), updates(silos)
    steps = np.round(rows * 2**20).astype(np.int64)
    largest = 2**24
    total = by.total(1, [lambda row=row: row for row in steps], LENGTH, largest=largest).total
    assert np.array_equal(total, steps.sum(axis=0))
    width = ((2 * silos * largest).bit_length() + 7) // 8
    found = ring_differences(by.network, silos, width, TENSORS[0])
    for silo in range(silos):
        truth = rows[silo, : TENSORS[1]] - rows[silo, TENSORS[0] : -1]
        assert abs(correlation(found[silo_name(silo)], truth)) < 6 / np.sqrt(TENSORS[1])


def test_numbers_travel_in_no_ring() -> None:
    """A share reaches to M and no further, so a large update shows beyond what masks can make."""
    by = FloatShareAggregator(3, keep=True)
    rows = np.zeros((3, LENGTH))
    rows[1] = 700.0
    by.float_total(1, rows, TENSORS)
    largest = {
        message.sender: max(np.abs(np.frombuffer(raw, "<f4")).max() for raw in values(message))  # type: ignore[arg-type]
        for message in by.network.view("silo-0")
        if message.kind == FloatPartialSum.kind
    }
    masks = 2 * 100.0 + 2 * 100.0  # two in the kept share, and two that were received
    assert largest["silo-1"] > masks >= largest["silo-2"]


def test_the_audit_believes_that_nothing_is_hidden() -> None:
    honest, published = ShareAggregator(5).security, FloatShareAggregator(5).security
    assert replace(published, ring_bits=64) == honest

    def log(security: Any) -> Any:
        return also(
            opening(aggregation="shares", security=security),
            intents(contribution=part(unit="silo")),
            opening(claim=part(unit="silo")),
        )(weighted(2, rule="none", silos=5, views=False))

    read = evidence(log(published))
    (kind,) = read.kinds
    assert contradictions(kind.facts, read.setting) == (FLOAT_SHARES,)
    good = evidence(log(honest))
    (kind,) = good.kinds
    assert contradictions(kind.facts, good.setting) == ()
    assert upper(log(published), "peer") > upper(log(honest), "peer")
    # Of a run that is not as published nobody expects them; of one that is, they are its method.
    for as_published, name in ((False, "protocol-mismatch"), (True, "float-shares")):
        said = audited(opening(as_published=as_published)(log(published))).hazards
        ids = {hazard.id for hazard in said if FLOAT_SHARES in hazard.says.lower()}
        assert ids == {name}


def test_it_sums_no_integers_says_no_guarantee_and_has_the_limits_of_the_tensors() -> None:
    with pytest.raises(Unsupported, match="floats and not the integers"):
        FloatShareAggregator(3).total(1, [], 4)
    import privplan.fl.disco.float_shares as module

    for what in (module, FloatShareAggregator, module.FloatSharePeer):
        assert "no-guarantee" in (what.__doc__ or "")
    body = FloatShare(tuple(bytes(4 * length) for length in TENSORS))
    most = limits(TENSORS)
    assert set(most) == {FloatShare, FloatPartialSum}
    assert len(body.pack()) <= most[FloatShare] <= len(body.pack()) + 100


@for_each(
    ("rows", "tensors", "more", "why"),
    [
        (np.full((3, 4), np.inf), (4,), {}, "finite"),
        (np.full((3, 4), np.nan), (4,), {}, "finite"),
        (np.full((3, 4), 1e39), (4,), {}, "float32"),
        (np.zeros((3, 4)), (5,), {}, "rows"),
        (np.zeros((3, 4)), (4, 0), {}, "tensors"),
        (np.zeros((3, 4), np.float32), (4,), {}, "64 bits"),
        (np.zeros(4), (4,), {}, "rows"),
        (np.zeros((2, 4)), (4,), {}, "^2 silos cannot"),
        (np.zeros((2, 4)), (4,), {"present": (0, 1)}, "at least 3"),
        (np.zeros((3, 4)), (4,), {"present": (0, 1, 3)}, "below 3"),
        (np.zeros((3, 4)), (4,), {"present": (0, 1, 1)}, "once"),
    ],
)
def test_wrong_rows_are_refused_before_anything_is_sent(
    rows: Any, tensors: Any, more: Any, why: str
) -> None:
    by = FloatShareAggregator(3)
    with pytest.raises(InvalidInput, match=why):
        by.float_total(1, rows, tensors, **more)
    assert sum(by.network.sent.values()) == 0


@for_each(
    ("given", "why"),
    [
        ({"silos": 1}, "silos"),
        ({"silos": 3, "fewest": 4}, "fewest"),
        ({"silos": 3, "fewest": 1}, "fewest"),
        ({"silos": 3, "magnitude": 0.0}, "magnitude"),
    ],
)
def test_groups_that_are_none_are_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        FloatShareAggregator(**given)


@for_each("kind", [FloatShare, FloatPartialSum], ids=lambda kind: kind.kind)
@for_each(
    ("fault", "why"),
    [
        ("missing", "did not send|is not 'float-share'"),
        *(("twice", "nobody asked for|is not 'float-"), ("short", "other lengths")),
        *(("long", "longer than"), ("malformed", "well-formed")),
        ("round", "another session or round"),
    ],
)
def test_a_message_that_is_wrong_ends_the_round(kind: Any, fault: str, why: str) -> None:
    changes: dict[str, Any] = {
        "missing": lambda _: (),
        "twice": lambda one: (one, one),
        "short": lambda one: (replace(one, body=kind((b"",)).pack()),),
        "long": lambda one: (replace(one, body=one.body + bytes(999)),),
        "malformed": lambda one: (replace(one, body=one.body[:-1]),),
        "round": lambda one: (replace(one, round=9),),
    }
    by = FloatShareAggregator(3)

    def meddling(message: Message) -> Iterable[Message]:
        ours = (message.kind, message.sender, message.receiver) == (kind.kind, "silo-1", "silo-2")
        changed: Iterable[Message] = changes[fault](message) if ours else (message,)
        return changed

    by.network._meddling = meddling
    with pytest.raises((ProtocolFault, MissingParty), match=why):
        by.float_total(1, updates(3), TENSORS)
    by.network._meddling = None
    assert np.isfinite(by.float_total(2, updates(3), TENSORS)).all()
