"""Canary gradients in a training with Opacus: put in before the clip, seen behind the noise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from opacus.optimizers import (
    AdaClipDPOptimizer,
    DistributedDPOptimizer,
    DPOptimizerFastGradientClipping,
)
from opacus.utils.uniform_sampler import (
    DistributedUniformWithReplacementSampler,
    UniformWithReplacementSampler,
)

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
        covered = sum(each.numel() for each in self.params) // len(coins) * len(coins)
        signs = torch.from_numpy(coins.signs(covered)).to(self.params[0].device)
        # Canary j has the coordinates j, j + m, j + 2m, ... of all parameters in their order.
        self.clipped = signs * self._lengths(covered)
        self.norms = self.clipped.view(-1, len(coins)).norm(dim=0)
        self._draws: list[list[int]] = []

    def _lengths(self, covered: int) -> torch.Tensor:
        """Return how long each coordinate of a canary is once it was clipped: (covered,).

        A layer with a clip of its own clips what a canary has in it, so that each layer has that
        norm, and the canary the direction that it had before.
        """
        count, lengths, start = len(self.coins), [], 0
        layers = getattr(self.optimizer, "max_grad_norms", None)
        sizes = [each.numel() for each in self.params] if layers else [covered]
        units = torch.arange(covered) % count
        for size, norm in zip(sizes, layers or [self.plan.clip], strict=True):
            inside = units[start : start + size]
            each = torch.bincount(inside, minlength=count)[inside]
            lengths.append(float(norm) / each.to(torch.float32).sqrt())
            start += size
        return torch.cat(lengths).to(self.params[0].device)

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

        if self.observed.world > 1:
            # The sampler of this process knows a part of the records, and nobody else.
            self.observed.taken_from = self.taken_along
        else:
            self.observed.taken_from = self.taken_from
            replace(self.observed.sampler, "num_samples", lambda count: count + drawable)
        replace(self.optimizer, "clip_and_accumulate", clipped)
        replace(self.optimizer.original_optimizer, "step", seen)

    def taken_from(self, batch: list[int]) -> list[int]:
        """Return the records of a batch that the sampler drew, and keep its canaries."""
        assert self.records is not None
        self._draws.append([self.drawable[i - self.records] for i in batch if i >= self.records])
        return [index for index in batch if index < self.records]

    def taken_along(self, batch: list[int]) -> list[int]:
        """Return a batch as it is, and draw canaries by the rate and the generator of it."""
        sampler = self.observed.sampler
        chances = torch.rand(len(self.drawable), generator=sampler.generator)
        joining = (chances < sampler.sample_rate).nonzero().flatten().tolist()
        self._draws.append([self.drawable[each] for each in joining])
        return batch

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
        at_once = max(1, MAX_VALUES_AT_ONCE // len(self.clipped))
        for first in range(0, len(moved), at_once):
            yield self._gradients_of(moved[first : first + at_once])

    def _gradients_of(self, units: list[int]) -> list[torch.Tensor]:
        canaries, covered = len(self.coins), len(self.clipped)
        length = CANARY_NORM_IN_CLIPS * self.sign
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
                    whole = self.clipped[first:end:canaries].to(rows.device, rows.dtype)
                    row[first - start : end - start : canaries] = way * whole
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
        device, covered = self.clipped.device, len(self.clipped)
        released = torch.cat([each.to(device, torch.float32) for each in flat])[:covered]
        sums = (released * self.clipped).view(-1, len(self.coins)).sum(0)
        noise = self.plan.noise_multiplier * self.plan.clip
        shown: torch.Tensor = sums * (self.sign * self._divisor() / noise) / self.norms
        return shown

    def _divisor(self) -> float:
        if self.optimizer.loss_reduction != "mean":
            return 1.0
        expected = float(self.optimizer.expected_batch_size) * self.observed.world
        return expected * self.observed.accumulated()


def require_supported(observed: ObservedOptimizer, canaries: int) -> None:
    """Raise `Unsupported` where so many canaries cannot be put in, or seen."""
    optimizer, sampler = observed.optimizer, observed.sampler
    refused = [why for kind, why in _UNSUPPORTED if isinstance(optimizer, kind)]
    together = observed.world > 1
    if together and type(optimizer) is not DistributedDPOptimizer:
        refused.append("In several processes canaries are clipped as whole gradients, in one.")
    if refused:
        raise Unsupported(
            f"{type(optimizer).__name__} takes no canaries.",
            refused[0],
            'Leave `canaries` out, or train with clipping="flat", as a whole or by DDP.',
        )
    if together:
        poisson = isinstance(sampler, DistributedUniformWithReplacementSampler)
    else:
        poisson = isinstance(sampler, UniformWithReplacementSampler)
        poisson = poisson and sampler.num_samples == observed.records
    if not poisson:
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
