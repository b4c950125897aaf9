"""Results on private records: the log has one line of them, whatever comes of the attack.

Whether people can be told apart at all may depend on who they are: of one person alone nothing is
found.  A log that had a line of the attack only where something was found would say so to
everybody.  So a failure is sealed as a result is, and the person who attacked hears of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput, MissingExtra, Unsupported
from ..measurement import Measurement, Tier
from ..results import append_results

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def sealed_whatever_is_found(
    tier: Tier,
    find: Callable[[], Sequence[Measurement]],
    folder: Path,
    *,
    append: bool,
    key: Ed25519PrivateKey | None,
) -> tuple[tuple[Measurement, ...], tuple[int, ...]]:
    """Return what `find` returns, and the lines that were added to the log of a folder.

    With `append` that is one line, a commitment, also where `find` raises.  What it raises goes
    on.  `Unsupported` and `MissingExtra` follow from settings and surroundings: they add none.
    """
    try:
        found = tuple(find())
    except (Unsupported, MissingExtra):
        raise
    except Exception as error:  # whatever the records make of it
        if append:
            lines = append_results(folder, sealed_tiers=(tier,), key=key).lines
            if isinstance(error, InvalidInput):
                told = f"The log does not say so: its line {lines[0]} is a commitment."
                raise InvalidInput(
                    error.what, f"{error.why} {told}".strip(), error.next_step
                ) from None
        raise
    if not append:
        return found, ()
    return found, append_results(folder, sealed=found, sealed_tiers=(tier,), key=key).lines
