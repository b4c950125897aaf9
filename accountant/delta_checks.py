"""Limits on delta where something is promised: below 1 / (units), and always below one half.

A mechanism that publishes the data of one of n units, picked at random, and nothing else, is
(0, 1/n)-differentially private.  So a delta of 1/n or more allows it, whatever epsilon is.  What
`account` and the engines compute is arithmetic, for any delta in (0, 1); these checks stand where
a person promises something: in the commands, in configurations, in plans and in audits.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from . import validate
from .errors import InvalidInput
from .rounding import as_given

DELTA_LIMIT: Final = 0.5
"""Every accepted delta is below this probability."""

DELTA_TOPIC: Final = "privplan explain delta"


def delta_below_half(**field: object) -> float:
    """Return a delta: a number strictly between 0 and one half.

    >>> delta_below_half(delta=1e-5)
    1e-05
    """
    ((name, _),) = field.items()
    return _below_half(name, validate.open_probability(**field))


def _below_half(name: str, delta: float) -> float:
    if delta >= DELTA_LIMIT:
        raise InvalidInput(
            f"`{name}` must be below {DELTA_LIMIT:g}; it is {as_given(delta)}.",
            "With that probability a promise may fail altogether, so it would promise nothing.",
            DELTA_TOPIC,
        )
    return delta


def delta_from_zero(**field: object) -> float:
    """Return a delta: 0, or a number strictly between 0 and one half.

    At 0 a promise never fails; noise whose losses have no bound has no epsilon there.

    >>> delta_from_zero(delta=0)
    0.0
    """
    ((name, _),) = field.items()
    return _below_half(name, validate.probability_below_one(**field))


def refuse_negative_epsilon(epsilon: object) -> None:
    """Raise `InvalidInput` for a finite number below 0, with where delta at one is found."""
    if isinstance(epsilon, (int, float)) and -math.inf < epsilon < 0.0:
        raise InvalidInput(
            f"`epsilon` must be a finite number, 0 or above; it is {as_given(epsilon)}.",
            "Delta at an epsilon below 0 follows from that above it, of both orders of two data "
            "sets, and is asked for in another way.",
            f"In Python: privplan.privacy_profile(event, [{as_given(epsilon)}]); privplan account "
            "--curve FILE.csv writes delta at epsilons of both signs.",
        )


def allows_publishing(delta: float, units: int) -> bool:
    """Return whether delta is 1 / units or more, as a number or as it is written.

    >>> allows_publishing(0.001, 1000), allows_publishing(0.000999, 1000)
    (True, False)
    """
    # Exactly, as the float and as the decimal that a person wrote: 0.001 of 1,000 units counts.
    return max(Fraction(delta), Fraction(repr(float(delta)))) * units >= 1


def publishing_sentences(delta: float, units: int, unit: str) -> tuple[str, str]:
    """Return what is wrong with such a delta, and why, each as a sentence."""
    return (
        f"Delta {as_given(delta)} is at least 1 / {units:,}, and {units:,} {unit}s are protected.",
        f"Publishing the data of one {unit} at random, and nothing else, satisfies such a promise "
        "with epsilon 0.",
    )


def require_delta_below_units(
    delta: float, units: int | None, unit: str, *, accepted: bool, accept: str
) -> None:
    """Raise `InvalidInput` where delta is 1 / units or more, unless a person accepted that.

    `units` is None where their number is not stated; then nothing is compared.  `accept` says how
    it is accepted.
    """
    if accepted or units is None or not allows_publishing(delta, units):
        return
    what, why = publishing_sentences(delta, units, unit)
    raise InvalidInput(
        what,
        why,
        f"Give a delta well below 1 / {units:,} ({DELTA_TOPIC}), or accept this one: {accept}",
    )
