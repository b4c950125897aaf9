"""What the best attack reaches, in words, as a table and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...accountant import rounding
from ..terminal.text import table
from . import describe

if TYPE_CHECKING:
    from ...accountant.events import Event
    from ...accountant.guarantee import Bounds
    from ...accountant.risk import Risk


def sentence_at_once(event: Event, neighbours: str) -> str | None:
    """Return one sentence about the best attack; None where it would take more than a moment."""
    from ...accountant.neighbours import as_neighbours
    from ...accountant.risk.sentence import USUAL_FPR, attack_sentence, quick_tpr

    relation = as_neighbours(neighbours)
    tpr = quick_tpr(event, relation)
    return None if tpr is None else attack_sentence(USUAL_FPR, tpr, relation)


def warnings_beside(others: tuple[str, ...], risk: Risk) -> tuple[str, ...]:
    """Return the warnings about a risk that are not among `others`; each says what it is about."""
    new = [warning for warning in dict.fromkeys(risk.warnings) if warning not in others]
    return tuple(f"Of the attack, whose advantage is delta at epsilon 0: {text}" for text in new)


def risk_json(risk: Risk) -> dict[str, object]:
    """Return the JSON of a risk: each number with two ends."""
    return {
        "advantage": describe.ends(risk.advantage),
        "fpr": risk.fpr,
        "tpr": describe.ends(risk.tpr),
        "prior": risk.prior,
        "bayes_risk": describe.ends(risk.bayes_risk),
        "guesses": risk.guesses,
        "reconstruction": describe.ends(risk.reconstruction),
        "from_fpr": risk.from_fpr,
        "mu": describe.ends(risk.mu),
        "mu_everywhere": describe.ends(risk.mu_everywhere),
        "sentence": risk.sentence,
        "assumes": dict(risk.assumes),
    }


def risk_text(risk: Risk) -> str:
    """Return the sentence and the table; a guarantee is rounded to the side that stays true."""
    given = rounding.as_given
    rows = [
        ("advantage", _most(risk.advantage)),
        (f"TPR at FPR {given(risk.fpr)}", _most(risk.tpr)),
        (f"error at prior {given(risk.prior)}", _least(risk.bayes_risk)),
        (f"naming 1 of {risk.guesses:,}", _most(risk.reconstruction)),
        (f"mu from FPR {given(risk.from_fpr)}", _most(risk.mu)),
        ("mu at every FPR", _most(risk.mu_everywhere)),
    ]
    return f"{risk.sentence}\n\n{table(rows)}\n(What each means: privplan explain risk)"


def _most(bounds: Bounds) -> str:
    return f"at most {rounding.up(bounds.upper):<10} attained {rounding.down(bounds.lower)}"


def _least(bounds: Bounds) -> str:
    return f"at least {rounding.down(bounds.lower):<9} attained {rounding.up(bounds.upper)}"
