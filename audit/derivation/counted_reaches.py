"""Which reaches are derived for one observer: a mixer's, a contributor's, fewer colluders'."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from ...accountant.records import Reach
from ...fl.observers.names import (
    CLIENT,
    COORDINATOR,
    PEER,
    SERVER,
    SHUFFLER,
    SILO,
    SILO_WITH_RECORDS,
)
from ...fl.observers.reaches import is_mixer_of_sums
from .believed_reach import HOLDS
from .messages import (
    is_number,
)
from .protocol_consistency import reliable_facts
from .round_facts import RoundFacts
from .run_setting import RunSetting

_CONTRIBUTORS: Final = (SILO, SILO_WITH_RECORDS, PEER, CLIENT)
"""Observers that take part themselves."""


@dataclass(frozen=True)
class RoundCase:
    """One round: its facts as far as they can be relied on, and as they are `stated`.

    `hides`: a sample may hide the units that are promised something.
    """

    facts: RoundFacts
    setting: RunSetting
    stated: tuple[RoundFacts, RunSetting]
    hides: bool

    @classmethod
    def of(cls, facts: RoundFacts, setting: RunSetting, *, sampled: bool) -> RoundCase:
        known, whole = reliable_facts(facts, setting)
        known = replace(known, single=is_number(known))
        whole_unit = known.voids or whole.scope(known.contribution.unit) != "finer"
        return cls(known, whole, (facts, setting), sampled and bool(whole_unit))


def counted_reaches(case: RoundCase, observer: str, reach: Reach) -> tuple[Reach, ...]:
    """Return the reaches that are derived for one: of a mixer, and of fewer colluders.

    Who takes part knows its own: the one share of the noise, if that is its own, and its messages
    (`with_messages_of_units`).

    What colluders hold themselves is not hidden from them: of even weights the number of who takes
    its own share off may fall as more of them tell.  In between it has no maximum (its square goes
    as (S - c)^2 / (k - c)), so none of them and all are enough.
    """
    facts = case.facts
    reach = with_messages_of_units(case, _of_mixer(case, observer, reach))
    if observer in _CONTRIBUTORS and reach.sees == "one-share":
        reach = replace(reach, colluders=reach.colluders + 1)
    if facts.messages or reach.sees != "sum-less-own" or not reach.colluders:
        return (reach,)
    # The weakest of both is counted, which bounds every number of colluders in between.
    return reach, replace(reach, colluders=0)


def with_messages_of_units(case: RoundCase, reach: Reach) -> Reach:
    """Return a reach with as many messages as its colluders, and who sees less its own, may hold.

    Each is somebody whom the promise is for, so in a promise for units of k records each of them
    may have sent k messages, one for each record; so may each whose noise is missing.
    """
    if not case.facts.messages:
        return reach
    taken_off = 1 if reach.sees == "sum-less-own" else 0  # `see_sum_of_messages` takes one off
    # k messages of each colluder, less the one that `see_sum_of_messages` takes off itself.
    known = (reach.colluders + taken_off) * case.setting.group - taken_off
    missing = reach.dropouts
    if missing > case.facts.noise.tolerated_dropouts:  # which are messages, as shares of noise are
        missing *= case.setting.group
    return replace(reach, colluders=known, dropouts=missing)


def _of_mixer(case: RoundCase, observer: str, reach: Reach) -> Reach:
    """Return what reaches who mixes messages, or adds dummies to them: each, encrypted or not.

    The shuffler knows the order, so where messages are released it knows whose each is; no fact of
    a log says that only their sum is.  So does a coordinator that passes messages on, to the mix
    and from it: a ciphertext is known again.  Who adds dummies knows them, so they hide nobody from
    it: it routes by coordinate, and how few others sent one is not bounded.  A shuffler that is
    said to see sums alone, and to know its dummies, counts as that (`shuffled_messages`).
    """
    facts, (_, setting) = case.facts, case.stated
    # Who routes messages by coordinate sees each, though it is said to see the release only.
    padded = any(stated.padded_to is not None for _, stated in facts.reaches or ())
    mixes = observer == SHUFFLER or (padded and observer in (COORDINATOR, SERVER))
    mixes |= observer == COORDINATOR and setting.aggregation == "shuffle"
    blind = reach.sees in ("nothing", "sum") and not is_mixer_of_sums(observer, reach)
    return replace(reach, sees="each") if mixes and blind and facts.messages else reach


def released_as_seen(released: Reach, reach: Reach) -> tuple[Reach, ...]:
    """Return what is released as one sees it who knows, and is told, what `reach` says.

    Colluders tell who sees the release what they added, as they tell anybody.  Of sums it counts
    without them as well: see `counted_reaches`.
    """
    combined = replace(
        released,
        holds=max(released.holds, reach.holds, key=HOLDS.index),
        colluders=max(released.colluders, reach.colluders),
        dropouts=max(released.dropouts, reach.dropouts),
        knows_sample=released.knows_sample or reach.knows_sample,
        also=tuple(dict.fromkeys((*released.also, *reach.also))),
    )
    fewer = replace(combined, holds=released.holds, colluders=released.colluders)
    return (combined,) if fewer == combined else (combined, fewer)
