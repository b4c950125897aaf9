"""What planned phases, whose noise is known, prove to one observer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from .. import events as ev
from ..account import account
from ..errors import InvalidInput
from ..guarantee import Guarantee, Step
from ..neighbours import Neighbours
from .phases import PlannedPhase, composed


def observers_of(seen: Sequence[Iterable[str]]) -> tuple[str, ...]:
    """Return all observers, the one that sees most phases first; `seen` lists them by phase."""
    by_phase = [tuple(names) for names in seen]
    names = list(dict.fromkeys(name for names in by_phase for name in names))
    return tuple(sorted(names, key=lambda name: -sum(name in phase for phase in by_phase)))


def proven(
    phases: Sequence[PlannedPhase],
    observer: str,
    *,
    delta: float,
    relation: Neighbours,
    group: int,
    known: dict[ev.Event, Guarantee] | None = None,
) -> Guarantee:
    """Return the guarantee of all that an observer sees, with the scope that the plan gives it.

    `known` keeps what each event proves at this `delta` and relation: observers who see the same
    are accounted for once.
    """
    seen, accounted = composed(phases, observer, group), {} if known is None else known
    if seen not in accounted:
        accounted[seen] = account(seen, delta=delta, neighbours=relation)
    guarantee = accounted[seen]
    # The scope states what was counted, and that the rest reaches this observer in no way.
    names = [phase.name for phase in phases if observer in phase.views]
    hidden = [phase.name for phase in phases if observer not in phase.views]
    scope = Step(
        "composition",
        f"What {observer!r} sees: {', '.join(names)}.",
        "by the definition of the plan",
        (
            "the plan is fixed before the first release",
            *(f"nothing it sees depends on what {name!r} released" for name in hidden),
            *(
                f"by a public schedule, at most {phase.counted:,} of {phase.rounds:,} rounds of "
                f"{phase.name!r} depend on the silo of one unit"
                for phase in phases
                if phase.counted is not None
            ),
        ),
    )
    return replace(guarantee, observer=observer, derivation=(scope, *guarantee.derivation))


def of_units(guarantees: Mapping[str, Guarantee], unit: str) -> dict[str, Guarantee]:
    """Return guarantees that call a record by the name of the unit that it stands for."""
    return {
        who: replace(known, unit=unit_named(known.unit, unit)) for who, known in guarantees.items()
    }


def unit_named(counted: str, unit: str) -> str:
    """Return what `unit_of` says of records, said of units."""
    if not isinstance(unit, str) or not unit.strip():
        raise InvalidInput("A unit needs a name.", next_step="Give `unit` a name such as 'user'.")
    return counted.replace("record", unit)
