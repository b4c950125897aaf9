"""A table of a run's history, row by row: what CSV and JSONL readers have in common.

Columns are known by their names (`content.py`).  Three kinds of tables are told apart:

- with a column of epsilon: a log, in which epsilon grows; its last value is the claim, and where
  noise or rate change as well the rows may be runs of their own, so the table is refused;
- with noise, rate and steps: phases in order, one a row;
- with a counter (`step`, `epoch`): its last value counts the steps or epochs.

Numbers of a history are what somebody chose to print: epsilon, delta, rates and noise keep the
precision of their last digit, a noise printed as 0.0000 is not taken for zero (nor for the noise of
other rows), and two columns for one thing are refused, since nobody but the author can choose.  So
is a blank cell of noise, rate or steps in a table that has them row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput, counted
from ..description.printed_number import half_unit_of
from ..description.run_description import Phase, Reading
from .content import (
    decimal_of,
    digits_of,
    merged_phases,
    printed,
    printed_delta,
    read_facts,
    role_of,
    speaks_of_privacy,
)
from .history_rows import History

ALWAYS: Final = (
    "A history has neither unit, neighbouring relation, sampler nor the source of the clipping "
    "norm.",
)


_PRINTED: Final = {
    "claim.delta": "delta",
    "noise.noise_multiplier": "noise",
    "sampling.rate": "rate",
    "schedule.phases": "rate",
}
"""Keys whose numbers a program printed, so that they are open by their digits, by column."""


def roles_of(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the names behind each role."""
    roles: dict[str, list[str]] = {}
    for name in names:
        role = role_of(name)
        if role is not None:
            roles.setdefault(role, []).append(name)
    return roles


def is_history(names: Sequence[str]) -> bool:
    """Return whether column names are those of a private run."""
    return speaks_of_privacy(set(roles_of(names)))


def columns_of(names: Sequence[str]) -> dict[str, str]:
    """Return the one column for each role; raises `InvalidInput` where there are two."""
    roles = roles_of(names)
    for role, columns in roles.items():
        if len(columns) > 1:
            raise InvalidInput(
                f"The columns {' and '.join(f'`{column:.40}`' for column in columns)} are both "
                f"names for {role}.",
                "Which of them the run reports is not in the file.",
                "Remove all but one.",
            )
    return {role: columns[0] for role, columns in roles.items()}


def reading_of(history: History, name: str, file_format: str) -> Reading:
    """Return the claim and the settings that a history holds, with what is doubtful."""
    if not history.rows:
        raise InvalidInput(
            "The history has no rows.",
            "A history without entries says nothing of a run.",
            "Give the file as it is after the last step.",
        )
    table = _Table(history)
    values: dict[str, object] = {"claim.epsilon": table.claim(), "claim.delta": table.delta()}
    values |= table.schedule()
    values |= table.settings()
    facts = {
        key: replace(fact, half_unit=_half_unit(key, table)) if key in _PRINTED else fact
        for key, fact in read_facts(name, values).items()
    }
    if table.first_epoch_is_open:
        # 15.5 by half: 15 epochs, or 16 if the first row was trained and its epsilon rounded away.
        epochs = facts["schedule.epochs"]
        facts["schedule.epochs"] = replace(epochs, half_unit=0.5)
    return Reading(name, file_format, facts, (*ALWAYS, *table.doubts), upper_only=table.upper_only)


def _half_unit(key: str, table: _Table) -> float:
    """Return how far the digits of a column leave a number open; a delta of one digit was meant."""
    half = table.half_unit(_PRINTED[key])
    if key == "claim.delta":
        return (
            half
            if all(len(digits_of(text, field)) > 1 for field, text in table.cells("delta"))
            else 0.0
        )
    return half


