"""Sums among peers: exact, the same for all, small on the wire, and ended by any fault."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from privplan.accountant.errors import InvalidInput, ProtocolFault
from privplan.fl.crypto import additive, keys
from privplan.fl.secagg import decentralised
from privplan.fl.secagg.decentralised import Group, PartialSum, Peer, decentralised_sum

from ..cases import for_each
from ..chance import FALSE_ALARM
from .peer_sums import SESSION, Peers


@settings(max_examples=25)
@given(st.data())
def test_all_peers_have_the_exact_total(data) -> None:
    count = data.draw(st.integers(3, 7))
    length = data.draw(st.integers(1, 12))
    bound = data.draw(st.sampled_from([1, 127, 2**30, 2**52, (2**63 - 1) // (2 * count)]))
    peers = Peers(count, length, bound=float(min(bound, 2**59)))
    most = peers.grid.largest
    extremes = st.integers(-most, most) | st.sampled_from([-most, 0, most])
    rows = [data.draw(st.lists(extremes, min_size=length, max_size=length)) for _ in peers.names]
    inputs = {name: np.array(row, np.int64) for name, row in zip(peers.names, rows, strict=True)}
    totals = peers.sum(inputs)
    expected = [sum(column) for column in zip(*rows, strict=True)]
    assert set(totals) == set(peers.names)
    assert all(total.tolist() == expected for total in totals.values())


def test_ten_peers_and_many_numbers() -> None:
    """At most 10 bytes a number from each peer, all counted, and 1e-8 from the mean of floats."""
    count, length = 10, 200_000
    peers = Peers(count, length, bound=100.0, step=2.0**-27)
    rng = np.random.default_rng(5)
    values = {name: rng.uniform(-100.0, 100.0, length) for name in peers.names}
    totals = peers.sum({name: peers.grid.encode(one) for name, one in values.items()})
    mean = np.mean(list(values.values()), axis=0)
    for total in totals.values():
        assert np.abs(peers.grid.decode(total) / count - mean).max() <= 1e-8
    assert max(peers.network.sent.values()) <= 10 * length


def test_rounds_follow_one_another() -> None:
    peers = Peers()
    for number in range(3):
        inputs = peers.inputs(number)
        assert np.array_equal(peers.sum(inputs, number)["silo-0"], sum(inputs.values()))


def test_the_order_of_names_does_not_matter() -> None:
    peers = Peers()
    turned = dict(reversed(list(peers.group.roster.items())))
    again = replace(peers.group, roster=turned)
    assert again.peers == peers.group.peers
    assert again.context(SESSION, 1) == peers.group.context(SESSION, 1)


def test_no_seed_and_no_vector_is_in_any_message(monkeypatch) -> None:
    seeds, shared = [], additive.share

    def watched(words, parties):
        found = shared(words, parties)
        seeds.extend(found[0])
        return found

    monkeypatch.setattr(decentralised.additive, "share", watched)
    peers = Peers(4, 40)
    inputs = peers.inputs()
    peers.sum(inputs)
    everything = b"".join(
        message.body for name in peers.names for message in peers.network.view(name)
    )
    assert len(seeds) == 12
    assert not any(bytes(seed) in everything for seed in seeds)
    for row in inputs.values():
        assert row.astype("<i8").tobytes()[:16] not in everything
        packed = row.astype("<i8").view(np.uint8).reshape(-1, 8)[:, : peers.group.width]
        assert packed[:10].tobytes() not in everything


def partial_words(peers, sender):
    """Return the slices that a peer sent, as the bytes of words, one row each."""
    sent = [one for one in peers.network.said(sender) if one.kind == PartialSum.kind]
    raw = b"".join(PartialSum.unpack(one.body).words for one in sent)
    return np.frombuffer(raw, np.uint8).reshape(-1, peers.group.width)


@for_each("value", [0, 1000])
def test_what_a_peer_sends_is_uniform_whatever_its_vector(value) -> None:
    """Every byte of every word, 60,000 words; chi-square, 1 in 10^6 for all bytes and values."""
    peers = Peers(3, 90_000)
    peers.sum({name: np.full(90_000, value) for name in peers.names})
    columns = partial_words(peers, "silo-1").T
    assert len(columns) == peers.group.width > 1
    for column in columns:
        counts = np.bincount(column, minlength=256)
        assert stats.chisquare(counts).pvalue > FALSE_ALARM / (2 * len(columns))


def test_the_same_vector_looks_new_in_every_round() -> None:
    peers = Peers(3, 3000)
    inputs = peers.inputs()
    peers.sum(inputs, 1)
    peers.sum(inputs, 2)
    words = partial_words(peers, "silo-1")
    half = len(words) // 2
    assert (words[:half] == words[half:]).mean() < 0.03  # 1/256 by chance


def test_peers_insist_on_enough_of_them_and_groups_that_do_not_fit_are_refused() -> None:
    peers = Peers(4)
    roster, grid = peers.group.roster, peers.grid
    two = {name: roster[name] for name in ("silo-0", "silo-1")}
    twice = {**roster, "silo-9": roster["silo-0"]}
    for agreed, text in (
        ((roster, 5, grid, 3), "There are 4 peers, and there must be 5"),
        ((roster, 2, grid, 3), "fewest"),
        ((two, 3, grid, 3), "There are 2 peers"),
        ((twice, 3, replace(grid, terms=5), 3), "same key"),
        (({**roster, "silo-0": b"short"}, 3, grid, 3), "32 bytes"),
        ((roster, 3, replace(grid, terms=3), 3), "terms"),
        ((roster, 3, replace(grid, modulus=2**32), 3), "grid"),
        ((roster, 3, grid, 0), "length"),
    ):
        with pytest.raises(InvalidInput, match=text):
            Group(*agreed)


@for_each("bad", ["identity", "length", "kind", "bound"])
def test_nothing_is_sent_where_a_peers_own_part_is_wrong(bad) -> None:
    peers = Peers()
    inputs = peers.inputs()
    if bad == "identity":
        peers.identities["silo-3"] = keys.Identity.new()
    elif bad == "length":
        inputs["silo-3"] = inputs["silo-3"][:-1]
    elif bad == "kind":
        inputs["silo-3"] = inputs["silo-3"].astype(float)
    else:
        inputs["silo-3"][0] = 1001
    with pytest.raises(InvalidInput) as caught:
        peers.sum(inputs)
    assert "1001" not in str(caught.value)
    assert sum(peers.network.sent.values()) == 0


def test_inputs_and_posts_are_of_the_group_and_of_nobody_else() -> None:
    peers = Peers()
    inputs = peers.inputs()
    stray = {**inputs, "silo-9": inputs["silo-0"]}
    fewer = {name: post for name, post in peers.posts.items() if name != "silo-3"}
    known = {name: one for name, one in peers.identities.items() if name != "silo-3"}
    for posts, identities, own in (
        (peers.posts, peers.identities, stray),
        (peers.posts, peers.identities, {}),
        (fewer, peers.identities, inputs),
        (peers.posts, known, inputs),
    ):
        with pytest.raises(InvalidInput):
            decentralised_sum(posts, peers.group, identities, SESSION, 1, own)
    assert sum(peers.network.sent.values()) == 0


def test_a_peer_is_not_copied() -> None:
    """A copy could take a step twice, with what must be used once."""
    peers = Peers()
    own = (peers.identities["silo-0"], peers.posts["silo-0"], SESSION, 1)
    peer = Peer(peers.group, *own, peers.inputs()["silo-0"])
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="not pickled or copied"):
            way(peer)
    assert repr(peer) == "Peer(silo-0)"


def test_a_stranger_does_not_enter() -> None:
    peers = Peers()
    roster = {name: key for name, key in peers.group.roster.items() if name != "silo-3"}
    group = replace(peers.group, roster=roster)
    own = (peers.identities["silo-3"], peers.posts["silo-3"])
    with pytest.raises(InvalidInput, match="not in the group"):
        Peer(group, *own, SESSION, 1, np.zeros(11, np.int64))


@for_each("change", ["roster", "fewest", "length", "grid", "session", "round"])
def test_peers_that_agreed_on_something_else_refuse_one_another(change) -> None:
    peers = Peers()
    group = peers.group
    changes = {
        "roster": {**group.roster, "silo-2": keys.Identity.new().public},
        "fewest": 4,
        "length": 12,
        "grid": replace(group.grid, step=0.5),
    }
    other = replace(group, **{change: changes[change]}) if change in changes else group
    session, number = (b"another" if change == "session" else SESSION), 1 + (change == "round")
    made = []
    for name in group.peers:
        agreed = (other, session, number) if name == "silo-0" else (group, SESSION, 1)
        own, *rest = agreed
        steps = np.zeros(own.length, np.int64)
        made.append(Peer(own, peers.identities[name], peers.posts[name], *rest, steps))
    for peer in made:
        peer.hello()
    for peer in made[1::-1]:
        with pytest.raises(ProtocolFault):
            peer.share()


def test_a_digest_binds_every_part_of_the_agreement() -> None:
    group = Peers().group
    found = {
        group.context(SESSION, 1),
        group.context(SESSION, 2),
        group.context(SESSION + b"1", 1),
        replace(group, length=12).context(SESSION, 1),
        replace(group, fewest=4).context(SESSION, 1),
        replace(group, grid=replace(group.grid, step=0.5)).context(SESSION, 1),
        replace(group, grid=replace(group.grid, bound=999.0)).context(SESSION, 1),
        replace(group, grid=replace(group.grid, terms=5)).context(SESSION, 1),
    }
    assert len(found) == 8
