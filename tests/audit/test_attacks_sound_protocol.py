"""The attacks on the messages of the sound protocol: they find nothing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

pytest.importorskip("phe")
pytest.importorskip("cryptography")

from privplan.accountant.randomness import Streams
from privplan.audit.attack_methods import transcripts as attacks
from privplan.fl.crypto.paillier import blinding
from privplan.fl.parties.network import SERVER, Message, Network
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names
from privplan.fl.uldp.weighting.terms import WeightingTerms

from ..cases import for_each
from .published_protocol import LIMIT, masked_sums, sent

# --- the sound protocol ---------------------------------------------------------------------------

USERS, SILOS, DIMENSIONS = 12, 3, 33
TARGET = 1  # 4 counts and the dummy: V moves by multiples of m c / 5


def terms(**changed: Any) -> WeightingTerms:
    return WeightingTerms(
        users=USERS,
        silos=SILOS,
        dimensions=DIMENSIONS,
        largest=2**11 - 1,
        tail=2**40,
        count_limit=LIMIT,
        digits=12,
        key_bits=512,
        weak_key=True,
        **changed,
    )


def capped() -> np.ndarray[Any, Any]:
    table = np.random.default_rng(3).integers(0, 4, (USERS, SILOS))
    table[TARGET] = [0, 3, 1]
    return table


class Sound:
    """Rounds of the sound protocol at 512 bits, with what each party has seen."""

    def __init__(
        self, rounds: int, *, leave_out: int | None = None, coarse: bool = False, **changed: Any
    ) -> None:
        rng = np.random.default_rng(7)
        self.terms = terms(**changed)
        self.network = Network(names(self.terms), keep=True)
        self.session = PrivateWeighting(self.terms, capped(), self.network)
        digits = rng.integers(-100, 100, (SILOS, USERS, DIMENSIONS))
        digits[:, :, 11:] = 0  # whole ciphertexts that nobody moves
        digits[:, :, 10] = digits[:, :, 9]
        self.values = []
        for number in range(1, rounds + 1):
            rows = []
            for silo in range(SILOS):
                users = [u for u in range(USERS) if capped()[u, silo] and u != leave_out]
                rows.append((users, digits[silo, users]))
            own = np.random.default_rng([number, leave_out or 0, coarse])
            std = 20.0 if coarse else 20.0 * self.terms.multiple
            noise = np.rint(own.normal(0.0, std, (SILOS, DIMENSIONS))).astype(np.int64)
            noise *= self.terms.multiple if coarse else 1
            stream = Streams.seeded(number).stream("slots") if self.terms.slots else None
            self.values.append(self.session.round(number, rows, noise.tolist(), stream=stream))

    @property
    def modulus(self) -> int:
        return int(self.session.modulus)

    @property
    def primes(self) -> tuple[int, int]:
        private = self.session._server._private
        return int(private._p), int(private._q)

    def updates(self, number: int) -> dict[str, list[int]]:
        view, width = self.network.view(SERVER), self.terms.ciphertext_bytes
        return attacks.residues(view, "weighting.update", width, round=number)

    def secrets(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for silo in self.session._silos:
            member = silo._member
            found[f"counts of {member.number}"] = capped()[:, member.number].tolist()
            found[f"shares of {member.number}"] = [int(one) for one in member.shares]
            found["seed"] = bytes(member.seed)
            for user, exponent in enumerate(member.exponents):
                if exponent:
                    found[f"exponent of {user} in {member.number}"] = int(exponent)
            for other, keys in member.keys.items():
                found[f"ciphertext key of {member.number} and {other}"] = bytes(keys.ciphertexts)
        private = self.session._server._private
        found |= {"p": int(private._p), "q": int(private._q)}
        found |= {f"1/B of {u}": int(one) for u, one in enumerate(self.session._server._inverses)}
        return found


ROUNDS = 12


@pytest.fixture(scope="module")
def sound() -> Sound:
    return Sound(ROUNDS)


def test_the_sound_protocol_shows_no_randomness(sound: Sound) -> None:
    view, width = sound.network.view("silo-0"), sound.terms.ciphertext_bytes
    handed_out = attacks.residues(view, "weighting.inverses", width)[SERVER]
    for number in (1, 2, ROUNDS):
        finding = attacks.shown_randomness(sound.updates(number), sound.modulus, invited=handed_out)
        assert not finding.detected
    every = {f"{n} {s}": own for n in range(1, ROUNDS + 1) for s, own in sound.updates(n).items()}
    assert not attacks.shown_randomness(every, sound.modulus).detected


@for_each("masked", [True, False])
def test_the_protocol_without_own_randomness_is_seen(
    monkeypatch: pytest.MonkeyPatch, masked: bool
) -> None:
    """The control: masks alone leave the sum open, and without them every silo's update."""

    def bare(public: Any, made: Any, own: Any, multiply: Any, divide: Any) -> Any:
        ones = [type(one)(1) for one in own]
        return blinding.blinded(public, made, ones, *((multiply, divide) if masked else ([], [])))

    monkeypatch.setattr("privplan.fl.uldp.weighting.silo.blinded", bare)
    weakened = Sound(1)
    finding = attacks.shown_randomness(weakened.updates(1), weakened.modulus)
    together = {f"all together[{block}]" for block in (1, 2)}
    alone = {f"silo-{silo}[{block}]" for silo in range(SILOS) for block in (1, 2)}
    assert set(finding.places) == (together if masked else together | alone)


