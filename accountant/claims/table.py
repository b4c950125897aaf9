"""The table of claims: every row of every system, computed when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..decoding import nearest
from ..errors import InvalidInput
from .claim import Claim, Noise

SYSTEMS: Final = ("uldp-fl", "flame", "disco", "fedpower", "delm")
"""The published systems, in the order of the table; each is a module here without its dash."""

Row = Callable[[], Claim]
"""Computes one row."""

NOISE_MODULES: Final[Mapping[str, str]] = {"disco": "disco_noise"}
"""The systems whose noise is shown with its unit, and the module that holds it."""


def rows(system: str) -> Sequence[Row]:
    """Return the rows of one system, not computed yet; raise `InvalidInput` for another name."""
    # Loaded on request: a system's rows pull in engines that others do not need.
    module = importlib.import_module(f".{as_system(system).replace('-', '_')}", __package__)
    claims: Sequence[Row] = module.ROWS
    return claims


def table(system: str | None = None) -> tuple[Claim, ...]:
    """Return the claims of one system, or of all, computed now.

    Every `proven` and `lower` is computed by the library; see `Claim`.  Raises `InvalidInput`
    for a system that is not in `SYSTEMS`.
    """
    chosen = SYSTEMS if system is None else (system,)
    return tuple(row() for name in chosen for row in rows(name))


def noise(system: str) -> tuple[Noise, ...]:
    """Return the noise of one system with its units, computed now; empty where none is shown.

    Raises `InvalidInput` for a system that is not in `SYSTEMS`.
    """
    name = NOISE_MODULES.get(as_system(system))
    if name is None:
        return ()
    module = importlib.import_module(f".{name}", __package__)
    lines: Sequence[Callable[[], Noise]] = module.NOISE
    return tuple(line() for line in lines)


def as_system(system: str) -> str:
    """Return `system` if it is one of `SYSTEMS`; raise `InvalidInput` otherwise."""
    if system in SYSTEMS:
        return system
    close = nearest(str(system).lower(), SYSTEMS, least_ratio=0.4)
    raise InvalidInput(
        f"`system` must be one of {', '.join(SYSTEMS)}; it is {system!r}.",
        "These are the published systems whose numbers are recomputed here.",
        f"privplan claims {close}" if close else "privplan claims",
    )
