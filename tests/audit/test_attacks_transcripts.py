"""Attacks on transcripts: each finds the leak that there is, and nothing where there is none."""

from __future__ import annotations

import base64
import json
import math
import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("phe")
pytest.importorskip("cryptography")

from privplan.accountant.errors import InvalidInput
from privplan.accountant.randomness import Streams
from privplan.audit.attacks import transcripts as attacks
from privplan.audit.attacks.transcripts import Finding
from privplan.fl.crypto.paillier import blinding
from privplan.fl.parties.network import SERVER, Body, Message, Network
from privplan.fl.uldp.weighting import published, published_messages
from privplan.fl.uldp.weighting import published_parties as parties
from privplan.fl.uldp.weighting.protocol import PrivateWeighting, names
from privplan.fl.uldp.weighting.published import PublishedWeighting
from privplan.fl.uldp.weighting.terms import WeightingTerms

STEP = 2.0**-10
LIMIT = 12
MULTIPLE = math.lcm(*range(1, LIMIT + 1))


@pytest.fixture(scope="module")
def key() -> tuple[int, int]:
    """A Paillier key of 512 bits, as (p, q)."""
    from phe import paillier

    _, private = paillier.generate_paillier_keypair(n_length=512)
    return int(private.p), int(private.q)


def counts() -> np.ndarray[Any, Any]:
    return np.array([[3, 1, 2], [0, 7, 4], [2, 2, 1], [5, 0, 0]])


def run_published(
    deltas: np.ndarray[Any, Any], noise: np.ndarray[Any, Any], **changed: Any
) -> PublishedWeighting:
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP, **changed)
    session.round(1, deltas, noise)
    return session


def updates(session: PublishedWeighting, number: int = 1) -> dict[str, list[int]]:
    view = session.views[SERVER]
    width = len(published_messages.wide(0, session.modulus**2))
    return attacks.residues(view, "published-updates", width, round=number)


def invited(session: PublishedWeighting, number: int = 1) -> list[int]:
    width = len(published_messages.wide(0, session.modulus**2))
    kind = published_messages.Inverses.kind
    return attacks.residues(session.views["silo-0"], kind, width, round=number)[SERVER]


def drawn(seed: int, *shape: int, scale: float = 0.2) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0.0, scale, shape)


# --- the published protocol itself ----------------------------------------------------------------


def test_the_published_protocol_adds_up_and_promises_nothing() -> None:
    deltas, noise = drawn(1, 3, 4, 5), drawn(2, 3, 5, scale=3.0)
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP)
    result = session.round(1, deltas, noise)
    weights = counts() / counts().sum(axis=1, keepdims=True)
    true = np.einsum("us,sud->d", weights, deltas) + noise.sum(axis=0)
    assert np.abs(result.values - true).max() <= (4 * 1.0 + 3) * STEP / 2
    assert result.guarantee == session.guarantee == "no-guarantee"
    assert "no guarantee" in (published.__doc__ or "")


def test_users_who_do_not_join_do_not_count() -> None:
    deltas, noise = drawn(1, 3, 4, 2), np.zeros((3, 2))
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP)
    result = session.round(1, deltas, noise, joining=[False, True, True, False])
    weights = counts() / counts().sum(axis=1, keepdims=True)
    true = np.einsum("us,sud->d", weights[1:3], deltas[:, 1:3])
    assert np.abs(result.values - true).max() <= 2 * STEP


@pytest.mark.parametrize(
    "table", [[[0, 0], [1, 1]], [[13, 0], [1, 1]], [[-1, 2], [1, 1]], [[1, 1]]]
)
def test_the_published_protocol_refuses_counts_that_break_it(table: list[list[int]]) -> None:
    if table == [[1, 1]]:
        table = [[1], [1]]
    with pytest.raises(InvalidInput):
        PublishedWeighting(table, count_limit=LIMIT)


def test_the_published_protocol_refuses_sums_beyond_the_key() -> None:
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=1e-120)
    with pytest.raises(InvalidInput, match="key"):
        session.round(1, np.full((3, 4, 1), 1e50), np.zeros((3, 1)))


# --- (a) products of randomness -------------------------------------------------------------------


