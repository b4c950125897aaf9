"""What a run would prove to each observer, for a person and for a program; nothing is written."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...accountant import rounding
from ...accountant.errors import counted
from ...accountant.regular_file import first_bytes
from ...accountant.toml_source import MAX_TOML_BYTES, toml_tables
from ..terminal.output import Report, paragraph, table, wrapped
from . import assumption_words, event_words, guarantee_words, run_words

if TYPE_CHECKING:
    from ...accountant.records import Planned
    from ...fl.frame.opening import Note
    from ...fl.running.forecast import Change, Forecast, ObserverForecast
    from ...fl.running.prepared_run import PreparedRun


def counted_rows(plan: Planned) -> list[tuple[str, str]]:
    """Return the line that says it; none where every silo takes part in every round."""
    if plan.counted is None:
        return []
    most = f"{plan.counted:,} of {plan.rounds:,} rounds, the most of one silo"
    return [("counts", f"{most}; who takes part when is public")]


def notes_json(notes: tuple[Note, ...]) -> list[dict[str, object]]:
    """Return what is said besides guarantees, for JSON."""
    return [{"name": note.name, "says": " ".join(note.sentences), **note.numbers} for note in notes]


def note_rows(notes: tuple[Note, ...]) -> list[tuple[str, str]]:
    """Return the lines about what is said besides guarantees."""
    return [
        row
        for note in notes
        for number, sentence in enumerate(note.sentences)
        for row in wrapped("" if number else note.name, sentence)
    ]


def is_run(path: str) -> bool:
    """Return whether a file is TOML with a table [run], as the configuration of a run is."""
    try:
        return "run" in toml_tables(first_bytes(path, MAX_TOML_BYTES))
    except (OSError, ValueError, RecursionError):
        return False


def forecast_of(path: Path, *, accept_delta: bool = False) -> Report:
    """Return the forecast of the run that a configuration describes.

    `accept_delta`: as if the configuration accepted a delta of 1 / units or more.  Raises as
    `privplan.fl.running.forecast.forecast`, and `InvalidInput` for a file that is none.
    """
    from ...fl.running import plan_run

    return report_of(plan_run(path, accept_delta=accept_delta), path)


def report_of(forecast: Forecast, path: Path) -> Report:
    """Return a forecast in the three forms in which it can be printed."""
    from ...fl.running.warnings import warnings_of

    claim = forecast.prepared.opening.claim
    (claimed,) = (
        expected for expected in forecast.observers if expected.observer == claim.observer
    )
    return Report(
        result={
            "observers": [_row(forecast, expected) for expected in forecast.observers],
            "noise_multiplier": forecast.noise_multiplier,
            "rounds": forecast.rounds,
            "counted": forecast.prepared.opening.plan.counted,
            "delta": claim.delta,
            "unit": claim.unit,
            "neighbours": claim.neighbours,
            "observer": claim.observer,
            "system": forecast.prepared.system.name,
            "design": run_words.design_json(forecast.prepared.design),
            "notes": notes_json(forecast.prepared.notes),
            "study": run_words.study(forecast.prepared) or None,
            **run_words.held_out_json(forecast.prepared),
        },
        text=_text(forecast, path),
        number=rounding.plain(claimed.epsilon.upper),
        warnings=warnings_of(forecast.prepared),
    )


def _row(forecast: Forecast, expected: ObserverForecast) -> dict[str, object]:
    from ...fl.observers.names import observer_fields

    change = expected.lowered_by
    return {
        **observer_fields(expected.observer, forecast.prepared.settings.security.dropouts),
        "epsilon": guarantee_words.ends(expected.epsilon),
        "rests_on": list(expected.rests_on),
        "lowered_by": None if change is None else change.name,
        "lowered_to": None if change is None else change.epsilon,
    }


def _text(forecast: Forecast, path: Path) -> str:
    from ...fl.observers.words import unit_before

    prepared = forecast.prepared
    data, claim = prepared.federation, prepared.opening.claim
    noise = "no noise"
    if forecast.noise_multiplier is not None:
        noise = f"noise multiplier {rounding.up(forecast.noise_multiplier)}"
    unit = unit_before(claim.observer, claim.unit, data.silos)
    changed = assumption_words.change(claim.neighbours, unit)
    who = run_words.population(prepared)
    rounds = counted(forecast.rounds, "round")
    head = [
        (
            "plans",
            f"{prepared.system.name} on {data.name}: {rounds}, {who}, {noise}",
        ),
        ("hides", f"{changed}, at delta {rounding.as_given(claim.delta)}"),
    ]
    head += run_words.study_rows(run_words.study(prepared))
    head += counted_rows(prepared.opening.plan)
    head += run_words.design_rows(prepared.design) + note_rows(prepared.notes)
    head += run_words.held_out_rows(prepared)
    tail = [("writes", "nothing"), ("next", f"privplan run {shlex.quote(str(path))} --out DIR")]
    return "\n\n".join([table(head), _observers(forecast), table(tail)])


def _observers(forecast: Forecast) -> str:
    """Return a line for each observer, and below it who it is and what its number rests on."""
    # Three columns; what a number rests on follows below its line, indented.
    lines = [("before", "epsilon", "lowered most by")]
    lines += [
        (expected.observer, _epsilon_text(expected), _change_text(expected.lowered_by))
        for expected in forecast.observers
    ]
    wide, narrow = (max(len(line[column]) for line in lines) + 3 for column in (0, 1))
    text = [f"{who:<{wide}}{number:<{narrow}}{said}" for who, number, said in lines]
    below = [""] + [_basis(forecast, expected, " " * wide) for expected in forecast.observers]
    return "\n".join(part for pair in zip(text, below, strict=True) for part in pair if part)


def _basis(forecast: Forecast, expected: ObserverForecast, indent: str) -> str:
    prepared = forecast.prepared
    who = paragraph(indent, observer_phrase(prepared, expected.observer))
    said = basis_of(prepared, expected.observer, expected.epsilon.upper, expected.rests_on)
    return f"{who}\n{paragraph(f'{indent}{said[0]}', said[1])}" if said else who


def basis_of(
    prepared: PreparedRun, observer: str, upper: float, rests_on: Sequence[str]
) -> tuple[str, str] | None:
    """Return what a number rests on, or why there is none, with a label; None for nothing."""
    if math.isinf(upper):
        reason = event_words.no_guarantee(prepared.plan.seen_by(observer))
        return None if reason is None else ("because ", reason)
    return ("rests on: ", "; ".join(rests_on)) if rests_on else None


def observer_phrase(prepared: PreparedRun, observer: str, *, whatever: bool = False) -> str:
    """Return an observer in words, with what it sees; `whatever`: whatever a coalition holds."""
    from ...fl.observers.names import SILO_WITH_RECORDS, coalition_of
    from ...fl.observers.words import in_a_run, phrase
    from ...fl.running.forecast import told_every_message

    if coalition_of(observer) is not None:
        return phrase(observer, prepared.settings.security.dropouts, whatever=whatever)
    # Where a unit is some of a user's records, who holds others of them is no part of the promise.
    apart = SILO_WITH_RECORDS in prepared.plan.guarantees or prepared.opening.claim.group > 1
    return in_a_run(
        observer,
        prepared.opening.aggregation,
        unit=prepared.opening.claim.unit,
        told_apart=apart,
        noise_removed=run_words.is_noise_removed(prepared.opening.security),
        told=observer in told_every_message(prepared.system),
    )


def _epsilon_text(expected: ObserverForecast) -> str:
    upper = expected.epsilon.upper
    return rounding.up(upper) if math.isfinite(upper) else "no guarantee"


def _change_text(change: Change | None) -> str:
    if change is None:
        return "nothing here"
    return f"{change.name}: {rounding.up(change.epsilon)}"
