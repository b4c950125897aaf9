"""How users who were held out voted on the model, as a log has it: noised numbers, or none."""

from __future__ import annotations

import math

from ...accountant.errors import InvalidInput
from ...accountant.records import Evaluation, RoundRelease
from ...fl.frame.held_out_score import RIGHT, WRONG, HeldOutScore, released_digest
from ...fl.frame.held_out_votes import votes_counted
from .entries import Ledger, SpentIntent
from .phases import configured_value, votes_of


def is_released(ledger: Ledger, line: int, evaluation: Evaluation) -> bool:
    """Return whether the numbers of an evaluation are those of a release of its round before it.

    The log has the digest of what was released, so this trusts nobody: numbers that were not
    noised have another digest.
    """
    digest = released_digest(evaluation.metrics)
    return digest is not None and any(
        release.aggregate == digest
        for spent in ledger.spent
        if spent.intent.round == evaluation.round
        for number, release in spent.releases
        if number < line
    )


def score_of(ledger: Ledger) -> HeldOutScore | None:
    """Return how users who were held out voted, with the deviation of the noise; None if unknown.

    The deviation follows from the intent and from how many shares of the noise arrived.
    """
    votes, said = votes_of(ledger), _metrics(ledger)
    release = None if votes is None or not votes.releases else votes.releases[0][1]
    share = configured_value(ledger, "evaluation", "held_out")
    if votes is None or release is None or said is None or not isinstance(share, str):
        return None
    right, wrong = said
    # A log is a stranger's: its configuration may hold anything.
    opened = ledger.opened
    users, silos = opened.population.users, opened.population.silos
    try:
        counted = votes_counted(opened.claim.unit, users, silos, float(share))
    except ValueError:
        return None
    if not 0.0 < counted < math.inf:
        return None
    return HeldOutScore(right, wrong, _deviation(votes, release), counted)


def require_same_score(stated: object, ledger: Ledger) -> None:
    """Raise `InvalidInput` where a file says other votes than the log."""
    # Where the log has none, the file may have none either.
    said = _metrics(ledger)
    right, wrong = (None, None) if said is None else said
    known = stated if isinstance(stated, dict) else {}
    if (known.get(RIGHT), known.get(WRONG)) != (right, wrong):
        raise InvalidInput("It says other votes of users who were held out than the log.")


def _metrics(ledger: Ledger) -> tuple[float, float] | None:
    for line, evaluation in reversed(ledger.evaluations):
        if evaluation.data == "released" and is_released(ledger, line, evaluation):
            return float(evaluation.metrics[RIGHT]), float(evaluation.metrics[WRONG])
    return None


def _deviation(votes: SpentIntent, release: RoundRelease) -> float:
    return votes.intent.noise.share_std * math.sqrt(release.shares)
