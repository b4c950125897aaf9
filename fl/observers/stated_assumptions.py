"""What a reach supposes and no protocol provides: the sentences that stand next to its number.

Each begins with `assumed: `, in what a run says of itself as in what an audit says of its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant.records import Reach, Security
from .names import ANALYZER, CLIENT, COORDINATOR, MODEL, SERVER, SHUFFLER
from .reaches import is_mixer_of_sums
from .words import phrase

ASSUMED_PREFIX: Final = "assumed: "

BLIND_SHUFFLER: Final = "the shuffler reads no message, though none is encrypted"
"""What a number rests on where messages are mixed and nothing is encrypted."""

_REMEDIES: Final[Mapping[str, str]] = {
    f"{ASSUMED_PREFIX}{BLIND_SHUFFLER}": (
        "run it with a ciphertext for every message, which the shuffler cannot open: write "
        'transport = "sealed" where the system has that key'
    ),
}
_USUAL_REMEDY: Final = "run a protocol that keeps the rest from this observer"

_TRUSTED_SHUFFLER: Final = (
    f"{ASSUMED_PREFIX}the shuffler is trusted to mix all messages and to tell nobody who sent which"
)
_DATA_FREE_TIMES: Final = f"{ASSUMED_PREFIX}when messages are sent depends on no data"
_MAX_SHOWN_ASSUMPTIONS: Final = 5
_MAX_ASSUMPTION_CHARACTERS: Final = 200


def stated_assumptions(stated: Reach) -> tuple[str, ...]:
    """Return what a reach itself says that it rests on, as far as it can be shown."""
    # A log is a stranger's: what it states is shown short, few, and without control characters.
    said = [
        "".join(char if char.isprintable() else " " for char in text) for text in stated.rests_on
    ]
    shown = [
        f"{ASSUMED_PREFIX}{text.strip()[:_MAX_ASSUMPTION_CHARACTERS]}"
        for text in said[:_MAX_SHOWN_ASSUMPTIONS]
        if text.strip()
    ]
    if len(said) > _MAX_SHOWN_ASSUMPTIONS:
        shown.append(
            f"{ASSUMED_PREFIX}and {len(said) - _MAX_SHOWN_ASSUMPTIONS:,} more that the log names"
        )
    return (*shown, *((_DATA_FREE_TIMES,) if "times" in stated.also else ()))


def unenforced_assumption(
    stated: Reach, observer: str, aggregation: str, security: Security | None
) -> str:
    """Return what must be supposed where no protocol can carry a reach; empty where one could."""
    if security is not None:
        unread = security.protocol == "shuffler" and not security.key_bits
        mixes = unread and aggregation == "shuffle" and is_mixer_of_sums(observer, stated)
        return f"{ASSUMED_PREFIX}{BLIND_SHUFFLER}" if mixes else ""
    blind = stated.sees == "nothing" and observer in (SERVER, COORDINATOR, SHUFFLER)
    if blind and aggregation in ("plain", "shuffle"):
        return f"{ASSUMED_PREFIX}{phrase(observer)} holds ciphertexts and can read none of them"
    mixed = (ANALYZER, MODEL, CLIENT, SERVER)
    if stated.sees == "shuffled" and aggregation == "shuffle" and observer in mixed:
        return _TRUSTED_SHUFFLER
    return ""


def remedy(assumption: str) -> str:
    """Return what makes an assumption needless, in words that follow "or"."""
    return _REMEDIES.get(assumption, _USUAL_REMEDY)


def reach_assumptions(
    reaches: Mapping[str, Reach] | None, observer: str, aggregation: str, security: Security | None
) -> tuple[str, ...]:
    """Return what the number before an observer supposes of what is stated to reach it.

    The model is made of what the analyzer sees, and is what they see who see nothing else.
    """
    stated = reaches or {}
    names = (ANALYZER, MODEL) if observer == MODEL and aggregation == "shuffle" else (observer,)
    name = next((each for each in names if each in stated), None)
    if name is None:
        return ()
    reach = stated[name]
    unenforced = unenforced_assumption(reach, observer, aggregation, security)
    of_model: tuple[str, ...] = ()
    if reach.sees == "nothing" and observer != MODEL:
        of_model = reach_assumptions(reaches, MODEL, aggregation, security)
    return tuple(
        dict.fromkeys(
            (*((unenforced,) if unenforced else ()), *stated_assumptions(reach), *of_model)
        )
    )
