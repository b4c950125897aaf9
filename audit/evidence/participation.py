"""Which rounds are of one unit, where silos take part by a public schedule: the worst silo counts.

A unit that lies in one silo is touched by the rounds in which that silo takes part
(`accountant.records.participation`).  Every other unit is touched by all of them, and so is every
unit by a round whose terms, weights or sample depend on what several silos hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...accountant.records.kinds import counts_by_silo, lies_in_one_silo
from ..derivation.round_facts import RoundFacts
from ..derivation.run_setting import RunSetting
from .round_kinds import RoundKind

_MAX_COMPOSED: Final = 64
"""Most different sets of rounds that are composed one by one."""


@dataclass(frozen=True)
class RoundsOfUnit:
    """How many rounds of each kind touch one unit, in the order of the kinds.

    `exact`: some unit is touched by just these; else no unit is touched by more, and `fewest` are
    rounds of which every unit has as many: what is left of a plan is read from those.
    """

    counts: tuple[int, ...]
    exact: bool = True
    fewest: tuple[int, ...] | None = None


def is_of_some_silos(facts: RoundFacts, setting: RunSetting) -> bool:
    """Return whether a round touches only the units of the silos that its schedule names."""
    if facts.roster is None or not counts_by_silo(setting.unit, setting.neighbours, setting.group):
        return False
    sampling, weights = facts.sampling, facts.weights
    # What others hold must move neither the weight of a unit nor whether it is drawn.
    drawn_alone = sampling.method == "none" or (
        sampling.method == "poisson"
        and lies_in_one_silo(sampling.of)
        and not sampling.moves_others
        and sampling.chosen_by != "all-silos"
    )
    return drawn_alone and weights.rule != "records" and lies_in_one_silo(facts.contribution.unit)


def rounds_of_units(
    kinds: Sequence[RoundKind], setting: RunSetting, *, to_come: bool = False
) -> tuple[RoundsOfUnit, ...]:
    """Return by how many rounds of each kind units are touched: the most, for some silo each.

    Sets of rounds of which another holds as many of every kind are left out: a further round never
    lowers the number.  Of very many different sets, one is returned that holds them all.

    With `to_come`, what a unit lacks of the plan is to be added.  Rounds to come may cost more than
    those that were made, so no set is left out, nor that of a silo that has yet to take part.
    """
    shared = [0] * len(kinds)
    by_silo: dict[int, list[int]] = {}
    for index, kind in enumerate(kinds):
        if not is_of_some_silos(kind.facts, setting):
            shared[index] = len(kind.spent)
            continue
        for spent in kind.spent:
            for silo in spent.intent.silos or ():
                by_silo.setdefault(silo, [0] * len(kinds))[index] += 1
    # A silo that no schedule names is touched by the shared rounds alone, as every other is.
    distinct = {
        tuple(map(sum, zip(shared, counts, strict=True))) for counts in by_silo.values()
    } or {tuple(shared)}
    if to_come:
        distinct.add(tuple(shared))
    if len(distinct) > _MAX_COMPOSED:
        most = tuple(map(max, zip(*distinct, strict=True)))
        return (RoundsOfUnit(most, exact=most in distinct, fewest=tuple(shared)),)
    return tuple(
        RoundsOfUnit(counts)
        for counts in sorted(distinct, reverse=True)
        if to_come or not any(other != counts and _holds(other, counts) for other in distinct)
    )


def _holds(larger: tuple[int, ...], smaller: tuple[int, ...]) -> bool:
    return all(most >= count for most, count in zip(larger, smaller, strict=True))
