"""Sums among the silos that are there: whose noise it is, how small a group, and after a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault, Unsupported
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription
from privplan.accountant.randomness import Streams
from privplan.fl.aggregation.choice import aggregator
from privplan.fl.aggregation.masked_sums import MaskedAggregator
from privplan.fl.aggregation.share_sums import ShareAggregator
from privplan.fl.aggregation.sums import NoAggregator, PlainAggregator, float_sum, noisy_sum
from privplan.fl.canaries.memory_log import RecordingAggregator
from privplan.fl.observers.names import COORDINATOR
from privplan.fl.parties.network import Message
from privplan.fl.secagg.decentralised import PartialSum, Share, TotalSlice
from privplan.fl.secagg.gathering import GroupNotice, Ready
from privplan.fl.secagg.peers import require_peers, security_among
from privplan.fl.settings.schema import SecuritySettings

from ..accountant.mechanism_tickets import Memory
from ..cases import for_each
from .gatherings import renamed

SILOS, LENGTH = 5, 6


def rows(seed: int = 0, length: int = LENGTH) -> Any:
    return np.random.default_rng(seed).integers(-1000, 1000, (SILOS, length), endpoint=True)


def senders(table: Any, present: Sequence[int]) -> list[Callable[[], Any]]:
    return [lambda index=index: table[index] for index in present]


def summing(by: Any, table: Any, present: Sequence[int], number: int = 1, **more: Any) -> Any:
    return by.total(number, senders(table, present), table.shape[1], present=present, **more)


# --- which silos ----------------------------------------------------------------------------------


def test_every_group_that_is_large_enough_has_its_exact_sum() -> None:
    by, plain, table = ShareAggregator(SILOS, fewest=3), PlainAggregator(), rows()
    for size in (3, 4, 5):
        for number, present in enumerate(combinations(range(SILOS), size), 10 * size):
            found = summing(by, table, present, number)
            assert found.silos == present
            assert found.total.tolist() == table[list(present)].sum(axis=0).tolist()
            assert np.array_equal(found.total, summing(plain, table, present).total)


def test_silos_are_given_in_the_order_of_their_indices() -> None:
    """And one whose vector is too short is named by its index."""
    table = rows()
    for by in (PlainAggregator(), ShareAggregator(SILOS, fewest=3), ShareAggregator(SILOS)):
        order = (4, 0, 2, 1, 3)
        found = summing(by, table, order)
        assert (found.silos, found.total.tolist()) == (order, table.sum(axis=0).tolist())
    sent = senders(table, (4, 0, 2))
    sent[0] = lambda: table[4][:-1]
    with pytest.raises(ProtocolFault, match="silo-4"):
        PlainAggregator().total(1, sent, LENGTH, present=(4, 0, 2))


@for_each(
    ("present", "why"),
    [
        *(((0, 1), "^2 silos cannot sum; at least 3"), ((2,), "^1 silo cannot"), ((), "^0 silos")),
        *(((0, 1, 1), "once"), ((0, 1, 5), "below 5")),
        *(((0, 1, -1), "present"), ((0, 1, True), "present")),
    ],
)
def test_other_groups_are_refused_and_nothing_is_sent(present: Any, why: str) -> None:
    by = ShareAggregator(SILOS, fewest=3, keep=True)
    with pytest.raises(InvalidInput, match=why):
        by.total(1, senders(rows(), present), LENGTH, present=present)
    assert by.network.take() == ()


def test_who_takes_part_where_it_is_not_for_the_caller_to_say() -> None:
    for by in (PlainAggregator(), ShareAggregator(SILOS, fewest=3)):
        with pytest.raises(InvalidInput, match="once"):
            by.total(1, senders(rows(), range(4)), LENGTH, present=(0, 1, 2))
    with pytest.raises(InvalidInput, match="4 silos cannot sum; at least 5"):
        summing(ShareAggregator(SILOS), rows(), (0, 1, 2, 3))
    assert ShareAggregator(SILOS).network.names == tuple(f"silo-{one}" for one in range(SILOS))
    by = MaskedAggregator(SILOS, dropouts=1)
    with pytest.raises(InvalidInput, match="Masked sums begin with all 5 silos"):
        summing(by, rows(), (0, 1, 2, 3))
    table = rows()
    assert np.array_equal(summing(by, table, range(SILOS)).total, table.sum(axis=0))
    with pytest.raises(Unsupported, match="shuffle"):
        NoAggregator().total(1, [], 1, present=(0,), largest=1)


def test_a_rehearsal_records_silos_by_index_and_the_log_the_smallest_group() -> None:
    by = RecordingAggregator(ShareAggregator(SILOS, fewest=3))
    table = rows()
    summing(by, table, (1, 3, 4), largest=1000)
    assert sorted(by.sent) == [1, 3, 4]
    assert all(np.array_equal(by.sent[silo], table[silo]) for silo in by.sent)
    said = ShareAggregator(7, colluders=1, fewest=4).security
    assert said == security_among(7, 1, 4)
    assert (said.parties, said.fewest, said.colluders, said.ring_bits) == (7, 4, 1, 64)
    assert ShareAggregator(7).security.fewest == 7
    chosen = aggregator(SecuritySettings(aggregation="shares", colluders=1), 7, fewest=4)
    assert chosen.security == said


@for_each(
    ("given", "why"),
    [
        ({"fewest": 2}, "from 3 to the 6"),
        ({"fewest": 7}, "from 3 to the 6"),
        ({"fewest": 0}, "fewest"),
        ({"fewest": 4, "colluders": 2}, "from 0 to 1 .* the smallest group"),
        ({"fewest": 3, "colluders": 1}, "from 0 to 0"),
    ],
)
def test_the_smallest_group_is_what_colluders_are_counted_against(given: Any, why: str) -> None:
    require_peers(6, colluders=3)  # among all six
    for door in (require_peers, ShareAggregator):
        with pytest.raises(InvalidInput, match=why):
            door(6, **given)
    own = SecuritySettings(aggregation="shares", colluders=given.get("colluders", 0))
    with pytest.raises(InvalidInput, match=why):
        aggregator(own, 6, fewest=given["fewest"])


# --- noise ----------------------------------------------------------------------------------------


class Watched:
    """A monitor that remembers whose noise it was shown."""

    def __init__(self) -> None:
        self.shares: dict[int, Any] = {}
        self.sum: Any = None

    def share(self, silo: int, residual: Any, unit: float) -> None:
        self.shares[silo] = (residual, unit)

    def whole(self, residual: Any, unit: float, silos: Sequence[int]) -> None:
        self.sum = (residual, unit, tuple(silos))


def noisy(by: Any, present: Any, monitor: Any = None, largest: int | None = None) -> Any:
    count = SILOS if present is None else len(present)
    which = range(SILOS) if present is None else present
    mechanism = Gaussian(bound=1.0, std=4.0, shares=count)
    totals = [mechanism.total(np.full((2, LENGTH), silo / 10)) for silo in which]
    gate = Gate(None, Memory(), Streams.seeded(5))
    about = RoundDescription(1, "train", event_override=ev.NoGuarantee("a test"))
    with gate.open(mechanism.intent(about, "add-remove")) as ticket:
        found = noisy_sum(
            by, 1, mechanism, ticket, totals, monitor=monitor, present=present, largest=largest
        )
        ticket.close(values=LENGTH)
    return found


@for_each("present", [None, (0, 1, 2), (1, 3, 4), (4, 2, 0, 1)])
def test_noise_is_drawn_in_the_name_of_its_silo(present: Any) -> None:
    """The same bits in the clear and among peers; and each silo's noise is that of its name."""
    by = ShareAggregator(SILOS, fewest=3) if present else ShareAggregator(SILOS)
    plain, shared = Watched(), Watched()
    first = noisy(PlainAggregator(), present, plain)
    second = noisy(by, present, shared, largest=2**26)
    assert np.array_equal(first.total, second.total)
    which = tuple(range(SILOS)) if present is None else present
    assert first.silos == second.silos == which
    assert sorted(plain.shares) == sorted(shared.shares) == sorted(which)
    for silo in which:
        assert np.array_equal(shared.shares[silo][0], plain.shares[silo][0])
    noise = sum(residual for residual, _ in shared.shares.values())
    assert np.array_equal(shared.sum[0], noise)
    assert shared.sum[2] == which


