"""The derivation of an answer of this engine."""

from __future__ import annotations

from collections.abc import Sequence

from ...composition import Leaf
from ...guarantee import Neighbours, Step, unique_steps
from ...schedules import shown
from .directions import fitted, participation
from .registry import leaf_pairs


def participation_steps(leaves: Sequence[Leaf], neighbours: Neighbours) -> tuple[Step, ...]:
    for leaf in leaves:
        leaf_pairs(leaf, neighbours)  # refuses what is not understood
    step = Step(
        "sampling",
        f"A unit is drawn at all with probability at most {abs(participation(leaves)):.3g}. "
        "Delta is no smaller, so epsilon is 0.",
        "total variation distance of the two outputs",
        ("each unit joins each sample independently", f"neighbours: {neighbours}"),
    )
    return (step,)


def composed_steps(
    leaves: Sequence[Leaf], neighbours: Neighbours, widths: Sequence[float], delta: float
) -> tuple[Step, ...]:
    rounds = sum(leaf.count for leaf in leaves)
    listed, summaries = shown(leaves)
    each = fitted(listed, neighbours, delta, rounds)
    steps = [*(step for mechanism in each for step in mechanism.steps), *summaries]
    how_many = f"{rounds:,} rounds" if rounds > 1 else "1 round"
    grids = " and ".join(f"{width:.3g}" for width in widths)
    many = ", one for each direction" if len(widths) > 1 else ""
    steps.append(
        Step(
            "composition",
            f"{how_many} by a tilted Fourier transform; loss grid of width {grids}{many}.",
            "upper end: connect the dots, arXiv 2207.04380; "
            "lower end: lowered chords (lower_hull.py)",
            (
                "truncated tails, folding and rounding are added to the upper end and "
                "subtracted from the lower end",
            ),
        )
    )
    steps.append(
        Step(
            "conversion",
            "delta(eps) = E[(1 - e^(eps - S))+], S the sum of the losses; the worse direction "
            "counts.",
            "Zhu, Dong, Wang 2022, arXiv 2106.08567",
            ("the pair of every round dominates it whatever earlier rounds released",),
        )
    )
    return unique_steps(steps)
