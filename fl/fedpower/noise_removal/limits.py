"""The largest length of each message of noise removal, by its public terms alone."""

from __future__ import annotations

from ...crypto.keys import KEY_BYTES, SIGNATURE_BYTES
from ...parties.message_bodies import Limits, named, room
from ...parties.network import silo_name
from .messages import NodeKey, NodeKeys, Removal, Selection, ServerKey
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