def test_one_silo_has_one_stream_whoever_else_is_there() -> None:
    """Silo 3 as the second of three and as the last: its noise is the same, and nobody else's."""
    seen = []
    for present in ((1, 3, 4), (0, 1, 3)):
        watched = Watched()
        noisy(PlainAggregator(), present, watched)
        seen.append({silo: residual for silo, (residual, _) in watched.shares.items()})
    first, second = seen
    assert np.array_equal(first[3], second[3])
    assert np.array_equal(first[1], second[1])
    assert len({tuple(one) for one in (*first.values(), *second.values())}) == 4


# --- a public bound, and the bytes that it saves --------------------------------------------------


@for_each(("largest", "width"), [(25, 1), (26, 2), (2**25, 4), (2**28, 4), (2**29, 5), (2**50, 7)])
def test_a_word_has_as_many_bytes_as_the_sum_needs(largest: int, width: int) -> None:
    """Sums of five are from -125 to 125 at 25: one byte; at 26 they are not."""
    by = ShareAggregator(SILOS, fewest=3, keep=True)
    table = np.full((SILOS, 50), largest)
    table[:, ::2] *= -1
    found = summing(by, table, range(SILOS), largest=largest)
    assert np.array_equal(found.total, SILOS * table[0])
    sizes = {
        len(PartialSum.unpack(one.body).words)
        for one in by.network.take()
        if one.kind == PartialSum.kind
    }
    assert sizes == {10 * width}


