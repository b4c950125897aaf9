"""What a run says beside its guarantees: a statement that is worth knowing, and is none of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Note:
    """A name, such as `index privacy`, sentences for a person, and numbers for a program.

    `numbers` are numbers, or lists of them, by name; all are public.
    """

    name: str
    sentences: tuple[str, ...]
    numbers: Mapping[str, float | list[float]] = field(default_factory=dict)
