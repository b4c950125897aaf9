"""What lies next to a log: the model and the measurements that people take from the folder.

A log that was edited may be whole by itself and belong to another model than the one next to it.
What is not there is not missed: a folder may hold the log alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput
from ..findings import Match, rule
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import (
    configured_value,
    first_release,
    matrix_before_training,
    models_of,
    moments_of,
    require_same_score,
    training_of,
    votes_of,
)
from .lineage import Lineage, digits, released_models, states_of
from .stored_model import StoredModel, text_of

MODEL_FILE: Final = "model.npz"
CHECKPOINT_FILE: Final = "checkpoint.npz"
METRICS_FILE: Final = "metrics.json"

_KEEP_TRUSTED_FILE: Final = (
    "Keep to the file that a trusted copy of the folder holds, with its own log."
)


@rule(
    "foreign-model",
    why="The log speaks of the model that it names; of another one it says nothing, whatever that "
    "one shows of anybody.",
    next_step=_KEEP_TRUSTED_FILE,
)
def foreign_model(folder: Path, ledger: Ledger, lineage: Lineage) -> tuple[Match, ...]:
    """Fire where a model next to a log is another than the one that it names."""
    model, checkpoint = folder / MODEL_FILE, folder / CHECKPOINT_FILE
    return (
        *_first(model, _model(model, ledger, lineage)),
        *_first(checkpoint, _checkpoint(checkpoint, ledger)),
    )


@rule(
    "foreign-metrics",
    why="Measurements and guarantees that do not stand in the log are vouched for by nothing.",
    next_step=_KEEP_TRUSTED_FILE,
)
def foreign_metrics(folder: Path, ledger: Ledger) -> tuple[Match, ...]:
    """Fire where the measurements next to a log are others than it states."""
    return _first(folder / METRICS_FILE, _metrics(folder / METRICS_FILE, ledger))


def _first(path: Path, differences: Iterator[str]) -> tuple[Match, ...]:
    """Return the first difference of a file from its log; nothing of a file that is not there."""
    if not path.exists():
        return ()
    try:
        difference = next(differences, None)
    except InvalidInput as error:
        difference = error.what
    return () if difference is None else (Match(difference),)


def _model(path: Path, ledger: Ledger, lineage: Lineage) -> Iterator[str]:
    """Yield what a file of a model says otherwise than the log, both of it."""
    stored = StoredModel.read(path)
    if stored.run_id != ledger.opened.run_id:
        yield (
            f"{MODEL_FILE} is of the run {stored.run_id:.40}, the log of "
            f"{ledger.opened.run_id:.40}."
        )
    closed = ledger.closed
    named = () if closed is None or closed.model is None else (closed.model,)
    # The last line names the model; without one it is what the last release left.
    expected = named or lineage.last
    if expected and stored.digest not in expected:
        what = "the last line names" if named else "the last release left"
        yield (
            f"{MODEL_FILE} holds the model {digits(stored.digest)}, and {what} {digits(*expected)}."
        )
    models = released_models(ledger)
    of_round = models.get(stored.round) if stored.round else None
    if of_round is not None and of_round != stored.digest:
        yield (
            f"{MODEL_FILE} says that its model {digits(stored.digest)} is of round "
            f"{stored.round:,}, which released {digits(of_round)}."
        )
    if stored.round and models and of_round is None:
        yield f"{MODEL_FILE} is of round {stored.round:,}, and the log has no release of it."
    first = lineage.first
    if not stored.round and first is not None and stored.digest != first:
        yield (
            f"{MODEL_FILE} says that its model {digits(stored.digest)} is of "
            f"before the first round, which starts from {digits(first)}."
        )
    yield from _foreign_state(MODEL_FILE, stored, ledger)
    for kept, release, what, purpose in (
        (stored.moments, moments_of(ledger), "moments", "to normalise by"),
        (stored.matrix, matrix_before_training(ledger), "matrix", "to project by"),
        (stored.votes, votes_of(ledger), "votes", "of users who were held out"),
    ):
        stated = _aggregate(release)
        if kept != stated:
            yield (
                f"{MODEL_FILE} holds {_digest(kept, what)} {purpose}, and the log released "
                f"{_digest(stated, what)}."
            )
    yield from _unmeasured(MODEL_FILE, dict(stored.measured), ledger)


def _checkpoint(path: Path, ledger: Ledger) -> Iterator[str]:
    """Yield where a run would go on from another state than its last release left."""
    stored = StoredModel.read(path)
    if stored.run_id == ledger.opened.run_id:
        yield from _foreign_state(CHECKPOINT_FILE, stored, ledger)


def _foreign_state(name: str, stored: StoredModel, ledger: Ledger) -> Iterator[str]:
    """Yield that what is kept with a model is not what was released with it."""
    states = states_of(ledger, stored.digest)
    if states and not stored.holds_state(states):
        yield (
            f"{name} holds another state with its model than the one that the log released with "
            f"it, {digits(*sorted(states))}."
        )


def _aggregate(spent: SpentIntent | None) -> str | None:
    """Return the digest of what was released under an intent, if anything was."""
    release = None if spent is None else first_release(spent)
    return None if release is None else release.aggregate


def _digest(value: str | None, what: str = "moments") -> str:
    return f"no {what}" if value is None else f"the {what} {digits(value)}"


def _metrics(path: Path, ledger: Ledger) -> Iterator[str]:
    """Yield what a file of measurements says otherwise than the log, both of it."""
    content = text_of(path)
    if not isinstance(content, dict):
        raise InvalidInput(f"{METRICS_FILE} is no table of measurements.")
    for name, due in _due(ledger):
        if name in content and due is not None and content[name] != due:
            yield f"{METRICS_FILE} says {name} {content[name]!r:.60}, and the log {due!r:.60}."
    try:
        measured = {
            int(row["round"]): {str(key): float(value) for key, value in row["metrics"].items()}
            for row in content["rounds"]
        }
        proven = {
            str(who): (float(row["epsilon"]), float(row["delta"]))
            for who, row in content["guarantees"].items()
        }
        protects = {
            str(who): {name: str(row[name]) for name in ("unit", "neighbours", "engine")}
            for who, row in content["guarantees"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        raise InvalidInput(f"{METRICS_FILE} is no table of measurements.") from None
    if ledger.closed is not None:
        require_same_score(content.get("held_out"), ledger)
    yield from _unproven(proven, ledger)
    yield from _protecting_others(protects, ledger)
    yield from _unmeasured(METRICS_FILE, measured, ledger)
    public = {
        evaluation.round
        for _, evaluation in ledger.evaluations
        if evaluation.data == "declared-public"
    }
    left_out = sorted(public - measured.keys())
    if ledger.closed is not None and left_out:
        yield f"The log measures round {left_out[0]:,}, and {METRICS_FILE} leaves it out."


def _due(ledger: Ledger) -> Iterator[tuple[str, object]]:
    """Yield what the log says of the whole run, by the names that measurements have for it."""
    training = training_of(ledger)
    yield "run_id", ledger.opened.run_id
    yield "system", ledger.opened.system
    yield "data", configured_value(ledger, "data", "name")
    yield "model", configured_value(ledger, "training", "model")
    yield "planned", ledger.opened.plan.rounds - (len(ledger.spent) - len(training))
    yield "released", _released(ledger)


def _released(ledger: Ledger) -> int:
    """Return how many rounds released a model: none of a run that lost it and has a count, say."""
    return sum(
        any(release.model_out is not None for _, release in spent.releases)
        for spent in models_of(ledger)
    )


def _unproven(proven: Mapping[str, tuple[float, float]], ledger: Ledger) -> Iterator[str]:
    """Yield guarantees that are not those of the last line."""
    closed = ledger.closed
    if closed is None:
        return
    for who, (epsilon, delta) in proven.items():
        if closed.epsilon.get(who) != epsilon or closed.delta != delta:
            yield (
                f"{METRICS_FILE} says epsilon {epsilon:g} at delta {delta:g} before "
                f"{who!r:.40}, and the last line {closed.epsilon.get(who, math.nan):g} at "
                f"{closed.delta:g}."
            )
    for who in closed.epsilon.keys() - proven.keys():
        yield f"The last line has a number before {who!r:.40}, and {METRICS_FILE} leaves it out."


def _protecting_others(protects: Mapping[str, Mapping[str, str]], ledger: Ledger) -> Iterator[str]:
    """Yield guarantees for others than the first line protects, or of another engine."""
    claim, closed = ledger.opened.claim, ledger.closed
    for who, stated in protects.items():
        unit = claim.unit if claim.group == 1 else f"group of {claim.group:,} records"
        due = {"unit": unit, "neighbours": claim.neighbours}
        if closed is not None and who == claim.observer:
            due["engine"] = closed.engine
        for name, value in due.items():
            if stated[name] != value:
                yield (
                    f"{METRICS_FILE} says {name} {stated[name]!r:.40} before {who!r:.40}, and "
                    f"the log {value!r:.40}."
                )


def _unmeasured(name: str, measured: Mapping[int, Any], ledger: Ledger) -> Iterator[str]:
    """Yield measurements that do not stand in the log; after a recovery one may stand twice.

    A run without public test data keeps its rounds, with no metrics.
    """
    stated: dict[int, list[Mapping[str, str]]] = {}
    for _, evaluation in ledger.evaluations:
        stated.setdefault(evaluation.round, []).append(evaluation.metrics)
    for number, values in measured.items():
        shown = {key: repr(value) for key, value in values.items()}
        if shown not in stated.get(number, []) and (shown or number in stated):
            others = f"{stated[number][-1]!r:.90}" if number in stated else "nothing"
            yield f"{name} says of round {number:,} {shown!r:.90}, and the log says {others}."