@for_each("fewest", [None, 3])
@for_each("beyond", [1001, -1001, 2**62, -(2**63)])
def test_what_is_larger_is_refused_before_anything_is_sent(fewest: Any, beyond: int) -> None:
    table = rows()
    table[2, 1] = beyond
    by = ShareAggregator(SILOS, fewest=fewest, keep=True)
    with pytest.raises(InvalidInput) as caught:
        by.total(1, senders(table, range(SILOS)), LENGTH, largest=1000)
    assert str(abs(beyond)) not in str(caught.value)
    assert by.network.take() == ()
    for other in (PlainAggregator(), MaskedAggregator(SILOS)):
        with pytest.raises(InvalidInput, match="beyond the 1,000 steps") as caught:
            other.total(1, senders(table, range(SILOS)), LENGTH, largest=1000)
        assert str(abs(beyond)) not in str(caught.value)


def test_what_is_no_larger_is_summed_by_all_and_the_whole_ring_has_no_bound() -> None:
    table = rows()
    table[0, 0], table[1, 1] = 1000, -1000
    for by in (PlainAggregator(), MaskedAggregator(SILOS), ShareAggregator(SILOS)):
        found = by.total(1, senders(table, range(SILOS)), LENGTH, largest=1000)
        assert np.array_equal(found.total, table.sum(axis=0))
    with pytest.raises(InvalidInput, match="whole ring"):
        summing(ShareAggregator(SILOS, whole_ring=True), rows(), range(SILOS), largest=5)
    wraps = np.full((SILOS, 2), 2**63 - 1)
    by = ShareAggregator(SILOS, whole_ring=True, fewest=3)
    assert summing(by, wraps, (0, 2, 4)).total.tolist() == [2**63 - 3] * 2


@for_each("largest", [0, -1, 2**53 + 1, 2**60, 1.5, True])
def test_bounds_that_are_none_are_refused(largest: Any) -> None:
    with pytest.raises(InvalidInput, match="largest"):
        summing(ShareAggregator(SILOS), rows(), range(SILOS), largest=largest)


def test_an_infinite_update_is_refused_before_anybody_says_anything() -> None:
    for bad in (np.inf, -np.inf, np.nan):
        table = np.zeros((SILOS, LENGTH))
        table[3, 2] = bad
        by = ShareAggregator(SILOS, fewest=3, keep=True)
        with pytest.raises(InvalidInput, match="not finite"):
            float_sum(by, 1, table)
        assert by.network.take() == ()
        with pytest.raises(InvalidInput, match="stopped"):
            float_sum(by, 2, np.zeros((SILOS, LENGTH)))
        by = ShareAggregator(SILOS, fewest=3, keep=True)
        with pytest.raises(ProtocolFault, match="silo-3 did not make integers"):
            summing(by, table, (3, 0, 1))
        assert by.network.take() == ()


# --- faults ---------------------------------------------------------------------------------------


def flipped(message: Message) -> Iterable[Message]:
    body = PartialSum.unpack(message.body)
    words = bytes([body.words[0] ^ 4]) + body.words[1:]
    return (replace(message, body=replace(body, words=words).pack()),)


