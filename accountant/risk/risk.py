"""What an attacker of a release can do at best, each answer between two ends.

**Reconstruction:** how often the right one of m equally likely candidates for a unit is named.  Let
A_i be the outcomes at which candidate i is named and P_i the release with that candidate.  Some
release Q is a neighbour of each P_i, and TPR is at most a concave R of FPR, so

    success = (1/m) sum P_i(A_i) <= (1/m) sum R(Q(A_i)) <= R(1/m).

Under replace-one every P_j is such a Q for all i but j.  The average over j then gives
success <= R((1 - success) / (m - 1)), which for two candidates is half of 1 + advantage.
Source: Hayes, Mahloujifar and Balle 2023, arXiv 2302.07225, and Kaissis, Hayes, Ziller and Rueckert
2023, arXiv 2307.03928, for the first; the second is derived above.

Each number says in a sentence what it assumes of the attacker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from .. import events as ev
from .. import validate
from ..account import account
from ..engines.pld.compose.directions import participation
from ..errors import InvalidInput
from ..event_tree import unit_of
from ..guarantee import Bounds, Neighbours, Step, agreed, as_neighbours, unique_steps
from ..nearest_names import named_keywords
from ..rounding import as_given
from .attack_power import AttackPower, attack_power
from .gaussian_mu import gaussian_mu_everywhere, gaussian_mu_from
from .sentence import attack_sentence
from .trade_off import composition_of, delta_by_larger_epsilons, trade_off

DATA_SETS: Final[Mapping[Neighbours, str]] = MappingProxyType(
    {
        "add-remove": "two data sets, of which one lacks the {unit} and is otherwise the same",
        "replace-one": "two data sets that differ in one {unit}, with either value of it",
        "zero-out": "two data sets, in one of which the {unit} counts as zero",
    }
)
"""The two data sets that an attacker tells apart, by relation."""


def hidden_draws_of(event: ev.Event) -> str:
    """Return which random draws of an event the attacker sees, in words.

    >>> hidden_draws_of(ev.Poisson(0.1, ev.Gaussian(1.0)))
    'no random draw'
    >>> hidden_draws_of(ev.ClientSampled(0.1, ev.Gaussian(1.0)))
    'whether the client took part, but no other random draw'
    """
    clients = composition_of(event).inside(ev.ClientSampled)
    if any(0.0 < each.clients_rate < 1.0 for each in clients):
        return "whether the client took part, but no other random draw"
    return "no random draw"


def assumptions(
    unit: str,
    neighbours: Neighbours,
    *,
    hidden_draws: str,
    fpr: float,
    prior: float,
    guesses: int,
    from_fpr: float,
) -> Mapping[str, str]:
    """Return, for each number of a `Risk`, what the attacker is assumed to know.

    `hidden_draws` says which random draws the attacker does not see, as `hidden_draws_of` does.
    """
    data_sets = DATA_SETS[neighbours].format(unit=unit)
    knows = f"The attacker knows {data_sets}, sees all that is released and {hidden_draws}, and"
    return MappingProxyType(
        {
            "advantage": f"{knows} says which of them was used, to reach the largest difference "
            "between the rates of true and of false accusations.",
            "tpr": f"{knows} accuses wrongly, where either of the two may be the innocent one, in "
            f"at most a share {as_given(fpr)} of the innocent cases.",
            "bayes_risk": f"{knows} believes beforehand with probability {as_given(prior)} that it "
            "was a certain one of them, whichever of the two lets the attack err less.",
            "reconstruction": f"The attacker knows all data but the {unit}, and {guesses:,} "
            "candidates for it that are equally likely beforehand, sees all that is released and "
            f"{hidden_draws}, and names one of them.",
            "mu": f"{knows} may use any test whose false positive rate is {as_given(from_fpr)} or "
            "above, up to where both rates of error are the same and the two data sets change "
            "sides.",
            "mu_everywhere": f"{knows} may use any test, however rarely it accuses.",
        }
    )


def reconstruction(
    miss_floor: Callable[[float], float], guesses: int, neighbours: Neighbours
) -> Bounds:
    """Return bounds on the probability to name the right one of `guesses` candidates.

    `miss_floor` is a convex trade-off function of every two neighbours.  The lower end is that of
    guessing: nothing is known to attain more in general.
    """
    guessing = 1.0 / guesses

    def named(fpr: float) -> float:
        return min(math.nextafter(1.0 - miss_floor(fpr), 2.0), 1.0)

    upper = named(math.nextafter(guessing, 1.0))
    if neighbours == "replace-one":
        # R((1 - s) / (m - 1)) falls in s: every s above what it gives is out of reach.
        low, high = guessing, upper
        for _ in range(60):
            middle = 0.5 * (low + high)
            spread = math.nextafter((1.0 - middle) * (1.0 + 1e-15) / (guesses - 1), 1.0)
            if middle > named(min(spread, 1.0)):
                high = middle
            else:
                low = middle
        upper = high
    return Bounds(guessing, max(upper, guessing))


@dataclass(frozen=True)
class Risk:
    """What the best attack on a release reaches, each number between two ends.

    `advantage` is the largest TPR - FPR of a test; `tpr` the largest true positive rate at false
    positive rate `fpr`; `bayes_risk` the least probability of error where the unit is suspected
    with probability `prior` (its lower end is the guarantee); `reconstruction` the largest
    probability to name the right one of `guesses` equally likely candidates; `mu` the least mu of a
    Gaussian that is as easy to tell apart at every FPR from `from_fpr` up to where FPR and miss
    rate meet, beyond which the data sets change sides (at `from_fpr` alone where it lies beyond, so
    that `mu` need not fall as `from_fpr` grows), and `mu_everywhere` from 0 up to there.  An
    upper end (of `bayes_risk` the lower) holds for all neighbouring data sets and all tests; the
    other end is attained by two of them.  `assumes` says of each, in a sentence, what the attacker
    knows.
    """

    advantage: Bounds
    fpr: float
    tpr: Bounds
    prior: float
    bayes_risk: Bounds
    guesses: int
    reconstruction: Bounds
    from_fpr: float
    mu: Bounds
    mu_everywhere: Bounds
    assumes: Mapping[str, str] = field(repr=False)
    neighbours: Neighbours
    derivation: tuple[Step, ...] = field(default=(), repr=False)
    warnings: tuple[str, ...] = field(default=(), repr=False)

    @property
    def sentence(self) -> str:
        """What an attacker at `fpr` finds at most, for people who know no epsilon."""
        return attack_sentence(self.fpr, self.tpr.upper, self.neighbours)


@named_keywords
def risk(
    event: ev.EventLike,
    *,
    fpr: float = 0.01,
    prior: float = 0.5,
    guesses: int = 10,
    from_fpr: float = 1e-5,
    neighbours: str = "add-remove",
) -> Risk:
    """Return what the best attack on a release reaches, each number between two ends.

    With delta(epsilon) of `account` and the trade-off function f (smallest miss rate at an FPR) of
    both orders of two data sets:

        advantage = delta(0),  TPR = 1 - f(fpr),
        Bayes risk = min{prior, 1 - prior} (1 - delta(|log((1 - prior) / prior)|)),
        reconstruction <= 1 - f(1 / guesses),
        mu = largest Phi^-1(1 - f(alpha)) - Phi^-1(alpha) for alpha from `from_fpr` to alpha = f.

    `fpr`, `prior` and `from_fpr` lie strictly between 0 and 1 (`from_fpr` at most 1/2), `guesses`
    is 2 or more.  `neighbours` is `add-remove`, `replace-one` or `zero-out` of one unit.  An
    infinite mu says that no Gaussian is proven to dominate.  Raises `InvalidInput` for values out
    of range, `Unsupported` where no engine has an answer.
    Source: Dong, Roth and Su 2022, arXiv 1905.02383v3; Kulynych, Gomez, Kaissis, Calmon and
    Troncoso 2024, arXiv 2407.02191; Kaissis, Hayes, Ziller and Rueckert 2023, arXiv 2307.03928.

    >>> attack = risk(ev.Gaussian(1.0), fpr=0.01)
    >>> round(attack.advantage.upper, 4), round(attack.tpr.upper, 4), round(attack.mu.upper, 4)
    (0.3829, 0.0924, 1.0)
    >>> attack.sentence
    'An attacker who accuses 10 in 1,000 innocents finds at most 93 in 1,000 members.'
    """
    fpr = validate.open_probability(fpr=fpr)
    prior = validate.open_probability(prior=prior)
    guesses = validate.count_from(2, guesses=guesses)
    from_fpr = start_of_mu(from_fpr=from_fpr)
    relation = as_neighbours(neighbours)
    known = ev.known_event(event)
    power = attack_power(known, relation)
    at_zero = account(known, epsilon=0.0, neighbours=relation)
    advantage = _nearer(at_zero.delta, 0.0, known, relation, power)
    mu, everywhere = _gaussians(power, known, relation, from_fpr)
    steps = unique_steps((*at_zero.derivation, *_steps(fpr, prior, guesses, from_fpr)))
    return Risk(
        advantage=advantage,
        fpr=fpr,
        tpr=power.tpr(fpr),
        prior=prior,
        bayes_risk=_bayes_risk(known, prior, relation, advantage, power),
        guesses=guesses,
        reconstruction=reconstruction(_convex_floor(known, power, relation), guesses, relation),
        from_fpr=from_fpr,
        mu=mu,
        mu_everywhere=everywhere,
        assumes=assumptions(
            unit_of(known),
            relation,
            hidden_draws=hidden_draws_of(known),
            fpr=fpr,
            prior=prior,
            guesses=guesses,
            from_fpr=from_fpr,
        ),
        neighbours=relation,
        derivation=steps,
        warnings=at_zero.warnings,
    )


def start_of_mu(**field: object) -> float:
    """Return the FPR from which on a Gaussian is to dominate: above 0, and at most 1/2."""
    start = validate.open_probability(**field)
    if start > 0.5:
        raise InvalidInput(
            f"`from_fpr` must be at most 0.5; it is {start!r}.",
            "Beyond, the miss rate is the smaller one, and the two data sets change sides.",
            "Give a false positive rate from which on the Gaussian is to dominate, such as 1e-5.",
        )
    return start


def _gaussians(
    power: AttackPower, event: ev.Event, relation: Neighbours, from_fpr: float
) -> tuple[Bounds, Bounds]:
    """Return bounds on mu from an FPR on and everywhere; what holds everywhere holds from there."""
    mu = gaussian_mu_from(power, from_fpr)
    everywhere = gaussian_mu_everywhere(power, composition_of(event), relation)
    upper = min(mu.upper, everywhere.upper)
    mu = agreed(mu.lower, upper)
    return mu, agreed(max(everywhere.lower, mu.lower), everywhere.upper)


def _delta(event: ev.Event, epsilon: float, relation: Neighbours, power: AttackPower) -> Bounds:
    """Return bounds on delta at an epsilon: those of `account`, or a known test's where better."""
    return _nearer(
        account(event, epsilon=epsilon, neighbours=relation).delta, epsilon, event, relation, power
    )


