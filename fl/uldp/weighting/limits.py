"""The largest length of each message of private weighting, by its public terms alone."""

from __future__ import annotations

from ...crypto.keys import KEY_BYTES, LOCK_BYTES, SIGNATURE_BYTES
from ...crypto.oblivious import POINT_BYTES, TAG_BYTES
from ...parties.message_bodies import Limits, named, room
from ...parties.network import silo_name
from .introductions import SEED_BYTES
from .messages import (
    CHECK_BYTES,
    Histogram,
    Inverses,
    LockedSeed,
    LockedSeeds,
    ServerKey,
    SiloKey,
    SiloKeys,
    TransferAnswer,
    TransferOpening,
    TransferRequests,
    Update,
)
from .terms import WeightingTerms


def limits(terms: WeightingTerms) -> Limits:
    """Return the most bytes of each message, whoever receives it."""
    silos = [silo_name(silo) for silo in range(terms.silos)]
    locked, ciphertext = LOCK_BYTES + SEED_BYTES, terms.ciphertext_bytes
    return {
        ServerKey: room(terms.modulus_bytes),
        SiloKey: room(KEY_BYTES, SIGNATURE_BYTES),
        SiloKeys: room(*named(silos, KEY_BYTES), *named(silos, SIGNATURE_BYTES)),
        LockedSeeds: room(*named(silos, locked)),
        LockedSeed: room(locked),
        Histogram: room(terms.users * terms.modulus_bytes, CHECK_BYTES),
        Inverses: room(terms.users * terms.pieces * ciphertext),
        TransferOpening: room(POINT_BYTES),
        TransferRequests: room(terms.users * POINT_BYTES),
        TransferAnswer: room(terms.users * (terms.slots or 0) * (ciphertext + TAG_BYTES)),
        Update: room(terms.blocks * ciphertext),
    }
