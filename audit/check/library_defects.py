"""Known defects of accounting libraries: which versions, which settings, what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..description.agreement import named_library
from .checked_run import CheckedRun

SMALL_DATA: Final = 1000
TINY_DELTA: Final = 1e-15


@dataclass(frozen=True)
class LibraryDefect:
    """A defect of `library` in versions below `fixed_in` (None: in all that are known).

    `concerns` tells the runs that it is about; `lowers` whether it can make epsilon too small.
    """

    library: str
    fixed_in: tuple[int, ...] | None
    concerns: Callable[[CheckedRun], bool]
    what: str
    source: str
    next_step: str
    lowers: bool = True


def _asks(*words: str) -> Callable[[CheckedRun], bool]:
    return lambda run: any(word in (run.accountant or "").lower() for word in words)


def _any_run(_run: CheckedRun) -> bool:
    return True


def _replaces(run: CheckedRun) -> bool:
    return run.settings.neighbours == "replace-one"


def _accumulates(run: CheckedRun) -> bool:
    return run.settings.accumulation > 1


def _averages(run: CheckedRun) -> bool:
    return run.settings.microbatches > 1


def _is_small(run: CheckedRun) -> bool:
    return run.units is not None and run.units < SMALL_DATA


def _tiny_delta(run: CheckedRun) -> bool:
    return run.settings.delta is not None and 0.0 < run.settings.delta < TINY_DELTA


def _no_sampler(run: CheckedRun) -> bool:
    return run.settings.method == "unknown"


def _zero(run: CheckedRun) -> bool:
    return run.claim is not None and run.claim.value == 0.0


RECOMPUTE: Final = "Compute the number again with another accountant: privplan account."

LIBRARY_DEFECTS: Final = (
    LibraryDefect(
        "opacus",
        (1, 4),
        _asks("gdp"),
        "Its gdp accountant forgot steps each time epsilon was read, so a later value is too small",
        "opacus issue 535",
        RECOMPUTE,
    ),
    LibraryDefect(
        "opacus",
        None,
        _asks("gdp"),
        "Its gdp accountant is a central-limit value and can be below the truth",
        "opacus pull request 400",
        "Use its rdp or prv accountant.",
    ),
    LibraryDefect(
        "opacus",
        (1, 1),
        _any_run,
        "Its search for the noise multiplier could end above the target epsilon",
        "opacus issue 346",
        "Compute epsilon of the noise that was used.",
    ),
    LibraryDefect(
        "opacus",
        None,
        _is_small,
        "It divides by a batch size computed from the number of records, which leaks of small data",
        "opacus issues 571 and 819",
        "Give the expected batch size as a constant.",
        lowers=False,
    ),
    LibraryDefect(
        "opacus",
        None,
        _zero,
        "Its accountants return epsilon 0 or less for settings that are not free",
        "opacus issue 585",
        RECOMPUTE,
    ),
    LibraryDefect(
        "flower",
        None,
        _replaces,
        "Its accountant takes replacing a unit as if it moved a sum by one norm, not two",
        "google/differential-privacy issue 378, whose accountant it uses",
        RECOMPUTE,
    ),
    LibraryDefect(
        "dp_accounting",
        None,
        lambda run: _replaces(run) and not _asks("pld")(run),
        "Its Renyi accountant takes replacing a record as if it moved a sum by one norm, not two",
        "google/differential-privacy issue 378",
        "Use its pld accountant, or halve the noise multiplier.",
    ),
    LibraryDefect(
        "jax_privacy",
        None,
        _accumulates,
        "Before mid 2026 it checked a given noise multiplier at the rate of one batch, "
        "not of all that are accumulated",
        "jax_privacy pull request 287",
        "Account at the expected size of everything before one draw of noise.",
    ),
    LibraryDefect(
        "tensorflow_privacy",
        None,
        _averages,
        "Its older function compute_dp_sgd_privacy leaves out that microbatches double the "
        "sensitivity",
        "tensorflow/privacy issue 620",
        "Use compute_dp_sgd_privacy_statement, or halve the noise multiplier.",
    ),
    LibraryDefect(
        "tensorflow_privacy",
        None,
        _zero,
        "It returns epsilon 0 where an order near 1 has a small Renyi divergence",
        "tensorflow/privacy issue 166",
        RECOMPUTE,
    ),
    LibraryDefect(
        "prv_accountant",
        None,
        _tiny_delta,
        "It is not reliable at so small a delta, in both directions",
        "prv_accountant issue 17",
        "Use a Renyi accountant at this delta.",
    ),
    LibraryDefect(
        "private_transformers",
        None,
        _no_sampler,
        "Its loader makes batches of a fixed size, which it accounts as Poisson samples",
        "private-transformers issue 7",
        "State the sampler that ran: sampling.method.",
    ),
    LibraryDefect(
        "opake",
        None,
        _any_run,
        "On grids finer than its default its epsilon is below the exact one, by less than 1e-6",
        "measured: 100 Gaussian releases of noise 10 at delta 1e-5",
        RECOMPUTE,
        lowers=False,
    ),
)
"""The closed table."""


def defects_of(run: CheckedRun) -> tuple[LibraryDefect, ...]:
    """Return the known defects of the library that a run names, for settings like its own."""
    name, version = named_library(run.library)
    if not name:
        return ()
    return tuple(
        defect
        for defect in LIBRARY_DEFECTS
        if defect.library == name
        and (defect.fixed_in is None or (version is not None and version < defect.fixed_in))
        and defect.concerns(run)
    )
