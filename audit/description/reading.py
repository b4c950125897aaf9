"""What one source says of a run: a file, the options of a command, or a caller's object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .fact import Fact

if TYPE_CHECKING:
    from ...accountant.events import Event


@dataclass(frozen=True)
class Reading:
    """The `facts` of one `source` in one `format`, with the doubts that its reader has.

    `event` is the event of the whole run, where the source gives one that no keys can express.
    A doubt is a sentence: what was not understood, or what such a file never says.
    """

    source: str
    format: str
    facts: Mapping[str, Fact]
    doubts: tuple[str, ...] = ()
    event: Event | None = None
