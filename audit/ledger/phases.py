"""Which rounds of a log train a model, and which one stands before them: by what they state.

A phase has the name that somebody wrote.  What is true of all rounds of the training must not
depend on it: ten names for ten rounds are one training.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Final

from ...accountant.errors import InvalidInput
from ...accountant.records import Evaluation, RoundIntent, RoundRelease
from ...fl.declarations.declaration import HELD_OUT
from ...fl.frame.held_out_messages import deviation_of_messages
from ...fl.frame.held_out_score import (
    RIGHT,
    WRONG,
    HeldOutScore,
    noise_deviation,
    released_digest,
    votes_counted,
)
from .entries import Ledger, SpentIntent
from .matrix_facts import is_matrix

CONTINUOUS_FAMILIES: Final = ("gaussian", "laplace", "wishart")
"""Families of noise that is drawn on the reals; a grid only rounds it."""

SCORE_TOLERANCE_RELATIVE: Final = 1e-9
"""Relative difference of two scores that rounding explains."""

NORMALISING: Final = "normalise"
"""The phase that releases what features are normalised by; it knows of no clip of the training."""


def configured_value(ledger: Ledger, table: str, key: str) -> object:
    """Return a value of the configuration in the first line; None where it does not say."""
    content = ledger.opened.configuration.get(table)
    return content.get(key) if isinstance(content, Mapping) else None


def moments_of(ledger: Ledger) -> SpentIntent | None:
    """Return the planned release of moments; None where the log has none.

    It is the first intent, of round 0, and knows no model.  A configuration that normalises
    features otherwise plans none.
    """
    first = next(iter(ledger.spent), None)
    if first is None or first.intent.phase != NORMALISING or first.intent.round != 0:
        return None
    if configured_value(ledger, "data", "normalisation") not in (None, "private"):
        return None
    return None if _states_model(first) else first


def matrix_before_training(ledger: Ledger) -> SpentIntent | None:
    """Return the release of a matrix that features are projected by; None where the log has none.

    It is the first intent, of round 0, knows no model, and no other is of its phase.
    """
    first = next(iter(ledger.spent), None)
    if first is None or first.intent.round != 0 or not is_matrix(first.intent.contribution):
        return None
    alone = all(spent.intent.phase != first.intent.phase for spent in ledger.spent[1:])
    return first if alone and not _states_model(first) else None


def votes_of(ledger: Ledger) -> SpentIntent | None:
    """Return the planned release of votes of users who were held out; None where there is none.

    It is the last intent, and of the phase that the configuration plans for it alone.
    """
    last = next(reversed(ledger.spent), None)
    if last is None or last.intent.phase != HELD_OUT:
        return None
    planned = configured_value(ledger, "evaluation", "held_out_noise") is not None
    alone = all(spent.intent.phase != HELD_OUT for spent in ledger.spent[:-1])
    released = any(release.model_out is not None for _, release in last.releases)
    return last if planned and alone and not released else None


def training_of(ledger: Ledger) -> tuple[SpentIntent, ...]:
    """Return all rounds in their order, but planned releases of something else than a model.

    These are moments, a first matrix, and the votes of users who were held out.
    """
    released_once = (moments_of(ledger), matrix_before_training(ledger), votes_of(ledger))
    return tuple(
        spent for spent in ledger.spent if not any(spent is other for other in released_once)
    )


def models_of(ledger: Ledger) -> tuple[SpentIntent, ...]:
    """Return the rounds of training as models see them: one intent each.

    A round may open other intents besides that of its model.  Their phases are those of which some
    intent states no model, in a round in which another one does.
    """
    training = training_of(ledger)
    with_model = {spent.intent.round for spent in training if _states_model(spent)}
    # Phases that name a model in some round train it; the others only accompany it.
    stating = {spent.intent.phase for spent in training if _states_model(spent)}
    without_model = {
        spent.intent.phase for spent in training if spent.intent.round in with_model
    } - stating
    return tuple(spent for spent in training if spent.intent.phase not in without_model)


def rounds_by_release(ledger: Ledger) -> list[list[SpentIntent]]:
    """Return rounds by what they release: a model, or vectors of one length, whatever their phase.

    A round of which nothing was released goes with those of its phase.
    """
    widths: dict[str, int] = {}
    for spent in training_of(ledger):
        for _, release in spent.releases:
            widths.setdefault(spent.intent.phase, release.values)
    groups: dict[Hashable, list[SpentIntent]] = {}
    for spent in training_of(ledger):
        intent = spent.intent
        key: Hashable = "model"
        if not _states_model(spent):
            width = next((release.values for _, release in spent.releases), None)
            key = width or widths.get(intent.phase) or intent.phase
        groups.setdefault(key, []).append(spent)
    return list(groups.values())


def first_release(one: SpentIntent) -> RoundRelease | None:
    """Return the first release of an intent; None where it has none."""
    return one.releases[0][1] if one.releases else None


def draws_noise(intent: RoundIntent) -> bool:
    """Return whether what is released has fresh noise, so that it never comes out twice."""
    return intent.noise.family != "none"


def _states_model(one: SpentIntent) -> bool:
    out = any(release.model_out is not None for _, release in one.releases)
    return out or one.intent.model_in is not None


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

    The deviation follows from the intent and from how many shares of the noise arrived, or how many
    users sent a message.
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
    return HeldOutScore(right, wrong, _deviation(votes, release, users), counted)


def require_same_score(stated: object, ledger: Ledger) -> None:
    """Raise `InvalidInput` where a file says other votes than the log, or what they do not give.

    All that a file says of them follows from the votes, their noise and how many were cast.
    """
    said = _metrics(ledger)
    if said is None:  # where the log has none, the file may have none either
        if stated is not None:
            raise InvalidInput("It says votes of users who were held out, and the log has none.")
        return
    right, wrong = said
    known = stated if isinstance(stated, dict) else {}
    if (known.get(RIGHT), known.get(WRONG)) != (right, wrong):
        raise InvalidInput("It says other votes of users who were held out than the log.")
    score = score_of(ledger)
    if score is None:
        return  # the log does not say how many votes there were, nor what follows from that
    due = score.to_json()
    for name in sorted(known.keys() | due.keys()):
        if name not in known or name not in due or not _same_number(known[name], due[name]):
            raise InvalidInput(
                f"It says {name!r:.40} {known.get(name)!r:.40} of users who were held out, and the "
                f"votes of the log give {due.get(name)!r:.40}."
            )


def _same_number(stated: object, due: float | None) -> bool:
    """Return whether a number is due, but for its last digits, which differ between machines."""
    if due is None or not isinstance(stated, float):
        return stated == due  # an int of any size too, which no float may hold
    return math.isclose(stated, due, rel_tol=SCORE_TOLERANCE_RELATIVE, abs_tol=0.0)


def _metrics(ledger: Ledger) -> tuple[float, float] | None:
    for line, evaluation in reversed(ledger.evaluations):
        if evaluation.data == "released" and is_released(ledger, line, evaluation):
            return float(evaluation.metrics[RIGHT]), float(evaluation.metrics[WRONG])
    return None


def _deviation(votes: SpentIntent, release: RoundRelease, users: int) -> float:
    intent = votes.intent
    if intent.contribution.terms == "message":  # one of each user, with noise of its own
        return deviation_of_messages(intent.noise, intent.event, users)
    return noise_deviation(intent.noise, release.shares)
