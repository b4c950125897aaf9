"""What the two comparison engines share, and all that they work around in their libraries.

Both take only distributions from a library, never its events or its accountants' own rules, and
give to them the meaning of neighbours that all engines have here.  The default never asks them.

dp_accounting 0.6 (`google`):

* Its accountants read REPLACE_ONE differently from each other (google/differential-privacy issue
  378), and its PLD accountant forgets how often a randomized response is repeated.
* Its optimistic estimate is off by half a grid step per composition, so the lower end is 0.
* It does not bound the rounding of its convolutions.  Every entry of an FFT of a probability vector
  is off by about 4 u log2(N) <= 100 u, u = 2^-53, and a power of n makes that 100 n u.  delta is
  the inner product of the result with a monotone weight in [0, 1], whose Fourier coefficients fall
  off like 1/k: a sum of about 2 ln(N) <= 32 in all.  That allowance is taken off delta; below it
  epsilon is infinite.
* It finds epsilon by repeated subtraction along the grid, so the answer is checked against its
  other, vectorised reading; above 745 it rounds e^-loss to 0, which is only warned of.
* It fills memory before it fails, so the number of grid points is bounded beforehand.

prv_accountant 0.2 (`microsoft`):

* It has the loss of removing a unit from a Poisson sample.  Over several rounds the loss of adding
  one need not be smaller (Lebeda, Regehr, Kamath, Steinke, arXiv 2405.20769), so that is composed
  too and the larger answer counts.
* It takes the size of its grid from Renyi bounds, and its bound for pure mechanisms,
  (a-1) epsilon / a, lies below the truth; correct ones are used here, at integer orders only,
  where none of its loops can run on for ever.
* It finds means by adaptive quadrature, which can step over a jump of the distribution; their
  distance to the exact means, times the count, widens the answer.
* It does not bound its rounding.  Differences of a cdf are off by a few units of 1e-16 and
  telescope under a monotone weight; the convolutions add what is said above, at the precision of a
  long double.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from .. import events as ev
from ..errors import Unsupported
from ..guarantee import Neighbours, Step
from .base import contribution

R = TypeVar("R")

LIBRARY_OUTWARD_RELATIVE: Final = 1e-9
"""By how much the ends of a library's answer are moved outward."""

NUMERIC_FAILURES: Final = (ValueError, ArithmeticError, MemoryError, IndexError, TypeError)
"""With what numerical code gives up."""


@dataclass(frozen=True)
class Library:
    """A library, the exceptions with which it gives up, and what to do then.

    `trailing` are the characters that are cut off the end of its error texts.
    """

    name: str
    failures: tuple[type[Exception], ...]
    next_step: str
    trailing: str = ""

    def call(self, compute: Callable[[], R]) -> R:
        """Return what the library computes; its failures become `Unsupported`."""
        try:
            return compute()
        except self.failures as error:
            text = str(error).rstrip(self.trailing)
            raise self.refusal(f"It stopped with {type(error).__name__}: {text}.") from error

    def refusal(self, why: str) -> Unsupported:
        """Return the error that says why the library has no answer."""
        return Unsupported(f"{self.name} could not account for this event.", why, self.next_step)


def release_step(
    statement: str,
    neighbours: Neighbours,
    source: str,
    *conditions: str,
    stage: Literal["mechanism", "sampling"] = "mechanism",
) -> Step:
    """Return the step of one release, which says of which neighbours it speaks."""
    return Step(stage, statement, source, (f"Neighbours are {neighbours}.", *conditions))


def sampling_step(statement: str, neighbours: Neighbours, source: str) -> Step:
    """Return the step of a release on a Poisson sample."""
    afresh = "Every unit is drawn independently, afresh each run."
    return release_step(statement, neighbours, source, afresh, stage="sampling")


def laplace_step(event: ev.Laplace, neighbours: Neighbours, source: str) -> Step:
    """Return the step of Laplace noise without sampling."""
    how = (
        f"Laplace noise of scale {event.noise_multiplier:g} contribution bounds against a sum "
        f"that moves by {contribution(neighbours)}."
    )
    return release_step(how, neighbours, source)


def parameters_step(epsilon: float, delta: float, neighbours: Neighbours, source: str) -> Step:
    """Return the step of a release of which epsilon and delta are all that is known."""
    return Step(
        "mechanism",
        f"Any ({epsilon:g}, {delta:g})-DP mechanism is dominated by the three-point loss inf, "
        "+epsilon, -epsilon.",
        f"{source}; Kairouz, Oh, Viswanath: The Composition Theorem for Differential "
        "Privacy, arXiv 1311.0776",
        (f"The parameters hold for {neighbours} neighbours.",),
    )