def test_randomness_is_the_ciphertext_modulo_n(key: tuple[int, int]) -> None:
    """R = c (1+n)^(-Dec c), which needs the key, is c modulo n, which needs none."""
    n = math.prod(key)
    for number in (0, 1, n - 1, 12345):
        rho = 987654321 + number
        ciphertext = (1 + n * number) * pow(rho, n, n * n) % (n * n)
        assert attacks.plaintext(ciphertext, key) == number
        shown = attacks.randomness(ciphertext, key)
        assert shown == pow(rho, n, n * n)
        assert shown % n == ciphertext % n


def test_the_published_form_shows_which_parameters_nobody_moved() -> None:
    deltas = drawn(1, 3, 4, 6)
    deltas[0, :, 2] = 0.0  # in one silo
    deltas[:, :, 4] = 0.0  # in all
    finding = attacks.shown_randomness(
        updates(session := run_published(deltas, drawn(2, 3, 6, scale=5.0))), session.modulus
    )
    assert finding.found
    assert finding.p_value < 1e-100
    assert set(finding.places) == {
        "silo-0[2]",
        *(f"silo-{s}[4]" for s in range(3)),
        "all together[4]",
    }


def test_the_published_form_shows_equal_and_opposite_and_double_parameters() -> None:
    deltas = np.round(drawn(1, 3, 4, 5) / STEP) * STEP
    deltas[1, :, 1] = deltas[1, :, 0]
    deltas[1, :, 3] = -deltas[1, :, 0]
    deltas[2, :, 4] = 2 * deltas[2, :, 0]
    session = run_published(deltas, drawn(2, 3, 5, scale=5.0))
    finding = attacks.shown_randomness(updates(session), session.modulus, invited=invited(session))
    assert finding.found
    related = finding.recovered["related"]
    assert (("silo-1", 0), ("silo-1", 1)) in related
    assert (("silo-1", 0), ("silo-1", 3)) in related
    assert (("silo-2", 0), ("silo-2", 4)) in related
    assert not any(a[0] == "silo-0" or b[0] == "silo-0" for a, b in related)


def masked_sums(
    key: tuple[int, int],
    digits: np.ndarray[Any, Any],
    noise: np.ndarray[Any, Any],
    seed: int,
    *,
    masked: bool = True,
    own: bool = True,
) -> dict[str, list[int]]:
    """Sum as it should be done: ciphertext masks, own randomness, noise on the integers' grid."""
    rng = np.random.default_rng(seed)
    n = math.prod(key)
    square = n * n

    def unit() -> int:
        return int.from_bytes(rng.bytes(160), "big") % square

    silos, parameters = noise.shape
    table = [[1] * parameters for _ in range(silos)]
    base = pow(unit(), n, square)
    for silo in range(silos):
        for j in range(parameters):
            total = pow(base, abs(int(digits[silo, j])), square)
            total = total * (1 + n * (int(digits[silo, j] + noise[silo, j]) % n)) % square
            if own:
                total = total * pow(unit(), n, square) % square
            table[silo][j] = total
    if masked:
        for one in range(silos):
            for other in range(one):
                for j in range(parameters):
                    mask = unit()
                    table[one][j] = table[one][j] * mask % square
                    table[other][j] = table[other][j] * pow(mask, -1, square) % square
    return {f"silo-{silo}": row for silo, row in enumerate(table)}


@pytest.mark.parametrize(("masked", "own"), [(True, True), (False, True)])
def test_fresh_randomness_shows_nothing(key: tuple[int, int], masked: bool, own: bool) -> None:
    digits = np.arange(12).reshape(3, 4) * (np.arange(4) > 1)
    digits[:, 3] = digits[:, 2]
    sent = masked_sums(key, digits, np.full((3, 4), 1000), 1, masked=masked, own=own)
    finding = attacks.shown_randomness(sent, math.prod(key))
    assert not finding.found
    assert finding.places == ()
    assert attacks.decrypted_sums(sent, key) == (digits.sum(axis=0) + 3000).tolist()


def test_masks_between_silos_alone_leave_the_sum_open(key: tuple[int, int]) -> None:
    digits = np.zeros((3, 2), dtype=int)
    digits[0, 1] = 7
    sent = masked_sums(key, digits, np.ones((3, 2), dtype=int), 2, own=False)
    finding = attacks.shown_randomness(sent, math.prod(key))
    assert finding.places == ("all together[0]",)


# --- (b) the residue without noise ----------------------------------------------------------------


