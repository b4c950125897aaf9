"""What is known of a loader that shuffles, and the loaders that have a better guarantee."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...accountant import rounding
from ..inputs.schedule import ALLOCATED, POISSON
from . import assumption_words, guarantee_words

if TYPE_CHECKING:
    from ...accountant.guarantee import Guarantee
    from ..inputs.described_run import DescribedRun

POISSON_LOADER: Final = '''\
class PoissonBatches:  # DataLoader(data, batch_sampler=PoissonBatches())
    """{steps:,} batches; every record joins each of them by a coin of its own."""

    def __iter__(self):
        coins = np.random.default_rng()  # its seed is secret: neither fixed nor published
        for _ in range({steps}):
            yield np.flatnonzero(coins.random({records}) < {rate}).tolist()

    def __len__(self):
        return {steps}
'''
ALLOCATING_LOADER: Final = '''\
class AllocatedBatches:  # DataLoader(data, batch_sampler=AllocatedBatches())
    """{passes:,} fixed passes of {batches:,} batches; every record is in one batch of each pass."""

    def __iter__(self):
        places = np.random.default_rng()  # its seed is secret: neither fixed nor published
        for _ in range({passes}):
            batch_of = places.integers({batches}, size={records})
            for number in range({batches}):
                yield np.flatnonzero(batch_of == number).tolist()

    def __len__(self):
        return {draws}
'''
RULES_OF_BOTH: Final = (
    "Of both: sizes differ from batch to batch, and an empty batch still releases its noise; "
    "divide each noisy sum by the mean size{mean}, never by the size that was drawn."
)
_WAYS: Final = {
    POISSON: ("Poisson sampling", "a coin for each record and step", POISSON_LOADER),
    ALLOCATED: ("random allocation", "fixed passes, each record in one", ALLOCATING_LOADER),
}


def shuffling_warning(reached: str | None, neighbours: str, group: int) -> str:
    """Return the warning that noise was sized for Poisson sampling, which no shuffling loader does.

    `reached` is what the noise proves of a unit of `group` records where each is used once in a
    pass and nothing is amplified; None where that is not known.
    """
    opening = "a loader that shuffles is not Poisson sampling."
    page = "See: privplan explain sampling"
    if reached is None:
        return f"{opening} This number does not hold for one. {page}"
    fate = "replaced by another" if neighbours == "replace-one" else "replaced by zeros"
    whom = "one record" if group == 1 else f"one unit of {group:,} records"
    return (
        f"{opening} With one pass per epoch and no amplification this noise proves {reached}, for "
        f"{whom} {fate}. {page}"
    )


@dataclass(frozen=True)
class WayOut:
    """Another sampler for the same noise and schedule, what it proves, and its loader."""

    sampler: str
    run: DescribedRun
    guarantee: Guarantee

    def loader(self) -> str:
        """Return the code of a loader that draws so."""
        schedule = self.run.schedule
        return _WAYS[self.sampler][2].format(
            steps=schedule.rounds,
            records=schedule.records or "len(data)",
            rate=rounding.as_given(schedule.rate)
            if schedule.records is None
            else f"{schedule.batch} / {schedule.records}",
            passes=schedule.repeats,
            batches=schedule.batches,
            draws=schedule.repeats * schedule.batches,
        )

    def json(self) -> dict[str, object]:
        """Return the way out for a program."""
        return {
            "sampling": self.sampler,
            "epsilon": guarantee_words.ends(self.guarantee.epsilon),
            "event": self.run.event.to_json(),
            "loader": self.loader(),
        }

    def text(self) -> str:
        """Return the way out for a person."""
        name, what, _ = _WAYS[self.sampler]
        proves = rounding.up(self.guarantee.epsilon.upper)
        code = textwrap.indent(self.loader().rstrip(), "    ")
        return f"With {name} the same noise proves epsilon {proves}: {what}.\n\n{code}"


@dataclass(frozen=True)
class LoaderAdvice:
    """Of a run whose loader shuffles: what other relations know, and the ways out of it."""

    run: DescribedRun
    known: tuple[Guarantee, ...]
    ways: tuple[WayOut, ...]

    @classmethod
    def of(cls, run: DescribedRun, delta: float, neighbours: str) -> LoaderAdvice:
        """Return what there is to say; a bound that does not exist is left out."""
        others = [name for name in ("zero-out", "replace-one") if name != neighbours]
        known = [_guarantee(run, delta, name) for name in others]
        drawn = [(sampler, run.drawn_by(sampler)) for sampler in _WAYS]
        ways = [(sampler, other, _guarantee(other, delta, neighbours)) for sampler, other in drawn]
        return cls(
            run,
            tuple(guarantee for guarantee in known if guarantee is not None),
            tuple(
                WayOut(sampler, other, guarantee)
                for sampler, other, guarantee in ways
                if guarantee is not None
            ),
        )

    def json(self) -> dict[str, object]:
        """Return the keys that are added to the result."""
        return {
            "known": {
                guarantee.neighbours: guarantee_words.ends(guarantee.epsilon)
                for guarantee in self.known
            },
            "ways_out": [way.json() for way in self.ways],
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return the lines about the other relations."""
        return [
            (
                f"{'' if number else 'also':<8}",  # as wide as `at least`, which stands above
                f"epsilon {rounding.up(guarantee.epsilon.upper)} (at least "
                f"{rounding.down(guarantee.epsilon.lower)}), "
                f"{assumption_words.change(guarantee.neighbours, guarantee.unit)}",
            )
            for number, guarantee in enumerate(self.known)
        ]

    def text(self) -> str:
        """Return the ways out, with their loaders."""
        if not self.ways:
            return ""
        batch = self.run.schedule.batch
        rules = RULES_OF_BOTH.format(mean="" if batch is None else f", {batch:,}")
        closing = textwrap.fill(rules, 88)
        return "\n\n".join([*(way.text() for way in self.ways), closing])


def _guarantee(run: DescribedRun, delta: float, neighbours: str) -> Guarantee | None:
    from ...accountant.account import account
    from ...accountant.errors import PrivplanError

    try:
        return account(run.event, delta=delta, neighbours=neighbours)
    except PrivplanError:
        return None
