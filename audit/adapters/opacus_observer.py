"""What an optimizer of Opacus and its loader are about to do, as they say themselves."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import torch
from opacus.optimizers import AdaClipDPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.uniform_sampler import (
    DistributedUniformWithReplacementSampler,
    UniformWithReplacementSampler,
)

from ...accountant.records import Randomness
from .run_log import RunLog
from .training_plan import Sampler, StepFacts, TrainingPlan

CHOSEN_SEED_LIMIT: Final = 2**32
"""A generator that nobody seeded has a seed of 64 random bits, which is hardly ever below this."""

LAYER_ROUNDING: Final = 1e-6
"""Relative difference of a norm of clips of layers, which Opacus takes in float32."""

Replace: TypeAlias = Callable[[Any, str, Callable[[Any], Any]], None]
"""Puts something that is made of an attribute of an object into its place, until the end."""


class ObservedOptimizer:
    """An optimizer with its loader: what the next step is about to do, as they say themselves."""

    def __init__(self, optimizer: Any, data_loader: Any, module: Any, plan: TrainingPlan) -> None:
        self.optimizer, self.loader, self.module, self.plan = optimizer, data_loader, module, plan
        self.sampler: Any = getattr(data_loader, "batch_sampler", None)
        self.records = len(data_loader.dataset) if hasattr(data_loader, "dataset") else None
        self.poisson = isinstance(
            self.sampler, (UniformWithReplacementSampler, DistributedUniformWithReplacementSampler)
        )
        self.realised_rate: float | None = None
        if self.poisson:
            assert self.sampler is not None
            self.realised_rate = float(self.sampler.sample_rate)
        self.world = int(getattr(optimizer, "world_size", 1))
        self.ghost = isinstance(optimizer, DPOptimizerFastGradientClipping)
        self.noised = False
        self.parts = self.draws = self._clipped = 0
        self._ahead = 0
        self.sizes: list[int] = []
        self.taken_from: Callable[[list[int]], list[int]] = list
        if plan.divisor is not None and optimizer.loss_reduction == "mean":
            # A public constant, whatever the number of records is.
            optimizer.expected_batch_size = plan.divisor / self.world

    def about(self) -> dict[str, object]:
        """Return public facts of the loop: the kinds of its parts, and none of their numbers."""
        return {
            "optimizer": type(self.optimizer).__name__,
            "sampler": type(self.sampler).__name__,
            "loss_reduction": str(self.optimizer.loss_reduction),
            "secure_mode": bool(self.optimizer.secure_mode),
            "world_size": self.world,
        }

    def randomness(self) -> Randomness:
        """Return where the noise, and the sample, come from: a seed anywhere is a seed."""
        device = next(iter(self.optimizer.params)).device
        cipher = "philox" if device.type == "cuda" else "mt19937"
        if self.optimizer.secure_mode:
            return Randomness("operating-system")
        generators = [self.optimizer.generator, getattr(self.sampler, "generator", None)]
        seeds = [_seed_of(generator, device) for generator in generators]
        seeded = any(seed < CHOSEN_SEED_LIMIT for seed in seeds)
        return Randomness("seeded" if seeded else "operating-system", cipher)

    def attach(self, replace: Replace, log: RunLog) -> None:
        """Put the observer around what adds noise, what steps, and what draws batches."""
        optimizer = self.optimizer
        name = "_add_noise_parameter" if hasattr(optimizer, "_add_noise_parameter") else "add_noise"

        def announced(add_noise: Callable[..., Any]) -> Callable[..., Any]:
            def around(*arguments: Any) -> Any:
                if self.noised:  # the next parameter of the same step
                    return add_noise(*arguments)
                with log.step(**self.taken()):
                    self.noised = True
                    return add_noise(*arguments)

            return around

        def noised(step: Callable[..., Any]) -> Callable[..., Any]:
            def around(*arguments: Any, **options: Any) -> Any:
                if not self.noised:
                    unnoised = StepFacts(0.0, self.plan.clip, "none", 1.0, bounded=False)
                    with log.step(facts=unnoised):
                        return step(*arguments, **options)
                self.noised = False
                return step(*arguments, **options)

            return around

        def counted(pre_step: Callable[..., Any]) -> Callable[..., Any]:
            def around(*arguments: Any, **options: Any) -> Any:
                # A step that failed behind its noise may not lend its line to the next one.
                self.noised = False
                try:
                    went_on = pre_step(*arguments, **options)
                except BaseException:
                    self.noised = False
                    raise
                self.parts = 0 if went_on else self.parts + 1
                return went_on

            return around

        def clipping(coefficients: Callable[..., Any]) -> Callable[..., Any]:
            def around(*arguments: Any) -> Any:
                self._clipped += 1
                return coefficients(*arguments)

            return around

        replace(optimizer, name, announced)
        replace(optimizer, "pre_step", counted)
        replace(optimizer.original_optimizer, "step", noised)
        if self.ghost:
            replace(self.module, "get_clipping_coef", clipping)
        if self.poisson:
            self._count_draws(replace)

    def _count_draws(self, replace: Replace) -> None:
        """Have the sampler count the batches that it draws; it stays what it was otherwise."""
        sampler, observed = self.sampler, self

        def with_counts(kind: type[Any]) -> type[Any]:
            def counting(drawn: Any) -> Iterator[Any]:
                for indices in kind.__iter__(drawn):
                    batch = observed.taken_from(indices)
                    observed.draws += 1
                    observed._ahead += 1
                    rate = float(drawn.sample_rate)
                    observed.realised_rate = max(observed.realised_rate or 0.0, rate)
                    observed.sizes.append(len(batch))
                    yield batch

            return type(kind.__name__, (kind,), {"__iter__": counting})

        # `iter` looks for a method at the class, and a loader lets nobody exchange its sampler.
        replace(sampler, "__class__", with_counts)

    def taken(self) -> dict[str, Any]:
        """Return what the next step is about to do, and begin to count for the one after it."""
        facts = self.facts()
        draws, self.draws, sizes, self.sizes = self.draws, 0, self.sizes, []
        self._ahead, self._clipped = max(self._ahead - facts.batches, 0), 0
        return {
            "facts": facts,
            "batch_size": sum(sizes) if sizes else self._size(),
            "skipped": max(draws - facts.batches, 0),
            "state": None if self.optimizer.secure_mode else self._state(),
        }

    def facts(self) -> StepFacts:
        """Return the facts of the next step."""
        optimizer, plan = self.optimizer, self.plan
        batches = self._batches()
        sampler, rate, bounded = self._sampling()
        clip = float(optimizer.max_grad_norm)
        layers = math.hypot(*getattr(optimizer, "max_grad_norms", ()))
        if not math.isclose(layers, clip, rel_tol=LAYER_ROUNDING):
            clip = max(clip, layers)
        inside = getattr(self.module, "max_grad_norm", None)
        if isinstance(inside, (int, float)):  # ghost clipping clips inside of the module
            clip = max(clip, float(inside))
        noise, adaptive = self._noise()
        if isinstance(optimizer, AdaClipDPOptimizer):
            # The count of unclipped gradients is released with them, in coordinates of even noise.
            clip = (clip**2 + (noise / float(optimizer.unclipped_num_std)) ** 2) ** 0.5
        divisor = None
        if optimizer.loss_reduction == "mean":
            divisor = float(optimizer.expected_batch_size) * self.world
        private = plan.neighbours == "add-remove" and divisor != plan.divisor
        realised = adaptive or (divisor is not None and private)
        return StepFacts(
            noise=noise,
            clip=clip,
            sampler=sampler,
            rate=rate,
            batches=batches,
            bounded=bounded and not self._is_unclipped(),
            divisor=None if realised else divisor,
            realised=realised,
        )

    def _is_unclipped(self) -> bool:
        """Return whether the sum surely holds more than clipped gradients of what was drawn.

        Ghost clipping is done by a loss of its own.  A batch that was drawn may lose records before
        its gradients are computed, and gets no further ones.
        """
        if self.ghost:
            return self._clipped == 0
        size, whole = self._size(), self.counts_draws() and self.parts == 0 and self.poisson
        return whole and size is not None and len(self.sizes) > 0 and size > sum(self.sizes)

    def _noise(self) -> tuple[float, bool]:
        """Return the standard deviation of the noise in the sum, and whether the clip adapts."""
        optimizer = self.optimizer
        multiplier, adaptive = float(optimizer.noise_multiplier), False
        if isinstance(optimizer, AdaClipDPOptimizer):
            adaptive = True
            if multiplier > 0.0:
                both = multiplier**-2 - (2.0 * float(optimizer.unclipped_num_std)) ** -2
                multiplier = both**-0.5
        elif hasattr(optimizer, "_adjusted_noise_multiplier"):
            multiplier, adaptive = float(optimizer._adjusted_noise_multiplier), True
        return multiplier * float(optimizer.max_grad_norm), adaptive

    def _sampling(self) -> tuple[Sampler, float, bool]:
        """Return the sampler, its rate, and whether it bounds how often a unit is drawn."""
        plan = self.plan
        if self.poisson:
            if (self.draws if self.counts_draws() else self._ahead) == 0:
                return "none", 1.0, False  # a batch of another loader: nobody knows how drawn
            assert self.realised_rate is not None
            return "poisson", _public_rate(plan, self.realised_rate), True
        drawn = getattr(self.sampler, "sampler", None)
        orders = (torch.utils.data.RandomSampler, torch.utils.data.SequentialSampler)
        once = isinstance(drawn, orders) and not getattr(drawn, "replacement", False)
        return ("shuffled" if once else "none"), plan.sampling_rate, once

    def counts_draws(self) -> bool:
        """Return whether draws are made in step with the training: no worker draws ahead."""
        return getattr(self.loader, "num_workers", 0) == 0

    def _batches(self) -> int:
        """Return how many draws of a batch the next sum holds; parts of one draw are one."""
        # Parts that were held back, and more draws than one: several batches are in the sum.
        held_back = self.draws if self.parts and self.counts_draws() else 1
        return max(self.accumulated(), held_back)

    def accumulated(self) -> int:
        """Return how many batches lie in the gradients that are about to be clipped, 1 or above."""
        try:
            return max(int(self.optimizer.accumulated_iterations), 1)
        except (AttributeError, ValueError, IndexError):
            return 1

    def _size(self) -> int | None:
        samples = getattr(next(iter(self.optimizer.params)), "grad_sample", None)
        return len(samples) if isinstance(samples, torch.Tensor) else None

    def _state(self) -> str:
        """Return a name of the state that noise is drawn from: it never leaves this process."""
        generator = self.optimizer.generator
        state = torch.get_rng_state() if generator is None else generator.get_state()
        device = next(iter(self.optimizer.params)).device
        if generator is None and device.type == "cuda":
            state = torch.cuda.get_rng_state(device)
        return hashlib.sha256(state.cpu().numpy().tobytes()).hexdigest()


def _public_rate(plan: TrainingPlan, realised: float) -> float:
    """Return a rate that is at least the realised one, and shows hardly anything of it.

    It is the plan's wherever that suffices, and else that, doubled until it does: a plan's rate
    is rounded up, never down.
    """
    if plan.rate is None:
        return realised  # the number of records is public, and so is what follows from it
    rate = plan.rate
    while realised > rate:
        rate = min(1.0, 2.0 * rate)
    return rate


def _seed_of(generator: Any, device: Any) -> int:
    if generator is not None:
        return int(generator.initial_seed())
    return int(torch.cuda.initial_seed() if device.type == "cuda" else torch.initial_seed())
