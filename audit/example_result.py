"""What an example run of a published system claims, proves and shows.

Light, so that what was kept of it is read without loading what runs and attacks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ExampleResult:
    """What a run claims, what its log proves before the same observer, and what was measured.

    `paper` is the published system that it stands for, `system` what was run, `as_published`
    whether it promises nothing.  `claimed` is None where nothing is claimed, `proven` infinite
    where no number holds.  `measured` is a lower bound that is wrong with probability at most
    1 - `confidence`, from `canaries` in a rehearsal; `contradicted` says that the claim is
    rejected.  All three are epsilon at `delta`.

    Range: `measured` 0 or above, `confidence` in (0, 1).  Raises `ValueError` outside of it.
    """

    paper: str
    system: str
    data: str
    rounds: int
    as_published: bool
    unit: str
    neighbours: str
    observer: str
    delta: float
    claimed: float | None
    proven: float
    measured: float
    confidence: float
    canaries: int
    contradicted: bool

    def __post_init__(self) -> None:
        # Written as what must hold, so that NaN fails it.
        if not (self.measured >= 0.0 and 0.0 < self.confidence < 1.0 and self.proven >= 0.0):
            raise ValueError("A value is 0 or above, and a confidence lies between 0 and 1.")
