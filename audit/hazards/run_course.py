"""The course of a run: its plan, interruptions, and its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...accountant.errors import counted
from ...fl.frame.private_normalisation import MOMENTS_DESCRIPTION, NORMALISE
from ...fl.running.resumption import NEW_RUN_OF_MORE_BLOCKS, is_last_block_open
from ..evidence.evidence import Evidence
from ..findings import Match, rule
from ..ledger.entries import Ledger


@rule(
    "more-rounds",
    why="The promise covers what was planned before the first release, and no more.",
    next_step="Make a new plan, with a budget of its own, for further rounds.",
)
def more_rounds(evidence: Evidence) -> Match | None:
    """Fire where more was made than was planned."""
    opened, spent, count = evidence.ledger.opened, evidence.ledger.spent, evidence.ledger.rounds
    if evidence.setting.as_published and count <= opened.plan.rounds:
        return None
    # By numbers of rounds, and by events: a round may have several intents.
    exceeds_plan = any(evidence.planned(observer).beyond for observer in opened.plan.events)
    if count <= opened.plan.rounds and not exceeds_plan:
        return None
    return Match(
        f"{counted(opened.plan.rounds, 'round')} were planned and {count:,} were made.",
        tuple(intent.number for intent in spent[opened.plan.rounds :]),
        evidence.left(),
    )


@rule(
    "off-plan",
    why="Tight accounting holds for releases that were fixed before the first one. Noise that is "
    "chosen as results come in needs an odometer that was told so.",
    next_step="Follow the plan. The number holds if no choice depended on a result.",
)
def off_plan(evidence: Evidence) -> Match | None:
    """Fire where a round is stated that the plan does not know."""
    for observer in evidence.ledger.opened.plan.events:
        foreign = evidence.planned(observer).foreign
        if foreign:
            first = next(iter(foreign))
            return Match(
                f"Before {observer!r} the plan knows nothing of {first!r:.120}.",
                (),
                evidence.left(),
            )
    for observer in evidence.ledger.opened.plan.events:
        lines = evidence.unplanned_views(observer)
        if lines:
            return Match(
                f"The plan says what {observer!r} sees, and {counted(len(lines), 'round')} do not.",
                lines,
                severity="warning",
            )
    return None


@rule(
    "resumed-without-state",
    why="A run that goes on without knowing what it spent spends it again, and repeats rounds "
    "whose noise can be averaged away.",
    next_step="Resume from the log, which lists every intent; the number here counts them all.",
)
def resumed_without_state(evidence: Evidence) -> Match | None:
    """Fire where rounds are released twice, or a recovery forgets what was spent."""
    ledger = evidence.ledger
    released = Counter(
        (spent.intent.phase, spent.intent.round) for spent in ledger.spent if spent.releases
    )
    repeated = {phase_round for phase_round, count in released.items() if count > 1}
    lines = [
        spent.number
        for spent in ledger.spent
        if spent.releases and (spent.intent.phase, spent.intent.round) in repeated
    ]
    what = f"{counted(len(repeated), 'round')} released more than once." if repeated else ""
    for recovery in ledger.recoveries:
        forgotten = set(recovery.open_intents) - set(recovery.record.dangling)
        back = recovery.record.next_round <= recovery.last_released
        if forgotten or back:
            lines.append(recovery.number)
            what = what or (
                f"A recovery forgets {len(forgotten)} intents that were open."
                if forgotten
                else f"A recovery goes back to round {recovery.record.next_round}, which was "
                "released."
            )
    planned = ledger.opened.plan.rounds
    if ledger.recoveries and not lines and ledger.rounds > planned:
        lines.append(ledger.recoveries[-1].number)
        what = "The resumed run went beyond its plan."
    return Match(what, tuple(lines), evidence.left()) if lines else None


@rule(
    "dangling",
    severity="note",
    why="An intent without a release may have been released all the same, so it is spent.",
    next_step="Nothing: it is counted.",
)
def dangling(evidence: Evidence) -> Match | None:
    """Fire where intents were never released."""
    lines = tuple(spent.number for spent in evidence.ledger.spent if not spent.releases)
    if not lines:
        return None
    return Match(f"{counted(len(lines), 'round')} announced and not released.", lines)


@dataclass(frozen=True)
class LostIfCutOff:
    """What of a run is `open` and lies in memory alone, and what to do once it is lost."""

    open: str
    next_step: str


def lost_if_cut_off(ledger: Ledger) -> LostIfCutOff | None:
    """Return what keeps a run from being resumed, once it was cut off where its log ends."""
    intents = [spent.intent for spent in ledger.spent]
    if is_last_block_open(ledger.opened.plan.rounds, intents):
        return LostIfCutOff("the last block of its plan is not at its end", NEW_RUN_OF_MORE_BLOCKS)
    if any(spent.intent.phase == NORMALISE and not spent.releases for spent in ledger.spent):
        return LostIfCutOff(
            f"{MOMENTS_DESCRIPTION} were announced and not released",
            "Start a new run in another folder then; what this one has spent counts as well.",
        )
    return None


@rule(
    "incomplete",
    severity="warning",
    why="A log without its last line belongs to a run that goes on, was cut off, or lost its end.",
    next_step="Resume the run, or close it; until then the number is what was spent so far.",
)
def incomplete(evidence: Evidence) -> Match | None:
    """Fire where the run was not closed."""
    ledger = evidence.ledger
    if ledger.closed:
        return None
    lost = lost_if_cut_off(ledger)
    if lost:
        return Match(
            f"The log has no `run.close`, and {lost.open}.",
            next_step="Let the run go on if it still does: once it was cut off, nothing resumes "
            f"it. {lost.next_step}",
        )
    return Match("The log has no `run.close`.")


@rule(
    "lost-intents",
    severity="warning",
    why="Its lines were not forced to the disk, so a crash of the machine may have taken intents "
    "away that were spent.",
    next_step="Count the rounds by other means, and write logs with fsync `records`.",
)
def lost_intents(evidence: Evidence) -> Match | None:
    """Fire where a run that was cut off, or may have been, did not force its lines to the disk."""
    whole = evidence.ledger.closed is not None and not evidence.ledger.recoveries
    if evidence.ledger.opened.fsync != "never" or whole:
        return None
    return Match("The log was written with fsync `never`.", (1,))


@rule(
    "stopped-early",
    severity="warning",
    why="Whoever may stop a run because of its results has the guarantee of the whole plan, not of "
    "the rounds that were made.",
    next_step="Nothing: the number is that of the whole plan.",
)
def stopped_early(evidence: Evidence) -> Match | None:
    """Fire where a run was closed before its plan was carried out."""
    closed, opened = evidence.ledger.closed, evidence.ledger.opened
    if closed is None or not evidence.planned(opened.claim.observer).left:
        return None
    begun, planned = evidence.ledger.rounds, opened.plan.rounds
    how_far = f"after {begun:,} of {counted(planned, 'round')}"
    if begun >= planned:  # a round of several releases, cut off between two of them
        how_far = f"with {counted(planned, 'round')} begun, and not all of their releases"
    return Match(
        f"The run was closed ({closed.reason}) {how_far}.",
        (evidence.ledger.closed_at,),
        evidence.left(),
    )


@rule(
    "misplaced-records",
    why="What stands outside of a run is promised by nobody.",
    next_step="Find out what wrote these lines; they are counted.",
)
def misplaced_records(evidence: Evidence) -> Match | None:
    """Fire where something was released before the opening or after the close, or opened twice."""
    lines = evidence.ledger.misplaced
    if not lines:
        return None
    return Match("Lines stand outside of the run.", lines, evidence.left())


@rule(
    "unannounced-release",
    why="A release without an intent says neither what its noise was nor whom it concerns.",
    next_step="Open every release with an intent, before its noise is drawn.",
)
def unannounced_release(evidence: Evidence) -> Match | None:
    """Fire where a release stands under no intent, or under that of another round."""
    lines = evidence.ledger.orphans
    return Match("Releases stand under no intent of their own.", lines) if lines else None
