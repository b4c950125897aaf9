"""MaskedWords sums are the sums, whoever drops out at which step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.crypto.keys import Identity
from privplan.fl.parties.network import SERVER, Message, Network, silo_name
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.terms import Terms, choose

from ..cases import for_each

SESSION = b"a session of this test"
CURIOUS = "honest-but-curious"

STEPS = ("secagg-advert", "secagg-shares", "secagg-masked", "secagg-confirmed", "secagg-recovery")
"""What a party sends, step by step."""

ANSWERS = ("secagg-adverts", "secagg-relayed", "secagg-survivors", "secagg-confirmations")
"""What the server sends."""


class Losing:
    """A network that loses all that a party sends, or is sent, from a step on."""

    def __init__(self, gone: dict[str, str]) -> None:
        self.gone = gone
        self._since: set[str] = set()

    def __call__(self, message: Message) -> Iterable[Message]:
        for name in (message.sender, message.receiver):
            if self.gone.get(name) == message.kind:
                self._since.add(name)
        lost = self._since & {message.sender, message.receiver}
        return () if lost else (message,)


def names(count: int) -> list[str]:
    return [silo_name(i) for i in range(count)]


def words(terms: Terms, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    top = 2**terms.ring_bits - 1
    return {
        name: rng.integers(0, top, terms.length, dtype=terms.words, endpoint=True)
        for name in names(terms.parties)
    }


def committee(terms: Terms, meddling: Any = None, **others: Any) -> Committee:
    network = Network([SERVER, *names(terms.parties)], meddling=meddling)
    return Committee.on(network, terms, SESSION, **others)


def total(inputs: dict[str, np.ndarray[Any, Any]], survivors: Iterable[str]) -> Any:
    return sum(inputs[name] for name in survivors)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_the_sum_is_exact_with_random_sizes_and_dropouts(data: st.DataObject) -> None:
    parties = data.draw(st.integers(2, 9))
    server = data.draw(st.sampled_from(["malicious", CURIOUS]))
    most = parties - 2 if server == CURIOUS else (parties - 1) // 2
    dropouts = data.draw(st.integers(0, min(most, parties - 2)))
    terms = choose(
        parties,
        length=data.draw(st.integers(1, 50)),
        dropouts=dropouts,
        ring_bits=data.draw(st.sampled_from([32, 64])),
        server=server,
    )
    gone = data.draw(st.lists(st.sampled_from(names(parties)), max_size=dropouts, unique=True))
    steps = STEPS if server == "malicious" else (*STEPS[:3], STEPS[4])
    when = {name: data.draw(st.sampled_from((*steps, *ANSWERS[:3]))) for name in gone}
    inputs = words(terms, data.draw(st.integers(0, 2**32)))
    found, survivors = committee(terms, Losing(when)).sum(1, inputs)
    # A party whose words arrived is in the sum, whatever becomes of it later.
    before = (*STEPS[:3], *ANSWERS[:2])
    assert survivors == tuple(n for n in names(parties) if when.get(n) not in before)
    assert found.dtype == terms.words
    assert np.array_equal(found, total(inputs, survivors))


@for_each("server, bits", [("malicious", 64), (CURIOUS, 32)])
def test_many_parties_with_few_neighbours_each(server: str, bits: int) -> None:
    terms = choose(
        60,
        length=70_000,
        dropouts=6,
        colluders=6,
        ring_bits=bits,
        server=server,  # type: ignore[arg-type]
    )
    assert not terms.complete
    gone = dict(zip(names(60)[7::9], (*STEPS[:3], "secagg-relayed", *STEPS[-1:]), strict=False))
    inputs = words(terms)
    extremes = np.full(terms.length, 2**bits - 1, terms.words)
    inputs["silo-0"] = extremes
    kept = {name: own.copy() for name, own in inputs.items()}
    found, survivors = committee(terms, Losing(gone)).sum(1, inputs)
    assert len(survivors) == 56
    assert np.array_equal(found, total(inputs, survivors))
    assert all(np.array_equal(kept[name], own) for name, own in inputs.items())


def test_rounds_follow_each_other_and_who_was_away_comes_back() -> None:
    terms = choose(7, length=20, dropouts=2, colluders=1)
    losing = Losing({})
    one = committee(terms, losing)
    for round in range(4):
        losing.__init__({"silo-2": STEPS[round % 3], "silo-5": ANSWERS[round % 3]})  # type: ignore[misc]
        inputs = words(terms, round)
        found, survivors = one.sum(round, inputs)
        assert "silo-2" not in survivors
        assert np.array_equal(found, total(inputs, survivors))
    losing.__init__({})  # type: ignore[misc]
    found, survivors = one.sum(9, inputs)
    assert survivors == tuple(names(7))
    assert np.array_equal(found, total(inputs, survivors))


def test_inputs_are_computed_late_and_may_fail() -> None:
    terms = choose(5, length=3, dropouts=2, server=CURIOUS)
    inputs: dict[str, Any] = dict(words(terms))

    def gone() -> Any:
        raise MissingParty("no longer there")

    asked = []

    def late() -> Any:
        asked.append(1)
        return inputs["silo-1"]

    given: dict[str, Any] = {**inputs, "silo-1": late, "silo-3": gone, "silo-4": None}
    found, survivors = committee(terms).sum(1, given)
    assert survivors == ("silo-0", "silo-1", "silo-2")
    assert np.array_equal(found, total(inputs, survivors))
    assert asked == [1]
    del given["silo-4"]
    assert committee(terms).sum(1, given)[1] == survivors


def test_words_cost_their_own_bytes_and_are_summed_where_strided_or_read_only() -> None:
    network = Network([SERVER, *names(10)])
    terms = choose(10, length=10_000, ring_bits=32)
    Committee.on(network, terms, SESSION).sum(1, words(terms))
    for name in names(10):
        assert 40_000 < network.sent[name] < 42_500
    terms = choose(3, length=4)
    inputs = words(terms)
    wide = np.arange(8, dtype=np.uint64)
    inputs["silo-0"] = wide[::2]
    inputs["silo-1"].flags.writeable = False
    found, survivors = committee(terms).sum(1, inputs)
    assert np.array_equal(found, total(inputs, survivors))


def test_identities_may_be_given() -> None:
    own = {name: Identity.new() for name in names(3)}
    terms = choose(3, length=2)
    network = Network([SERVER, *names(3)])
    posts = {name: network.post(name) for name in network.names}
    assert Committee(posts, terms, SESSION, own).sum(1, words(terms))[1] == tuple(names(3))
    with pytest.raises(InvalidInput, match="identity"):
        Committee(posts, terms, SESSION, {name: own[name] for name in names(2)})
    with pytest.raises(InvalidInput, match="same identity"):
        Committee(posts, terms, SESSION, dict.fromkeys(names(3), own["silo-0"]))


@for_each(
    ("step", "server"),
    [
        *((step, "malicious") for step in (*STEPS, *ANSWERS)),
        *((step, CURIOUS) for step in (*STEPS, *ANSWERS) if not step.startswith("secagg-conf")),
    ],
)
def test_one_dropout_too_many_ends_the_round_at_every_step(step: str, server: str) -> None:
    terms = choose(6, length=4, dropouts=1, colluders=1, server=server)  # type: ignore[arg-type]
    # Shares that are missing at the last step hurt below the threshold only.
    missing = 2 if step not in ("secagg-recovery", "secagg-confirmations") else 3
    if server == CURIOUS and step == "secagg-survivors":
        missing = 3
    assert terms.threshold == 4
    lost = dict.fromkeys(names(6)[:missing], step)
    with pytest.raises(MissingParty):
        committee(terms, Losing(lost)).sum(1, words(terms))


def test_a_committee_that_was_stopped_stays_stopped() -> None:
    terms = choose(4, length=4)
    one = committee(terms)
    inputs: dict[str, Any] = dict(words(terms))
    with pytest.raises(MissingParty, match="3 of 4 parties advertised keys in round 1"):
        one.sum(1, {**inputs, "silo-1": None})
    with pytest.raises(InvalidInput, match="was stopped"):
        one.sum(2, inputs)
    terms = choose(3, length=4)
    one = committee(terms)

    def broken() -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        one.sum(1, {**words(terms), "silo-1": broken})
    with pytest.raises(InvalidInput, match="was stopped"):
        one.sum(2, words(terms))


@for_each(
    "wrong",
    [
        *(np.zeros(5, np.uint64), np.zeros(4, np.uint32), np.zeros(4, np.int64), np.zeros(4)),
        *(np.zeros((4, 1), np.uint64), [0, 0, 0, 0]),
    ],
)
def test_words_of_another_kind_are_refused_before_they_are_sent(wrong: Any) -> None:
    terms = choose(4, length=4)
    network = Network([SERVER, *names(4)], keep=True)
    with pytest.raises(InvalidInput, match="vector of 4 uint64"):
        Committee.on(network, terms, SESSION).sum(1, {**words(terms), "silo-2": wrong})
    assert not [m for m in network.said("silo-2") if m.kind == "secagg-masked"]


def test_rounds_must_rise_and_parties_be_known() -> None:
    terms = choose(3, length=4)
    one = committee(terms)
    one.sum(5, words(terms))
    with pytest.raises(InvalidInput, match="no party"):
        one.sum(6, {"silo-7": words(terms)["silo-0"]})
    with pytest.raises(InvalidInput, match="must be above 5"):
        one.sum(5, words(terms))
    network = Network([SERVER, "silo-0", "silo-1"])
    two = Committee.on(network, choose(2, length=1), b"a session")
    own = dict.fromkeys(["silo-0", "silo-1"], np.array([3], np.uint64))
    two.sum(5, own)
    for wrong in (5, 4, -1):
        with pytest.raises(InvalidInput, match="round"):
            two.sum(wrong, own)
    assert two.sum(6, own)[0].tolist() == [6]
    assert issubclass(MissingParty, ProtocolFault)


def test_a_committee_needs_a_server_a_session_and_the_right_number_of_parties() -> None:
    network = Network([SERVER, *names(3)])
    posts = {name: network.post(name) for name in network.names}
    with pytest.raises(InvalidInput, match="server"):
        Committee({n: p for n, p in posts.items() if n != SERVER}, choose(3, length=1), SESSION)
    with pytest.raises(InvalidInput, match="4 parties"):
        Committee(posts, choose(4, length=1), SESSION)
    with pytest.raises(InvalidInput, match="session"):
        Committee(posts, choose(3, length=1), b"")
