"""What each party of noise removal sees, and what the owner of the key could read without masks.

Chances of a false alarm: a uniform residue of 1,024 bits is one of a few thousand candidates with a
probability below 2^-1000; chi-square tests fail with 10^-9.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

pytest.importorskip("gmpy2")
pytest.importorskip("phe")

from privplan.audit.attack_methods import transcripts
from privplan.fl.crypto.paillier.blinding import aggregate
from privplan.fl.crypto.paillier.residues import Residues
from privplan.fl.fedpower.noise_removal.driver import NoiseRemoval
from privplan.fl.fedpower.noise_removal.messages import (
    NodeKey,
    NodeKeys,
    Removal,
    Selection,
    ServerKey,
)
from privplan.fl.fedpower.noise_removal.node import Node
from privplan.fl.parties.network import SERVER, Network

from ....cases import for_each
from .sessions import drawn, keep_noise_of, removals, selections, session_of

NODES = 8
LARGEST = 1000
UNLIKELY = 1e-9


def without_residues(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave re-randomisation out: every residue is 1."""
    monkeypatch.setattr(Residues, "draw", lambda _self, count, _workers: [1] * count)


def without_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "_masks", lambda _self: ([], []))


def one_round(nodes: int, noises: NDArray[np.int64]) -> tuple[NoiseRemoval, Network]:
    session, network = session_of(nodes)
    session.removed(1, drawn(noises), largest=LARGEST)
    return session, network


def fitting(residue: int, selection: int, session: NoiseRemoval) -> list[int]:
    """Return which noise x of one value has this residue: E^(-x) modulo n, tried one by one.

    c = (1 + n x) E^(-x) modulo n^2 is E^(-x) modulo n.
    """
    n = math.prod(session.primes)
    inverse, power = pow(int(selection), -1, n), pow(int(selection), LARGEST, n)
    found = []
    for noise in range(-LARGEST, LARGEST + 1):
        if power == residue % n:
            found.append(noise)
        power = power * inverse % n
    return found


# --- a single node's ciphertext -------------------------------------------------------------------


def noise_read_from(session: NoiseRemoval, network: Network, node: str) -> list[int]:
    """Return what the owner of the key finds in the residue of one node's ciphertext."""
    (ciphertext,) = removals(session, network, 1)[node]
    return fitting(int(ciphertext), selections(session, network, 1)[node], session)


NOISES = np.array([[417], [-3], [12], [0], [999], [-1000], [5], [77]])


@for_each("staying", [0, 5])
def test_a_residue_shows_the_noise_where_nothing_hides_it(staying, monkeypatch) -> None:
    """The control: it finds every node's noise, also that of the node whose noise stays."""
    without_residues(monkeypatch)
    without_masks(monkeypatch)
    keep_noise_of(monkeypatch, staying)
    session, network = one_round(NODES, NOISES)
    for node in range(NODES):
        assert noise_read_from(session, network, f"silo-{node}") == [NOISES[node, 0]]


@for_each("left", ["masks", "residues", "both"])
def test_masks_and_residues_hide_it_each_by_itself(left, monkeypatch) -> None:
    if left == "masks":
        without_residues(monkeypatch)
    elif left == "residues":
        without_masks(monkeypatch)
    session, network = one_round(NODES, NOISES)
    for node in range(NODES):
        assert noise_read_from(session, network, f"silo-{node}") == []


# --- the product, where masks cancel --------------------------------------------------------------


def hidden_noise_found(session: NoiseRemoval, network: Network) -> list[int]:
    """Return what the server finds of node 0's noise, which stayed; node 1's is what it decrypts.

    The product of both ciphertexts is E_0^(-x_0) E_1^(-x_1) modulo n, and x_1 = R.
    """
    n = math.prod(session.primes)
    sent, chosen = removals(session, network, 1), selections(session, network, 1)
    (whole,) = aggregate(session._server._private.public, list(sent.values()))
    (removed,) = session._server._private.decrypt_many([whole])
    known = removed if removed <= n // 2 else removed - n
    residue = int(whole) * pow(int(chosen["silo-1"]), known, n) % n
    return fitting(residue, chosen["silo-0"], session)


def test_the_product_shows_the_noise_that_stayed_without_residues_alone(monkeypatch) -> None:
    """The control: masks cancel, and the sum of Y would be left without any noise."""
    keep_noise_of(monkeypatch, 0)
    assert hidden_noise_found(*one_round(2, np.array([[417], [-3]]))) == []
    without_residues(monkeypatch)
    assert hidden_noise_found(*one_round(2, np.array([[417], [-3]]))) == [417]


def test_one_nodes_residues_are_enough_for_all(monkeypatch) -> None:
    """Whatever the others do, a node's own residues hide what its noise left in the product."""
    keep_noise_of(monkeypatch, 0)
    draw = Residues.draw
    calls: list[int] = []

    def only_first(self, count, workers):
        calls.append(count)
        return draw(self, count, workers) if len(calls) == 1 else [1] * count

    monkeypatch.setattr(Residues, "draw", only_first)
    assert hidden_noise_found(*one_round(2, np.array([[417], [-3]]))) == []
    assert len(calls) == 2


@for_each("hidden", [True, False])
def test_the_audits_search_of_randomness(hidden, monkeypatch) -> None:
    """Without noise nothing is raised: residues are 1 where nobody re-randomises."""
    if not hidden:
        without_residues(monkeypatch)
        without_masks(monkeypatch)
    session, network = session_of(NODES)
    session.removed(1, drawn(np.zeros((NODES, 3), np.int64)), largest=2**50)
    n = math.prod(session.primes)
    finding = transcripts.shown_randomness(removals(session, network, 1), n)
    assert finding.detected is not hidden


