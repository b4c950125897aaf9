"""A run as it is described: facts under dotted keys, and the typed views of them.

The keys are those of the contract (`keys.py`), such as `noise.noise_multiplier`.  A fact says where
it comes from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from .printed_number import PrintedNumber

if TYPE_CHECKING:
    from ...accountant.events import Event


@dataclass(frozen=True)
class Reading:
    """The `facts` of one `source` in one `format`, with the doubts that its reader has.

    `event` is the event of the whole run, where the source gives one that no keys can express.
    A doubt is a sentence: what was not understood, or what such a file never says.  `upper_only`
    says why the run may lose less than its facts tell, where an accountant counted more.
    """

    source: str
    format: str
    facts: Mapping[str, Fact]
    doubts: tuple[str, ...] = ()
    event: Event | None = None
    upper_only: str = ""


Provenance = Literal["stated", "read", "derived", "assumed"]
"""`stated` by the person who asks, `read` from a file that a program wrote, `derived` from other
facts, `assumed` because nothing says otherwise."""

STRENGTH: Final[tuple[Provenance, ...]] = ("stated", "read", "derived", "assumed")
"""The order in which one fact stands before another about the same key."""


@dataclass(frozen=True)
class Fact:
    """The checked `value` of a key, its `provenance`, and its `source`.

    `source` is the file's name or the option for what is stated or read, and the sentence that
    derives or assumes it otherwise.  `half_unit` is half of the last printed digit of a number that
    was given as a decimal; 0 for what is exact.
    """

    value: object
    provenance: Provenance
    source: str
    half_unit: float = 0.0

    def text(self) -> str:
        """Return where the fact comes from, in words."""
        return f"{self.provenance} ({self.source})" if self.source else self.provenance


@dataclass(frozen=True)
class Contradiction:
    """Two facts about one key (or two that imply each other) that cannot both be true."""

    key: str
    says: str
    """A sentence that names both values and both sources."""


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
