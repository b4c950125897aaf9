"""Attacks on seeds: weak seeds, and secrets in what was sent."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
import pytest

pytest.importorskip("phe")
pytest.importorskip("cryptography")

from privplan.audit.attack_methods import transcripts as attacks
from privplan.audit.attack_methods.transcripts import Finding
from privplan.fl.parties.network import SERVER, Message
from privplan.fl.uldp.weighting import published_parties as parties
from privplan.fl.uldp.weighting.published import PublishedWeighting

from ..cases import for_each
from .published_protocol import LIMIT, STEP, counts, drawn, run_published, sent

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
        assert finding.detected
        assert finding.recovered <= 32


def test_good_seeds_show_no_sign() -> None:
    rng = np.random.default_rng(2)
    for count in (1, 2, 3, 50):
        assert not attacks.weak_seeds({str(n): rng.bytes(32) for n in range(count)}).detected
        assert not attacks.weak_seeds({str(n): rng.bytes(16) for n in range(count)}).detected
    assert attacks.weak_seeds({str(n): rng.bytes(16) for n in range(3)}, bits=256).detected


def test_a_seed_that_two_parties_have_is_seen() -> None:
    rng = np.random.default_rng(2)
    seeds = {str(n): rng.bytes(32) for n in range(5)} | {"5": b"x" * 32, "6": b"x" * 32}
    assert attacks.weak_seeds(seeds).detected


def test_the_published_seed_gives_the_counts_away() -> None:
    session = PublishedWeighting(counts(), count_limit=LIMIT, step=STEP, seed_bits=10)
    finding = attacks.published_seed(
        session.views[SERVER], session.modulus, count_limit=LIMIT, seed_bits=10, budget=2**10
    )
    assert finding.detected
    assert finding.recovered["counts"] == counts()[:, 0].tolist()
    assert str(finding.recovered["seed"]) not in finding.what


def test_a_search_that_stops_early_says_what_is_left() -> None:
    finding = attacks.search_seed(lambda seed: seed == 10**6, 32, budget=1000)
    assert not finding.detected
    assert "32 bits would take" in finding.what
    assert attacks.search_seed(lambda seed: seed == 999, 32, budget=1000).recovered == 999


SECRET = bytes(range(100, 116))
COUNTS = [3, 14, 1, 5, 9, 2, 6, 5]


@for_each(
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
    assert finding.detected
    assert finding.places == ("key in message 0 (note from a)",)
    assert SECRET.hex() not in repr(finding)


@for_each(
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
    assert attacks.secrets_in(message, {"counts": COUNTS}).detected


def test_large_numbers_are_found_in_decimal_and_in_bytes() -> None:
    number = 2**100 + 12345
    for message in (sent(text=f"r={number}"), sent(raw=number.to_bytes(40, "little"))):
        assert attacks.secrets_in(message, {"r": number}).detected


def test_what_is_not_there_is_not_found() -> None:
    rng = np.random.default_rng(1)
    message = sent("text", rng.bytes(200_000), (3, 14, 1, 5, 9, 2))
    finding = attacks.secrets_in(message, {"key": SECRET, "counts": COUNTS, "r": 2**90})
    assert not finding.detected
    assert finding.p_value == 1.0


def test_what_is_too_short_to_be_looked_for_is_said_so() -> None:
    finding = attacks.secrets_in(sent("", b"abc"), {"count": 3})
    assert not finding.detected
    assert "1 secrets are too short" in finding.what


def test_a_log_is_searched_like_messages() -> None:
    log = {"line 1": b'{"kind": "open"}', "line 2": json.dumps({"k": SECRET.hex()}).encode()}
    assert attacks.secrets_in(log, {"key": SECRET}).places == ("key in line 2",)


def test_the_published_server_cannot_read_what_it_must_not() -> None:
    """It is the derived attacks that break the published form, not secrets in the clear."""
    session = run_published(drawn(1, 3, 4, 3), drawn(2, 3, 3))
    secrets: dict[str, Any] = {f"counts {s}": counts()[:, s].tolist() for s in range(3)}
    secrets |= {f"key {s}": session._silos[0].shared[s] for s in (1, 2)}
    assert not attacks.secrets_in(session.views[SERVER], secrets).detected
    high = {s: key[:28] for s, key in session._silos[0].shared.items()}
    found = attacks.secrets_in(session.views[SERVER], {f"{s}": one for s, one in high.items()})
    assert found.detected  # 224 bits of each key, beside a seed of 32


def test_findings_keep_what_they_recovered_to_themselves() -> None:
    finding = Finding("x", True, 0.0, 1e-6, "what", recovered=SECRET)
    assert "recovered" not in repr(finding)
