"""What each party of private weighting sees: uniform values, and never a seed, key or count.

Chances of a false alarm: seeds that decide an outcome are fixed where the library lets them be, and
elsewhere a bound is passed by chance with a probability below 10^-9.
"""

from __future__ import annotations

import pickle
import re
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from privplan.accountant import events as ev
from privplan.accountant.mechanisms import FineGaussian, Gate, RoundDescription
from privplan.accountant.randomness import Secret, Streams
from privplan.fl.crypto.keys import derive
from privplan.fl.crypto.paillier.blinding import aggregate
from privplan.fl.crypto.paillier.residues import Residues
from privplan.fl.parties.network import SERVER, Message, Network, silo_name
from privplan.fl.uldp.weighting import messages as said
from privplan.fl.uldp.weighting.histogram import (
    blinded_column,
    blinding_factors,
    inverses,
    seed_check,
)
from privplan.fl.uldp.weighting.introductions import PairKeys
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names
from privplan.fl.uldp.weighting.terms import WeightingTerms, common_multiple

from ..cases import for_each

UNLIKELY = 1e-9
P, Q = 2**127 - 1, 2**107 - 1  # primes, for a modulus that is the same in every run
N = P * Q


def terms_of(**change: Any) -> WeightingTerms:
    given: dict[str, Any] = {
        "users": 3,
        "silos": 3,
        "dimensions": 200,
        "largest": 2**9 - 1,
        "tail": 2**60,
        "key_bits": 256,
        "count_limit": 10,
        "digits": 10,
        "weak_key": True,
    }
    return WeightingTerms(**(given | change))


def watched(terms: WeightingTerms, counts: Any) -> tuple[PrivateWeighting, Network]:
    network = Network(names(terms), keep=True)
    return PrivateWeighting(terms, counts, network), network