def _nearer(
    delta: Bounds, epsilon: float, event: ev.Event, relation: Neighbours, power: AttackPower
) -> Bounds:
    upper = min(
        delta.upper,
        participation(composition_of(event)),
        delta_by_larger_epsilons(event, relation, epsilon),
    )
    return agreed(max(delta.lower, power.attained_delta(epsilon)), upper)


def _bayes_risk(
    event: ev.Event, prior: float, relation: Neighbours, advantage: Bounds, power: AttackPower
) -> Bounds:
    """Return the smaller prior times 1 - delta at the log odds of the prior, rounded outwards."""
    log_odds = abs(math.log((1.0 - prior) / prior))
    # delta falls, by at most 1 for each 1 of epsilon: it is asked a rounding below the log odds.
    rounding = 1e-14 * (1.0 + log_odds) if log_odds > 0.0 else 0.0
    delta = advantage
    if log_odds > rounding:
        delta = _delta(event, log_odds - rounding, relation, power)
    rarer = min(prior, 1.0 - prior)
    lower = math.nextafter(rarer * math.nextafter(1.0 - delta.upper, 0.0), 0.0)
    least_wrong = math.nextafter(1.0 - max(delta.lower - rounding, 0.0), 2.0)
    return Bounds(lower, min(math.nextafter(rarer * least_wrong, 1.0), rarer))


