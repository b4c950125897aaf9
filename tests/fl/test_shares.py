"""Sums among silos: equal to the plain sum, all or nothing, and refused where they hide nobody."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.choice import aggregator
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.aggregation.sums import PlainAggregator, float_sum, noisy_sum
from privplan.fl.crypto import keys
from privplan.fl.parties.network import Message
from privplan.fl.secagg.decentralised import PartialSum, TotalSlice
from privplan.fl.settings.schema import SecuritySettings

from ..accountant.mechanism_tickets import Memory
from ..cases import for_each


def sends(value: int, length: int) -> Callable[[], Any]:
    return lambda: np.full(length, value, np.int64)


def gone() -> Any:
    raise MissingParty("gone")


def test_sums_of_integers_and_floats_and_what_the_log_states() -> None:
    own = ShareAggregator(4)
    rng = np.random.default_rng(1)
    for number in (1, 2):
        rows = rng.integers(-(2**58), 2**58, (4, 7))
        found = own.total(number, [lambda row=row: row for row in rows], 7)
        assert found.total.tolist() == rows.sum(axis=0).tolist()
        assert found.silos == (0, 1, 2, 3)
    own = ShareAggregator(3)
    assert [own.total(1, [sends(k, 2)] * 3, 2).total.tolist() for k in (1, 2)] == [[3, 3], [6, 6]]
    rows = np.random.default_rng(2).normal(size=(3, 6))
    assert np.allclose(float_sum(ShareAggregator(3), 1, rows), rows.sum(axis=0), atol=1e-11)
    said = ShareAggregator(5, colluders=2).security
    assert (said.protocol, said.parties, said.fewest) == ("additive-shares", 5, 5)
    assert (said.ring_bits, said.colluders) == (64, 2)
    one, other = ShareAggregator(3), ShareAggregator(3)
    assert not set(one._roster.values()) & set(other._roster.values())
    assert all(len(public) == keys.KEY_BYTES for public in one._roster.values())


def test_noisy_sums_are_the_same_bit_for_bit_as_in_the_clear() -> None:
    found = []
    for by in (PlainAggregator(), ShareAggregator(3)):
        mechanism = Gaussian(bound=1.0, std=4.0, shares=3)
        gate = Gate(None, Memory(), Streams.seeded(5))
        about = RoundDescription(1, "train", event_override=ev.NoGuarantee("a test"))
        with gate.open(mechanism.intent(about, "add-remove")) as ticket:
            totals = [mechanism.total(np.full((2, 5), place / 10)) for place in range(3)]
            found.append(noisy_sum(by, 1, mechanism, ticket, totals).total)
            ticket.close(values=5)
    assert np.array_equal(*found)


def test_no_party_receives_a_vector() -> None:
    own = ShareAggregator(3, keep=True)
    own.total(1, [sends(77_777, 500)] * 3, 500)
    assert own.network.names == ("silo-0", "silo-1", "silo-2")
    row = np.full(20, 77_777, "<i8").tobytes()
    assert not any(row in one.body for one in own.network.take())
    own.total(2, [sends(0, 500), sends(0, 500), sends(77_777, 500)], 500)
    totals = [one for one in own.network.take() if one.kind == TotalSlice.kind]
    assert all(row in one.body for one in totals if len(one.body) > 160)  # the control: the sum


@for_each(
    ("silos", "raised"),
    [
        ([gone, sends(1, 5), sends(1, 5)], MissingParty),
        ([sends(1, 5), lambda: 1 // 0, sends(1, 5)], ZeroDivisionError),
        ([sends(1, 5), sends(1, 4), sends(1, 5)], InvalidInput),
        ([sends(1, 5), lambda: np.ones(5), sends(1, 5)], ProtocolFault),
        ([sends(2**61, 5), sends(1, 5), sends(1, 5)], InvalidInput),
        ([sends(1, 5)] * 2, InvalidInput),
    ],
)
def test_after_a_fault_nothing_is_summed_and_nothing_was_sent(silos: Any, raised: Any) -> None:
    own = ShareAggregator(3, keep=True)
    own.total(1, [sends(1, 7)] * 3, 7)
    own.network.take()
    with pytest.raises(raised):
        own.total(2, silos, 5)
    assert own.network.take() == ()
    for length in (5, 7):
        with pytest.raises(InvalidInput, match="stopped by an earlier fault"):
            own.total(3, [sends(1, length)] * 3, length)


def test_a_changed_partial_sum_ends_the_run_and_no_total_comes_out() -> None:
    own = ShareAggregator(3)

    def meddling(message: Message) -> tuple[Message, ...]:
        if message.kind != PartialSum.kind or message.sender != "silo-2":
            return (message,)
        body = PartialSum.unpack(message.body)
        words = bytes([body.words[0] ^ 4]) + body.words[1:]
        return (replace(message, body=replace(body, words=words).pack()),)

    own.network._meddling = meddling
    with pytest.raises(ProtocolFault, match="silo-2"):
        own.total(1, [sends(1, 9)] * 3, 9)
    with pytest.raises(InvalidInput, match="stopped"):
        own.total(2, [sends(1, 9)] * 3, 9)


@for_each(
    ("silos", "given", "why"),
    [
        *((2, {}, "3 silos"), (1, {}, "3 silos"), (5, {"dropouts": 1}, "dropouts")),
        *((5, {"colluders": 3}, "from 0 to 2"), (3, {"colluders": 1}, "from 0 to 0")),
    ],
)
def test_settings_that_hide_nobody_are_refused_at_the_door(
    silos: int, given: dict[str, int], why: str
) -> None:
    with pytest.raises(InvalidInput, match=why):
        aggregator(SecuritySettings(aggregation="shares", **given), silos)


def test_the_words_of_the_settings() -> None:
    own = SecuritySettings(aggregation="shares", colluders=1, keep_transcripts=True)
    found = aggregator(own, 4)
    assert isinstance(found, ShareAggregator)
    assert found.security.colluders == 1
    messages = aggregator(SecuritySettings(aggregation="shuffle"), 4)
    assert messages.security is None
    with pytest.raises(Unsupported, match="shuffler"):
        messages.total(1, [sends(1, 2)] * 4, 2)
