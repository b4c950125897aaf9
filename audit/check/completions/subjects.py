"""The closed list of subjects that a description may mention and leave open, in order."""

from __future__ import annotations

from typing import Final

from ....accountant.errors import Unsupported
from ..checked_run import CheckedRun
from ..pinned_run import PinnedRun
from . import designs, facts, pricing, sampling, schedule
from .completion import Completion, End, Subject, expanded

SUBJECTS: Final[tuple[Subject, ...]] = (
    designs.designs,
    facts.delta,
    facts.noise,
    facts.replies,
    facts.starts,
    facts.renewals,
    facts.releases,
    facts.release_noise,
    facts.taken_from,
    facts.norms,
    facts.weighted_draws,
    sampling.rate,
    sampling.accumulation,
    schedule.schedule,
    pricing.priced,
)
"""A subject may look at what those before it have pinned."""

MOST_COMPLETIONS: Final = 64
"""How many runs of one sampler are computed at an end."""


def completions(run: CheckedRun, method: str, end: End) -> tuple[Completion, ...]:
    """Return the runs at one end of what a description allows, with batches drawn by `method`.

    Raises `Unsupported`, before anything is computed, where they are more than
    `MOST_COMPLETIONS`.
    """
    pinned = PinnedRun.of_described(run.with_settings(method=method))
    every = tuple(expanded(pinned, SUBJECTS, end))
    if len(every) > MOST_COMPLETIONS:
        raise Unsupported(
            f"The description leaves open {len(every):,} runs, and at most {MOST_COMPLETIONS} are "
            "computed.",
            next_step="State more of what is open.",
        )
    return every
