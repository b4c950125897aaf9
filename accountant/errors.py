"""Every error that privplan raises on purpose.

    PrivplanError
    |-- InvalidInput          a value, a file or an event is not what it must be
    |-- Unsupported           the mathematics for this combination is not here
    |-- TargetUnreachable     no value of the unknown meets the target
    |-- TargetTrivial         the target is met without any protection at all
    |-- EnginesDisagree       one engine's lower bound lies above another's upper bound
    |-- BudgetExceeded        a release would cost more than what is left
    |-- MissingExtra          an optional dependency is not installed
    |-- LogBroken             the log of a run cannot be written
    |-- ProtocolFault         a party sent what the protocol does not allow
        |-- MissingParty      a party did not answer in time

Each carries three sentences for a person: what happened, why, and what to do next.  Only the
command line turns them into exit codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

LEFT_TO_US: Final = "eave the choice of the engine to privplan"
"""What an engine says that was forced, and that another one may replace."""


class PrivplanError(Exception):
    """Base of all errors: `what` happened, `why`, and the `next_step` a person can take."""

    def __init__(self, what: str, why: str = "", next_step: str = "") -> None:
        super().__init__(what, why, next_step)
        self.what = what
        self.why = why
        self.next_step = next_step

    def __str__(self) -> str:
        return " ".join(part for part in (self.what, self.why, self.next_step) if part)


class InvalidInput(PrivplanError, ValueError):
    """A value is outside its range, a file cannot be read, or an event makes no sense."""


class Unsupported(PrivplanError):
    """No engine here has sound mathematics for this event, relation or combination.

    An engine speaks to somebody who asked for it by name, and may say that another one can.  To
    somebody who left the choice to privplan that is no advice: `unforced` is the same refusal with
    the next step in `otherwise`, or with a general one.
    """

    def __init__(
        self, what: str, why: str = "", next_step: str = "", *, otherwise: str = ""
    ) -> None:
        super().__init__(what, why, next_step)
        self.otherwise = otherwise

    def unforced(self) -> Unsupported:
        """Return the refusal for somebody who left the choice of the engine to privplan."""
        if not self.otherwise and LEFT_TO_US not in self.next_step:
            return self
        otherwise = self.otherwise or (
            "Account for the releases that it is made of, or see: privplan explain engines"
        )
        return Unsupported(self.what, self.why, otherwise)


class TargetUnreachable(PrivplanError):
    """No value of the unknown brings the guarantee to the target."""


class TargetTrivial(PrivplanError):
    """The target already holds for every value of the unknown: nothing is left to calibrate."""


class EnginesDisagree(PrivplanError):
    """Two engines contradict each other, so at least one of them is wrong."""


class BudgetExceeded(PrivplanError):
    """A release would cost more than what is left, so it must not be made."""


class MissingExtra(PrivplanError):
    """An optional dependency is needed and not installed."""


class LogBroken(PrivplanError):
    """The log of a run could not be written, so nothing more may be drawn or released."""


class ServiceFault(PrivplanError):
    """A service refused, did not answer, or could not store it: what rests on it was not done."""


class ProtocolFault(PrivplanError):
    """A party sent what the protocol does not allow, so it was stopped for everybody.

    Its sentences name parties and steps, never what was received.
    """


class MissingParty(ProtocolFault):
    """A party that the protocol needs did not answer in time."""


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless it is 1.

    >>> counted(1, "silo"), counted(1200, "silo")
    ('1 silo', '1,200 silos')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def there_are(count: int, noun: str) -> str:
    """Return that there are so many of something.

    >>> there_are(1, "silo"), there_are(0, "silo")
    ('there is 1 silo', 'there are 0 silos')
    """
    return f"there {'is' if count == 1 else 'are'} {counted(count, noun)}"


def enumerated(names: Sequence[str], last: str) -> str:
    """Return names in a sentence, `last` before the last of them.

    >>> enumerated(["masked", "plain", "shares"], "or")
    'masked, plain or shares'
    >>> enumerated(["masked"], "or")
    'masked'
    """
    head = ", ".join(names[:-1])
    return f"{head} {last} {names[-1]}" if head else "".join(names)


def with_article(noun: str) -> str:
    """Return a noun after its indefinite article, for a sentence; quotes are passed over.

    >>> with_article("`approximate` event"), with_article("user"), with_article("ndarray")
    ('an `approximate` event', 'a user', 'an ndarray')
    """
    word = noun.lstrip("`'\"").lower()
    like_you = ("use", "uni", "uint", "eu", "one")
    like_a_vowel = ("a", "e", "i", "o", "u", "nd", "hour")
    vowel = word.startswith(like_a_vowel) and not word.startswith(like_you)
    return f"{'an' if vowel else 'a'} {noun}"


def kind_of(value: object) -> str:
    """Return the type of a value, for a sentence that says what was given instead.

    >>> kind_of(1), kind_of("text")
    ('an int', 'a str')
    """
    return with_article(type(value).__name__)
