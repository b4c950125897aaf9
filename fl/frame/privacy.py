"""What a run is asked to protect: the unit, the relation, the observer, and noise or budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...accountant import validate
from ...accountant.delta_checks import delta_below_half
from ...accountant.errors import InvalidInput
from ...accountant.guarantee import as_neighbours
from ..observers.names import DEFAULT_OBSERVERS, MODEL, observer_name, observer_names


@dataclass(frozen=True)
class PrivacyTarget:
    """What a run is to protect, from whom, and with how much noise or within which budget.

    - `unit`, `neighbours`: what two neighbouring data sets differ in, and how.
    - `observer`: the claim of the run holds before this observer; `observers`: all those whose
      guarantees a verdict is about.
    - `noise_multiplier` alone fixes the noise; `epsilon` at `delta` alone has the least noise
      searched that keeps it; both fix the noise, and the budget decides how many rounds are made.
    - `sampling_rate`: the probability that a user joins a round.
    - `group`: the number of records of a unit, where noise is calibrated to single records.

    Range: `delta` in (0, .5), `epsilon` and `noise_multiplier` above 0, `sampling_rate` in (0, 1],
    `group` 1 or above.  Raises `InvalidInput`.
    """

    unit: Literal["record", "user", "silo", "entry"] = "user"
    neighbours: Literal["add-remove", "replace-one", "zero-out"] = "add-remove"
    delta: float = 1e-5
    epsilon: float | None = None
    noise_multiplier: float | None = None
    sampling_rate: float = 1.0
    observer: str = MODEL
    group: int = 1
    observers: tuple[str, ...] = DEFAULT_OBSERVERS

    def __post_init__(self) -> None:
        validate.choice(("record", "user", "silo", "entry"), unit=self.unit)
        as_neighbours(self.neighbours)
        delta_below_half(delta=self.delta)
        if self.epsilon is not None:
            validate.positive(epsilon=self.epsilon)
        if self.noise_multiplier is not None:
            validate.positive(noise_multiplier=self.noise_multiplier)
        if validate.probability(sampling_rate=self.sampling_rate) == 0.0:
            raise InvalidInput(
                "`sampling_rate` must be above 0.",
                "At 0 no user ever takes part.",
                "Give the probability that a user joins a round.",
            )
        validate.count(group=self.group)
        observer_name(observer=self.observer)
        observer_names(observers=self.observers)