def _convex_floor(
    event: ev.Event, power: AttackPower, relation: Neighbours
) -> Callable[[float], float]:
    """Return a convex trade-off function of every two neighbours in either order."""
    if power.mu is not None:
        return lambda alpha: power.miss(alpha).lower
    return trade_off(event, relation)


def _steps(fpr: float, prior: float, guesses: int, from_fpr: float) -> tuple[Step, ...]:
    """Return how each number follows from deltas."""
    return (
        Step(
            "conversion",
            "The advantage is delta at epsilon 0; Bayes risk at prior "
            f"{prior:g} is the smaller prior times 1 - delta at epsilon |log((1 - p) / p)|.",
            "Dong, Roth and Su 2022, arXiv 1905.02383v3, Proposition 2.12",
        ),
        Step(
            "conversion",
            f"TPR at FPR {fpr:g} and mu from FPR {from_fpr:g} on: the trade-off function of both "
            "orders of the data sets, as lines with delta at every epsilon.",
            "Dong, Roth and Su 2022, arXiv 1905.02383v3, Proposition 2.12 and Definition 2.6",
        ),
        Step(
            "conversion",
            "The other ends: the best test of two fixed data sets, by the losses that their pair "
            "has at least; of reconstruction, a guess.",
            "derived in engines/pld/compose/curve.py",
            ("where no such data sets are known, tests at single epsilons, or guessing",),
        ),
        Step(
            "conversion",
            f"The right one of {guesses:,} candidates is named with probability at most "
            f"1 - f(1/{guesses}), f the trade-off function.",
            "Kaissis, Hayes, Ziller and Rueckert 2023, arXiv 2307.03928",
            ("all candidates are equally likely beforehand",),
        ),
    )
