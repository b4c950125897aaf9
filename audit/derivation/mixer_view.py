"""What the sums of messages reveal to who mixes them: it knows all senders, and its dummies.

A shuffler that holds ciphertexts, or is supposed to read none, and that is said to see sums alone
(`sum`, and `dummies` beside it) knows which coordinates each unit sent, and whatever it added
itself.  Its number rests on the noise of the other units who sent the same coordinates:
`accountant.amplification.shuffling.mixer`.  Of how messages are mixed counts what is stated to
reach others, the smallest where other facts say less; colluders tell it, too.

Where all units send everything and nothing is added, what it knows beside the sums is an order,
which was drawn apart, and ciphertexts: its view is made of what the analyzer sees, and the number
before that holds.

Where anything is not said, or depends on data, it counts as who sees each message.  A statement of
`sum` without `dummies`, and of `nothing`, counts as that as well (`counted_reaches`): then no fact
says that it gets nothing but sums, and it knows whose message each is.
"""

from __future__ import annotations

from dataclasses import replace

from ...accountant import events as ev
from ...accountant.amplification.shuffling.mixer import mixer_event
from ...accountant.records import Reach
from ...accountant.sensitivity.release import repeated
from ...fl.observers.names import ANALYZER
from .believed_reach import believed_reach
from .counted_reaches import RoundCase
from .messages import (
    is_oblivious,
    messages_per_unit,
    randomizer_event,
    round_repetitions,
    see_all_messages,
)
from .round_facts import RoundFacts
from .run_setting import RunSetting
from .shuffled_messages import see_shuffled


def see_as_mixer(case: RoundCase, reach: Reach) -> ev.Event:
    """Return what the sums of a round reveal to who mixed it, or each message."""
    facts, setting = case.facts, case.setting
    event = None if _is_doubted(case) else _from_sums(facts, setting, reach)
    return see_all_messages(facts, setting, reach) if event is None else event


def _is_doubted(case: RoundCase) -> bool:
    """Return whether what is stated of the mixed messages is contradicted, or not stated here."""
    seen = believed_reach(*case.stated, ANALYZER)
    return seen is None or bool(seen.contradicted) or seen.missing


def _from_sums(facts: RoundFacts, setting: RunSetting, reach: Reach) -> ev.Event | None:
    """Return the event of the sums; None where the facts do not say enough."""
    stated = [other for _, other in facts.reaches or ()]
    mixed = [other for other in stated if other.sees == "shuffled"]
    security, there = setting.security, setting.size(facts.contribution.unit)
    if setting.aggregation != "shuffle" or setting.neighbours != "replace-one":
        return None
    if security is None or there is None or not mixed or not facts.messages:
        return None
    apart = facts.sampling.method != "none" or facts.weights.rule != "none" or setting.group > 1
    if apart or any(other.granularity != "coordinate" for other in mixed):
        return None
    # Who tells what it sent tells the shuffler, too, whatever is stated of it.
    told = max(reach.colluders, security.colluders)
    users = min(security.fewest, there, *(other.users or 0 for other in mixed))
    known = replace(reach, colluders=told)
    if all(other.chosen is None and other.padded_to is None for other in stated):
        if facts.width not in (None, facts.noise.draws):
            return None
        everybody = replace(mixed[0], users=users, colluders=told, dropouts=reach.dropouts)
        return see_shuffled(facts, setting, everybody, hidden=False)
    return _of_coordinates(facts, setting, known, users, mixed)


def _of_coordinates(
    facts: RoundFacts, setting: RunSetting, reach: Reach, users: int, mixed: list[Reach]
) -> ev.Event | None:
    """Return the event of coordinates that were chosen whatever the data are."""
    said = (*mixed, reach) if reach.dimensions is not None else mixed
    sizes = {(other.dimensions, other.chosen) for other in said}
    (dimensions, chosen), *others = sizes
    if others or dimensions is None or chosen is None or not 1 <= chosen <= dimensions:
        return None
    # As many values as coordinates, and as many draws as messages of a unit.
    if facts.width not in (None, dimensions) or facts.noise.draws != chosen:
        return None
    selections = {other.selection for other in mixed}
    if selections != {"oblivious"} or not is_oblivious(facts):
        return None
    if facts.noise.family != "laplace" or messages_per_unit(facts) != chosen:
        return None
    left = users - reach.colluders - reach.dropouts
    padded_to = min(other.padded_to or 0 for other in mixed) - reach.colluders
    round_ = mixer_event(
        randomizer_event(facts, setting),
        users=left,
        dimensions=dimensions,
        chosen=chosen,
        padded_to=padded_to,
        coarseness=facts.noise.grid / facts.contribution.bound,
    )
    return None if round_ is None else repeated(round_repetitions(facts), round_)
