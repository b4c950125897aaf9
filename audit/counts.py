"""Epsilon from the counts of an audit that somebody made: each number with what it assumes.

Counts come in two forms.  *Guesses* are of one run: each of m canaries was put in by a fair coin,
and of r guesses about the coins v were right.  *Rates* are of a test: of units that were out it
called some in (false alarms), of units that were in it called some out (misses).

What is not in the counts cannot be checked: that coins were fair and secret, that thresholds and
the number of guesses were fixed before the scores were seen, that units were independent.  So each
number carries its assumptions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..accountant import events as ev
from ..accountant import validate
from ..accountant.errors import InvalidInput
from ..accountant.guarantee import as_neighbours
from .statistics import (
    Counts,
    FamilyResult,
    epsilon_lower,
    family_test,
    gdp_epsilon,
    mahloujifar,
    mu_lower,
    steinke,
)

CountMethod = Literal["one-run", "one-run-f-dp", "clopper-pearson", "gdp", "f-dp"]

COINS = (
    "each canary was put in or left out by a fair coin of its own, which nothing but the run saw",
    "the number of guesses was fixed before the scores were seen, and no other number was tried",
)
RATES = (
    "the threshold was fixed before the scores were seen, or its false alarms were",
    "units are independent of each other, given the mechanism: one run each, or one run whose "
    "scores do not disturb each other",
)


@dataclass(frozen=True)
class CountedEpsilon:
    """A lower bound on epsilon at `delta`, from counts, that is wrong with prob. <= 1 - confidence.

    - `method`: how it follows from the counts.
    - `holds_for`: the mechanisms of which it is true.
    - `assumes`: what cannot be seen in the counts, sentence by sentence.
    - `source`: where the argument stands.
    - `factor`: of an f-DP method, the smallest factor on the claimed noise that is rejected; None
      where none is, and for other methods.
    - `rejected`: whether the claimed event itself is rejected; None where no event is claimed.
    """

    method: CountMethod
    epsilon: float
    delta: float
    confidence: float
    holds_for: str
    assumes: tuple[str, ...]
    source: str
    factor: float | None = None
    rejected: bool | None = None

    def to_json(self) -> dict[str, object]:
        """Return it as a JSON object."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "holds_for": self.holds_for,
            "assumes": list(self.assumes),
            "source": self.source,
            "factor": self.factor,
            "rejected": self.rejected,
        }


def one_run_epsilon(
    canaries: int, guesses: int, correct: int, *, delta: float, confidence: float = 0.95
) -> CountedEpsilon:
    """Return what right guesses about the canaries of one run show of any mechanism.

    The formula is that of `statistics.steinke`, which is exact in its p-value and loose as a bound.
    Range: correct <= guesses <= canaries, delta in [0, 1), confidence in (0, 1).  Raises
    `InvalidInput` outside of it.
    Source: Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.2.

    >>> round(one_run_epsilon(1000, 100, 90, delta=1e-5).epsilon, 3)
    1.626
    """
    epsilon = steinke(canaries, guesses, correct, delta=delta, alpha=_alpha(confidence))
    return CountedEpsilon(
        "one-run",
        epsilon,
        delta,
        confidence,
        "any mechanism, however its canaries depend on each other",
        COINS,
        "Steinke, Nasr, Jagielski 2023, arXiv 2305.08846, Theorem 5.2",
    )


def one_run_f_dp(
    canaries: int,
    guesses: int,
    correct: int,
    event: ev.Event,
    *,
    delta: float,
    neighbours: str = "add-remove",
    confidence: float = 0.95,
) -> CountedEpsilon:
    """Return the epsilon of the claimed event with as much noise as one run still rejects.

    Ranges and errors as for `one_run_epsilon`, with `delta` above 0; `Unsupported` for an event
    without noise, or one that no engine computes.
    Source: Mahloujifar, Melis, Chaudhuri 2024, arXiv 2410.22235, Theorem 3.2 and Algorithm 3.

    >>> shown = one_run_f_dp(10_000, 2500, 2136, ev.Gaussian(1.0), delta=1e-5)
    >>> round(shown.epsilon, 2), shown.rejected
    (2.47, False)
    """
    alpha = _alpha(confidence)
    result = mahloujifar(canaries, guesses, correct, event, neighbours, delta, alpha)
    return _of_family(
        "one-run-f-dp",
        result,
        confidence,
        neighbours,
        COINS,
        "Mahloujifar, Melis, Chaudhuri 2024, arXiv 2410.22235, Theorem 3.2 and Algorithm 3",
    )


