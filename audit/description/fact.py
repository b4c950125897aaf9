"""A fact about a run, and where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

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
