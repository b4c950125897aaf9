"""What a demonstration is, and what it found: a published claim against its own mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput
from ..measurement import Curve, Measurement

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Weakness:
    """What a demonstration measured, what theory says of it, and the story in plain sentences.

    `measurements` are of the tier `weakness`.  `exact` holds, for each of them and in their
    order, the value that theory gives for the very thing that was measured (this test, in this
    setting; the mechanism may lose more), None where it gives none: a lower bound lies below it,
    but for the stated share of unlucky runs.  `story`: two to five sentences: what was done, what
    was seen, why it contradicts the claim.

    Raises `InvalidInput` where these do not fit each other.
    """

    measurements: tuple[Measurement, ...]
    exact: tuple[float | None, ...]
    story: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.measurements or len(self.exact) != len(self.measurements):
            raise InvalidInput("A demonstration gives each of its measurements an exact value.")
        if any(measurement.tier != "weakness" for measurement in self.measurements):
            raise InvalidInput("What a demonstration measures is of the tier `weakness`.")
        if not 2 <= len(self.story) <= 5:
            raise InvalidInput("The story of a demonstration has two to five sentences.")

    @property
    def contradicted(self) -> bool:
        """Whether a published claim was rejected by any measurement, at its own confidence.

        A claim that holds is rejected by one of k measurements with probability at most k times
        what is left of their confidence.
        """
        return any(measurement.contradicted for measurement in self.measurements)


@dataclass(frozen=True)
class Demo:
    """A small, faithful simulation of a published mechanism, and an attack on what it claims.

    `system` is one of `accountant.claims.table.SYSTEMS`; `title` one sentence for the list;
    `claim` what the text says, in one sentence.  `rows` are settings of rows of the table of
    claims: `rows[i]` is measured by the i-th measurement, whose `quantity`, `claimed`, `delta`,
    `unit`, `neighbours` and `observer` are that row's.  Measurements beyond `rows` stand for
    themselves.  `run` takes all its randomness from the generator.
    """

    name: str
    system: str
    title: str
    claim: str
    rows: tuple[str, ...]
    run: Callable[[np.random.Generator], Weakness]


def shown(
    what: str,
    value: float,
    claimed: float,
    *,
    proves: str,
    observer: str,
    unit: str,
    neighbours: str,
    delta: float | None = None,
    confidence: float = 0.95,
    quantity: str = "epsilon",
    assumes: tuple[str, ...] = (),
    sample: Mapping[str, float | int | str] | None = None,
    curves: Mapping[str, Curve] | None = None,
) -> Measurement:
    """Return a lower bound of the tier `weakness`; it contradicts the claim where it exceeds it.

    `value` must be a bound that was fixed before its data were drawn, and is wrong with
    probability at most 1 - `confidence`.
    """
    return Measurement(
        tier="weakness",
        what=what,
        value=value,
        kind="lower-bound",
        contradicted=value > claimed,
        proves=proves,
        observer=observer,
        unit=unit,
        neighbours=neighbours,
        claimed=claimed,
        delta=delta,
        confidence=confidence,
        quantity=quantity,
        assumes=assumes,
        sample=sample or {},
        curves=curves or {},
    )
