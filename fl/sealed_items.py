"""Which items each release of a run seals: public, as the configuration alone decides it.

The first line of a log says so, and a release that lacks a commitment to one of them was stripped
of it.  Nothing here depends on data: an item is sealed whatever it says.  Each system declares what
its releases seal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .frame.declaration import Read
from .frame.systems import declaration_of

TRAIN: Final = "train"
NORMALISE: Final = "normalise"
"""The phases of a run; `fl.promise` and `fl.normalising` name them, and need more than this."""

RECOMPUTED: Final = "recomputed"
RESIDUALS: Final = "residuals"
NOISE: Final = (RECOMPUTED, RESIDUALS)
"""What is sealed of every noisy sum (`fl.recomputed`, `fl.residuals`)."""


def sealed_items(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the items that each release seals, by phase, in alphabetical order.

    Raises `InvalidInput` for a system that is not known.
    """
    sealed = declaration_of(read("run", "system")).sealed
    items = {TRAIN: ()} if sealed is None else sealed(read)
    sorted_items = {phase: tuple(sorted(names)) for phase, names in items.items()}
    if read("data", "normalisation") == "private":
        sorted_items[NORMALISE] = NOISE
    return sorted_items
