"""Canary gradients in a training with Opacus: put in before the clip, seen behind the noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from opacus.optimizers import (
    AdaClipDPOptimizer,
    DPOptimizerFastGradientClipping,
    DPPerLayerOptimizer,
)
from opacus.utils.uniform_sampler import UniformWithReplacementSampler

from ...accountant.errors import Unsupported
from ...fl.canaries import CANARY_NORM_IN_CLIPS
from .canary_files import CanaryCoins, ObservationWriter
from .opacus_observer import ObservedOptimizer, Replace

MAX_VALUES_AT_ONCE: Final = 2**24
"""Values of canary gradients that are clipped in one call: 64 MB."""

_UNSUPPORTED: Final[tuple[tuple[type[Any], str], ...]] = (
    (
        DPOptimizerFastGradientClipping,
        "Ghost clipping has no gradient of a single unit, so a canary has none that is clipped.",
    ),
    (
        DPPerLayerOptimizer,
        "Per-layer clipping bends a gradient: no canary keeps the direction in which it is seen.",
    ),
    (
        AdaClipDPOptimizer,
        "Adaptive clipping counts the gradients below its clip, so canaries would move the clip.",
    ),
)
"""Optimizers of Opacus that take no canaries, and why."""


class CanaryGradients:
    """The canaries of an observed optimizer: their draws, their gradients, what is seen of them."""

    def __init__(
        self, observed: ObservedOptimizer, coins: CanaryCoins, writer: ObservationWriter
    ) -> None:
        self.observed, self.optimizer, self.plan = observed, observed.optimizer, observed.plan
        self.coins, self.writer = coins, writer
        self.records = observed.records
        replaced = self.plan.neighbours != "add-remove"
        # Who is drawn: under add-remove those that are in, else all, as each has data either way.
        units = range(len(coins))
        self.drawable = [unit for unit in units if replaced or coins.into[unit]]
        self.out = {"replace-one": -1.0, "zero-out": 0.0}.get(self.plan.neighbours, 0.0)
        self.params = list(self.optimizer.params)
        self.width = sum(each.numel() for each in self.params) // len(coins)
        covered = self.width * len(coins)
        self.signs = torch.from_numpy(coins.signs(covered)).to(self.params[0].device)
        self._draws: list[list[int]] = []

    def attach(self, replace: Replace) -> None:
        """Put canaries into what the loader draws, what is clipped, and what is stepped with."""
        drawable = len(self.drawable)

        def clipped(clip: Callable[..., Any]) -> Callable[..., Any]:
            def around(*arguments: Any, **options: Any) -> Any:
                units = self._due()
                done = clip(*arguments, **options)
                for gradients in self._gradients(units):
                    # The optimizer clips them by the code that clips every other gradient.
                    with self._swapped_in(gradients):
                        clip(*arguments, **options)
                return done

            return around

        def seen(step: Callable[..., Any]) -> Callable[..., Any]:
            def around(*arguments: Any, **options: Any) -> Any:
                self.writer.append(self._observed().cpu().numpy())
                return step(*arguments, **options)

            return around

        self.observed.taken_from = self.taken_from
        replace(self.observed.sampler, "num_samples", lambda count: count + drawable)
        replace(self.optimizer, "clip_and_accumulate", clipped)
        replace(self.optimizer.original_optimizer, "step", seen)

    def taken_from(self, batch: list[int]) -> list[int]:
        """Return the records of a batch that the sampler drew, and keep its canaries."""
        assert self.records is not None
        self._draws.append([self.drawable[i - self.records] for i in batch if i >= self.records])
        return [index for index in batch if index < self.records]

    @property
    def sign(self) -> float:
        """The way in which canaries point in this step: the other one than in the step before."""
        return 1.0 if self.writer.rows % 2 == 0 else -1.0

    def _due(self) -> list[int]:
        """Return the canaries of the draws that are being clipped; of a later part there are none.

        Workers draw ahead: then each step takes the next draw, and which one it is does not matter.
        """
        batches = max(1, self.observed.accumulated())
        if self.observed.counts_draws():
            due, self._draws = self._draws[-batches:], []
        elif self.observed.parts == 0:
            due, self._draws = self._draws[:batches], self._draws[batches:]
        else:
            due = []
        return [unit for draw in due for unit in draw]

    def _gradients(self, units: list[int]) -> Iterator[list[torch.Tensor]]:
        """Yield the gradients of canaries, so many at once as fit: a tensor for each parameter."""
        moved = [unit for unit in units if self.coins.into[unit] or self.out]
        at_once = max(1, MAX_VALUES_AT_ONCE // (self.width * len(self.coins)))
        for first in range(0, len(moved), at_once):
            yield self._gradients_of(moved[first : first + at_once])

    def _gradients_of(self, units: list[int]) -> list[torch.Tensor]:
        # Canary j has the coordinates j, j + m, j + 2m, ... of all parameters in their order.
        canaries, covered = len(self.coins), self.width * len(self.coins)
        length = CANARY_NORM_IN_CLIPS * self.plan.clip / self.width**0.5 * self.sign
        gradients, start = [], 0
        for parameter in self.params:
            end = min(start + parameter.numel(), covered)
            like = parameter.grad_sample
            like = like[0] if isinstance(like, list) else like
            rows = like.new_zeros((len(units), parameter.numel()))
            for row, unit in zip(rows, units, strict=True):
                first = start + (unit - start) % canaries
                if first < end:
                    way = length if self.coins.into[unit] else self.out * length
                    signs = self.signs[first:end:canaries].to(rows.device, rows.dtype)
                    row[first - start : end - start : canaries] = way * signs
            gradients.append(rows.view(len(units), *parameter.shape))
            start += parameter.numel()
        return gradients

    @contextmanager
    def _swapped_in(self, gradients: list[torch.Tensor]) -> Iterator[None]:
        """Have the optimizer see these gradients, and afterwards those of its batch again."""
        kept = [parameter.grad_sample for parameter in self.params]
        for parameter, gradient in zip(self.params, gradients, strict=True):
            parameter.grad_sample = gradient
        try:
            yield
        finally:
            for parameter, gradient in zip(self.params, kept, strict=True):
                parameter.grad_sample = gradient

    def _observed(self) -> torch.Tensor:
        """Return the released sum in the direction of each canary, in units of the plan's noise."""
        flat = [
            (torch.zeros_like(each) if each.grad is None else each.grad).detach().reshape(-1)
            for each in self.params
        ]
        device = self.signs.device
        covered = torch.cat([each.to(device, torch.float32) for each in flat])[: len(self.signs)]
        sums = (covered * self.signs).view(self.width, len(self.coins)).sum(0)
        noise = self.plan.noise_multiplier * self.plan.clip
        scale = self.sign * self._divisor() / (noise * self.width**0.5)
        shown: torch.Tensor = sums * scale
        return shown

    def _divisor(self) -> float:
        if self.optimizer.loss_reduction != "mean":
            return 1.0
        return float(self.optimizer.expected_batch_size) * self.observed.accumulated()


