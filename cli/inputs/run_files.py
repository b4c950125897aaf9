"""Which files describe one run together, and which are runs of their own.

The rule: descriptions that state a claim or a noise are runs of their own.  One of them with
other files is one run, and so are files of different kinds; files of one kind are one run each.

The FILEs of `privplan check` are files, folders, runs of privplan, or standard input if `-`.  What
options or an event describe is such a reading, too.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ...accountant.errors import InvalidInput
from .schedule import ALLOCATED, REPLACED, SHUFFLED

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...audit.description.run_description import Reading
    from .described_run import DescribedRun


DESCRIPTION: Final = "description"
"""How the formats of descriptions begin, in TOML or JSON."""

MAX_TYPED_CHARACTERS: Final = 64
"""Most characters of a typed number."""

Grouping = Literal["usual", "together", "each"]


def runs_in(readings: Sequence[Reading], grouping: Grouping) -> tuple[tuple[Reading, ...], ...]:
    """Return the readings of each run, in their order.

    Raises `InvalidInput` where several descriptions stand with files that may belong to any.
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
    first, other = runs[0].source, others[0].source
    return InvalidInput(
        f"Several files look like runs of their own, {first!r:.80} among them, and it is not clear "
        f"to which of them {other!r:.80} belongs.",
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


STANDARD_INPUT: Final = "standard input"
MAX_FOLDER_FILES: Final = 1000
MAX_INPUT_BYTES: Final = 64 * 1024 * 1024
"""Most bytes that are taken from standard input."""


def read_source(source: str) -> Reading:
    """Return what a file says of a run; raise `InvalidInput` for what is not understood."""
    from ...accountant.errors import InvalidInput
    from ...accountant.regular_file import first_bytes_given, is_own_stream
    from ...audit.readers.recognition import read_content, read_file

    if source != "-" and not is_own_stream(source):
        return read_file(source)
    if source != "-":
        try:
            content = first_bytes_given(source, MAX_INPUT_BYTES)
        except OSError:
            return read_file(source)  # which says what is wrong
    else:
        content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    if len(content) > MAX_INPUT_BYTES:
        raise InvalidInput(
            f"Standard input holds more than {MAX_INPUT_BYTES // 1024**2} MiB.",
            "What describes a run is short.",
            "Give the file itself, of which only the accountant's part is read.",
        )
    return read_content(content, STANDARD_INPUT)


def expanded(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the sources with every folder, but the runs of privplan, as the files in it.

    Hidden files and folders in a folder are left out.  Raises `InvalidInput` for a folder without
    files, or with more than `MAX_FOLDER_FILES`.
    """
    return tuple(dict.fromkeys(file for source in sources for file in _files_of(source)))


def _files_of(source: str) -> tuple[str, ...]:
    from ...accountant.errors import InvalidInput
    from ...audit.readers.recognition import LOG_FILE

    try:
        folder = Path(source)
        if source == "-" or not folder.is_dir() or (folder / LOG_FILE).exists():
            return (source,)
        names = sorted(
            entry.name
            for entry in folder.iterdir()
            if entry.is_file() and not entry.name.startswith(".")
        )
    except (OSError, ValueError):
        return (source,)  # reading it says what is wrong
    if not names:
        raise InvalidInput(
            f"{source} is a folder without log.jsonl, and without any file.",
            "A run of privplan has a log; other runs are described by files.",
            "Name the files that hold the runs' numbers: privplan check runs/*.toml",
        )
    if len(names) > MAX_FOLDER_FILES:
        raise InvalidInput(
            f"{source} has more than {MAX_FOLDER_FILES:,} files.",
            "Each would be a run of its own.",
            "Name the files that hold the runs' numbers: privplan check runs/*.toml",
        )
    return tuple(str(folder / name) for name in names)


SOURCE: Final = "options"
DEFAULT: Final = "the default of the command"


@dataclass(frozen=True)
class TypedFacts:
    """What of a claim somebody typed, rather than a default that stood in."""

    delta: bool
    neighbours: bool
    sampling: bool


def reading_of_claim(
    claimed: str,
    delta: float,
    neighbours: str,
    run: DescribedRun | None,
    event: Event,
    typed: TypedFacts,
) -> Reading:
    """Return what is claimed, and of which run; of one that no keys can express, its event.

    A default that nobody typed is an assumption, and a sampler that nobody typed is not said at
    all.  Raises `InvalidInput` for a claim that is no number.
    """
    from ...audit.check.checked_run import PRIVPLAN_EVENT
    from ...audit.description.run_description import Reading
    from ...audit.description.tables import checked_fact, reading_of_tables

    tables: dict[str, Mapping[str, object]] = {"claim": {"epsilon": printed_number(claimed)}}
    described = run is not None and run.schedule.sampling != ALLOCATED
    if described:
        assert run is not None
        tables |= _tables(run, typed)
    facts = dict(reading_of_tables(tables, SOURCE).facts)
    for key, value, was_typed in (
        ("claim.delta", delta, typed.delta),
        ("claim.neighbours", neighbours, typed.neighbours),
    ):
        if was_typed:
            facts[key] = checked_fact(key, value, "stated", SOURCE)
        else:
            facts[key] = checked_fact(key, value, "assumed", DEFAULT)
    if described:
        return Reading(SOURCE, "description", facts)
    return Reading(SOURCE, PRIVPLAN_EVENT, facts, event=event)


def _tables(run: DescribedRun, typed: TypedFacts) -> dict[str, Mapping[str, object]]:
    schedule = run.schedule
    tables: dict[str, Mapping[str, object]] = {
        "noise": {"family": run.mechanism, "noise_multiplier": run.noise_multiplier},
        "schedule": {"steps": schedule.rounds},
    }
    sampling: dict[str, object] = {}
    if schedule.rate == 1.0 and schedule.sampling != REPLACED:
        sampling["method"] = "full"
    elif typed.sampling:
        sampling["method"] = schedule.sampling
    if schedule.records is None:
        return {**tables, "sampling": {**sampling, "rate": schedule.rate}}
    if schedule.sampling == SHUFFLED and schedule.rate < 1.0:
        # Whole passes, as they are accounted: steps of a last one that is cut short count as one.
        tables["schedule"] = {"epochs": schedule.repeats}
    elif schedule.passes and schedule.batch:
        whole = -(-schedule.passes * schedule.records // schedule.batch) == schedule.rounds
        passes = {"epochs": schedule.passes} if whole else {}
        tables["schedule"] = {"steps": schedule.rounds, **passes}
    return {
        **tables,
        "data": {"records": schedule.records},
        "sampling": {**sampling, "batch": schedule.batch},
    }