def published_values(deltas: np.ndarray[Any, Any], seed: int, draws: int) -> list[list[int]]:
    found = []
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP)
    for number in range(1, draws + 1):
        noise = np.random.default_rng([seed, number]).normal(0.0, 5.0, (3, deltas.shape[2]))
        session.round(number, deltas, noise)
        found.append(attacks.decrypted_sums(updates(session, number), session.primes))
    return found


def test_the_published_noise_leaves_a_residue_that_shows_the_user() -> None:
    deltas = drawn(1, 3, 4, 3)
    without = deltas.copy()
    without[:, 1] = 0.0  # this user's 11 records: V moves by multiples of C / 11
    ours, theirs = published_values(deltas, 1, 4), published_values(without, 2, 4)
    finding = attacks.noise_free_residue(ours, MULTIPLE, without=theirs)
    assert finding.found
    assert "without the target" in finding.what
    assert finding.recovered["residues"] == [value % MULTIPLE for value in ours[3]]
    assert finding.recovered["differs"]


def test_the_published_residue_is_the_same_under_all_noise() -> None:
    finding = attacks.noise_free_residue(published_values(drawn(3, 3, 4, 2), 1, 3), MULTIPLE)
    assert finding.found
    assert "same under all noise" in finding.what


def test_one_published_round_has_a_factor_that_no_noise_touches() -> None:
    """V is a sum of multiples of C / N_u: for N_u of 6, 11, 5 and 5, always a multiple of 84."""
    values = published_values(drawn(3, 3, 4, 40), 1, 1)
    finding = attacks.noise_free_residue(values, MULTIPLE)
    assert finding.found
    assert "factor" in finding.what


def fine_values(sums: list[int], seed: int, draws: int, std: float) -> list[list[int]]:
    rng = np.random.default_rng(seed)
    noise = np.rint(rng.normal(0.0, std, (draws, len(sums)))).astype(np.int64)
    return [[one + int(z) for one, z in zip(sums, row, strict=True)] for row in noise]


