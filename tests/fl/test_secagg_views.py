"""What each party sees of a masked sum tells nothing of one input.

Chi-square tests draw fresh randomness and raise a false alarm once in 10^9 runs each.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from privplan.fl.crypto import keys
from privplan.fl.crypto.keys import KeyPair, agree
from privplan.fl.crypto.masks import mask_into
from privplan.fl.crypto.shamir import combine
from privplan.fl.parties.network import SERVER, Message, Network, silo_name
from privplan.fl.secagg import client
from privplan.fl.secagg import messages as says
from privplan.fl.secagg.committee import Committee
from privplan.fl.secagg.group import Group, View, parted
from privplan.fl.secagg.terms import Terms, choose

from ..cases import for_each

SESSION = b"a session of this test"
FALSE_ALARM = 1e-9
LENGTH = 40_000


def names(terms: Terms) -> list[str]:
    return [silo_name(i) for i in range(terms.parties)]


def run(
    terms: Terms, inputs: dict[str, Any], *, rounds: int = 1, meddling: Any = None
) -> tuple[Network, Committee, Any]:
    network = Network([SERVER, *names(terms)], keep=True, meddling=meddling)
    one = Committee.on(network, terms, SESSION)
    found = [one.sum(round, inputs) for round in range(1, rounds + 1)]
    return network, one, found[-1]


def masked(network: Network, name: str, terms: Terms) -> list[Any]:
    return [
        np.frombuffer(m.body, terms.words)
        for m in network.view(SERVER)
        if m.sender == name and m.kind == "secagg-masked"
    ]


def looks_uniform(words: Any) -> bool:
    counts = np.bincount(words.view(np.uint8), minlength=256)
    return bool(chisquare(counts).pvalue > FALSE_ALARM)


def constant(terms: Terms, value: int) -> dict[str, Any]:
    return {name: np.full(terms.length, value, terms.words) for name in names(terms)}


def loses(kind: str, sender: str) -> Callable[[Message], Iterable[Message]]:
    return lambda m: () if m.kind == kind and m.sender == sender else (m,)


@for_each("bits", [32, 64])
@for_each("value", [0, 1, 2**31])
def test_the_server_receives_uniform_words_whatever_is_summed(value: int, bits: int) -> None:
    terms = choose(5, length=LENGTH, dropouts=1, colluders=1, ring_bits=bits)
    network, _, (total, _) = run(terms, constant(terms, value))
    vectors = [masked(network, name, terms)[0] for name in names(terms)]
    assert all(looks_uniform(one) for one in vectors)
    assert np.all(total == terms.words.type(5 * value % 2**bits))
    for several in (vectors[0] + vectors[1], vectors[0] - vectors[1], sum(vectors[1:])):
        assert looks_uniform(several)
    assert looks_uniform(sum(vectors))  # the masks of pairs are gone, those of each are left
    assert not looks_uniform(total)  # the test can tell


def test_an_input_changes_nothing_but_its_own_masked_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same random bytes all messages are the same, and the masks do not depend on it."""
    terms = choose(5, length=50, dropouts=1, colluders=1)
    said = []
    for value in (0, 12345):
        state = [0]

        def draw(count: int, state: list[int] = state) -> bytes:
            state[0] += 1
            return hashlib.shake_256(state[0].to_bytes(8, "little")).digest(count)

        monkeypatch.setattr(keys.os, "urandom", draw)
        inputs = {**constant(terms, 7), "silo-2": np.full(50, value, np.uint64)}
        network, _, _ = run(terms, inputs, meddling=loses("secagg-masked", "silo-4"))
        said.append([m for name in (SERVER, *names(terms)) for m in network.said(name)])
    monkeypatch.undo()
    differing = [(a, b) for a, b in zip(*said, strict=True) if a != b]
    assert [(a.kind, a.sender) for a, _ in differing] == [("secagg-masked", "silo-2")]
    ((first, second),) = differing
    difference = np.frombuffer(second.body, "<u8") - np.frombuffer(first.body, "<u8")
    assert np.all(difference == 12345)


