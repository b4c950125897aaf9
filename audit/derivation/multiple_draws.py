"""Several draws in one round: each costs, but those that surely do not hold the unit.

At most m of the draws of an epoch hold one unit (`Sampling.most_draws`).  Reveal which: the
order is drawn whatever the data, so under replace-one and zero-out all other sums have the same law
with either data set, and m sums are composed, without amplification; each may depend on what was
released before.  Under add-remove that is so only if one unit more moves no other into another
batch (`moves_others` is False): else a unit that goes lets others move up, in every sum.

Only an order that is cut into batches holds a unit a fixed number of times: draws that are made
independently of each other may all hold it, and without sampling all do.  Of D sums of b of n units
some unit is in D b / n, so m is never taken below that, and sums beyond those that were announced
are taken to hold the unit.
"""

from __future__ import annotations

from fractions import Fraction

from ...accountant import events as ev
from ...accountant.sensitivity.release import repeated
from .round_facts import RoundFacts
from .run_setting import RunSetting
from .sampling import require_population, sampled_event


def event_of_draws(
    base: ev.Event, facts: RoundFacts, setting: RunSetting, *, hidden: bool
) -> ev.Event:
    """Return the event of all sums of a round; `base` is that of one, before sampling."""
    most = max_draws_per_unit(facts, setting)
    if most is None:
        return repeated(facts.draws, sampled_event(base, facts, setting, hidden=hidden))
    require_population(facts, setting)
    # m sums hold the unit, with the others' batches fixed; no amplification is claimed.
    if facts.sampling.moves_others is False:
        return repeated(most, base)
    # One of draws/m batches holds the unit, at a place that the observer does not know.
    if hidden and facts.draws % most == 0:
        return repeated(most, ev.ShuffledBatches(facts.draws // most, base))
    return repeated(most, base)


def max_draws_per_unit(facts: RoundFacts, setting: RunSetting) -> int | None:
    """Return how many of a round's sums hold one unit at most; None where all of them may."""
    drawn, announced = facts.sampling, max(facts.noise.draws, 1)
    if drawn.most_draws is None or drawn.method != "shuffled" or drawn.most_draws < 1:
        return None
    if drawn.of != facts.contribution.unit:
        return None
    if setting.neighbours == "add-remove" and drawn.moves_others is not False:
        return None
    least = 1
    if drawn.batch and drawn.population:
        # Pigeonhole: D sums of b of n units hold some unit ceil(D b / n) times at least.
        least = -(-Fraction(announced * drawn.batch, drawn.population) // 1)
    most = max(drawn.most_draws, int(least)) + max(facts.draws - announced, 0)
    return most if most < facts.draws else None
