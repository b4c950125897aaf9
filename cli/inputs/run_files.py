"""Which files describe one run together, and which are runs of their own.

The rule: descriptions that state a claim or a noise are runs of their own.  One of them beside
other files is one run, and so are files of different kinds; files of one kind are one run each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from ...accountant.errors import InvalidInput

if TYPE_CHECKING:
    from ...audit.description.run_description import Reading

DESCRIPTION: Final = "description"
"""How the formats of descriptions begin, in TOML or JSON."""

MAX_TYPED_CHARACTERS: Final = 64
"""Most characters of a typed number."""

Grouping = Literal["usual", "together", "each"]


def runs_in(readings: Sequence[Reading], grouping: Grouping) -> tuple[tuple[Reading, ...], ...]:
    """Return the readings of each run, in their order.

    Raises `InvalidInput` where several descriptions stand beside files that may belong to any.
    """
    together = (tuple(readings),)
    each = tuple((reading,) for reading in readings)
    if len(readings) < 2 or grouping == "together":
        return together
    if grouping == "each":
        return each
    descriptions = [reading for reading in readings if reading.format.startswith(DESCRIPTION)]
    whole = [reading for reading in descriptions if states_a_run(reading)]
    others = [reading for reading in readings if reading not in descriptions]
    if len(whole) > 1:
        if others:
            raise _ambiguous(whole, others)
        return each
    if whole or descriptions:
        return together
    formats = {reading.format for reading in others}
    if len(formats) == len(others):
        return together
    if len(formats) == 1:
        return each
    raise _ambiguous(others[:1], others[1:])


def states_a_run(reading: Reading) -> bool:
    """Return whether a description holds a claim or a noise, or the event of a whole run."""
    tables = {key.partition(".")[0] for key in reading.facts}
    phases = "schedule.phases" in reading.facts
    return bool(tables & {"claim", "noise"}) or phases or reading.event is not None


def _ambiguous(runs: Sequence[Reading], others: Sequence[Reading]) -> InvalidInput:
    first, beside = runs[0].source, others[0].source
    return InvalidInput(
        f"Several files look like runs of their own, {first!r:.80} among them, and it is not clear "
        f"to which of them {beside!r:.80} belongs.",
        "Facts of one run must not decide about another.",
        "Add --together where all files describe one run, or --each where each is a run.",
    )


def grouping_of(*, together: bool, each: bool) -> Grouping:
    """Return how files are grouped; raise `InvalidInput` where both ways are asked for."""
    if together and each:
        raise InvalidInput(
            "--together and --each exclude each other; both are given.",
            "Files describe one run, or one each.",
            "Leave one of them out.",
        )
    return "together" if together else "each" if each else "usual"


def stated_facts(
    stated: Sequence[str], claimed: str | None, delta: str | None
) -> tuple[Reading, ...]:
    """Return what the options --set, --claimed and --delta say, each with its name as source."""
    from ...audit.description.files import reading_of_option
    from ...audit.description.merging import OPTIONS
    from ...audit.description.tables import reading_of_names

    readings = [reading_of_option(option) for option in stated]
    for key, flag, value in (
        ("claim.epsilon", "--claimed", claimed),
        ("claim.delta", "--delta", delta),
    ):
        if flag == "--delta" and value in ("1/records", "1/batches"):
            key = "claim.delta_rule"
        if value is not None:
            named = reading_of_names({key: printed_number(value)}, flag)
            readings.append(replace(named, format=OPTIONS))
    return tuple(readings)


def printed_number(text: str) -> object:
    """Return a typed number with the digits that it has; what is none goes to its key's check."""
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text) if len(text) <= MAX_TYPED_CHARACTERS else text
    except InvalidOperation:
        return text
