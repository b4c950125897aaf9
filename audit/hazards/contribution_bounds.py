"""What bounds a contribution: clips, weights, sensitivities, normalisers."""

from __future__ import annotations

from ..derivation.sums import is_unweighted, sensitivity_of
from ..evidence.evidence import Evidence, RoundKind
from ..evidence.round_kinds import lines_of
from ..findings import Match, rule
from .units import WITHOUT_COMMON_NOISE, half_of_facts, uncovered


@rule(
    "sensitivity-below-facts",
    why="Noise is measured against how far one unit moves the sum; a sensitivity that is too small "
    "makes the noise look larger.",
    next_step="Compute the sensitivity from the clip, the weights and the relation.",
    explains=True,
)
def sensitivity_below_facts(evidence: Evidence) -> Match | None:
    """Fire where the stated sensitivity is below clip x weights x terms for the relation."""
    replaced = evidence.setting.neighbours == "replace-one"
    bad = [
        kind
        for kind in evidence.kinds
        if understated(evidence, kind)
        and not is_unweighted(kind.facts, evidence.setting)  # unweighted-terms says it
        and not (replaced and half_of_facts(evidence, kind))  # neighbour-mismatch says it
    ]
    if not bad:
        return None
    facts = bad[0].facts
    return Match(
        f"The sensitivity is stated as {facts.sensitivity:g}; clip, weights and terms give "
        f"{float(sensitivity_of(facts, evidence.setting)):g}.",
        lines_of(bad),
        evidence.left(),
    )


def understated(evidence: Evidence, kind: RoundKind) -> bool:
    """Return whether a stated sensitivity is below what the facts give."""
    if uncovered(evidence.setting, kind) or kind.facts.unusable:
        return False
    if kind.facts.noise.family in WITHOUT_COMMON_NOISE:
        return False
    return kind.facts.sensitivity < float(sensitivity_of(kind.facts, evidence.setting)) * (
        1.0 - 1e-9
    )


@rule(
    "weights-above-one",
    severity="warning",
    why="The clip bounds a unit's part of the sum only if its weights over all silos sum to at "
    "most 1.",
    next_step="Divide each unit's weights by their sum, rounding down.",
    explains=True,
)
def weights_above_one(evidence: Evidence) -> Match | None:
    """Fire where weights sum to more than 1; an error where the sensitivity ignores it."""
    bad = [
        kind
        for kind in evidence.kinds
        if kind.facts.weights.rule != "none" and kind.facts.weights.largest_sum > 1.0 + 1e-9
    ]
    if not bad:
        return None
    # Larger weights are harmless where the sensitivity was computed with them.
    ignored = any(understated(evidence, kind) for kind in bad)
    return Match(
        f"A unit's weights sum to up to {bad[0].facts.weights.largest_sum:g}.",
        lines_of(bad),
        evidence.left(),
        "error" if ignored else None,
    )


@rule(
    "unweighted-terms",
    why="A user who holds records in every silo has a term in each, and the clip bounds each term "
    "by itself.",
    next_step="Weight each user's terms so that they sum to 1, or count them all (`largest_sum`).",
    explains=True,
)
def unweighted_terms(evidence: Evidence) -> Match | None:
    """Fire where every silo counts a user's term once, and the weights are said to sum to less."""
    silos = evidence.setting.silos
    bad = [
        kind
        for kind in evidence.kinds
        if is_unweighted(kind.facts, evidence.setting)
        and kind.facts.weights.largest_sum < silos * (1.0 - 1e-9)
    ]
    if not bad:
        return None
    return Match(
        f"Each of {silos:,} silos counts a user's term once, and the weights of a user are said to "
        f"sum to at most {bad[0].facts.weights.largest_sum:g}.",
        lines_of(bad),
        evidence.left(),
    )


@rule(
    "private-bound",
    why="A bound that is taken from the data moves with the very unit that it is to bound, and "
    "shows it; one that nothing is clipped to bounds nothing.",
    next_step="Clip to a bound that is fixed before looking at the data, or release the bound with "
    "noise of its own.",
    explains=True,
)
def private_bound(evidence: Evidence) -> Match | None:
    """Fire where a contribution has no public bound, as a clip norm from private data is none."""
    bad = [kind for kind in evidence.kinds if kind.facts.contribution.source == "private"]
    return Match("No public bound holds of what a unit adds.", lines_of(bad)) if bad else None


@rule(
    "adaptive-clip",
    why="A clip that follows the data releases something about them in every round, which costs as "
    "much as any other release.",
    next_step="Release what moves the clip with noise and an event of its own, and call the clip "
    "`released`; or keep it fixed.",
    explains=True,
)
def adaptive_clip(evidence: Evidence) -> Match | None:
    """Fire where the clip norm of a phase changes and nothing in the log accounts for it."""
    lines = evidence.doubts.moved
    if not lines:
        return None
    return Match(
        "The clip norm, or the largest weight, changes between rounds, and nothing accounts for "
        "it.",
        lines,
    )


@rule(
    "clip-not-enforced",
    why="Without the clip one unit moves the sum as far as it likes.",
    next_step="Clip every term before it is summed.",
    explains=True,
)
def clip_not_enforced(evidence: Evidence) -> Match | None:
    """Fire where a release says that its clip was not enforced."""
    lines = tuple(line for _, line, each in evidence.ledger.releases if not each.clip_enforced)
    return Match("The clip was not enforced.", lines) if lines else None


@rule(
    "realised-normaliser",
    why="The realised batch size moves with a unit and has no noise, so the quotient shows it.",
    next_step="Divide by a public constant, such as rate x users.",
    explains=True,
)
def realised_normaliser(evidence: Evidence) -> Match | None:
    """Fire where a noisy sum was divided by the realised batch."""
    lines = tuple(
        number
        for _, number, release in evidence.ledger.releases
        if release.normaliser is not None and release.normaliser.kind == "realised"
    )
    return Match("Noisy sums were divided by the realised batch size.", lines) if lines else None


@rule(
    "moving-normaliser",
    why="A constant is the same in every round. One that moves follows something, such as the "
    "realised batch size, which has no noise.",
    next_step="Divide by a public constant, such as rate x users.",
    explains=True,
)
def moving_normaliser(evidence: Evidence) -> Match | None:
    """Fire where what is called a constant differs between rounds that are alike."""
    lines = evidence.doubts.divided
    if not lines:
        return None
    values = list(
        dict.fromkeys(
            release.normaliser.value
            for _, _, release in evidence.ledger.releases
            if release.normaliser is not None and release.normaliser.value is not None
        )
    )
    shown = ", ".join(f"{value:g}" for value in values[:3])
    return Match(f"Sums are divided by a `constant` that is {shown} from round to round.", lines)
