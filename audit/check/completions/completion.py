"""One run of those that a description allows, with the words for what was pinned in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from ..pinned_run import PinnedRun

End = Literal["least", "most"]
"""The end of what a description allows: its runs of least epsilon, or those of most."""


OPTION_DIGITS: Final = 12
"""Digits of a number in an option that states one run: so many leave nothing open."""


def in_option(value: float) -> str:
    """Return a number as an option states it, with digits enough to be that number alone.

    >>> in_option(0.015), in_option(1 / 3)
    ('0.0150000000000', '0.3333333333333333')
    """
    text = repr(value)
    digits = text.partition("e")[0].replace(".", "").lstrip("-0")
    return text if len(digits) >= OPTION_DIGITS else f"{value:#.{OPTION_DIGITS}g}"


@dataclass(frozen=True)
class Choice:
    """What was pinned of one open subject: its key, the words for it, the option that says it.

    `settles` is what `--set` takes to state this choice, several separated by spaces; empty where
    no key says it.  `also` are further keys that are pinned with it.
    """

    key: str
    says: str
    settles: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True)
class Completion:
    """A run that leaves nothing open, and the choices that made it so."""

    run: PinnedRun
    choices: tuple[Choice, ...] = ()

    @property
    def says(self) -> str:
        """Return the choices in words; empty where the description left none."""
        return "; ".join(choice.says for choice in self.choices)


Alternative = tuple[PinnedRun, Choice | None]
"""A run with one more subject pinned; without a choice where nothing was open."""

Subject = Callable[[PinnedRun, End], Iterable[Alternative]]
"""Pins one subject of a run whose sampler is pinned.

Where epsilon is monotone in the subject (proven by post-processing, joint convexity, or as more
releases never show less), an end has its extreme alternatives only; elsewhere it has all of them.
"""


def expanded(run: PinnedRun, subjects: Iterable[Subject], end: End) -> Iterator[Completion]:
    """Yield the completions of a run at one end of what its description allows."""
    completions = [Completion(run)]
    for subject in subjects:
        completions = [
            Completion(pinned, each.choices if choice is None else (*each.choices, choice))
            for each in completions
            for pinned, choice in subject(each.run, end)
        ]
    yield from completions
