"""A run as it is described: facts under dotted keys, and the typed views of them.

The keys are those of the contract (`keys.py`), such as `noise.noise_multiplier`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from .fact import Contradiction, Fact
from .printed_number import PrintedNumber

if TYPE_CHECKING:
    from ...accountant.events import Event

T = TypeVar("T")


@dataclass(frozen=True)
class Phase:
    """`steps` steps in a row with one noise multiplier and one sampling rate."""

    noise_multiplier: float
    rate: float
    steps: int


@dataclass(frozen=True)
class ExtraRelease:
    """Something that is released besides the training's sums: `count` times, with its own noise.

    `noise_multiplier` is relative to the bound of one unit's part of that release; None where it
    is not said, 0 where it has no noise.  `family` is that of its noise, None where it is not said.
    `of_batch` says whether each is taken from the batch of a step, or from all data.
    `moves` says whether a change of one unit moves it, as a replaced record does not move the
    number of records; None where it is not said.
    """

    what: str = "a further release"
    noise_multiplier: float | None = None
    count: int = 1
    moves: bool | None = None
    family: str | None = None
    of_batch: bool | None = None


@dataclass(frozen=True)
class RunDescription:
    """What is known of a run: `facts` by dotted key, doubts of the readers, contradictions.

    `event` is the event of the whole run where a file or a caller gave one; it then stands for
    noise, sampling and schedule.  `formats` are the formats that were recognised, by file.
    `upper_only` says why the run may lose less than its facts tell.
    """

    facts: Mapping[str, Fact]
    contradictions: tuple[Contradiction, ...] = ()
    doubts: tuple[str, ...] = ()
    formats: Mapping[str, str] = field(default_factory=dict)
    event: Event | None = None
    upper_only: str = ""

    def get(self, key: str, kind: type[T]) -> T | None:
        """Return the value of a key, which has the type `kind`; None where it is not known."""
        fact = self.facts.get(key)
        if fact is None:
            return None
        if kind is float and isinstance(fact.value, int):
            return float(fact.value)  # type: ignore[return-value]
        if not isinstance(fact.value, kind):
            raise TypeError(f"{key} is {type(fact.value).__name__}, not {kind.__name__}")
        return fact.value

    def known(self, key: str) -> bool:
        """Return whether somebody said, or a file says, what a key is (derived counts, too)."""
        return key in self.facts and self.facts[key].provenance != "assumed"

    @property
    def claimed_epsilon(self) -> PrintedNumber | None:
        """Return the epsilon that is claimed."""
        return self.get("claim.epsilon", PrintedNumber)
