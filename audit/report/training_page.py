"""The page about an audit of a training: numbers are rounded so that what is printed is true."""

from __future__ import annotations

import math
from typing import Final

from ...accountant.rounding import EXACT_DIGITS, as_given, down, up
from ..attack_methods.membership.trials import Area, Hits
from ..check.headline import headline, protects
from ..measurement import NOT_PROOF
from . import figures
from .template import filled
from .training_facts import TrainingFacts

TRAINING_TEMPLATE: Final = "training.html.j2"


def render_training(facts: TrainingFacts) -> str:
    """Return the page about an audit of a training, self-contained HTML.

    Raises `MissingExtra` where jinja2 or matplotlib is absent.
    """
    audit, results = facts.audit, facts.results
    checked = facts.checked
    return filled(
        TRAINING_TEMPLATE,
        facts=facts,
        plan=audit.plan,
        target=results.target,
        given=results.given,
        verdict=training_verdict(facts),
        description=None if checked is None else headline(checked),
        protects=None if checked is None else protects(checked),
        conditions=() if checked is None else checked.conditions,
        claimed=claimed_words(facts),
        proven=proven_words(facts),
        measured=measured_words(facts),
        rows=[
            {
                "attack": row.attack,
                "primary": row.primary,
                "auc": _area(row.auc),
                "tpr": [_hits(hit) for hit in row.tpr],
            }
            for row in results.shadows
        ],
        given_rows=[]
        if results.given is None
        else [
            {"attack": row.attack, "auc": _area(row.auc), "tpr": [_hits(hit) for hit in row.tpr]}
            for row in results.given.attacks
        ],
        blind=None
        if results.given is None or results.given.blind is None
        else _area(results.given.blind.auc),
        bounds=[
            {
                "attack": row.attack,
                "epsilon": down(row.epsilon_lower),
                "correct": row.correct,
                "confidence": f"{100 * row.confidence:.4g}",
            }
            for row in results.target.attacks
            if row.epsilon_lower is not None and row.confidence is not None
        ],
        roc=figures.roc([(row.attack, row.curve) for row in results.shadows]),
        head=audit.lines[-1].hash,
        plan_head=audit.lines[0].hash,
        not_proof=NOT_PROOF,
        as_given=as_given,
        up=up,
    )


def training_verdict(facts: TrainingFacts) -> tuple[str, str]:
    """Return a word for the style, and one sentence."""
    if facts.contradicts(facts.claimed):
        return "bad", "What was measured contradicts what is claimed."
    if facts.contradicts(facts.proven):
        return (
            "bad",
            "What was measured contradicts what is proven of the description: the code that ran "
            "is not the training that was described.",
        )
    if facts.contradicts_plan:
        claim = _epsilon(as_given(facts.audit.plan.claimed or 0.0), facts.audit.plan.delta)
        return "bad", f"What was measured contradicts the claim that the plan fixed: {claim}."
    rare = ""
    if facts.unusual(facts.claimed) or facts.unusual(facts.proven):
        rare = " What was measured is unusual, which is no accusation."
    if facts.checked is not None:
        word = {"holds": "good", "false": "bad"}.get(facts.checked.verdict, "open")
        return word, f"{headline(facts.checked).rstrip('.')}.{rare}"
    if facts.results.conclusion == "leak":
        return "open", f"Models of this training tell who was in it.{rare}"
    if rare:
        return "open", rare.strip()
    return "none", f"Nothing was found, which proves nothing.{rare}"


def claimed_words(facts: TrainingFacts) -> str:
    """Return what is claimed, in words."""
    checked = facts.checked
    if checked is None:
        claimed = facts.audit.plan.claimed
        return "nothing" if claimed is None else _epsilon(as_given(claimed), facts.delta)
    if checked.claimed is None:
        return "nothing"
    number = as_given(checked.claimed.value)
    if checked.currency != "epsilon":
        return f"{checked.currency} {number}"
    return _epsilon(number, facts.delta)


def proven_words(facts: TrainingFacts) -> str:
    """Return what is proven of the description, in words."""
    checked = facts.checked
    if checked is None:
        return "nothing: no description was given (--check FILE)"
    if checked.proven is None or math.isinf(checked.proven.upper):
        return f"nothing: {checked.lacks or 'no number'}"
    lower = checked.proven.lower
    least = f", and at least {down(lower, EXACT_DIGITS)}" if lower > 0.0 else ""
    number = f"{checked.currency} {up(checked.proven.upper, EXACT_DIGITS)}{least}"
    return f"{number}, at delta {as_given(facts.delta)}"


def measured_words(facts: TrainingFacts) -> str:
    """Return what is measured, in words."""
    bound = facts.measured
    if bound is None:
        return "no bound"
    target = facts.results.target
    right = f"{target.primary.correct} of {target.guesses} guesses about {target.units:,} coins"
    return f"epsilon at least {down(bound)} at delta {as_given(facts.delta)}: {right} were right"


def _epsilon(number: str, delta: float) -> str:
    return f"epsilon {number} at delta {as_given(delta)}"


def _area(auc: Area) -> str:
    return f"{auc.value:.3f} [{auc.lower:.3f}, {auc.upper:.3f}]"


def _hits(hit: Hits) -> str:
    return f"{hit.value:.3f} [{hit.lower:.3f}, {hit.upper:.3f}] at {100 * hit.fpr:g} %"