def test_two_rounds_have_different_masks_and_keys() -> None:
    terms = choose(4, length=LENGTH)
    network, _, _ = run(terms, constant(terms, 3), rounds=2)
    for name in names(terms):
        first, second = masked(network, name, terms)
        assert looks_uniform(second - first)
        for kind in ("secagg-advert", "secagg-shares"):
            bodies = [m.body for m in network.said(name) if m.kind == kind]
            assert len(set(bodies)) == 2
        one, two = (
            says.Advert.unpack(m.body) for m in network.said(name) if m.kind == "secagg-advert"
        )
        assert len({one.lock_key, one.mask_key, two.lock_key, two.mask_key}) == 4


def test_no_seed_and_no_key_is_in_any_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that is drawn or derived is written down, and looked for, in either order.

    Recovered secrets travel as shares, of which no one alone is the secret.
    """
    secrets: set[bytes] = set()

    def noted(make: Callable[..., bytes]) -> Callable[..., bytes]:
        def call(*arguments: Any, **named: Any) -> bytes:
            found = make(*arguments, **named)
            secrets.add(bytes(found))
            return found

        return call

    from privplan.fl.crypto import masks
    from privplan.fl.secagg import server

    monkeypatch.setattr(keys, "fresh", noted(keys.fresh))
    monkeypatch.setattr(client, "fresh", keys.fresh)
    monkeypatch.setattr(masks, "derive", noted(masks.derive))
    for module in (client, server):
        monkeypatch.setattr(module, "agree", noted(agree))
    terms = choose(5, length=30, dropouts=1, colluders=1)
    inputs = constant(terms, 9)
    network, _, _ = run(terms, inputs, rounds=2, meddling=loses("secagg-masked", "silo-4"))
    assert len(secrets) > 100
    bodies = [m.body for name in (SERVER, *names(terms)) for m in network.said(name)]
    whole = b"\x00".join(bodies)
    pieces = {one[:16] for one in secrets} | {one[-16:] for one in secrets}
    assert not [piece for piece in pieces if piece in whole or piece[::-1] in whole]
    assert inputs["silo-0"].tobytes()[:16] not in whole


def _recovered(network: Network, terms: Terms, name: str, what: str) -> bytes:
    """Return what the shares that the server was sent make of a secret."""
    shares = {}
    for message in network.view(SERVER):
        if message.kind == "secagg-recovery":
            given = getattr(says.Recovery.unpack(message.body), what)
            if name in given:
                shares[names(terms).index(message.sender) + 1] = given[name]
    return bytes(combine(shares, terms.threshold))


@for_each("server", ["malicious", "honest-but-curious"])
def test_the_input_of_a_party_that_is_called_dropped_out_stays_hidden(server: str) -> None:
    """The server has silo-3's masked words, but says that they never came, and gets its key.

    It can take off all masks of pairs.  silo-3's own mask stays.
    """
    terms = choose(5, length=LENGTH, dropouts=1, server=server)  # type: ignore[arg-type]
    stolen: list[bytes] = []

    def steal(message: Message) -> Iterable[Message]:
        if message.kind == "secagg-masked" and message.sender == "silo-3":
            stolen.append(message.body)
            return ()
        return (message,)

    network, one, (total, survivors) = run(terms, constant(terms, 5), meddling=steal)
    assert "silo-3" not in survivors
    assert np.all(total == 20)

    pair = KeyPair.restore(_recovered(network, terms, "silo-3", "keys"))
    (shown,) = (m for m in network.view("silo-0") if m.kind == "secagg-adverts")
    group: Group = one._server._group
    adverts = {n: parted(raw) for n, raw in says.Adverts.unpack(shown.body).adverts.items()}
    view = View(group, 1, adverts)
    left = np.frombuffer(stolen[0], terms.words).copy()
    for name in set(names(terms)) - {"silo-3"}:
        key = agree(pair, adverts[name].mask_key, view.context(b"mask"))
        sign = group.sign(name, "silo-3")
        label = group.label(name, "silo-3")
        mask_into(left, key, session=SESSION, round=1, label=label, sign=sign)
    assert looks_uniform(left)
    with pytest.raises(Exception, match="too few shares"):
        _recovered(network, terms, "silo-3", "seeds")


def test_that_the_own_mask_is_what_hides_it() -> None:
    """The same with a survivor's own mask taken off as well: its input is there.

    So the test above would notice a mask that is missing.
    """
    terms = choose(5, length=LENGTH, dropouts=1)
    network, one, _ = run(terms, constant(terms, 5))
    left = masked(network, "silo-3", terms)[0].copy()
    seed = _recovered(network, terms, "silo-3", "seeds")
    mask_into(left, seed, session=SESSION, round=1, label=b"own", sign=-1)
    assert looks_uniform(left)
    whole = sum(masked(network, name, terms)[0] for name in names(terms))
    for name in names(terms):
        seed = _recovered(network, terms, name, "seeds")
        mask_into(whole, seed, session=SESSION, round=1, label=b"own", sign=-1)
    assert np.all(whole == 25)
    assert one.terms == terms


def test_parties_see_keys_locked_shares_names_and_signatures_of_others_only() -> None:
    terms = choose(5, length=100, dropouts=1, colluders=1)
    network, _, _ = run(terms, constant(terms, 5))
    for name in names(terms):
        seen = network.view(name)
        assert {m.sender for m in seen} == {SERVER}
        assert [m.kind for m in seen] == [
            "secagg-adverts",
            "secagg-relayed",
            "secagg-survivors",
            "secagg-confirmations",
        ]
        relayed = says.RelayedShares.unpack(seen[1].body)
        assert set(relayed.locked) == set(names(terms)) - {name}


def test_fewer_shares_than_the_threshold_are_all_that_colluders_hold() -> None:
    """What colluders are sent of an honest party's secrets is one share each."""
    terms = choose(60, length=5, dropouts=5, colluders=10, server="honest-but-curious")
    network, one, _ = run(terms, constant(terms, 5))
    colluders = set(names(terms)[:10])
    for name in names(terms)[10:]:
        (shares,) = (m for m in network.said(name) if m.kind == "secagg-shares")
        held = set(says.Shares.unpack(shares.body).locked)
        assert len(held) == terms.degree
        assert len(held & colluders) < terms.threshold
    assert one.terms.threshold < terms.degree


