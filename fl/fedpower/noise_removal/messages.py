"""The messages of noise removal, in the order in which they are sent.

Ciphertexts are big-endian bytes of twice the length of n.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ...crypto.keys import KEY_BYTES, SIGNATURE_BYTES
from ...parties.message_bodies import Body, Limits, named, room
from ...parties.network import silo_name
from .terms import RoundTerms, Terms


def setup_limits(terms: Terms) -> Limits:
    """Return the most bytes of each message of the setup, whoever receives it."""
    nodes = [silo_name(node) for node in range(terms.nodes)]
    return {
        ServerKey: room(terms.modulus_bytes),
        NodeKey: room(KEY_BYTES, SIGNATURE_BYTES),
        NodeKeys: room(*named(nodes, KEY_BYTES), *named(nodes, SIGNATURE_BYTES)),
    }


def round_limits(terms: RoundTerms) -> Limits:
    """Return the most bytes of each message of a round, whoever receives it."""
    ciphertext = terms.session.ciphertext_bytes
    return {
        Selection: room(ciphertext),
        Removal: room(*[ciphertext] * terms.packs),
    }


# --- setup (round 0) ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ServerKey(Body):
    """Server to nodes: its Paillier modulus n."""

    kind: ClassVar[str] = "noise-removal.server-key"
    modulus: bytes


@dataclass(frozen=True)
class NodeKey(Body):
    """Node to server: its X25519 key of this session, signed by its identity."""

    kind: ClassVar[str] = "noise-removal.node-key"
    public: bytes
    signature: bytes


@dataclass(frozen=True)
class NodeKeys(Body):
    """Server to nodes: what all nodes sent as `NodeKey`, by name."""

    kind: ClassVar[str] = "noise-removal.node-keys"
    publics: Mapping[str, bytes]
    signatures: Mapping[str, bytes]


# --- rounds ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Selection(Body):
    """Server to one node: an encryption of 1 if its noise stays, of 0 if it is taken off."""

    kind: ClassVar[str] = "noise-removal.selection"
    ciphertext: bytes


@dataclass(frozen=True)
class Removal(Body):
    """Node to server: (1 - selection) times its noise, packed, under masks and fresh residues."""

    kind: ClassVar[str] = "noise-removal.removal"
    ciphertexts: tuple[bytes, ...]
