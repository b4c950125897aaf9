"""The noise multiplier: stated, standard deviation over clipping norm, or that of phases."""

from __future__ import annotations

import math
from typing import Final

from ...accountant.errors import InvalidInput
from .agreement import near, shown
from .working_facts import WorkingFacts

NOISE: Final = "noise.noise_multiplier"
NOISE_TOLERANCE: Final = 1e-3
"""Two ways to the same noise multiplier may differ by so much, relatively."""


def complete_noise(working: WorkingFacts) -> None:
    """Derive the noise multiplier, or name what contradicts the stated one."""
    _from_deviation(working)
    phases = working.phases()
    if not phases:
        return
    noises = {phase.noise_multiplier for phase in phases}
    stated = working.number(NOISE)
    if stated is None:
        if len(noises) == 1:
            working.derive(NOISE, noises.pop(), "all phases have it")
    elif not any(_close(stated, noise, working.half_unit(NOISE)) for noise in noises):
        working.contradict(
            NOISE,
            f"noise_multiplier = {shown(stated)} is that of no phase",
            NOISE,
            "schedule.phases",
        )


def _from_deviation(working: WorkingFacts) -> None:
    std, clip = working.number("noise.std"), working.number("noise.clip")
    if std is None or clip is None:
        return
    family = working.word("noise.family", "gaussian")
    if family == "pure":
        # The deviation of noise whose law is not said tells no bound on its losses.
        return
    # The scale of Laplace noise is its standard deviation over the root of 2.
    ratio = std / clip / (math.sqrt(2.0) if family == "laplace" else 1.0)
    if math.isinf(ratio):
        raise InvalidInput(
            f"std / clip = {std:g} / {clip:g} is no finite noise multiplier.",
            next_step="Correct one of them.",
        )
    sentence = f"std / clip = {shown(std)} / {shown(clip)}"
    if family == "laplace":
        sentence = f"std / (sqrt(2) clip) = {shown(std)} / (1.4142 x {shown(clip)})"
    stated = working.number(NOISE)
    if stated is None:
        working.derive(NOISE, ratio, sentence)
    elif not _close(stated, ratio, working.half_unit(NOISE)):
        working.contradict(
            NOISE,
            f"noise_multiplier = {shown(stated)} and {sentence} ({shown(ratio)}) "
            "cannot both be true",
            NOISE,
            "noise.std",
            "noise.clip",
        )
    elif ratio < stated and not near(ratio, stated):
        # Of two numbers that are printed alike, the smaller noise never proves too much.
        working.refine(NOISE, ratio, sentence)


def _close(stated: float, other: float, half_unit: float) -> bool:
    return near(stated, other, max(half_unit, NOISE_TOLERANCE * max(stated, other)))