def uniform_below(values: list[int], top: int) -> float:
    """Return the p-value of 16 equal bins."""
    bins = np.bincount([16 * one // top for one in values], minlength=16)
    return float(stats.chisquare(bins).pvalue)


def silent(terms: WeightingTerms) -> tuple[Any, Any]:
    """Return a round in which nobody has anything to say: no row, and no noise."""
    nobody = [([], np.empty((0, terms.dimensions), int))] * terms.silos
    return nobody, [[0] * terms.dimensions] * terms.silos


def updates(session: PrivateWeighting, network: Network, number: int) -> dict[str, list[int]]:
    """Return the ciphertexts of one round that reached the server, by silo."""
    return {
        one.sender: session._server._private.public.read(
            said.separated(
                said.Update.unpack(one.body).ciphertexts,
                session.terms.blocks,
                session.terms.ciphertext_bytes,
                one.sender,
            )
        )
        for one in network.view(SERVER)
        if one.kind == said.Update.kind and one.round == number
    }


def opened(session: PrivateWeighting, ciphertexts: list[int]) -> tuple[list[int], list[int]]:
    """Return what the server can compute of ciphertexts: plaintexts, and roots of randomness."""
    private = session._server._private
    n, p, q = (int(one) for one in (private.public.n, private._p, private._q))
    root = pow(n, -1, (p - 1) * (q - 1))
    randomness = [pow(int(one) % n, root, n) for one in ciphertexts]
    return [int(one) for one in private.decrypt_many(ciphertexts)], randomness


# --- the histogram --------------------------------------------------------------------------------


def keys_of(silos: int, seed: int) -> list[dict[str, PairKeys]]:
    """Return every silo's pair keys, from a seed."""
    found: list[dict[str, PairKeys]] = [{} for _ in range(silos)]
    for first in range(silos):
        for second in range(first + 1, silos):
            root = Secret(b"%16d%8d%8d" % (seed, first, second))
            pair = PairKeys(derive(root, b"1"), derive(root, b"2"), derive(root, b"3"))
            found[first][silo_name(second)] = found[second][silo_name(first)] = pair
    return found


@for_each("count", [0, 1, 3])
def test_blinded_counts_are_uniform_whatever_they_are(count: int) -> None:
    users = 4000
    seed = Secret(bytes([count + 1] * 32))
    factors = blinding_factors(seed, users, N, b"views")
    shares = np.full(users, count)
    columns = [
        blinded_column(silo, shares, factors, keys, N, b"views")
        for silo, keys in enumerate(keys_of(3, count))
    ]
    total = 3 * count + 1
    sums = [sum(parts) % N for parts in zip(*columns, strict=True)]
    assert sums == [factor * total % N for factor in factors]
    for seen in (*columns, sums):
        assert len(set(seen)) == users
        assert uniform_below(seen, N) > UNLIKELY
    found = inverses(columns, N)
    assert all(one * blinded % N == 1 for one, blinded in zip(found, sums, strict=True))


def test_blinding_is_of_its_seed_and_session_alone() -> None:
    seed, other = Secret(bytes(32)), Secret(bytes(31) + b"1")
    made = [
        tuple(blinding_factors(one, 5, N, session))
        for one in (seed, other)
        for session in (b"a", b"b")
    ]
    assert len(set(sum(made, ()))) == 20
    assert len({seed_check(one, session) for one in (seed, other) for session in (b"a", b"b")}) == 4


# --- the updates ----------------------------------------------------------------------------------


def test_what_the_server_can_open_looks_uniform_where_nothing_is_said() -> None:
    terms = terms_of()
    session, network = watched(terms, np.ones((3, 3), int))
    rows, noise = silent(terms)
    n = int(session._server._private.public.n)
    plaintexts, randomness = [], []
    for number in range(1, 9):
        assert session.round(number, rows, noise) == [0] * terms.dimensions
        sent = updates(session, network, number)
        products = aggregate(session._server._private.public, list(sent.values()))
        for ciphertexts in sent.values():
            plain, roots = opened(session, ciphertexts)
            plaintexts += plain
            randomness += roots
        plain, roots = opened(session, products)
        assert plain == [0] * terms.blocks
        randomness += roots
    # every silo's ciphertext hides its plaintext and its randomness; the product's is fresh
    for seen in (plaintexts, randomness):
        assert len(set(seen)) == len(seen) > 900
        assert not {0, 1} & set(seen)
        assert uniform_below(seen, n) > UNLIKELY


@for_each("fresh", [True, False])
def test_products_of_randomness_say_nothing_of_the_digits(
    fresh: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the silos' own residues (not `fresh`), the server would read digits there."""
    if not fresh:
        monkeypatch.setattr(Residues, "draw", lambda _self, count, _workers: [1] * count)
    terms = terms_of(dimensions=400)
    session, network = watched(terms, np.ones((3, 3), int))
    digits = np.zeros((3, 400), np.int64)
    digits[:, :200] = 3  # the other blocks are of parameters that nobody moved
    _, noise = silent(terms)
    session.round(1, [(np.arange(3), digits)] * 3, noise)
    public = session._server._private.public
    n = int(public.n)
    products = aggregate(public, list(updates(session, network, 1).values()))
    _, seen = opened(session, products)
    # what the server makes of its own randomness, and a right guess of all that it does not know
    (handed,) = [one for one in network.view("silo-0") if one.kind == said.Inverses.kind]
    raw = said.Inverses.unpack(handed.body).ciphertexts
    count = 3 * terms.pieces
    ciphertexts = public.read(said.separated(raw, count, terms.ciphertext_bytes, SERVER))
    ciphertexts = ciphertexts[:: terms.pieces]
    _, own = opened(session, ciphertexts)
    packed = sum(3 << (terms.packing.width * place) for place in range(terms.packing.slots))
    guess = 1
    for user, rho in enumerate(own):
        exponent = sum(silo._member.exponents[user] for silo in session._silos) * packed
        guess = guess * pow(rho, exponent, n) % n
    assert ((1 in seen), (guess in seen), len(set(seen)) == len(seen)) == (
        not fresh,
        not fresh,
        fresh,
    )


def test_ciphertexts_of_two_rounds_have_nothing_in_common() -> None:
    terms = terms_of(dimensions=20, drawn_by="server")
    session, network = watched(terms, np.ones((3, 3), int))
    rows, noise = silent(terms)
    for number in (1, 2):
        session.round(number, rows, noise, joining=np.array([True, False, True]))
    bodies = [one.body for one in network.view(SERVER) if one.kind == said.Update.kind]
    assert len(set(bodies)) == len(bodies) == 6
    handed = {
        (one.round, one.body) for one in network.view("silo-1") if one.kind == said.Inverses.kind
    }
    parts = [
        part
        for _, body in handed
        for part in said.separated(
            said.Inverses.unpack(body).ciphertexts,
            3 * terms.pieces,
            terms.ciphertext_bytes,
            SERVER,
        )
    ]
    assert len(set(parts)) == 6 * terms.pieces
    ratios = [
        {updates(session, network, number)[silo][0] for number in (1, 2)}
        for silo in ("silo-0", "silo-1", "silo-2")
    ]
    n = int(session._server._private.public.n)
    quotients = {pow(int(min(one)), -1, n**2) * int(max(one)) % n**2 for one in ratios}
    assert len(quotients) == 3  # masks and residues of round 2 are not those of round 1 again


def test_offered_ciphertexts_all_have_randomness_of_their_own() -> None:
    terms = terms_of(dimensions=1, users=5, drawn_by="oblivious-transfer", slots=6, chosen=2)
    session, network = watched(terms, np.ones((5, 3), int))
    made: list[int] = []
    private = session._server._private

    class Watching:
        public = private.public
        decrypt_many = staticmethod(private.decrypt_many)

        @staticmethod
        def encrypt_many(plaintexts: Any, workers: Any) -> Any:
            found = private.encrypt_many(plaintexts, workers)
            made.extend(found)
            return found

    session._server._private = Watching()  # type: ignore[assignment]
    rows, noise = silent(terms)
    stream = Streams.seeded(1).stream("slots")
    for number in (1, 2):
        session.round(number, rows, noise, stream=stream)
    session._server._private = private
    plaintexts, roots = opened(session, made)
    assert len(set(roots)) == len(roots) == 2 * 5 * 6
    real = np.array(plaintexts).reshape(2, 5, 6) != 0
    assert (real.sum(axis=2) == 2).all()
    assert not (real[0] == real[1]).all()
    # and no two silos, users or rounds share a request, an opening or an answer
    requests = [
        said.TransferRequests.unpack(one.body).requests
        for one in network.view(SERVER)
        if one.kind == said.TransferRequests.kind
    ]
    points = [one[at : at + 32] for one in requests for at in range(0, len(one), 32)]
    assert len(set(points)) == len(points) == 2 * 3 * 5


# --- what is decrypted ----------------------------------------------------------------------------


@for_each("present", [True, False])
def test_every_residue_of_what_is_decrypted_is_covered(present: bool, log: Any) -> None:
    own = FineGaussian(0.5, 2.5, common_multiple(10), shares=3, digits=10)
    terms = terms_of(dimensions=1200, key_bits=1024, largest=own.largest, tail=own.tail)
    m = terms.multiple
    assert m == own.multiple
    counts = np.ones((3, 3), int)
    counts[0] = 2 if present else 0
    session, _ = watched(terms, counts)
    digits = np.tile([1, 0, -2], (3, 400))
    users = list(range(3) if present else range(1, 3))
    about = RoundDescription(1, "test", event_override=ev.NoGuarantee("a test"))
    ticket = Gate(None, log(), Streams.seeded(7)).open(own.intent(about, "add-remove"))
    noise = [partial(own.share, ticket, 1200, f"noise/{silo}") for silo in range(3)]
    total = session.round(1, [(users, digits[users])] * 3, noise)
    for modulus in (2, 3, 5, 7, 8, 9):
        assert m % modulus == 0
        bins = np.bincount([one % modulus for one in total], minlength=modulus)
        assert stats.chisquare(bins).pvalue > UNLIKELY
    assert uniform_below([one % m for one in total], m) > UNLIKELY


def test_noise_in_multiples_would_leave_them_bare() -> None:
    terms = terms_of(dimensions=60)
    m = terms.multiple
    found = []
    for present in (True, False):
        counts = np.ones((3, 3), int)
        counts[0] = 2 if present else 0
        session, _ = watched(terms, counts)
        own = list(range(3) if present else range(1, 3))
        rows = [(own, np.tile([1, 0, -2], (len(own), 20)))] * 3
        rng = np.random.default_rng(7)
        noise = [[m * round(one) for one in rng.normal(0, 5, 60)] for _ in range(3)]
        found.append({one % m for one in session.round(1, rows, noise)[::3]})
    assert len(found[0]) == len(found[1]) == 1
    assert found[0] != found[1]


# --- all messages ---------------------------------------------------------------------------------

ALLOWED = {
    *(said.SiloKey.kind, said.LockedSeeds.kind, said.Histogram.kind),
    *(said.TransferRequests.kind, said.Update.kind),
}


def secrets_of(session: PrivateWeighting) -> list[bytes]:
    """Return everything that no message may hold, as bytes in both orders."""
    terms, server = session.terms, session._server
    members = [silo._member for silo in session._silos]
    n = int(server._private.public.n)
    factors = blinding_factors(members[0].seed, terms.users, n, members[0].session)
    whole = [int(server._private._p), int(server._private._q), *server._inverses, *factors]
    for member in members:
        whole += [one for one in member.exponents if one]
        whole += [
            factor * int(share)
            for factor, share in zip(factors, member.shares, strict=True)
            if share
        ]
    found = [bytes(member.seed) for member in members]
    for member in members:
        for pair in member.keys.values():
            found += [bytes(pair.seed), bytes(pair.histogram), bytes(pair.ciphertexts)]
    for one in whole:
        size = -(-one.bit_length() // 8)
        found += [one.to_bytes(size, order) for order in ("big", "little")]
    return found


@for_each("drawn_by", ["nobody", "server", "oblivious-transfer"])
def test_no_message_holds_a_secret(drawn_by: str) -> None:
    more = {"slots": 3, "chosen": 1} if drawn_by == "oblivious-transfer" else {}
    terms = terms_of(dimensions=8, drawn_by=drawn_by, **more)
    session, network = watched(terms, [[1, 2, 3], [0, 3, 1], [0, 0, 0]])
    digits = np.full((1, 8), 100)
    rows = [([0], digits), ([0], digits), ([1], digits)]
    noise = [[2**59 + 12345 + silo] * 8 for silo in range(3)]
    extra: dict[str, Any] = {
        "nobody": {},
        "server": {"joining": np.array([True, False, False])},
        "oblivious-transfer": {"stream": Streams.seeded(2).stream("slots")},
    }[drawn_by]
    for number in (1, 2):
        session.round(number, rows, noise, **extra)
    everything = [one for name in names(terms) for one in network.view(name)]
    assert len(everything) > 20
    hidden = secrets_of(session)
    hidden += [(2**59 + 12345 + silo).to_bytes(8, "big") for silo in range(3)]
    assert all(len(one) >= 8 for one in hidden)
    for message in everything:
        assert not any(one in message.body for one in hidden), message
    assert {one.kind for one in network.view(SERVER)} <= ALLOWED
    assert all(one.receiver == SERVER for name in names(terms)[1:] for one in network.said(name))


def test_sizes_of_messages_depend_on_the_terms_alone() -> None:
    terms = terms_of(dimensions=8)
    sizes = []
    for counts, own in (
        (np.zeros((3, 3), int), []),
        (np.full((3, 3), 3), [0, 1, 2]),
    ):
        session, network = watched(terms, counts)
        rows = [(own, np.full((len(own), 8), 50))] * 3
        session.round(1, rows, [[2**40] * 8] * 3)
        sizes.append(
            [(one.kind, one.sender, one.receiver, one.size) for one in network._transcript]
        )
    assert sizes[0] == sizes[1]


def test_nothing_shows_itself() -> None:
    terms = terms_of(dimensions=2)
    session, network = watched(terms, np.ones((3, 3), int))
    for one in (session, session._server, *session._silos, session._silos[0]._member):
        assert not re.search(r"\d{4,}|0x", repr(one))
        with pytest.raises(TypeError):
            pickle.dumps(one)
    assert all(isinstance(one, Message) for one in network.view(SERVER))
