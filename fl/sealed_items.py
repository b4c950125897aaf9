"""Which items each release of a run seals: public, as the configuration alone decides it.

The first line of a log says so, and a release that lacks a commitment to one of them was stripped
of it.  Nothing here depends on data: an item is sealed whatever it says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Read: TypeAlias = Callable[[str, str], Any]
"""From a table and a key of a configuration to its value."""

TRAIN: Final = "train"
NORMALISE: Final = "normalise"
"""The phases of a run; `fl.promise` and `fl.normalising` name them, and need more than this."""

RECOMPUTED: Final = "recomputed"
RESIDUALS: Final = "residuals"
NOISE: Final = (RECOMPUTED, RESIDUALS)
"""What is sealed of every noisy sum (`fl.recomputed`, `fl.residuals`)."""

_NORMS: Final = ("clipped", "norm_largest", "norm_median", "not_finite", "terms")
"""What `fl.uldp.facts.about_norms` seals."""


def sealed_items(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return the names of the items that each release seals, by phase, in alphabetical order."""
    found = {TRAIN: tuple(sorted(_of_training(read)))}
    if read("data", "normalisation") == "private":
        found[NORMALISE] = NOISE
    return found


def _of_training(read: Read) -> tuple[str, ...]:
    system = read("run", "system")
    if system == "fedavg":
        return ()
    if system == "uldp-group":
        return (*NOISE, "taking_part")
    if system == "uldp-naive":
        return (*_NORMS, *NOISE)
    if read("security", "aggregation") != "private-weighting":
        return (*_NORMS, *NOISE, "joined")
    if read("uldp", "as_published"):
        return (*_NORMS, "joined")
    drawn = read("privacy", "sampling_rate") < 1.0 and read("security", "slots") is None
    return (*_NORMS, *NOISE, "joined") if drawn else (*_NORMS, *NOISE)
