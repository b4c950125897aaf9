"""Canary gradients in a training loop of somebody's own, added by hand.

    canaries = LoopCanaries("out", plan, canaries=1000, values=model.size)
    with canaries.log() as log:                              # a `RunLog`
        for batch in loader:
            with log.step(batch_size=len(batch)):
                total = sum(clipped(gradient(record)) for record in batch)
                total += sum(clipped(each) for each in canaries.drawn())
                total += plan.noise_multiplier * plan.clip * normal(total.shape)
                canaries.saw(total)
            model -= rate * total / plan.divisor

A canary is one unit more, in or out by a secret coin (`canary_files`).  Each that has data joins a
step by a coin of the plan's rate, and brings a gradient ten times as long as the clip, in
coordinates of its own, which the loop clips as it clips any.  One that is clipped adds the clip at
most, so that the sensitivity is the plan's.  `saw` takes the sum with its noise, before it is
divided; nothing else is kept of it than its parts along the canaries, which follow from what is
released.  So `audit attack` tests the noise and the clip of the loop.  Its own sampler is not
tested: canaries are drawn here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from ...accountant import validate
from ...accountant.arrays import FloatArray
from ...accountant.errors import InvalidInput, Unsupported
from ...fl.canaries import CANARY_NORM_IN_CLIPS
from .canary_files import CANARIES, ObservationWriter, coins_for
from .run_log import RunLog
from .training_plan import TrainingPlan

_CHANCES: Final = 2**32
"""Canaries are drawn with a rate that is a multiple of one in so many, at most that of the plan."""


class LoopCanaries:
    """Secret canaries for a loop that clips flat vectors of so many `values`, under a plan.

    Raises `InvalidInput` for numbers of canaries that show nothing, and `Unsupported` where they do
    not fit, or where a plan is of other samples than Poisson's.
    """

    def __init__(
        self, folder: str | Path, plan: TrainingPlan, *, canaries: int, values: int
    ) -> None:
        self.folder, self.plan, self.values = Path(folder), plan, validate.count(values=values)
        if plan.sampling != "poisson":
            raise Unsupported(
                f"A plan of {plan.sampling} sampling takes no canaries.",
                "Only a unit that is drawn by itself leaves all others where they are.",
                'Plan with sampling="poisson".',
            )
        if values < canaries:
            raise Unsupported(
                f"{canaries:,} canaries do not fit into {values:,} values.",
                "Each has coordinates of its own, so that none hides another.",
                f"Give {values:,} canaries or fewer.",
            )
        self._coins = coins_for(self.folder, canaries)
        self._width = values // canaries
        self._signs = self._coins.signs(self._width * canaries).reshape(self._width, canaries)
        replaced = plan.neighbours != "add-remove"
        self._drawable = [unit for unit in range(canaries) if replaced or self._coins.into[unit]]
        self._out = -1.0 if plan.neighbours == "replace-one" else 0.0
        self._writer: ObservationWriter | None = None
        self._pending = False

    @contextmanager
    def log(self, about: Mapping[str, object] | None = None, **options: Any) -> Iterator[RunLog]:
        """Log the loop; `options` are those of `RunLog`, which raises as it says."""
        stated = {**(about or {}), CANARIES: self._coins.stated()}
        options = {"values": self.values, **options}
        try:
            with RunLog(
                self.folder, self.plan, about=stated, aggregate=self._digest, **options
            ) as log:
                self._coins.keep(self.folder)
                self._writer = ObservationWriter(self.folder, len(self._coins))
                yield log
        finally:  # behind the last release, which states the digest of what was seen
            if self._writer is not None:
                self._writer.close()
            self._writer, self._pending = None, False

    def _digest(self) -> str | None:
        return None if self._writer is None else self._writer.digest()

    def drawn(self) -> Iterator[FloatArray]:
        """Yield the gradients of the canaries of a step, which are still to be clipped: (values,).

        Raises `InvalidInput` outside of `log`, and where nobody saw the step before.
        """
        writer = self._opened()
        if self._pending:
            raise InvalidInput(
                "The canaries of the last step were drawn, and nobody saw its sum.",
                "What is seen of a canary stands in the order of the steps.",
                "Call saw(total) in each step, behind its noise.",
            )
        self._pending = True
        return self._gradients(1.0 if writer.rows % 2 == 0 else -1.0)

    def _gradients(self, sign: float) -> Iterator[FloatArray]:
        length = CANARY_NORM_IN_CLIPS * self.plan.clip / self._width**0.5 * sign
        chances = np.frombuffer(secrets.token_bytes(4 * len(self._drawable)), np.uint32)
        joining = chances < int(self.plan.sampling_rate * _CHANCES)
        for unit, joins in zip(self._drawable, joining.tolist(), strict=True):
            way = length if self._coins.into[unit] else self._out * length
            if joins and way:
                gradient = np.zeros(self.values)
                gradient[unit : self._signs.size : len(self._coins)] = way * self._signs[:, unit]
                yield gradient

    def saw(self, total: Any) -> None:
        """Keep what a step's sum with its noise, not yet divided, shows of the canaries: (values,).

        Raises `InvalidInput` for a sum of another shape, or of a step whose canaries nobody drew,
        and `LogBroken` where it cannot be kept.
        """
        writer, sums = self._opened(), np.asarray(total, np.float64).reshape(-1)
        if sums.size != self.values or not self._pending:
            raise InvalidInput(
                f"The sum has {sums.size:,} values, and canaries were "
                f"{'drawn' if self._pending else 'not drawn'}.",
                f"Canaries lie in {self.values:,} values, and are drawn before each sum is seen.",
                "Call drawn() and then saw(total) in each step.",
            )
        sign = 1.0 if writer.rows % 2 == 0 else -1.0
        along = (sums[: self._signs.size].reshape(self._signs.shape) * self._signs).sum(axis=0)
        noise = self.plan.noise_multiplier * self.plan.clip
        writer.append(along * (sign / (noise * self._width**0.5)))
        self._pending = False

    def _opened(self) -> ObservationWriter:
        if self._writer is None:
            raise InvalidInput(
                "The log of the loop is not open.",
                "What is seen of canaries belongs to the steps of a log.",
                "Draw and see them inside of `with canaries.log() as log:`.",
            )
        return self._writer
