"""The configuration of a run against the facts of its log."""

from __future__ import annotations

from typing import Final

from ...accountant.event_tree import with_less_noise
from ..configuration.comparison import compared
from ..configuration.first_line import Comparison, sentence_of
from ..configuration.logged_configuration import target_of
from ..evidence.epsilon_total import total
from ..evidence.evidence import Evidence
from ..findings import Match, rule

NOISE_SEARCH_SLACK_RELATIVE: Final = 1e-3
"""How far, relative to the target, a search for noise may stay below it.

The search ends at the least noise to a relative 1e-4 (`accountant.calibrate`); epsilon was at most
5e-5 below the target where it was measured, with and without samples, groups and other phases.
"""

NOISE_SEARCH_SLACK: Final = 1e-9
"""How far it may stay below it besides: smaller epsilons cannot be told apart at a delta, as the
probabilities that they follow from are floats; at most 2e-10 was measured."""

NOISE_SEARCH_PRECISION: Final = 1e-3
"""How far, relatively, noise may lie above the least that keeps the target.

Bounds that count whole messages jump as noise grows, over the target if that is between; then the
search ends at the jump, to a relative 1e-4 in noise, and epsilon may lie far below the target."""

_TAKE_UNTOUCHED_COPY: Final = (
    "Take the log from a copy that nobody has touched; no number of it can be relied on."
)


@rule(
    "configuration-mismatch",
    why="The configuration and the code decide these facts before the first release. Where the log "
    "states others, one of them was edited, or they are of two runs.",
    next_step=_TAKE_UNTOUCHED_COPY,
)
def configuration_mismatch(evidence: Evidence) -> Match | None:
    """Fire where the log states another value than its configuration makes."""
    differences = comparison(evidence).differences
    if not differences:
        return None
    lines = tuple(sorted({difference.line for difference in differences}))
    return Match(sentence_of(differences), lines, evidence.left())


@rule(
    "plan-below-target",
    why="Where an epsilon is configured and no noise, the least noise is searched for that keeps "
    "it, so the plan comes to the target, or a little less noise passes it. A plan of more noise "
    "is not what the run was made with.",
    next_step=_TAKE_UNTOUCHED_COPY,
)
def plan_below_target(evidence: Evidence) -> Match | None:
    """Fire where noise was searched for a target, and the plan comes to less than that."""
    opened = evidence.ledger.opened
    target, planned = target_of(opened), opened.plan.events.get(opened.claim.observer)
    if target is None or planned is None:
        return None
    delta, relation = opened.claim.delta, opened.claim.neighbours
    # A plan clearly below its target has more noise than the search could have chosen.
    proven = total({planned: 1}, delta=delta, neighbours=relation).upper
    if proven >= target * (1.0 - NOISE_SEARCH_SLACK_RELATIVE) - NOISE_SEARCH_SLACK:
        return None
    # At a jump of the bound a plan proves less, and hardly less noise does not keep the target.
    weaker = with_less_noise(planned, 1.0 + NOISE_SEARCH_PRECISION)
    if total({weaker: 1}, delta=delta, neighbours=relation).upper > target:
        return None
    return Match(
        f"Noise was searched for epsilon {target:.6g}, and the plan comes to {proven:.6g}.",
        (1,),
        evidence.left(),
    )


def comparison(evidence: Evidence) -> Comparison:
    """Return the comparison of a log with its configuration, made once for each log."""
    if evidence.configuration is None:
        evidence.configuration = compared(evidence.ledger)
    return evidence.configuration
