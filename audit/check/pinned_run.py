"""A run that leaves nothing open, and its design: who is drawn, who is clipped, what is counted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Literal

from .checked_run import CheckedRun

Drawn = Literal["records", "users", "silos"]
"""What a draw takes: records by themselves, or users or silos with all of theirs."""

Clipped = Literal["record", "unit"]
"""What has the clipping norm: a record, or what all records of a user or silo add to a step."""


@dataclass(frozen=True)
class SamplingDesign:
    """One way to draw and to clip.

    Batches are drawn from `population` of what is `drawn`, and batches and epochs count `counted`
    of the same or of their records; None where nobody counted these.
    """

    drawn: Drawn = "records"
    clipped: Clipped = "record"
    population: int | None = None
    counted: int | None = None

    @property
    def takes_wholes(self) -> bool:
        """Return whether a draw takes users or silos with all their records."""
        return self.drawn != "records"


UNKNOWN_DESIGN: Final = SamplingDesign()
"""Records of an unknown number."""


@dataclass(frozen=True)
class PinnedRun(CheckedRun):
    """A described run in which all is pinned, who is drawn and clipped by its `design`.

    `own_draws` are the samples that one noise draw takes independently, each at the rate of the
    run, `rate_factor` what a stated rate was multiplied by, `unbounded` says why no upper end is
    known, `unbounded_without` the keys that would say otherwise, and `stands_for` that the run
    only bounds others at that end: its other end is that of no run.  `presence_is_seen` says that
    others show whether a unit was drawn, and `shows_nothing` that nothing bounds the run from
    below.
    """

    design: SamplingDesign = UNKNOWN_DESIGN
    own_draws: int = 1
    rate_factor: float = 1.0
    unbounded: str = ""
    unbounded_without: tuple[str, ...] = ()
    stands_for: Literal["least", "most"] | None = None
    presence_is_seen: bool = False
    shows_nothing: bool = False

    @classmethod
    def of_described(cls, run: CheckedRun) -> PinnedRun:
        """Return a described run as one in which nothing is pinned yet."""
        return cls(**{each.name: getattr(run, each.name) for each in fields(CheckedRun)})

    @property
    def drawn_from(self) -> int | None:
        """Return how many of what is drawn a batch is a sample of, where that is known."""
        return self.design.population

    @property
    def population(self) -> int | None:
        """Return how many of what batches and epochs count there are, where that is known."""
        batch, counted = self.settings.batch, self.design.counted
        return None if counted is not None and batch is not None and batch > counted else counted