def require_supported(observed: ObservedOptimizer, canaries: int) -> None:
    """Raise `Unsupported` where so many canaries cannot be put in, or seen."""
    optimizer, sampler = observed.optimizer, observed.sampler
    refused = [why for kind, why in _UNSUPPORTED if isinstance(optimizer, kind)]
    if observed.world > 1:
        refused.append("In a training of several processes none of them draws all units.")
    if refused:
        raise Unsupported(
            f"{type(optimizer).__name__} takes no canaries.",
            refused[0],
            'Leave `canaries` out, or train in one process with clipping="flat".',
        )
    poisson = isinstance(sampler, UniformWithReplacementSampler)
    if not poisson or sampler.num_samples != observed.records:
        raise Unsupported(
            f"A loader whose batches come from {type(sampler).__name__} takes no canaries.",
            "A canary is drawn as every unit is, and only the Poisson sampler of Opacus draws each "
            "unit by itself.",
            "Leave `canaries` out, or make_private with poisson_sampling=True.",
        )
    if observed.plan.sampling != "poisson":
        raise Unsupported(
            f"A plan of {observed.plan.sampling} sampling takes no canaries.",
            "The loader draws Poisson samples, which is not what the plan claims.",
            'Plan with sampling="poisson".',
        )
    values = sum(each.numel() for each in optimizer.params)
    if values < canaries:
        raise Unsupported(
            f"{canaries:,} canaries do not fit into {values:,} parameters.",
            "Each has coordinates of its own, so that none hides another.",
            f"Give {values:,} canaries or fewer.",
        )
