"""What a run states before its first round, as the first line of its log has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...accountant.records import Claim, Planned, Population, Security


@dataclass(frozen=True)
class Design:
    """The design that a system chose of several, such as `one-shot`, by public facts, and why."""

    name: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Note:
    """What a run says besides its guarantees: its name, sentences for people, numbers for programs.

    It is worth knowing, as `index privacy` is, and no guarantee.  `numbers` are numbers, or lists
    of them, by name; all are public.
    """

    name: str
    sentences: tuple[str, ...]
    numbers: Mapping[str, float | list[float]] = field(default_factory=dict)


Aggregation = Literal["plain", "masked", "private-weighting", "shares", "shuffle"]
"""How contributions are added up, which decides what an observer sees of them.

- `plain`: the server sees every silo's update.
- `masked`: the server sees only the sum of all updates.
- `private-weighting`: the server sees only their sum, under weights that nobody sees.
- `shares`: there is no server; peers add up secret shares and see the sum.
- `shuffle`: a shuffler removes the senders of messages before the analyzer sees them.
"""


@dataclass(frozen=True)
class OpeningStatement:
    """The first statement of a run: its claim, its plan, and the protocol that these rest on.

    `as_published` marks a method that is run as its paper has it, with the paper's claim, whatever
    can be proven of it.
    """

    claim: Claim
    plan: Planned
    population: Population
    aggregation: Aggregation = "plain"
    security: Security | None = None
    as_published: bool = False