def test_the_servers_own_sum_agrees_with_the_rounds(sound: Sound) -> None:
    """The attack sees what the server decrypts: otherwise it would find nothing for no reason."""
    packed = [one % sound.modulus for one in attacks.decrypted_sums(sound.updates(3), sound.primes)]
    opened = sound.terms.packing.unpack(packed, DIMENSIONS, sound.modulus)
    assert [int(one) for one in opened] == [int(one) for one in sound.values[2]]


def test_the_sound_protocol_leaves_no_residue(sound: Sound) -> None:
    without = Sound(ROUNDS, leave_out=TARGET)
    finding = attacks.noise_free_residue(sound.values, sound.terms.multiple, without=without.values)
    assert not finding.detected
    assert finding.p_value > 1e-3


def test_noise_on_multiples_in_the_sound_protocol_is_seen() -> None:
    """The control: the same protocol with the published noise."""
    ours, without = Sound(3, coarse=True), Sound(3, coarse=True, leave_out=TARGET)
    finding = attacks.noise_free_residue(ours.values, ours.terms.multiple, without=without.values)
    assert finding.detected
    assert finding.recovered["differs"]


def test_the_server_of_the_sound_protocol_receives_uniform_values(sound: Sound) -> None:
    n = sound.modulus
    sent = {f"{r} {s}": own for r in range(1, ROUNDS + 1) for s, own in sound.updates(r).items()}
    assert not attacks.unmasked(sent, n * n).detected
    opened = {
        label: [attacks.plaintext(one, sound.primes) for one in own] for label, own in sent.items()
    }
    assert not attacks.unmasked(opened, n).detected  # every silo's, by the server's own key
    assert not attacks.reused_masks(opened, n).detected
    view, width = sound.network.view(SERVER), sound.terms.modulus_bytes
    columns = {
        message.sender: [
            int.from_bytes(part[at : at + width], "big")
            for part in attacks.values(message)
            if isinstance(part, bytes) and len(part) == USERS * width
            for at in range(0, USERS * width, width)
        ]
        for message in view
        if message.kind == "weighting.histogram"
    }
    assert [len(own) for own in columns.values()] == [USERS] * SILOS
    assert not attacks.unmasked(columns, n).detected
    assert not attacks.reused_masks(columns, n).detected


def test_without_masks_the_servers_key_opens_every_silo(key: tuple[int, int]) -> None:
    """The control for the test above: own randomness alone hides no plaintext."""
    sent = masked_sums(key, np.ones((3, 6), int), np.full((3, 6), 50), 3, masked=False)
    opened = {s: [attacks.plaintext(one, key) for one in own] for s, own in sent.items()}
    assert attacks.unmasked(opened, math.prod(key)).detected


