"""The carrier of a system, found through its declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ...accountant.errors import Unsupported
from ..frame.systems import declared
from .asked import Carrier

if TYPE_CHECKING:
    from ..settings import Settings


def carrier(settings: Settings) -> Carrier:
    """Return what carries the system of these settings.

    Raises `Unsupported` for a system that none does.
    """
    known, system = declared(), settings.run.system
    declaration = known.get(system)
    if declaration is None or declaration.carrier is None:
        carried = ", ".join(name for name in sorted(known) if known[name].carrier is not None)
        raise Unsupported(
            f"{system} cannot be rehearsed with canaries.",
            "Its declaration names no carrier, so nothing says how one of its units is put in and "
            "seen.",
            f"Rehearse one of {carried}, or give its declaration a `carrier`.",
        )
    return cast("Carrier", declaration.load(declaration.carrier))