FAULTS: dict[str, tuple[Any, Callable[[Message], Iterable[Message]]]] = {
    "a partial sum flipped": (PartialSum, flipped),
    **{
        f"{what} {how}": (kind, change)
        for what, kind in (
            ("ready", Ready),
            ("group", GroupNotice),
            ("share", Share),
            ("partial sum", PartialSum),
            ("total", TotalSlice),
        )
        for how, change in (
            ("missing", lambda _: ()),
            ("doubled", lambda one: (one, one)),
            ("of another round", lambda one: (replace(one, round=one.round + 1),)),
            ("malformed", lambda one: (replace(one, body=b"\x91"),)),
            ("oversized", lambda one: (replace(one, body=one.body + bytes(9999)),)),
        )
    },
}


@for_each("fault", FAULTS)
def test_after_any_fault_nothing_is_summed_any_more(fault: str) -> None:
    """Neither the same group, nor a smaller one, nor all of them without whoever it was."""
    kind, change = FAULTS[fault]
    by = ShareAggregator(SILOS, fewest=3, keep=True)
    met = []

    def meddling(message: Message) -> Iterable[Message]:
        if message.kind != kind.kind or "silo-1" not in (message.sender, message.receiver) or met:
            return (message,)
        met.append(message)
        return change(message)

    by.network._meddling = meddling
    with pytest.raises((ProtocolFault, MissingParty)):
        summing(by, rows(), (0, 1, 2, 4), largest=1000)
    assert met
    by.network.take()
    for present in ((0, 1, 2, 4), (0, 2, 4), (0, 1, 2, 3, 4)):
        with pytest.raises(InvalidInput, match="stopped by an earlier fault"):
            summing(by, rows(), present, 2)
    assert by.network.take() == ()


def test_a_partial_sum_of_an_earlier_round_is_refused() -> None:
    first: dict[tuple[str, str], bytes] = {}

    def replayed(message: Message) -> Iterable[Message]:
        if message.kind != PartialSum.kind:
            return (message,)
        way = (message.sender, message.receiver)
        return (replace(message, body=first.setdefault(way, message.body)),)

    by = ShareAggregator(SILOS, fewest=3)
    by.network._meddling = replayed
    summing(by, rows(), (0, 1, 2, 4), 1)
    with pytest.raises(ProtocolFault, match=r"peer-partial.* is not signed by it"):
        summing(by, rows(), (0, 1, 2, 4), 2)


def test_a_late_share_is_missed_and_never_used() -> None:
    late: list[Message] = []

    def held(message: Message) -> Iterable[Message]:
        if message.kind == Share.kind and message.sender == "silo-1" and not late:
            late.append(message)
            return ()
        return (message,)

    by = ShareAggregator(SILOS, fewest=3)
    by.network._meddling = held
    with pytest.raises(MissingParty, match="silo-1 did not send"):
        summing(by, rows(), (0, 1, 2))
    by.network._meddling = None
    by.network.deliver(late[0])
    with pytest.raises(InvalidInput, match="stopped"):
        summing(by, rows(), (0, 1, 2), 2)


@for_each("size", [0, 1, 2])
def test_no_coordinator_makes_a_smaller_group_of_it(size: int) -> None:
    """Also where every peer that it names is told the same."""
    by = ShareAggregator(SILOS, fewest=3, keep=True)
    by.network._meddling = renamed(lambda _, names: names[:size])
    with pytest.raises(ProtocolFault, match=f"group of {size}; at least 3"):
        summing(by, rows(), range(SILOS))
    assert {one.kind for one in by.network.take()} == {Ready.kind, GroupNotice.kind}
    by.network._meddling = None
    with pytest.raises(InvalidInput, match="stopped"):
        summing(by, rows(), range(SILOS), 2)


def test_the_coordinator_of_a_run_sees_no_number() -> None:
    by = ShareAggregator(SILOS, fewest=3, keep=True)
    table = np.full((SILOS, 500), 77_777)
    for number, present in enumerate(((0, 1, 2), (1, 2, 3, 4)), 1):
        summing(by, table, present, number)
    seen = by.network.view(COORDINATOR)
    assert [(one.sender, one.kind) for one in seen] == [
        *((f"silo-{silo}", Ready.kind) for silo in (0, 1, 2)),
        *((f"silo-{silo}", Ready.kind) for silo in (1, 2, 3, 4)),
    ]
    assert {one.size for one in seen} == {67}  # a signature of 64 bytes, and what holds it