def test_a_ciphertext_mask_that_comes_again_is_seen(key: tuple[int, int]) -> None:
    """Fresh randomness does not help: the key owner sees the difference of two plaintexts."""
    rounds = [
        masked_sums(key, np.ones((3, 6), int), np.full((3, 6), 50 + own), seed)
        for own, seed in ((0, 3), (7, 3), (0, 4))
    ]
    opened = {
        f"round {r}": [attacks.plaintext(one, key) for one in sent["silo-0"]]
        for r, sent in enumerate(rounds)
    }
    finding = attacks.reused_masks(opened, math.prod(key))
    assert finding.places == ("round 0 and round 1",)


@for_each("party", [SERVER, "silo-0", "silo-1", "silo-2"])
def test_no_secret_stands_in_a_message(sound: Sound, party: str) -> None:
    finding = attacks.secrets_in(sound.network.view(party), sound.secrets())
    assert not finding.detected
    assert len(sound.secrets()) > 15
    assert "too short" not in finding.what


def test_the_search_for_secrets_would_find_them(sound: Sound) -> None:
    """The control: each secret is found in a message that holds it."""
    for name, secret in sound.secrets().items():
        held = bytes(secret) if isinstance(secret, bytes | list) else secret.to_bytes(64, "big")
        assert attacks.secrets_in(sent(raw=held), {name: secret}).detected


def test_locked_seeds_of_many_sessions_look_random() -> None:
    locked: dict[str, bytes] = {}
    for session in range(4):
        view = Sound(0).network.view(SERVER)
        body = next(one for one in view if one.kind == "weighting.locked-seeds")
        parts = [one for one in attacks.values(body) if isinstance(one, bytes)]
        locked |= {f"{session} {n}": part for n, part in enumerate(parts)}
    assert len(locked) == 8
    assert not attacks.reused_keystream(locked).detected
    assert not attacks.weak_seeds(locked).detected


def test_an_oblivious_transfer_shows_neither_side_the_sample() -> None:
    """The server has no list of slots, and the silos' ciphertexts of 0 look like any other."""
    session = Sound(2, drawn_by="oblivious-transfer", slots=6, chosen=2)
    view = session.network.view(SERVER)
    requests = [
        part[at : at + 32]
        for message in view
        if message.kind == "weighting.transfer-requests"
        for part in attacks.values(message)
        if isinstance(part, bytes)
        for at in range(0, len(part), 32)
    ]
    assert len(set(requests)) == len(requests) == 2 * SILOS * USERS
    hidden = {str(n): one for n, one in enumerate(requests)}
    assert not attacks.reused_keystream(hidden).detected
    assert not attacks.weak_seeds(hidden).detected
    for number in (1, 2):
        assert not attacks.shown_randomness(session.updates(number), session.modulus).detected
    assert not attacks.secrets_in(view, session.secrets()).detected


def test_masked_words_are_read_as_they_travel() -> None:
    from privplan.fl.secagg.committee import Committee
    from privplan.fl.secagg.terms import choose

    names = ["silo-0", "silo-1", "silo-2"]
    network = Network([SERVER, *names], keep=True)
    committee = Committee.on(network, choose(3, length=4000), b"a session of a test")
    own = np.arange(4000, dtype=np.uint64)
    committee.sum(1, dict.fromkeys(names, own))
    view = network.view(SERVER)
    found = attacks.words(view, "secagg-masked", 64)
    assert {name: len(one) for name, one in found.items()} == dict.fromkeys(names, 4000)
    assert not attacks.unmasked(found, 2**64).detected
    assert not attacks.secrets_in(view, {"vector": own.tobytes()}).detected
    in_clear = Message(bytes(16), 1, "secagg-masked", "silo-0", SERVER, own.tobytes())
    assert attacks.secrets_in([in_clear], {"vector": own.tobytes()}).detected


def test_a_name_that_stands_twice_hides_nothing() -> None:
    twice = b"\x91\x82\xa1a\xc4\x20" + bytes(range(32)) + b"\xa1a\xc4\x01\x00"
    message = Message(bytes(16), 1, "any", "silo-0", SERVER, twice)
    assert attacks.secrets_in([message], {"key": bytes(range(32))}).detected
