"""Who is drawn into a step, whose contribution is clipped, and what batches and epochs count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

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