def test_noise_on_every_residue_leaves_nothing() -> None:
    with_user = [MULTIPLE * 3 // 11 + 5, 0, 17, MULTIPLE // 2]
    without = [5, 0, 17, 0]
    std = 20.0 * MULTIPLE
    finding = attacks.noise_free_residue(
        fine_values(with_user, 1, 1000, std), MULTIPLE, without=fine_values(without, 2, 1000, std)
    )
    assert not finding.found
    assert finding.p_value > 1e-3


def test_noise_that_covers_only_part_of_the_residues_is_seen() -> None:
    values = fine_values([0, 11, 5], 1, 1000, 0.1 * MULTIPLE)
    finding = attacks.noise_free_residue(values, MULTIPLE)
    assert finding.found
    assert "not uniform" in finding.what


def test_noise_on_even_residues_is_seen() -> None:
    rng = np.random.default_rng(1)
    values = (2 * np.rint(rng.normal(0.0, 9.0 * MULTIPLE, (40, 5)))).astype(np.int64) + 1
    assert attacks.noise_free_residue(values.tolist(), MULTIPLE).found


def test_residues_of_unequal_rows_are_refused() -> None:
    with pytest.raises(InvalidInput):
        attacks.noise_free_residue([[1, 2], [1]], 60)


@pytest.mark.slow
def test_false_alarms_of_the_residue_attack() -> None:
    """1,000 sound runs at a level of 1%: at most 1% alarms, plus 4 standard deviations."""
    rng = np.random.default_rng(0)
    alarms = sum(
        attacks.noise_free_residue(
            rng.integers(0, 2520, (8, 40)).tolist(),
            2520,
            without=rng.integers(0, 2520, (8, 40)).tolist(),
            false_alarm=0.01,
        ).found
        for _ in range(1000)
    )
    assert alarms <= 10 + 4 * 10**0.5


# --- (c) masks that come twice --------------------------------------------------------------------


def ring(seed: int, size: int, bits: int = 64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 2**bits, size, dtype=np.uint64)


def update(seed: int, size: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.rint(rng.normal(0, 2.0**20, size)).astype(np.int64).astype(np.uint64)


@pytest.mark.parametrize("size", [4, 1000])
def test_a_mask_that_comes_again_in_the_next_round_is_seen(size: int) -> None:
    vectors = {
        "silo-0, round 1": ring(1, size) + update(2, size),
        "silo-0, round 2": ring(1, size) + update(3, size),
        "silo-1, round 1": ring(4, size) + update(5, size),
    }
    finding = attacks.reused_masks(vectors, 2**64)
    assert finding.found
    assert finding.places == ("silo-0, round 1 and silo-0, round 2",)


def test_fresh_masks_look_fresh() -> None:
    vectors = {f"{n}": ring(n, 500) + update(n + 50, 500) for n in range(8)}
    finding = attacks.reused_masks(vectors, 2**64)
    assert not finding.found
    assert finding.p_value > 1e-3


def test_masks_of_32_bits() -> None:
    fresh = {f"{n}": (ring(n, 500, 32) + update(n, 500) % 2**32) % 2**32 for n in range(4)}
    assert not attacks.reused_masks(fresh, 2**32).found
    again = fresh | {"again": (fresh["0"] + update(9, 500)) % 2**32}
    assert attacks.reused_masks(again, 2**32).places == ("0 and again",)


def test_masks_modulo_n() -> None:
    n = 10**60 + 7
    rng = np.random.default_rng(1)
    masks = [[int.from_bytes(rng.bytes(40), "big") % n for _ in range(6)] for _ in range(3)]
    fresh = {f"{index}": mask for index, mask in enumerate(masks)}
    assert not attacks.reused_masks(fresh, n).found
    again = fresh | {"again": [(one + 123456) % n for one in masks[0]]}
    assert attacks.reused_masks(again, n).places == ("0 and again",)


def test_a_mask_shared_by_tensors_is_seen() -> None:
    mask = ring(1, 300)
    one = np.concatenate([mask[:200], mask[:300]]) + update(2, 500)
    blocks = {"weights": (0, 200), "bias": (200, 500)}
    named = attacks.reused_masks({"silo-0": one}, 2**64, blocks=blocks)
    assert named.places == ("silo-0/weights and silo-0/bias",)
    unnamed = attacks.reused_masks({"silo-0": one}, 2**64)
    assert unnamed.places == ("silo-0, with itself",)
    assert not attacks.reused_masks({"silo-0": ring(3, 500)}, 2**64, blocks=blocks).found
    assert not attacks.reused_masks({"silo-0": ring(3, 500)}, 2**64).found


def test_a_key_that_hid_two_seeds_is_seen() -> None:
    rng = np.random.default_rng(1)
    own, other = rng.bytes(32), rng.bytes(32)
    hidden = {
        "round 1": parties.hide_seed(12345, own),
        "round 2": parties.hide_seed(98765, own),
        "another key": parties.hide_seed(12345, other),
    }
    assert attacks.reused_keystream(hidden).places == ("round 1 and round 2",)
    random = {str(n): rng.bytes(32) for n in range(12)}
    assert not attacks.reused_keystream(random).found


def test_a_nonce_that_comes_again_is_seen() -> None:
    rng = np.random.default_rng(1)
    locked = {str(n): rng.bytes(12) + rng.bytes(48) for n in range(5)}
    assert not attacks.reused_keystream(locked).found
    locked["again"] = locked["2"][:12] + rng.bytes(48)
    assert attacks.reused_keystream(locked).places == ("2 and again",)


# --- (d) weak seeds -------------------------------------------------------------------------------


def test_seeds_of_32_bits_are_recognised_where_they_travel() -> None:
    rng = np.random.default_rng(1)
    own = rng.bytes(32)
    seeds = [int(one) for one in rng.integers(0, 2**32, 4)]
    hidden = {str(n): parties.hide_seed(seed, own) for n, seed in enumerate(seeds)}
    for named in (
        hidden,
        {str(n): seed.to_bytes(32, "big") for n, seed in enumerate(seeds)},
        {str(n): seed.to_bytes(32, "little") for n, seed in enumerate(seeds)},
        {str(n): seed.to_bytes(4, "big") for n, seed in enumerate(seeds)},
    ):
        finding = attacks.weak_seeds(named)
        assert finding.found
        assert finding.recovered <= 32


def test_good_seeds_show_no_sign() -> None:
    rng = np.random.default_rng(2)
    for count in (1, 2, 3, 50):
        assert not attacks.weak_seeds({str(n): rng.bytes(32) for n in range(count)}).found
        assert not attacks.weak_seeds({str(n): rng.bytes(16) for n in range(count)}).found
    assert attacks.weak_seeds({str(n): rng.bytes(16) for n in range(3)}, bits=256).found


def test_a_seed_that_two_parties_have_is_seen() -> None:
    rng = np.random.default_rng(2)
    seeds = {str(n): rng.bytes(32) for n in range(5)} | {"5": b"x" * 32, "6": b"x" * 32}
    assert attacks.weak_seeds(seeds).found


def test_the_published_seed_gives_the_counts_away() -> None:
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP, seed_bits=10)
    finding = attacks.published_seed(
        session.views[SERVER], session.modulus, count_limit=LIMIT, seed_bits=10, budget=2**10
    )
    assert finding.found
    assert finding.recovered["counts"] == counts()[:, 0].tolist()
    assert str(finding.recovered["seed"]) not in finding.what


def test_a_search_that_stops_early_says_what_is_left() -> None:
    finding = attacks.search_seed(lambda seed: seed == 10**6, 32, budget=1000)
    assert not finding.found
    assert "32 bits would take" in finding.what
    assert attacks.search_seed(lambda seed: seed == 999, 32, budget=1000).recovered == 999


# --- (e) values without a mask --------------------------------------------------------------------


@pytest.mark.parametrize("size", [5, 200, 20_000])
def test_plain_updates_are_not_uniform(size: int) -> None:
    vectors = {"silo-0": ring(1, size), "silo-1": update(2, size)}
    finding = attacks.unmasked(vectors, 2**64)
    assert finding.found
    assert "silo-1" in finding.places
    assert "silo-0" not in finding.places


def test_masked_updates_are_uniform() -> None:
    vectors = {f"{n}": ring(n, 20_000) + update(n, 20_000) for n in range(5)}
    finding = attacks.unmasked(vectors, 2**64)
    assert not finding.found
    assert finding.p_value > 1e-3


@pytest.mark.parametrize(
    "weak",
    [
        lambda values: values >> np.uint64(1),  # one bit short
        lambda values: values << np.uint64(1),  # only even values
        lambda values: values & np.uint64(2**64 - 1 - 2**60),
    ],
)
def test_a_mask_that_is_not_uniform_is_seen(weak: Any) -> None:
    assert attacks.unmasked({"silo-0": weak(ring(1, 5000))}, 2**64).found


def test_float_shares_are_not_uniform() -> None:
    values = drawn(1, 5000, scale=1.0)
    assert attacks.unmasked({"peer": values.view(np.uint64)}, 2**64).found


def test_residues_modulo_n(key: tuple[int, int]) -> None:
    n = math.prod(key)
    rng = np.random.default_rng(5)
    uniform = [int.from_bytes(rng.bytes(100), "big") % n for _ in range(400)]
    assert not attacks.unmasked({"masked": uniform}, n).found
    assert attacks.unmasked({"plain": [one % 2**400 for one in uniform]}, n).found


@pytest.mark.slow
def test_false_alarms_of_the_uniformity_test() -> None:
    """4,000 sound views at a level of 1%: at most 1% alarms, plus 4 standard deviations."""
    rng = np.random.default_rng(0)
    alarms = sum(
        attacks.unmasked(
            {"a": rng.integers(0, 2**64, size, dtype=np.uint64)}, 2**64, false_alarm=0.01
        ).found
        for size in (40, 100, 700, 6000)
        for _ in range(1000)
    )
    assert alarms <= 40 + 4 * 40**0.5


# --- (f) secrets in what was sent -----------------------------------------------------------------


@dataclass(frozen=True)
class Note(Body):
    kind: ClassVar[str] = "note"
    text: str
    raw: bytes
    numbers: tuple[int, ...]


def sent(text: str = "", raw: bytes = b"", numbers: tuple[int, ...] = ()) -> tuple[Message, ...]:
    network = Network(["a", "b"], keep=True)
    post = network.post("a")
    post.enter(b"session", 1, {})
    post.send("b", Note(text, raw, numbers))
    return network.view("b")


SECRET = bytes(range(100, 116))
COUNTS = [3, 14, 1, 5, 9, 2, 6, 5]


@pytest.mark.parametrize(
    "message",
    [
        sent(raw=b"before" + SECRET + b"after"),
        sent(raw=SECRET[::-1]),
        sent(text=SECRET.hex()),
        sent(text=SECRET.hex().upper()),
        *(sent(text=base64.b64encode(b"x" * n + SECRET + b"tail").decode()) for n in range(4)),
        sent(text=base64.urlsafe_b64encode(b"\xff" + SECRET).decode()),
    ],
)
def test_a_key_is_found_in_any_encoding(message: tuple[Message, ...]) -> None:
    finding = attacks.secrets_in(message, {"key": SECRET})
    assert finding.found
    assert finding.places == ("key in message 0 (note from a)",)
    assert SECRET.hex() not in repr(finding)


@pytest.mark.parametrize(
    "message",
    [
        sent(numbers=(7, *COUNTS, 1)),
        sent(text="1,7," + ",".join(map(str, COUNTS))),
        sent(text=json.dumps(COUNTS)),
        sent(raw=bytes(COUNTS)),
        sent(raw=struct.pack("<8q", *COUNTS)),
        sent(raw=struct.pack(">8i", *COUNTS)),
        sent(raw=np.array(COUNTS, np.float32).tobytes()),
    ],
)
def test_counts_are_found_in_any_encoding(message: tuple[Message, ...]) -> None:
    assert attacks.secrets_in(message, {"counts": COUNTS}).found


def test_large_numbers_are_found_in_decimal_and_in_bytes() -> None:
    number = 2**100 + 12345
    for message in (sent(text=f"r={number}"), sent(raw=number.to_bytes(40, "little"))):
        assert attacks.secrets_in(message, {"r": number}).found


def test_what_is_not_there_is_not_found() -> None:
    rng = np.random.default_rng(1)
    message = sent("text", rng.bytes(200_000), (3, 14, 1, 5, 9, 2))
    finding = attacks.secrets_in(message, {"key": SECRET, "counts": COUNTS, "r": 2**90})
    assert not finding.found
    assert finding.p_value == 1.0


def test_what_is_too_short_to_be_looked_for_is_said_so() -> None:
    finding = attacks.secrets_in(sent("", b"abc"), {"count": 3})
    assert not finding.found
    assert "1 secrets are too short" in finding.what


def test_a_log_is_searched_like_messages() -> None:
    log = {"line 1": b'{"kind": "open"}', "line 2": json.dumps({"k": SECRET.hex()}).encode()}
    assert attacks.secrets_in(log, {"key": SECRET}).places == ("key in line 2",)


def test_the_published_server_cannot_read_what_it_must_not() -> None:
    """It is the derived attacks that break the published form, not secrets in the clear."""
    session = run_published(drawn(1, 3, 4, 3), drawn(2, 3, 3))
    secrets: dict[str, Any] = {f"counts {s}": counts()[:, s].tolist() for s in range(3)}
    secrets |= {f"key {s}": session._silos[0].shared[s] for s in (1, 2)}
    assert not attacks.secrets_in(session.views[SERVER], secrets).found
    high = {s: key[:28] for s, key in session._silos[0].shared.items()}
    found = attacks.secrets_in(session.views[SERVER], {f"{s}": one for s, one in high.items()})
    assert found.found  # 224 bits of each key, beside a seed of 32


def test_findings_keep_what_they_recovered_to_themselves() -> None:
    finding = Finding("x", True, 0.0, 1e-6, "what", recovered=SECRET)
    assert "recovered" not in repr(finding)


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


@pytest.fixture(scope="module")
def sound() -> Sound:
    return Sound(30)


def test_the_sound_protocol_shows_no_randomness(sound: Sound) -> None:
    view, width = sound.network.view("silo-0"), sound.terms.ciphertext_bytes
    handed_out = attacks.residues(view, "weighting.inverses", width)[SERVER]
    for number in (1, 2, 30):
        finding = attacks.shown_randomness(sound.updates(number), sound.modulus, invited=handed_out)
        assert not finding.found
    every = {f"{n} {s}": own for n in range(1, 31) for s, own in sound.updates(n).items()}
    assert not attacks.shown_randomness(every, sound.modulus).found


@pytest.mark.parametrize("masked", [True, False])
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
    without = Sound(30, leave_out=TARGET)
    finding = attacks.noise_free_residue(sound.values, sound.terms.multiple, without=without.values)
    assert not finding.found
    assert finding.p_value > 1e-3


def test_noise_on_multiples_in_the_sound_protocol_is_seen() -> None:
    """The control: the same protocol with the published noise."""
    ours, without = Sound(3, coarse=True), Sound(3, coarse=True, leave_out=TARGET)
    finding = attacks.noise_free_residue(ours.values, ours.terms.multiple, without=without.values)
    assert finding.found
    assert finding.recovered["differs"]


def test_the_server_of_the_sound_protocol_receives_uniform_values(sound: Sound) -> None:
    n = sound.modulus
    sent = {f"{r} {s}": own for r in range(1, 31) for s, own in sound.updates(r).items()}
    assert not attacks.unmasked(sent, n * n).found
    opened = {
        label: [attacks.plaintext(one, sound.primes) for one in own] for label, own in sent.items()
    }
    assert not attacks.unmasked(opened, n).found  # every silo's, by the server's own key
    assert not attacks.reused_masks(opened, n).found
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
    assert not attacks.unmasked(columns, n).found
    assert not attacks.reused_masks(columns, n).found


def test_without_masks_the_servers_key_opens_every_silo(key: tuple[int, int]) -> None:
    """The control for the test above: own randomness alone hides no plaintext."""
    sent = masked_sums(key, np.ones((3, 6), int), np.full((3, 6), 50), 3, masked=False)
    opened = {s: [attacks.plaintext(one, key) for one in own] for s, own in sent.items()}
    assert attacks.unmasked(opened, math.prod(key)).found


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


@pytest.mark.parametrize("party", [SERVER, "silo-0", "silo-1", "silo-2"])
def test_no_secret_stands_in_a_message(sound: Sound, party: str) -> None:
    finding = attacks.secrets_in(sound.network.view(party), sound.secrets())
    assert not finding.found
    assert len(sound.secrets()) > 15
    assert "too short" not in finding.what


def test_the_search_for_secrets_would_find_them(sound: Sound) -> None:
    """The control: each secret is found in a message that holds it."""
    for name, secret in sound.secrets().items():
        held = bytes(secret) if isinstance(secret, bytes | list) else secret.to_bytes(64, "big")
        assert attacks.secrets_in(sent(raw=held), {name: secret}).found


def test_locked_seeds_of_many_sessions_look_random() -> None:
    locked: dict[str, bytes] = {}
    for session in range(4):
        view = Sound(0).network.view(SERVER)
        body = next(one for one in view if one.kind == "weighting.locked-seeds")
        parts = [one for one in attacks.values(body) if isinstance(one, bytes)]
        locked |= {f"{session} {n}": part for n, part in enumerate(parts)}
    assert len(locked) == 8
    assert not attacks.reused_keystream(locked).found
    assert not attacks.weak_seeds(locked).found


def test_an_oblivious_transfer_shows_neither_side_the_sample() -> None:
    """The server has no list of slots, and the silos' ciphertexts of 0 look like any other."""
    session = Sound(4, drawn_by="oblivious-transfer", slots=6, chosen=2)
    view = session.network.view(SERVER)
    requests = [
        part[at : at + 32]
        for message in view
        if message.kind == "weighting.transfer-requests"
        for part in attacks.values(message)
        if isinstance(part, bytes)
        for at in range(0, len(part), 32)
    ]
    assert len(set(requests)) == len(requests) == 4 * SILOS * USERS
    hidden = {str(n): one for n, one in enumerate(requests)}
    assert not attacks.reused_keystream(hidden).found
    assert not attacks.weak_seeds(hidden).found
    for number in range(1, 5):
        assert not attacks.shown_randomness(session.updates(number), session.modulus).found
    assert not attacks.secrets_in(view, session.secrets()).found


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
    assert not attacks.unmasked(found, 2**64).found
    assert not attacks.secrets_in(view, {"vector": own.tobytes()}).found
    in_clear = Message(bytes(16), 1, "secagg-masked", "silo-0", SERVER, own.tobytes())
    assert attacks.secrets_in([in_clear], {"vector": own.tobytes()}).found


def test_a_name_that_stands_twice_hides_nothing() -> None:
    twice = b"\x91\x82\xa1a\xc4\x20" + bytes(range(32)) + b"\xa1a\xc4\x01\x00"
    message = Message(bytes(16), 1, "any", "silo-0", SERVER, twice)
    assert attacks.secrets_in([message], {"key": bytes(range(32))}).found
