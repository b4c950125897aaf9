"""How jax_privacy 2.0 draws batches: what its strategies say of it, and what is seen of it.

    sampler of jax_privacy          as a plan knows it, a step being a cycle of batches
    CyclicPoissonSampling           Poisson samples of each group in turn; cut to a size, these are
                                    truncated Poisson samples of a group of equal size
    FixedBatchSampling              samples of a fixed size, without replacement
    BallsInBinsSampling             none: a unit is in one batch of each cycle
    BMinSepSampling                 none: any b batches in a row hold a unit once at most, so they
                                    are a cycle
    the same, even noise            Poisson samples: see below
    UserSelectionStrategy           that of its users, who are the units

With noise that is even, a unit that is left out for b - 1 batches after each of its own costs no
more than one that is not: whatever was released before, the probability that the next batch holds
it is p at most, and a sample of a smaller rate is one of a larger rate with the unit left out by a
further coin.  So each step is dominated by a Poisson sample of rate p, and dominating pairs compose
whatever was released before.  Under correlated noise a batch shows in later steps too, and no
amplification is proven here.

Batches of a cycle of several are drawn in their order, once: a second start deals units anew, so
that one of them may be in two batches that are too near to each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from jax_privacy import batch_selection

from ...accountant.errors import InvalidInput
from ...accountant.records.facts import Unit
from .training_plan import BY_CHANCE, SIZED, Sampler, TrainingPlan, unknown_draw

GUESSABLE_SEED: Final = 2**64
"""A generator that nobody seeded has a seed of 128 random bits, hardly ever below this."""


@dataclass(frozen=True)
class Draw:
    """How batches are drawn: a sampler with the rate of a cycle of `cycle` batches.

    `batch` is the size of a batch, or that to which it is cut, and `groups` are those of equal size
    of which it is drawn.  `shifts` says that a unit which goes moves others into other batches.
    """

    sampler: Sampler
    rate: float
    cycle: int
    iterations: int
    batch: int | None = None
    groups: int = 1
    shifts: bool = False
    unit: Unit = "record"

    @classmethod
    def of(cls, strategy: Any, *, even: bool) -> Draw:
        """Return how a strategy draws, for noise that is even or not.

        Raises `InvalidInput` for a strategy of which nothing is proven here.
        """
        if isinstance(strategy, batch_selection.UserSelectionStrategy):
            return replace(cls.of(strategy.base_strategy, even=even), unit="user")
        if isinstance(strategy, batch_selection.CyclicPoissonSampling):
            return cls._of_groups(strategy)
        if isinstance(strategy, batch_selection.BMinSepSampling):
            return cls._of_separated(strategy, even)
        if isinstance(strategy, batch_selection.BallsInBinsSampling):
            return cls("none", 1.0, int(strategy.cycle_length), int(strategy.iterations))
        if isinstance(strategy, batch_selection.FixedBatchSampling) and not strategy.replace:
            size = int(strategy.batch_size)
            return cls("fixed-size", 1.0, 1, int(strategy.iterations), size)
        raise InvalidInput(
            f"Batches of {type(strategy).__name__} are not planned here.",
            "How batches are drawn decides how much is hidden; one that is drawn with replacement "
            "may hold a unit any number of times.",
            "Use CyclicPoissonSampling, BMinSepSampling, BallsInBinsSampling, or "
            "FixedBatchSampling without replacement.",
        )

    @classmethod
    def _of_groups(cls, strategy: Any) -> Draw:
        cycle, size = int(strategy.cycle_length), strategy.truncated_batch_size
        equal = strategy.partition_type is not batch_selection.PartitionType.INDEPENDENT
        drawn = cls(
            "poisson",
            float(strategy.sampling_prob),
            cycle,
            int(strategy.iterations),
            shifts=equal and cycle > 1,
        )
        if size is None:
            return drawn
        if not equal and cycle > 1:
            raise InvalidInput(
                "Batches of groups of random sizes are cut to a size.",
                "How often a batch is cut follows from the size of its group, which is not public.",
                "Use PartitionType.EQUAL_SPLIT, or leave out truncated_batch_size.",
            )
        return replace(drawn, sampler="truncated-poisson", batch=int(size), groups=cycle)

    @classmethod
    def _of_separated(cls, strategy: Any, even: bool) -> Draw:
        apart, rate = int(strategy.min_sep), float(strategy.sampling_prob)
        iterations, cut = int(strategy.iterations), strategy.truncated_batch_size is not None
        # Both are sound where a plan may be of either; that of samples is the smaller one for
        # small rates: the squares of rates add up over all steps, or ones over the cycles.
        if even and not cut and rate**2 * apart < 1.0:
            return cls("poisson", rate, 1, iterations)
        return cls("none", 1.0, apart, iterations, shifts=cut)

    def keeps_size(self, plan: TrainingPlan, units: int | None) -> bool:
        """Return whether sizes are those of a plan; `units` is how many there are, if known.

        Under add-remove the plan's number is that of the larger data set.
        """
        if self.sampler not in SIZED or plan.batch is None or plan.population is None:
            return True  # no size, or none that a sample could be held against
        assert self.batch is not None
        assert plan.records is not None
        same = min(self.batch, plan.population) == plan.batch
        if not same or self.groups != (plan.groups or 1) or units is None:
            return False
        least = plan.records - (1 if plan.neighbours == "add-remove" else 0)
        # Of more units a sample of a fixed size hides each better; how often it is cut differs.
        return least <= units and (units <= plan.records or self.sampler == "fixed-size")

    def seen(self, plan: TrainingPlan, units: int | None) -> tuple[Sampler, float]:
        """Return the sampler and its rate for the log of a plan, by what is known of the draw."""
        rate = self.rate if self.sampler in BY_CHANCE else plan.sampling_rate
        if self.shifts and plan.neighbours == "add-remove":
            return "shuffled", rate
        return (self.sampler if self.keeps_size(plan, units) else unknown_draw(plan)), rate


class ObservedBatches(batch_selection.BatchSelectionStrategy):  # type: ignore[misc]
    """Draws the batches of another strategy, and notes how many, and from which seed."""

    def __init__(self, inner: Any, cycle: int) -> None:
        self.inner, self.cycle, self.is_seeded = inner, cycle, False
        self.units: int | None = None
        self._sizes: list[int] = []
        self._states: set[str] = set()
        self._in_order = True
        self._lead: int | None = None

    def batch_iterator(self, num_examples: Any, rng: Any = None) -> Iterator[Any]:
        """Yield the batches of the strategy; a number as `rng` is a seed."""
        of_users = isinstance(self.inner, batch_selection.UserSelectionStrategy)
        units = len(np.unique(num_examples)) if of_users else int(num_examples)
        # The fewest: a sample of fewer units hides each of them less.
        self.units = units if self.units is None else min(self.units, units)
        self._note_generator(rng)
        if self._sizes and self.cycle > 1:
            self._in_order = False
        for batch in self.inner.batch_iterator(num_examples, rng):
            self._sizes.append(len(batch))
            yield batch

    def _note_generator(self, rng: Any) -> None:
        if isinstance(rng, (int, np.integer)):
            self.is_seeded = True
        elif isinstance(rng, np.random.Generator):
            bits = rng.bit_generator
            entropy = getattr(bits.seed_seq, "entropy", None)
            self.is_seeded |= not isinstance(entropy, int) or entropy < GUESSABLE_SEED
            state = hashlib.sha256(repr(bits.state).encode()).hexdigest()
            # The same state again draws the same units again.
            self._in_order &= state not in self._states
            self._states.add(state)

    def taken(self, updates: int) -> int | None:
        """Return the size of the batch of an update, counted from 1.

        None where nobody knows how it was drawn: no batch was, or those of a cycle were started
        anew, or left out.  All may be drawn ahead, but not more and more of them.
        """
        if updates > len(self._sizes):
            return None
        lead = len(self._sizes) - updates
        self._lead = lead if self._lead is None else self._lead
        if self.cycle > 1 and lead > self._lead:
            self._in_order = False
        return self._sizes[updates - 1] if self._in_order else None