def test_nothing_secret_is_left_in_a_client_after_its_words_are_sent() -> None:
    """A party keeps shares of others, not its own key or seed, and after a round nothing."""
    terms = choose(4, length=5)
    found: list[set[str]] = []
    network = Network([SERVER, *names(terms)])
    one = Committee.on(network, terms, SESSION)

    def look() -> Any:
        state = one._clients["silo-0"]._state
        found.append({type(value).__name__ for value in vars(state).values()})
        return np.zeros(5, np.uint64)

    one.sum(1, {**constant(terms, 1), "silo-1": look})  # silo-0 has sent its words by then
    assert found == [{"View", "tuple", "dict"}]
    assert all(client._state is None for client in one._clients.values())

    terms = choose(5, length=5, dropouts=1)
    _, one, _ = run(terms, constant(terms, 1), meddling=loses("secagg-masked", "silo-4"))
    assert all(client._state is None for client in one._clients.values())
    for secret in (one, *one._clients.values(), one._server):
        assert b"secret" not in repr(secret).encode()


def test_words_do_not_stay_in_the_room_they_were_to_be_masked_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "masks_into", interrupted)
    terms = choose(3, length=7)
    with pytest.raises(KeyboardInterrupt):
        run(terms, constant(terms, 9))
    assert client._scratch.words.tolist() == [0] * 7
