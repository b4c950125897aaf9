"""What the best attack reaches, in words, as a table and in JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
        ("advantage", _most(risk.advantage, by_guessing=0.0)),
        (f"TPR at FPR {given(risk.fpr)}", _most(risk.tpr, by_guessing=risk.fpr)),
        (
            f"error at prior {given(risk.prior)}",
            _least(risk.bayes_risk, by_guessing=min(risk.prior, 1.0 - risk.prior)),
        ),
        (f"naming 1 of {risk.guesses:,}", _most(risk.reconstruction)),
        (f"mu from FPR {given(risk.from_fpr)}", _most(risk.mu, by_guessing=0.0)),
        ("mu at every FPR", _most(risk.mu_everywhere, by_guessing=0.0)),
    ]
    return f"{risk.sentence}\n\n{table(rows)}\n(What each means: privplan explain risk)"


NEGLIGIBLE: Final = 1e-9
"""What an attack must gain over a guess, relative, to be one."""


def _most(bounds: Bounds, by_guessing: float | None = None) -> str:
    # Where no attack is known that beats a guess, the other end says nothing about attacks.
    unknown = by_guessing is not None and (
        bounds.lower <= by_guessing < bounds.upper * (1.0 - NEGLIGIBLE)
    )
    attained = "not known" if unknown else rounding.down(bounds.lower)
    return f"at most {rounding.up(bounds.upper):<10} attained {attained}"


def _least(bounds: Bounds, by_guessing: float) -> str:
    unknown = bounds.lower < by_guessing * (1.0 - NEGLIGIBLE) and bounds.upper >= by_guessing
    attained = "not known" if unknown else rounding.up(bounds.upper)
    return f"at least {rounding.down(bounds.lower):<9} attained {attained}"
