"""How long the messages of a masked sum may be, by its terms and the names of its parties."""

from __future__ import annotations

from ..crypto.keys import KEY_BYTES, LOCK_BYTES, SIGNATURE_BYTES
from ..parties.message_bodies import Limits, named, room
from .group import ADVERT_BYTES, Group
from .messages import (
    SHARE_BYTES,
    Advert,
    Adverts,
    Confirmation,
    Confirmations,
    MaskedWords,
    Recovery,
    RelayedShares,
    Shares,
    Survivors,
)


def limits(group: Group) -> Limits:
    """Return the most bytes of each message, whoever receives it."""
    everybody = group.names
    names = [len(name.encode()) for name in everybody]
    locked = named(everybody, LOCK_BYTES + SHARE_BYTES)
    return {
        Advert: room(KEY_BYTES, KEY_BYTES, SIGNATURE_BYTES),
        Adverts: room(*named(everybody, ADVERT_BYTES)),
        Shares: room(KEY_BYTES, *locked),
        RelayedShares: room(*names, *locked),
        MaskedWords: group.terms.length * group.terms.words.itemsize,
        Survivors: room(*names),
        Confirmation: room(SIGNATURE_BYTES),
        Confirmations: room(*named(everybody, SIGNATURE_BYTES)),
        Recovery: room(*named(everybody, KEY_BYTES), *named(everybody, KEY_BYTES)),
    }
