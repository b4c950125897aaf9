"""The published Protocol 1 and its transcripts, for tests of the attacks on messages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

pytest.importorskip("phe")
pytest.importorskip("cryptography")

from privplan.audit.attack_methods import transcripts as attacks
from privplan.fl.parties.network import SERVER, Body, Message, Network
from privplan.fl.uldp.weighting import published_parties as parties
from privplan.fl.uldp.weighting.published import PublishedWeighting

STEP = 2.0**-10
LIMIT = 12
MULTIPLE = math.lcm(*range(1, LIMIT + 1))


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
    width = len(parties.wide(0, session.modulus**2))
    return attacks.residues(view, "published-updates", width, round=number)


def invited(session: PublishedWeighting, number: int = 1) -> list[int]:
    width = len(parties.wide(0, session.modulus**2))
    kind = parties.Inverses.kind
    return attacks.residues(session.views["silo-0"], kind, width, round=number)[SERVER]


def drawn(seed: int, *shape: int, scale: float = 0.2) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0.0, scale, shape)


def ring(seed: int, size: int, bits: int = 64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 2**bits, size, dtype=np.uint64)


def update(seed: int, size: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return np.rint(rng.normal(0, 2.0**20, size)).astype(np.int64).astype(np.uint64)


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
