"""Peers that a coordinator gathers: exact sums of those who are there, and nothing for the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privplan.accountant.errors import InvalidInput, MissingParty, ProtocolFault
from privplan.fl.crypto import keys
from privplan.fl.observers.names import COORDINATOR
from privplan.fl.parties.message_bodies import scalars
from privplan.fl.secagg.decentralised import Hello, Peer, Share, TotalSlice
from privplan.fl.secagg.gathering import Attendance, Coordinator, GroupNotice, Ready, gathered_sum

from ..cases import for_each
from .gatherings import Gathered, renamed
from .peer_sums import SESSION


@settings(max_examples=15)
@given(st.data())
def test_those_who_are_there_have_the_exact_total(data) -> None:
    peers = Gathered(5, data.draw(st.integers(1, 9)))
    there = data.draw(st.sets(st.sampled_from(peers.names), min_size=3))
    inputs = {name: row for name, row in peers.inputs(3).items() if name in there}
    totals = peers.gathered(inputs)
    assert set(totals) == there
    assert all(np.array_equal(total, sum(inputs.values())) for total in totals.values())
    for away in set(peers.names) - there:
        assert peers.network.view(away) == ()


def test_groups_change_from_round_to_round() -> None:
    peers = Gathered()
    for number, there in enumerate((peers.names, peers.names[:3], peers.names[1:]), 1):
        inputs = {name: peers.inputs(number)[name] for name in there}
        totals = peers.gathered(inputs, number)
        assert all(np.array_equal(total, sum(inputs.values())) for total in totals.values())


def test_the_coordinator_sees_names_and_sizes_only() -> None:
    """A signature from each who is there, of one length, and not a byte of anything else."""
    views = []
    for seed in (1, 2):
        peers = Gathered()
        peers.gathered({name: peers.inputs(seed)[name] for name in peers.names[:4]})
        view = peers.network.view(COORDINATOR)
        assert [one.kind for one in view] == [Ready.kind] * 4
        for message in view:
            (signature,) = scalars(message.body)
            statement_of = peers.group.context(SESSION, 1)
            said = keys.framed(b"privplan peer ready", statement_of, message.sender.encode())
            keys.verify(peers.group.roster[message.sender], signature, said)
        views.append([(one.sender, one.kind, one.size, one.round) for one in view])
        said = {one.kind for one in peers.network.said(COORDINATOR)}
        assert said == {GroupNotice.kind}
    assert views[0] == views[1]  # whatever the vectors are


def test_too_few_are_told_nothing() -> None:
    peers = Gathered(fewest=4)
    some = {name: peers.inputs()[name] for name in peers.names[:3]}
    with pytest.raises(InvalidInput, match="4 peers on the roster"):
        peers.gathered(some)
    assert sum(peers.network.sent.values()) == 0
    peers = Gathered(meddling=wrong(Ready, "missing"))
    there = {name: peers.inputs()[name] for name in peers.names[:3]}
    with pytest.raises(MissingParty, match="Ready: 2 peers; there must be 3"):
        peers.gathered(there)
    assert peers.network.said(COORDINATOR) == ()


@for_each("bad", ["infinite", "length", "bound", "identity"])
def test_a_wrong_vector_is_refused_before_anybody_says_anything(bad) -> None:
    peers = Gathered()
    inputs = peers.inputs()
    if bad == "infinite":
        inputs["silo-3"] = np.full(11, np.inf)
    elif bad == "length":
        inputs["silo-3"] = inputs["silo-3"][:-1]
    elif bad == "bound":
        inputs["silo-3"][0] = 1001
    else:
        peers.identities["silo-3"] = keys.Identity.new()
    with pytest.raises(InvalidInput) as caught:
        peers.gathered(inputs)
    assert "1001" not in str(caught.value)
    assert sum(peers.network.sent.values()) == 0


def test_posts_and_inputs_are_of_the_roster() -> None:
    peers = Gathered()
    inputs = peers.inputs()
    fewer = {name: post for name, post in peers.posts.items() if name != COORDINATOR}
    with pytest.raises(InvalidInput, match="posts"):
        gathered_sum(fewer, peers.group, peers.identities, SESSION, 1, inputs)
    with pytest.raises(InvalidInput, match="roster"):
        peers.gathered({**inputs, "silo-9": inputs["silo-0"]})
    with pytest.raises(InvalidInput, match="not in the group"):
        Attendance(peers.group, keys.Identity.new(), peers.posts["silo-0"], SESSION, 1)


# --- what the coordinator may name ----------------------------------------------------------------

GROUPS = {
    "a peer twice": (lambda peer, names: (*names, peer), "a name twice"),
    "twice, in place of another": (
        lambda peer, names: (*(one for one in names if one != "silo-4"), peer),
        "a name twice",
    ),
    "itself alone": (lambda peer, names: [one for one in names if one == peer], "group of 1"),
    "too few": (lambda peer, names: [one for one in names if one in (peer, "silo-4")], "group of"),
    "nobody": (lambda peer, names: [one for one in names if one == f"not {peer}"], "group of 0"),
    "a stranger": (
        lambda peer, names: (*(one for one in names if one == peer), "silo-1", "silo-2", "silo-9"),
        "not on the roster",
    ),
    "the coordinator": (
        lambda peer, names: (*(one for one in names if one != f"not {peer}"), COORDINATOR),
        "not on the roster",
    ),
    "all others": (lambda peer, names: [one for one in names if one != peer], "without itself"),
}


def first_three(_, names):
    return names[:3]


@for_each("group", GROUPS)
def test_a_group_that_was_not_agreed_to_is_refused(group) -> None:
    names_for, why = GROUPS[group]
    peers = Gathered(meddling=renamed(names_for))
    with pytest.raises(ProtocolFault, match=why) as caught:
        peers.gathered(peers.inputs())
    assert "silo-9" not in str(caught.value)
    assert not any(Hello.kind == one.kind for one in peers.network.take())  # no step of the sum


def test_a_group_that_is_too_small_or_leaves_a_peer_out_ends_the_round() -> None:
    """Four were agreed on, and it names three."""
    peers = Gathered(fewest=4, meddling=renamed(first_three))
    with pytest.raises(ProtocolFault, match="group of 3; at least 4"):
        peers.gathered(peers.inputs())
    # All are told the same three, who could sum: the other two refuse.
    peers = Gathered(meddling=renamed(first_three))
    with pytest.raises(ProtocolFault, match="silo-3 a group without itself"):
        peers.gathered(peers.inputs())
    assert not any(one.kind == Hello.kind for one in peers.network.take())


def test_different_groups_are_noticed_before_any_share_is_sent() -> None:
    # To silo-2 the coordinator names silo-4 in place of silo-3, who is on the roster too.
    swapped = renamed(
        lambda who, names: (
            ("silo-0", "silo-1", "silo-2", "silo-4") if who == "silo-2" else names[:4]
        )
    )
    peers = Gathered(meddling=swapped)
    there = {name: peers.inputs()[name] for name in peers.names[:4]}
    with pytest.raises((ProtocolFault, MissingParty)):
        peers.gathered(there)
    sent = peers.network.take()
    assert any(one.kind == Hello.kind for one in sent)  # they began
    assert not any(one.kind in (Share.kind, TotalSlice.kind) for one in sent)


def test_peers_of_different_groups_refuse_each_others_first_message() -> None:
    """Step by step: three peers whose groups differ in one more name."""
    peers = Gathered()
    small, large = peers.group.among(peers.names[:3]), peers.group.among(peers.names[:4])
    inputs = peers.inputs()

    def peer(name, group):
        own = (peers.identities[name], peers.posts[name], SESSION, 1, inputs[name])
        return Peer(group, *own)

    first, second = peer("silo-0", large), peer("silo-1", small)
    others = [peer("silo-2", small), peer("silo-3", large)]
    for one in (first, second, *others):
        one.hello()
    # silo-0 reads what silo-1 signed for another group, and silo-1 what silo-0 did.
    with pytest.raises(ProtocolFault, match="silo-1's 'peer-hello' to silo-0 is not signed by it"):
        first.share()
    with pytest.raises(ProtocolFault, match="silo-0's 'peer-hello' to silo-1 is not signed by it"):
        second.share()
    assert not any(one.kind == Share.kind for one in peers.network.take())


def test_two_groups_that_never_meet_are_no_sum_of_a_run() -> None:
    """Six peers as three and three: each group sums, and the run takes neither total."""

    def split(who, names):
        return names[:3] if who in names[:3] else names[3:]

    for value in (0, 5):  # also where both totals are equal
        peers = Gathered(6, meddling=renamed(split))
        with pytest.raises(ProtocolFault, match="different groups"):
            peers.gathered({name: np.full(11, value) for name in peers.names})


# --- messages to and from the coordinator that are wrong ------------------------------------------


def wrong(kind, fault):
    """Return a meddling with the message of a kind that silo-1 sends or receives."""

    def meddling(message):
        if message.kind != kind.kind or "silo-1" not in (message.sender, message.receiver):
            return (message,)
        if fault == "missing":
            return ()
        if fault == "twice":
            return (message, message)
        if fault in ("round", "session"):
            other = {"round": 7, "session": b"another"}[fault]
            return (replace(message, **{fault: other}),)
        if fault == "malformed":
            return (replace(message, body=message.body[:-1]),)
        if fault == "oversized":
            return (replace(message, body=message.body + bytes(10_000)),)
        raise AssertionError(fault)

    return meddling


FAULTS = {
    "missing": "silo-1|coordinator did not send",
    "twice": "nobody asked for",
    "round": "another session or round",
    "session": "another session or round",
    "malformed": "well-formed",
    "oversized": "longer than",
}


@for_each("kind", [Ready, GroupNotice], ids=lambda kind: kind.kind)
@for_each("fault", FAULTS)
def test_a_wrong_message_ends_the_round_before_anything_is_shared(kind, fault) -> None:
    peers = Gathered(meddling=wrong(kind, fault))
    with pytest.raises((ProtocolFault, MissingParty), match=FAULTS[fault]):
        peers.gathered(peers.inputs())
    assert not any(one.kind == Share.kind for one in peers.network.take())


@for_each("kind", [Ready, GroupNotice], ids=lambda kind: kind.kind)
def test_what_was_said_in_an_earlier_round_is_not_said_now(kind) -> None:
    """With the right number on the envelope, which somebody on the way can write."""
    first: dict[tuple[str, str], bytes] = {}

    def meddling(message):
        if message.kind != kind.kind:
            return (message,)
        way = (message.sender, message.receiver)
        return (replace(message, body=first.setdefault(way, message.body)),)

    peers = Gathered(meddling=meddling)
    inputs = peers.inputs()
    peers.gathered(inputs, 1)
    peers.network.take()
    with pytest.raises(ProtocolFault, match=r"another round|silo-0's 'peer-ready' is not signed"):
        peers.gathered(inputs, 2)
    assert not any(one.kind == Hello.kind for one in peers.network.take())


def test_a_peer_is_told_one_group() -> None:
    """A second notice ends the round at once, before the peer says anything in any group."""
    peers = Gathered(meddling=wrong(GroupNotice, "twice"))
    coordinator = Coordinator(peers.group, peers.posts[COORDINATOR], SESSION, 1)
    attending = {
        name: Attendance(peers.group, peers.identities[name], peers.posts[name], SESSION, 1)
        for name in peers.names
    }
    for one in attending.values():
        one.ready()
    coordinator.notify()
    assert attending["silo-0"].group().peers == peers.group.peers
    with pytest.raises(ProtocolFault, match="silo-1 had a message from coordinator that nobody"):
        attending["silo-1"].group()


@for_each("kind", [Ready, GroupNotice], ids=lambda kind: kind.kind)
def test_a_late_message_counts_in_no_round(kind) -> None:
    """It is missed in its round, and what comes in the next one is read by nobody."""
    late = []

    def meddling(message):
        if message.kind == kind.kind and "silo-1" in (message.sender, message.receiver):
            late.append(message)
            return () if len(late) == 1 else (late[0], message)
        return (message,)

    peers = Gathered(meddling=meddling)
    with pytest.raises(MissingParty):
        peers.gathered(peers.inputs(), 1)
    with pytest.raises(ProtocolFault, match="another session or round"):
        peers.gathered(peers.inputs(), 2)


def test_nobody_is_ready_in_the_name_of_another() -> None:
    kept = []

    def meddling(message):
        if message.kind != Ready.kind:
            return (message,)
        kept.append(message.body)
        return (replace(message, body=kept[0]),)

    peers = Gathered(meddling=meddling)
    with pytest.raises(ProtocolFault, match="silo-1's 'peer-ready' is not signed by it"):
        peers.gathered(peers.inputs())


@for_each("change", ["fewest", "length", "grid", "roster"])
def test_a_peer_that_agreed_on_other_terms_is_not_ready(change) -> None:
    peers = Gathered()
    group = peers.group
    other = {
        "fewest": lambda: replace(group, fewest=4),
        "length": lambda: replace(group, length=12),
        "grid": lambda: replace(group, grid=replace(group.grid, step=0.5)),
        "roster": lambda: replace(
            group, roster={**group.roster, "silo-4": keys.Identity.new().public}
        ),
    }[change]()
    coordinator = Coordinator(group, peers.posts[COORDINATOR], SESSION, 1)
    attending = [
        Attendance(
            other if name == "silo-1" else group, peers.identities[name], peers.posts[name],
            SESSION, 1,
        )
        for name in peers.names
    ]  # fmt: skip
    for one in attending:
        one.ready()
    with pytest.raises(ProtocolFault, match="silo-1's 'peer-ready' is not signed by it"):
        coordinator.notify()


def test_after_a_fault_the_posts_are_clean() -> None:
    """The next round of other peers is not disturbed by what was under way."""
    states = iter([True])

    def once(message):
        if message.kind == GroupNotice.kind and next(states, False):
            return ()
        return (message,)

    peers = Gathered(meddling=once)
    inputs = peers.inputs()
    with pytest.raises(MissingParty, match="coordinator"):
        peers.gathered(inputs, 1)
    assert np.array_equal(peers.gathered(inputs, 2)["silo-0"], sum(inputs.values()))