def clopper_pearson_epsilon(
    counts: Counts, *, delta: float, confidence: float = 0.95, thresholds: int = 1
) -> CountedEpsilon:
    """Return what the two error rates of one test show of any mechanism.

        epsilon >= max{ 0, ln((1 - delta - N) / F), ln((1 - delta - F) / N) }

    with F and N the upper Clopper-Pearson ends of false alarm and miss rate.  Where the best of
    several `thresholds` is given, all that were tried count.  Range: delta in [0, 1), confidence
    in (0, 1), thresholds 1 or above.  Raises `InvalidInput` outside of it.
    Source: Jagielski, Ullman, Oprea 2020, arXiv 2006.07709.

    >>> round(clopper_pearson_epsilon(Counts(0, 10_000, 0, 10_000), delta=1e-5).epsilon, 3)
    7.905
    """
    epsilon = epsilon_lower(counts, delta=delta, alpha=_alpha(confidence), thresholds=thresholds)
    return CountedEpsilon(
        "clopper-pearson",
        epsilon,
        delta,
        confidence,
        "any mechanism",
        _rates(thresholds),
        "Jagielski, Ullman, Oprea 2020, arXiv 2006.07709",
    )


def gdp_family_epsilon(
    counts: Counts, *, delta: float, confidence: float = 0.95, thresholds: int = 1
) -> CountedEpsilon:
    """Return what the two error rates of one test show of a Gaussian mechanism without sampling.

        mu >= Phi^-1(1 - F) - Phi^-1(N),  and the epsilon of that mu at `delta`

    It overstates for any other mechanism: Laplace noise of epsilon 1 comes out at 4.3.  Arguments
    as for `clopper_pearson_epsilon`, with `delta` above 0.
    Source: Dong, Roth, Su 2022, arXiv 1905.02383v3, Definition 2.5 and Corollary 2.13.

    >>> round(gdp_family_epsilon(Counts(200, 5000, 4000, 5000), delta=1e-5).epsilon, 2)
    3.41
    """
    mu = mu_lower(counts, alpha=_alpha(confidence), thresholds=thresholds)
    return CountedEpsilon(
        "gdp",
        gdp_epsilon(mu, delta),
        delta,
        confidence,
        "mechanisms that are Gaussian noise and nothing else: no sampling, no other noise",
        _rates(thresholds),
        "Dong, Roth, Su 2022, arXiv 1905.02383v3, Definition 2.5 and Corollary 2.13",
    )


def f_dp_epsilon(
    counts: Counts,
    event: ev.Event,
    *,
    delta: float,
    neighbours: str = "add-remove",
    confidence: float = 0.95,
    thresholds: int = 1,
) -> CountedEpsilon:
    """Return the epsilon of the claimed event with as much noise as one test still rejects.

    It says that the claimed event, or one of its family, did not run, and nothing of a mechanism
    outside of the family.  Arguments as for `gdp_family_epsilon`; errors as for `one_run_f_dp`.
    Source: Nasr, Hayes, Steinke et al. 2023, arXiv 2302.07956.

    >>> shown = f_dp_epsilon(Counts(200, 5000, 4000, 5000), ev.Gaussian(1.0), delta=1e-5)
    >>> round(shown.factor, 2), shown.rejected
    (1.24, False)
    """
    alpha = _alpha(confidence)
    result = family_test(counts, event, neighbours, delta, alpha, thresholds=thresholds)
    return _of_family(
        "f-dp",
        result,
        confidence,
        neighbours,
        _rates(thresholds),
        "Nasr, Hayes, Steinke et al. 2023, arXiv 2302.07956",
    )


def _of_family(
    method: CountMethod,
    result: FamilyResult,
    confidence: float,
    neighbours: str,
    assumes: tuple[str, ...],
    source: str,
) -> CountedEpsilon:
    relation = as_neighbours(neighbours)
    return CountedEpsilon(
        method,
        result.epsilon,
        result.delta,
        confidence,
        f"the claimed event and the same with its noise times a factor, under {relation}",
        assumes,
        source,
        result.factor,
        result.rejected,
    )


def _rates(thresholds: int) -> tuple[str, ...]:
    """Return what a test's rates rest on; the level was divided by the number of thresholds."""
    if thresholds == 1:
        return RATES
    return (
        f"no more than {thresholds} thresholds were tried, each fixed before the scores were seen",
        *RATES[1:],
    )


def _alpha(confidence: float) -> float:
    alpha = 1.0 - validate.open_probability(confidence=confidence)
    if alpha <= 0.0:
        raise InvalidInput(
            "`confidence` must be below 1 by more than a rounding error.",
            "No count proves anything with certainty.",
            "Give a confidence such as 0.95.",
        )
    return alpha