class _Table:
    """Reads one history column by column, and collects doubts."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.doubts: list[str] = []
        self.upper_only = ""
        self.first_epoch_is_open = False
        self._doubted: set[str] = set()
        self._cells: dict[str, list[tuple[str, str]]] = {}

    def cells(self, role: str) -> list[tuple[str, str]]:
        """Return the cells of a column that are not blank, each with the name of its field."""
        column = self.history.columns.get(role)
        if column is not None and role not in self._cells:
            self._cells[role] = [
                (f"{column} in line {number}", row[role].strip())
                for row, number in zip(self.history.rows, self.history.numbers, strict=True)
                if row.get(role, "").strip()
            ]
        return self._cells.get(role, [])

    def half_unit(self, role: str) -> float:
        """Return half of the last digit that the coarsest cell of a column has."""
        cells = self.cells(role)
        return max((half_unit_of(decimal_of(text, field)) for field, text in cells), default=0.0)

    def claim(self) -> object:
        epsilons = [printed(text, field) for field, text in self.cells("epsilon")]
        if not epsilons:
            return None
        values = [number.value for number in epsilons]
        if any(later < earlier for earlier, later in pairwise(values)):
            self.doubts.append(
                "epsilon goes down from one row to the next: an accountant was made anew, or the "
                "column is not what was spent until then."
            )
        self.doubts.append(
            f"The last of {counted(len(values), 'value')} of epsilon is taken as the claim; "
            "whether the run went on after it is not in the file."
        )
        return epsilons[-1]

    def delta(self) -> float | None:
        deltas = [printed_delta(text, field) for field, text in self.cells("delta")]
        if len(set(deltas)) > 1:
            self.doubts.append("delta changes from row to row; the last one is taken.")
        return deltas[-1] if deltas else None

    def schedule(self) -> dict[str, object]:
        noises = [self._noise(field, text) for field, text in self.cells("noise")]
        rates = [self._rate(field, text) for field, text in self.cells("rate")]
        steps = self._steps()
        rows = len(self.history.rows)
        if None not in noises and len(noises) == len(rates) == rows and len(steps) == rows:
            phases = merged_phases(
                [
                    Phase(noise, rate, count)
                    for noise, rate, count in zip(noises, rates, steps, strict=True)
                    if noise is not None and count
                ]
            )
            if len(phases) > 1 and self.cells("epsilon"):
                raise self._phases_or_runs()
            if len(phases) > 1:
                return {"schedule.phases": phases}
        return {
            "noise.noise_multiplier": self._constant("noise", noises),
            "sampling.rate": self._constant("rate", rates),
            "schedule.steps": sum(steps) or None,
            "schedule.epochs": self._epochs(),
        }

    def _phases_or_runs(self) -> InvalidInput:
        columns = [
            self.history.columns[role]
            for role in ("noise", "rate", "steps", "epsilon")
            if role in self.history.columns
        ]
        return InvalidInput(
            f"The settings change from row to row with an epsilon: "
            f"{', '.join(f'`{column}`' for column in columns)}.",
            "The rows may be phases of one run, or a run each, and the same numbers would mean "
            "quite different guarantees.",
            "Give one file for each run; or remove the epsilon of a schedule, and state "
            "claim.epsilon with it.",
        )

    def settings(self) -> dict[str, object]:
        """Return what is stated besides the schedule, where it is the same in all rows."""
        values: dict[str, object] = {}
        for role, key in (
            ("batch", "sampling.batch"),
            ("records", "data.records"),
            ("accumulation", "schedule.accumulation"),
        ):
            counts = [_count(field, text) for field, text in self.cells(role)]
            values[key] = self._constant(role, counts)
        clips = [
            validate.positive(**{field: float(decimal_of(text, field))})
            for field, text in self.cells("clip")
        ]
        if len(set(clips)) > 1:
            self.doubts.append(
                f"`{self.history.columns['clip']}` changes from row to row: the clipping norm is "
                "not constant, and where it came from is not in the file."
            )
        values["noise.clip"] = clips[0] if len(set(clips)) == 1 else None
        return values

    def _steps(self) -> list[int]:
        """Return how many steps each row adds."""
        counter = [_count(field, text, least=0) for field, text in self.cells("step")]
        counts = [_count(field, text) for field, text in self.cells("steps")]
        if counts:
            rising = _rises(counts)
            column = self.history.columns["steps"]
            if len(counts) > 1 and rising and self.cells("epsilon"):
                return _differences(counts)
            if len(counts) > 1 and rising:
                self.doubts.append(
                    f"`{column}` is read as the steps of each row; if it counts all steps until "
                    "then, the last row alone is the schedule."
                )
            elif len(counts) > 1 and len(set(counts)) == 1 and self.cells("epsilon"):
                self.doubts.append(
                    f"`{column}` is {counts[0]:,} in all rows: of each row, or of the whole run; "
                    "state schedule.steps."
                )
                return []
            elif len(counts) > 1 and self.cells("epsilon"):
                raise InvalidInput(
                    f"The column `{column}` neither rises nor is constant, with an epsilon.",
                    "It may count the steps of a row or of the run.",
                    "Remove the column, and state schedule.steps.",
                )
            return counts
        if counter and self.history.columns["step"].lower().endswith("round"):
            counter = []
            self.doubts.append("Rounds are counted, and how many steps a round has is not said.")
        if counter:
            if _counts_from_zero(counter):
                # A row at every fifth step that is called 4, 9, 14 counts its steps from 0.
                counter = [count + 1 for count in counter]
                self.upper_only = (
                    f"`{self.history.columns['step']}` may count from 0, and is taken to; from 1 "
                    "there is a step less."
                )
            first = counter[0]
            self.doubts.append(
                f"`{self.history.columns['step']}` ends at {counter[-1]:,}"
                + (
                    ", counted from 0; it may be one less than the steps."
                    if first == 0
                    else ", which is taken as the number of steps."
                )
            )
            if len(counter) == len(self.history.rows) and first > 0 and _rises(counter):
                return _differences(counter)
        return []

    def _epochs(self) -> float | None:
        epochs = [_count(field, text, least=0) for field, text in self.cells("epoch")]
        if not epochs:
            return None
        if len(epochs) > 1 and epochs == list(range(epochs[0], epochs[0] + len(epochs))):
            if epochs[0] in (0, 1):
                self.first_epoch_is_open = self._may_begin_untrained(epochs[0])
                return len(epochs) - (0.5 if self.first_epoch_is_open else 0)
            self.doubts.append(
                f"The first row is of epoch {epochs[0]:,}: earlier epochs are not in the file."
            )
            return None
        self.doubts.append(
            f"`{self.history.columns['epoch']}` does not have one row for each epoch, so the last "
            f"row may lie within epoch {epochs[-1]:,}."
        )
        return None

    def _may_begin_untrained(self, first: int) -> bool:
        """Return whether the first row may stand for the start: of epoch 0, with nothing spent."""
        epsilons = self.cells("epsilon")
        whole = len(epsilons) == len(self.history.rows)
        return first == 0 and whole and decimal_of(epsilons[0][1], epsilons[0][0]) == 0

    def _noise(self, field: str, text: str) -> float | None:
        noise = validate.non_negative(**{field: float(decimal_of(text, field))})
        if noise == 0:
            self._doubt_once(
                "noise",
                f"`{self.history.columns['noise']}` is printed as {text:.20}: that is no noise at "
                "all, or a small one that was rounded away; state noise.noise_multiplier.",
            )
            return None
        return noise

    def _rate(self, field: str, text: str) -> float:
        decimal = decimal_of(text, field)
        rate = validate.probability(**{field: float(decimal)})
        validate.positive(**{field: rate})
        if _is_coarse(decimal):
            self._doubt_once(
                "rate",
                f"`{self.history.columns['rate']}` is printed as {text:.20}: a rate that was "
                "rounded down proves too small an epsilon.",
            )
        return rate

    def _constant(self, role: str, values: Sequence[object]) -> object:
        """Return the value of all rows; None, with a doubt, where it changes."""
        distinct = set(values)
        if len(distinct) > 1:
            self.doubts.append(
                f"`{self.history.columns[role]}` changes from row to row, and the rows do not say "
                "how many steps each stands for: state schedule.phases."
            )
        return distinct.pop() if len(distinct) == 1 else None

    def _doubt_once(self, role: str, doubt: str) -> None:
        """Add a doubt about a column, for the first cell that gives reason to it."""
        if role not in self._doubted:
            self._doubted.add(role)
            self.doubts.append(doubt)


def _is_coarse(number: Decimal) -> bool:
    """Return whether a decimal has one or two digits, and is no power of ten."""
    digits = number.normalize().as_tuple().digits
    return len(digits) < 3 and digits != (1,)


def _rises(counts: Sequence[int]) -> bool:
    return all(a < b for a, b in pairwise(counts))


def _counts_from_zero(counts: Sequence[int]) -> bool:
    """Return whether a counter begins one below the distance of its rows, which is always the same.

    >>> _counts_from_zero([4, 9, 14]), _counts_from_zero([5, 10, 15]), _counts_from_zero([1, 2, 3])
    (True, False, False)
    """
    distances = {b - a for a, b in pairwise(counts)}
    return len(distances) == 1 and counts[0] > 0 and distances == {counts[0] + 1}


def _differences(counts: Sequence[int]) -> list[int]:
    return [counts[0], *(b - a for a, b in pairwise(counts))]


def _count(field: str, text: str, *, least: int = 1) -> int:
    """Return a count; tables of numbers write 100 as 100.0, too."""
    number = decimal_of(text, field)
    whole = number.is_finite() and abs(number) <= validate.LARGEST_COUNT and number % 1 == 0
    return validate.count_from(least, **{field: int(number) if whole else float(number)})
