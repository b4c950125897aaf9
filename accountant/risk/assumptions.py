"""What each number of attack risk assumes of the attacker, a sentence each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from .. import events as ev
from ..composition import leaves
from ..events.parts import events_inside
from ..guarantee import Neighbours
from ..rounding import as_given

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
    if any(_has_sampled_client(leaf.event) for leaf in leaves(event)):
        return "whether the client took part, but no other random draw"
    return "no random draw"


def _has_sampled_client(event: ev.Event) -> bool:
    return any(
        isinstance(each, ev.ClientSampled) and 0.0 < each.clients_rate < 1.0
        for each in events_inside(event)
    )


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
