"""Rounds that were cut out of a log, or copied: their numbers, recoveries, moments, and repeats.

A run numbers its rounds of training 1, 2, 3, ..., whatever comes of them: a round that was lost or
aborted keeps its number, and the next start goes on behind it.  A release of moments, or of the
matrix that features are projected by, is round 0.
A round has one intent; or several, each of a phase of its own, and then the same ones in the same
order whenever a round begins with the first of them.

Noisy sums, models with noise and commitments cannot come out twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, groupby, zip_longest

from ..findings import COPY_OF_CUT_LOG, UNTOUCHED_COPY, Match, NotStated, rule
from ..ledger.entries import Ledger, SpentIntent
from ..ledger.phases import (
    configured_value,
    draws_noise,
    is_released,
    matrix_before_training,
    moments_of,
    training_of,
    votes_of,
)


@rule(
    "repeated-release",
    why="A sum with fresh noise never comes out twice, nor does a model that was moved by one, nor "
    "a commitment with fresh randomness. Lines were copied, or noise was used again.",
    next_step=UNTOUCHED_COPY,
)
def repeated_release(ledger: Ledger) -> Match | None:
    """Fire where a digest of something noisy, or a commitment, stands in the log twice."""
    known: dict[str, int] = {}
    for what, value, number in _fresh(ledger):
        if value in known:
            return Match(
                f"{what} of line {number:,} stood in line {known[value]:,} before.",
                (known[value], number),
            )
        known[value] = number
    return None


def _fresh(ledger: Ledger) -> Iterator[tuple[str, str, int]]:
    """Yield what is never the same twice, with a word for it and its line."""
    if ledger.opened.dataset is not None:
        yield "The commitment `dataset`", ledger.opened.dataset, 1
    # The first model is public; its digest stands once as what the first round starts from.
    start = next(
        (spent for spent in training_of(ledger) if spent.intent.model_in is not None), None
    )
    if start is not None and start.intent.model_in is not None:
        yield "The first model", start.intent.model_in, start.number
    for spent, number, release in ledger.releases:
        for name, commitment in release.sealed.items():
            yield f"The commitment `{name:.40}`", commitment, number
        if release.aggregate is not None and draws_noise(spent.intent):
            yield "The noisy sum", release.aggregate, number
        summed = release.model_out == release.aggregate  # the sum itself may be the model
        if release.model_out is not None and not summed and draws_noise(spent.intent):
            yield "The model", release.model_out, number


@rule(
    "missing-rounds",
    why="A run numbers its rounds without gaps or repeats, those too that were lost. Where numbers "
    "are missing, lines were cut out of the log or put into it.",
    next_step=COPY_OF_CUT_LOG,
)
def missing_rounds(ledger: Ledger) -> Match | None:
    """Fire where the rounds of training are not numbered 1, 2, 3, ..."""
    last, phases = 0, set[str]()
    for spent in training_of(ledger):
        number, phase = spent.intent.round, spent.intent.phase
        if number == last and phase not in phases:
            phases.add(phase)
            continue
        if number != last + 1:
            after = "the opening" if last == 0 else f"round {last:,}"
            return Match(
                f"Behind {after} stands round {number:,}, where round {last + 1:,} belongs.",
                (spent.number,),
            )
        last, phases = number, {phase}
    votes = votes_of(ledger)
    # They come behind all rounds that were planned, also those that a cut block has lost.
    before = (moments_of(ledger), matrix_before_training(ledger))  # in round 0
    due = ledger.opened.plan.rounds - sum(release is not None for release in before)
    if votes is not None and votes.intent.round != due:
        what = f"Users who were held out vote in round {votes.intent.round:,}, where round "
        return Match(f"{what}{due:,} belongs.", (votes.number,))
    return None


@rule(
    "uneven-rounds",
    why="A round that announces several releases announces the same ones every time. Where one is "
    "missing, its lines were cut out; it is spent all the same.",
    next_step=COPY_OF_CUT_LOG,
)
def uneven_rounds(ledger: Ledger) -> Match | None:
    """Fire where an intent stands behind another one than elsewhere, or a round lacks its last.

    A round that was cut off lacks what was not announced yet: a recovery follows, or nothing.
    """
    rounds = [
        list(same) for _, same in groupby(training_of(ledger), lambda spent: spent.intent.round)
    ]
    if any(len({spent.intent.phase for spent in same}) < len(same) for same in rounds):
        return None  # missing-rounds says it
    before: dict[str, str | None] = {}
    for same in rounds:
        for previous, spent in zip([None, *same[:-1]], same, strict=True):
            behind = None if previous is None else previous.intent.phase
            if before.setdefault(spent.intent.phase, behind) != behind:
                return _unlike(spent, before[spent.intent.phase], behind)
    followed = set(before.values())
    starts = [recovery.number for recovery in ledger.recoveries]
    for same, later in zip_longest(rounds, rounds[1:]):
        last = same[-1]
        if last.intent.phase not in followed:
            continue
        end = later[0].number if later else ledger.closed_at if ledger.closed else None
        if end is not None and bisect_left(starts, last.number) == bisect_left(starts, end):
            return Match(
                f"Round {last.intent.round:,} ends with {last.intent.phase!r:.40}, and other "
                "rounds go on behind it.",
                (last.number,),
            )
    return None


def _unlike(spent: SpentIntent, due: str | None, behind: str | None) -> Match:
    words = ["first" if name is None else f"behind {name!r:.40}" for name in (behind, due)]
    return Match(
        f"In round {spent.intent.round:,} {spent.intent.phase!r:.40} stands {words[0]}, and "
        f"elsewhere {words[1]}.",
        (spent.number,),
    )


@rule(
    "recovery-mismatch",
    why="A start after a crash says with which round it goes on. Another number belongs to another "
    "log: rounds before it were cut out or put in.",
    next_step=COPY_OF_CUT_LOG,
)
def recovery_mismatch(ledger: Ledger) -> Match | None:
    """Fire where a recovery does not go on behind the last round that was begun before it."""
    rounds = [(spent.number, spent.intent.round) for spent in ledger.spent]
    lines = [line for line, _ in rounds]
    # Running maximum of the next number: a recovery goes on behind all rounds begun before it.
    due_behind = list(accumulate((1 + number for _, number in rounds), max, initial=1))
    for recovery in ledger.recoveries:
        due = due_behind[bisect_left(lines, recovery.number)]
        if recovery.record.next_round != due:
            return Match(
                f"A recovery goes on with round {recovery.record.next_round:,}, and the rounds "
                f"before it end with {due - 1:,}.",
                (recovery.number,),
            )
    return None


@rule(
    "unknown-evaluation",
    why="Only a released model is measured. A measurement of a round that is not there was left "
    "behind by lines that were cut out.",
    next_step=COPY_OF_CUT_LOG,
)
def unknown_evaluation(ledger: Ledger) -> Match | None:
    """Fire where a round was measured that was not released before."""
    first: dict[int, int] = {}
    for spent, line, _ in ledger.releases:
        first[spent.intent.round] = min(line, first.get(spent.intent.round, line))
    bad = [
        (line, evaluation.round)
        for line, evaluation in ledger.evaluations
        if evaluation.round and first.get(evaluation.round, line) >= line
    ]
    if bad:
        return Match(
            f"Round {bad[0][1]:,} is measured, and no release of it stands before.",
            tuple(line for line, _ in bad),
        )
    other = [
        line
        for line, evaluation in ledger.evaluations
        if evaluation.data == "released" and not is_released(ledger, line, evaluation)
    ]
    if not other:
        return None
    return Match("Numbers are called released, and no release has them.", tuple(other))


@rule(
    "repeated-evaluation",
    why="A run measures each model once, when it has released it; only a start after a crash "
    "measures one again. Lines were copied, moved, or put in the place of others.",
    next_step=COPY_OF_CUT_LOG,
)
def repeated_evaluation(ledger: Ledger) -> Match | None:
    """Fire where a round is measured again, or after a later one, with no recovery in between."""
    starts = [recovery.number for recovery in ledger.recoveries]
    latest: dict[int, int] = {}
    for line, measured in ledger.evaluations:
        if measured.data != "declared-public":
            continue
        start = bisect_left(starts, line)
        if measured.round <= latest.get(start, -1):
            again = (
                "again" if measured.round == latest[start] else f"behind round {latest[start]:,}"
            )
            return Match(
                f"Round {measured.round:,} is measured {again}, and no recovery stands in between.",
                (line,),
            )
        latest[start] = measured.round
    return None


@rule(
    "missing-moments",
    why="The configuration normalises features by private moments, which are released before the "
    "first round and cost as much as one.",
    next_step=COPY_OF_CUT_LOG,
)
def missing_moments(ledger: Ledger) -> Match | NotStated | None:
    """Fire where rounds were trained on features whose moments were never released."""
    way = configured_value(ledger, "data", "normalisation")
    if way is None:
        return NotStated("Whether moments had to be released: the configuration does not say.")
    training = training_of(ledger)
    if way != "private" or not training:
        return None
    moments = moments_of(ledger)
    if moments is None:
        what = "Features are normalised by private moments, and no release of them comes first."
        return Match(what, (training[0].number,))
    if not moments.releases:
        what = "Rounds were trained on moments that the log announces and does not release."
        return Match(what, (moments.number, training[0].number))
    return None
