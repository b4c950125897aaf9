"""Which items each release of a run seals: public, as the configuration alone decides it.

The first line of a log says so, and a release that lacks a commitment to one of them was stripped
of it.  Nothing here depends on data: an item is sealed whatever it says.  Each system declares what
its releases seal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .declaration import HELD_OUT, NORMALISE, PRIVPLAN_PACKAGE, Read, Sealed
from .stated_settings import StatedSettings

RELEASE: Final = "release"
"""The phase of `fl.frame.user_sum.UserSum`."""

RECOMPUTED: Final = "recomputed"
RESIDUALS: Final = "residuals"
NOISE: Final = (RECOMPUTED, RESIDUALS)
"""What is sealed of every noisy sum (`fl.aggregation.clip_check`, `fl.aggregation.residuals`)."""

NORMS: Final = ("clipped", "norm_largest", "norm_median", "not_finite", "terms")
"""What is sealed of the terms that are clipped (`fl.aggregation.clip_check.about_norms`)."""


def of_user_sum(*phases: str) -> Sealed:
    """Return what `fl.frame.user_sum.UserSum` seals in each of these phases, for a declaration."""
    return lambda _: dict.fromkeys(phases or (RELEASE,), (*NORMS, *NOISE))


def sealed_items(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the items that each release seals, by phase, in alphabetical order.

    Raises `InvalidInput` for a system that is not known, or whose own function fails.
    """
    given = StatedSettings(read)
    system, items = given.system, dict[str, tuple[str, ...]]()
    sealed = system.sealed
    if sealed is None and system.package == PRIVPLAN_PACKAGE and system.determines is not None:
        sealed = system.load(system.determines).sealed  # by the terms of a system of `fl`
    if sealed is None:
        items = dict.fromkeys(system.phase_names(read), ())
    else:
        try:
            items = dict(sealed(read))
        except KeyError as error:  # a key that a system without such a table asks for
            raise system.failed("sealed", error) from error
    sorted_items = {phase: tuple(sorted(names)) for phase, names in items.items()}
    # Private moments are noisy sums of every system alike, whatever it declares, and so are votes
    # but where a system says otherwise: messages of users are seen by nobody before their noise.
    if given.data.normalisation == "private":
        sorted_items[NORMALISE] = NOISE
    if given.evaluation.held_out_noise is not None:
        sorted_items.setdefault(HELD_OUT, NOISE)
    return sorted_items