# --- uniform ciphertexts --------------------------------------------------------------------------


def bins_of(ciphertexts: list[int], session: NoiseRemoval) -> float:
    """Return the smaller p-value of plaintexts and residues in 8 equal bins each."""
    n = math.prod(session.primes)
    plaintexts = session._server._private.decrypt_many(ciphertexts)
    p_values = []
    for numbers in (plaintexts, [one % n for one in ciphertexts]):
        counts = np.bincount([int(8 * one // n) for one in numbers], minlength=8)
        p_values.append(float(stats.chisquare(counts).pvalue))
    return min(p_values)


@for_each("staying", [0, 1])
def test_less_than_all_nodes_show_uniform_ciphertexts(staying, monkeypatch) -> None:
    """Of one node, and of the product over all but one, whatever its noise and selection are."""
    without_residues(monkeypatch)  # masks alone must do it
    keep_noise_of(monkeypatch, staying)
    session, network = session_of(3)
    values = 120 * (1022 // 63)
    noises = np.zeros((3, values), np.int64)
    noises[1:] = np.random.default_rng(1).integers(-LARGEST, LARGEST, (2, values))
    session.removed(1, drawn(noises), largest=2**59)
    sent = removals(session, network, 1)
    public = session._server._private.public
    assert all(len(ciphertexts) >= 120 for ciphertexts in sent.values())
    for ciphertexts in sent.values():
        assert bins_of(ciphertexts, session) > UNLIKELY
    assert bins_of(aggregate(public, [sent["silo-0"], sent["silo-2"]]), session) > UNLIKELY
    # The control: all together they decrypt to sums, which are tiny or almost n.
    assert bins_of(aggregate(public, list(sent.values())), session) < UNLIKELY


def test_another_round_has_other_masks() -> None:
    session, network = session_of(3)
    zeros = drawn(np.zeros((3, 5), np.int64))
    masks = []
    for number in (1, 2):
        session.removed(number, zeros, largest=9)
        masks.append([node._masks() for node in session._nodes])
    for both in zip(*masks, strict=True):
        first, second = (
            {one for side in sides for column in side for one in column} for sides in both
        )
        assert first
        assert not first & second
    ciphertexts = [*removals(session, network, 1).values(), *removals(session, network, 2).values()]
    assert len({one for column in ciphertexts for one in column}) == 6


def test_no_residue_and_no_factor_serves_twice(monkeypatch) -> None:
    draw, seen = Residues.draw, []

    def recording(self, count, workers):
        residues = draw(self, count, workers)
        seen.extend(residues)
        return residues

    monkeypatch.setattr(Residues, "draw", recording)
    session, _ = session_of(3)
    for number in (1, 2):
        session.removed(number, drawn(np.ones((3, 40), np.int64)), largest=2**40)
        assert all(node._factors == [] for node in session._nodes)
    packs = -(-40 // (1022 // 43))
    assert len(seen) == len(set(seen)) == 2 * 3 * packs


# --- who sees what --------------------------------------------------------------------------------


def test_selections_are_one_hot_and_fresh(monkeypatch) -> None:
    session, network = session_of(NODES)
    seen = []
    for number, staying in enumerate((3, 3, 6), 1):
        keep_noise_of(monkeypatch, staying)
        session.removed(number, drawn(NOISES), largest=LARGEST)
        chosen = selections(session, network, number)
        opened = session._server._private.decrypt_many(list(chosen.values()))
        assert list(chosen) == [f"silo-{node}" for node in range(NODES)]
        assert opened == [int(node == staying) for node in range(NODES)]
        seen += list(chosen.values())
    assert len(set(seen)) == len(seen)
    assert len({int(one) % math.prod(session.primes) for one in seen}) == len(seen)


def test_each_party_sees_its_own_kinds_of_messages_and_no_more() -> None:
    session, network = one_round(NODES, NOISES)
    for node in range(NODES):
        view = network.view(f"silo-{node}")
        assert [one.kind for one in view] == [ServerKey.kind, NodeKeys.kind, Selection.kind]
        assert {one.sender for one in view} == {SERVER}
    kinds = [one.kind for one in network.view(SERVER)]
    assert kinds == [NodeKey.kind] * NODES + [Removal.kind] * NODES
    assert session.primes


@for_each("shown", [False, True])
def test_no_message_holds_noise_keys_or_primes(shown: bool) -> None:
    noises = np.random.default_rng(2).integers(-LARGEST, LARGEST, (3, 30))
    session, network = one_round(3, noises)
    secrets: dict[str, bytes | int | list[int]] = {
        "p": session.primes[0],
        "q": session.primes[1],
        "mask key": bytes(session._nodes[0]._member.mask_keys[1]),
    }
    for node in range(3):
        secrets[f"noise {node}"] = noises[node].tolist()
    messages: dict[str, bytes] = {f"{place}": one.body for place, one in enumerate(network.take())}
    if shown:  # the control
        messages["more"] = b"x" + bytes(session._nodes[0]._member.mask_keys[1])
    assert transcripts.secrets_in(messages, secrets).detected is shown


def test_both_nodes_of_a_pair_have_one_key_and_all_pairs_another() -> None:
    session, _ = session_of(4)
    keys = {
        (node._member.number, other): bytes(key)
        for node in session._nodes
        for other, key in node._member.mask_keys.items()
    }
    assert all(keys[first, second] == keys[second, first] for first, second in keys)
    assert len(set(keys.values())) == 6
