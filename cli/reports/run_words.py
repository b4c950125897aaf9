"""What is public of a run, in words and in JSON: who takes part, by which design, who votes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...accountant import rounding
from ...fl.declarations.data_table import study_words
from ...fl.observers.words import population_words
from ..terminal.output import wrapped

if TYPE_CHECKING:
    from ...accountant.records import Security
    from ...fl.frame.held_out_score import HeldOutScore
    from ...fl.frame.opening import Design
    from ...fl.running.prepared_run import PreparedRun


def population(prepared: PreparedRun) -> str:
    """Return who takes part in a run, as far as that is public."""
    said, unit = prepared.opening.population, prepared.opening.claim.unit
    listed = prepared.settings.data.users_public is not None
    private = prepared.federation.user_names is not None and not listed
    return population_words(
        said.users, said.silos, unit, prepared.plan.guarantees, at_most=private, listed=listed
    )


def study(prepared: PreparedRun) -> str:
    """Return who was dealt at random, and is no real unit of a run; nothing where nobody was."""
    return study_words(prepared.settings.data.name, prepared.opening.claim.unit)


def study_rows(said: str) -> list[tuple[str, str]]:
    """Return the rows that say so; none where nothing was dealt."""
    return wrapped("study", said) if said else []


def design_json(design: Design | None) -> dict[str, str] | None:
    """Return a design that was chosen, and why, for JSON; None where there was no choice."""
    return None if design is None else {"name": design.name, "reason": "; ".join(design.reasons)}


def design_rows(design: Design | None) -> list[tuple[str, str]]:
    """Return the lines about a design that was chosen; none where there was no choice."""
    if design is None:
        return []
    return [("design", f"{design.name}: {design.reasons[0]}")] + [
        ("", reason) for reason in design.reasons[1:]
    ]


def held_out_rows(
    prepared: PreparedRun, score: HeldOutScore | None = None
) -> list[tuple[str, str]]:
    """Return the lines on users who are held out, and how they voted; none where none are."""
    evaluation = prepared.settings.evaluation
    if evaluation.held_out_noise is None or evaluation.held_out is None:
        return []
    noise = rounding.as_given(evaluation.held_out_noise)
    paid = "each epsilon pays for it" if prepared.promises else "there is no guarantee"
    paid = f"noise multiplier {noise}; {paid}"
    if score is None:
        share = rounding.as_given(evaluation.held_out)
        # A silo, or a record, votes where that is what is protected.
        unit = prepared.settings.privacy.unit
        vote = f"one vote of each {unit}" if unit in ("silo", "record") else "one vote each"
        named = prepared.settings.data.user is not None
        who = "users, by their ids" if named else "records, by what each holds"
        said = f"a share {share} of the {who}; {vote} on the last model, {paid}"
        return wrapped("holds out", said)
    return wrapped("held out", f"{score}, as standard deviations ({paid})")


def held_out_json(prepared: PreparedRun, score: HeldOutScore | None = None) -> dict[str, object]:
    """Return the same for JSON; nothing where no users are held out."""
    evaluation = prepared.settings.evaluation
    if evaluation.held_out_noise is None:
        return {}
    planned = {"held_out": evaluation.held_out, "noise_multiplier": evaluation.held_out_noise}
    return {"held_out": {**planned, **({} if score is None else score.to_json())}}


def is_noise_removed(security: Security | None) -> bool:
    """Return whether a run takes all noise but one silo's off its masked sums, under Paillier."""
    return security is not None and security.protocol == "pairwise-masks" and security.key_bits > 0
