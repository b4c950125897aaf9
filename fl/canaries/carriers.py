"""The carrier of a system, found through its declaration."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, cast

from ...accountant.errors import Unsupported
from ..declarations.registry import declaration_or_none, declared
from .request import Carrier

if TYPE_CHECKING:
    from ..settings.schema import Settings


def carrier_of(settings: Settings) -> Carrier:
    """Return the carrier of the system of these settings.

    Raises `Unsupported` for a system without one, and `InvalidInput` for what is no carrier: one
    such as `canary_training` takes more than `RehearsalRequest`.
    """
    system = settings.run.system
    declaration = declaration_or_none(system)
    if declaration is None or declaration.carrier is None:
        carried = ", ".join(sorted(other.name for other in declared().values() if other.carrier))
        raise Unsupported(
            f"{system} cannot be rehearsed with canaries.",
            "Its declaration names no carrier, so nothing says how one of its units is put in and "
            "seen.",
            f"Rehearse one of {carried}, or give its declaration a `carrier`.",
        )
    carrier = declaration.load(declaration.carrier)
    try:
        inspect.signature(carrier).bind(None)
    except (TypeError, ValueError) as error:
        reason = TypeError(f"a carrier takes one argument, `RehearsalRequest`; {error}")
        raise declaration.failed(declaration.carrier, reason) from error
    return cast("Carrier", carrier)
