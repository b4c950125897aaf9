"""Random runs that are known as a whole, with their losses, and descriptions that hide some facts.

The pair of neighbouring data sets of each run is written down here, and its loss is computed from
its densities, by nothing of `check`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from scipy.stats import binom, hypergeom, norm

from privplan.accountant.arrays import FloatArray

from .losses import composed_epsilon

Mixture = tuple[tuple[float, float], ...]
"""Probabilities, each with the mean of a normal density."""

NOBODY: Final[Mixture] = ((1.0, 0.0),)

DELTA: Final = 1e-5


def binned(edges: FloatArray, mean: float, noise: float) -> FloatArray:
    """Return the mass of a normal density in each bin, which no tail loses digits of."""
    above = edges[:-1] > mean
    masses = np.diff(norm.cdf(edges, mean, noise))
    masses[above] = -np.diff(norm.sf(edges, mean, noise))[above]
    return masses


@cache
def loss_of(here: Mixture, there: Mixture, noise: float, steps: int) -> float:
    """Return the epsilon of so many releases of one of two mixtures, in the worse direction.

    What is released is counted in bins, which is post-processing.
    """
    shifts = [shift for mixture in (here, there) for _, shift in mixture]
    edges = np.linspace(min(shifts) - 11.0 * noise, max(shifts) + 11.0 * noise, 6001)
    shown, other = (
        sum(chance * binned(edges, shift, noise) for chance, shift in mixture)
        for mixture in (here, there)
    )
    seen = (shown > 1e-300) & (other > 1e-300)
    loss = np.log(shown[seen] / other[seen])
    there_first = composed_epsilon(-loss, other[seen], steps, DELTA)
    return max(composed_epsilon(loss, shown[seen], steps, DELTA), there_first)


@dataclass(frozen=True)
class WholeRun:
    """A run: `facts` by dotted key; its loss is `least` or more, and `most` or less."""

    facts: Mapping[str, object]
    least: float
    most: float


@dataclass(frozen=True)
class Design:
    """Who is protected, drawn and clipped in a run, and how often."""

    unit: str
    drawn: str
    clipped: str
    method: str
    relation: str
    population: int
    batch: int
    of_unit: int
    draws: int
    clients: float | None = None

    @property
    def rate(self) -> float:
        return self.batch / self.population

    def occurrences(self) -> Mixture:
        """Return the law of how many of what is drawn of the unit are in one noise draw."""
        several = self.of_unit if self.drawn == "records" and self.unit != "record" else 1
        if self.method == "full":
            return ((1.0, float(several)),)
        law = {
            "poisson": lambda: binom(several * self.draws, self.rate),
            "with-replacement": lambda: binom(self.batch * self.draws, several / self.population),
        }.get(self.method, lambda: hypergeom(self.population, several, self.batch))()
        counts = np.arange(several * max(self.draws, 1) * (self.batch + 1) + 1)
        once = law.pmf(counts)
        if self.method == "fixed-size" and self.draws == 2:
            once = np.convolve(once, once)
        return tuple((float(p), float(j)) for j, p in enumerate(once) if p > 1e-12)

    def moved(self, count: float) -> float:
        """Return how far the unit moves a sum that it was drawn into so often."""
        if self.clipped == "unit":
            return min(count, float(self.draws))
        return count * self.of_unit if self.drawn == "users" and self.unit == "user" else count

    def pairs(self) -> Iterator[tuple[Mixture, Mixture]]:
        """Yield pairs of what neighbouring data sets show in one noise draw.

        Clients of a silo are its users, of whom any that comes brings it.
        """
        comes = 1.0 if self.clients is None else self.clients
        if self.unit == "silo" and self.clients is not None:
            comes = 1.0 - (1.0 - self.clients) ** self.of_unit
        for pair in self._pairs_of_clients():
            here, there = (
                ((1.0 - comes, 0.0), *((comes * chance, shift) for chance, shift in law))
                for law in pair
            )
            yield (here, there) if comes < 1.0 else pair

    def _pairs_of_clients(self) -> Iterator[tuple[Mixture, Mixture]]:
        """Yield pairs of what a client shows that came."""
        law = tuple((chance, self.moved(count)) for chance, count in self.occurrences())
        zeroed = self.relation == "zero-out"
        opposite = tuple((chance, -shift) for chance, shift in law)
        yield law, (opposite if self.relation == "replace-one" else NOBODY)
        alone = self.unit != "user" or self.drawn == "users"
        filled = self.method in ("fixed-size", "with-replacement") and self.batch < self.population
        if filled and alone and (self.drawn == "records") == (self.unit == "record"):
            # Beside others at the opposite bound each occurrence is in the stead of one of these.
            yield tuple((chance, 2.0 * shift) for chance, shift in law), law if zeroed else NOBODY
        if self.unit == "record" and self.draws == 1 and self.method in ("poisson", "full"):
            yield from self._pairs_of_records()
        leaves = self.clipped == "record" and self.relation == "add-remove" and filled
        if leaves and (self.unit, self.drawn, self.method) == ("record", "users", "fixed-size"):
            # The only record of its user leaves its draw to a user of several.
            yield ((1.0 - self.rate, 0.0), (self.rate, 1.0 + self.of_unit)), NOBODY

    def _pairs_of_records(self) -> Iterator[tuple[Mixture, Mixture]]:
        """Yield pairs of a record beside others of its user."""
        q, rest = self.rate, self.of_unit - 1
        if rest == 0 or (self.drawn, self.clipped) == ("records", "record"):
            return
        nobody = (1.0 - q, 0.0)
        if self.drawn == "users" and self.clipped == "record":
            turned = rest - 1.0 if self.relation == "replace-one" else float(rest)
            yield (nobody, (q, rest + 1.0)), (nobody, (q, turned))
        elif self.drawn == "users":
            yield (nobody, (q, 1.0)), (nobody, (q, -1.0))
        elif self.relation != "replace-one":
            both = ((1.0 - q) ** 2, 0.0), (q, 1.0), (q * (1.0 - q), -1.0)
            yield both, (nobody, (q, -1.0))

    def is_exact(self) -> bool:
        """Return whether the largest of the pairs is the loss of the run."""
        if self.method not in ("poisson", "full", "fixed-size") or self.draws > 1:
            return False
        if self.unit == "record" and (self.drawn, self.clipped) != ("records", "record"):
            return False
        of_units = self.drawn != "records" or self.unit == "record"
        if self.method == "fixed-size":
            return of_units and self.batch < self.population and self.relation == "add-remove"
        return of_units or (self.relation != "replace-one")


def run_of_clients(source: random.Random) -> WholeRun:
    """Return a random run of clients that are sampled, and their records inside, or not all."""
    unit = source.choice(["record", "user", "silo"])
    of_unit, holders = source.choice([2, 3, 5]), source.choice([4, 10, 20])
    drawn = "users" if unit == "silo" else source.choice(["records", "users"])
    clipped = "unit" if unit == "silo" else source.choice(["unit", "record"])
    relation = source.choice(["add-remove", "replace-one", "zero-out"])
    clients, steps = source.choice([0.2, 0.5, 0.9]), source.choice([1, 4, 10])
    batch = 20 if unit == "silo" else source.choice([2, 6, 18, 20])
    design = Design(
        unit, drawn, clipped, "poisson", relation, 20, batch, of_unit, 1, clients
    )  # fmt: skip
    noise = source.choice([1.5, 2.0, 3.0])
    farthest = max(abs(shift) for pair in design.pairs() for law in pair for _, shift in law)
    if steps * (2.0 * farthest / noise) ** 2 > 100.0:
        return run_of_clients(source)  # beyond the grid of losses
    least = max(loss_of(*pair, noise, steps) for pair in design.pairs())
    facts: dict[str, object] = {
        "claim.unit": unit,
        "claim.neighbours": relation,
        "claim.delta": DELTA,
        "noise.noise_multiplier": noise,
        "noise.clip_source": "constant",
        "noise.clip_bounds": clipped,
        "sampling.method": "poisson",
        "sampling.sampled": drawn,
        "sampling.clients_rate": clients,
        "schedule.steps": steps,
        "schedule.accumulation": 1,
        "schedule.restarts": 1,
        "data.users": holders * (of_unit if unit == "silo" else 1),
    }
    if unit == "silo":
        facts["data.silos"] = holders
    else:
        facts |= {"data.records": holders * of_unit, "data.records_per_user": of_unit}
        facts |= {"sampling.rate": design.rate}
    return WholeRun(facts, least, least if design.is_exact() else math.inf)


def whole_run(source: random.Random) -> WholeRun:
    """Return a random run that is known as a whole."""
    unit = source.choice(["record", "record", "user", "user", "silo"])
    holders = source.choice([2, 4, 5, 10] if unit == "silo" else [4, 6, 10, 12, 20])
    of_unit = source.choice([1, 2, 2, 3])
    records = source.choice([holders * of_unit, source.randint(holders, holders * of_unit)])
    drawn = source.choice(["records", "users"])
    clipped = "unit" if unit == "silo" else source.choice(["unit", "record"])
    method = source.choice(
        ["poisson", "poisson", "poisson", "fixed-size", "shuffled", "with-replacement", "full"]
    )
    population = records if drawn == "records" else holders
    batch = population if method == "full" else max(1, population // source.choice([1, 2, 3, 4, 5]))
    if (unit, drawn, method) == ("record", "users", "poisson") and source.random() < 0.4:
        # The batch counts the records of whom it has.
        population, batch = records, source.randint(1, records)
    draws = source.choice([1, 1, 1, 2]) if method in ("poisson", "fixed-size") else 1
    if clipped == "unit" and (unit == "record" or drawn == "records"):
        draws = 1
    if unit == "silo" and drawn == "records":
        of_unit = records // holders
    relation = source.choice(["add-remove", "add-remove", "replace-one", "zero-out"])
    design = Design(unit, drawn, clipped, method, relation, population, batch, of_unit, draws)
    batches = population / batch
    an_epoch = 1 if method == "full" else source.choice([math.floor(batches), math.ceil(batches)])
    an_epoch = max(1, -(-an_epoch // draws))
    epochs, restarts = source.choice([1, 2, 3]), source.choice([1, 1, 1, 2])
    noise = source.choice([1.0, 1.5, 2.0, 3.0])
    shuffled = method == "shuffled"
    farthest = max(abs(shift) for pair in design.pairs() for law in pair for _, shift in law)
    if restarts * epochs * an_epoch * (2.0 * farthest / noise) ** 2 > 100.0:
        return whole_run(source)  # beyond the grid of losses
    # One batch of each epoch is released by itself.
    steps = restarts * epochs * (1 if shuffled else an_epoch)
    least = max(loss_of(*pair, noise, steps) for pair in design.pairs())
    facts: dict[str, object] = {
        "claim.unit": unit,
        "claim.neighbours": relation,
        "claim.delta": DELTA,
        "noise.noise_multiplier": noise,
        "noise.clip_source": "constant",
        "noise.clip_bounds": clipped,
        "data.records": records,
        "sampling.method": method,
        "sampling.sampled": drawn,
        "sampling.batch": batch,
        "sampling.rate": design.rate,
        "schedule.steps": epochs * an_epoch,
        "schedule.epochs": epochs,
        "schedule.accumulation": draws,
        "schedule.restarts": restarts,
    }
    if unit == "silo":
        facts["data.silos"] = holders
    else:
        facts |= {"data.users": holders, "data.records_per_user": of_unit}
    if draws > 1:
        facts["schedule.accumulation_of"] = "own-draws"
    return WholeRun(facts, least, least if design.is_exact() else math.inf)


CERTAIN: Final = (
    "claim.delta",
    "claim.neighbours",
    "noise.noise_multiplier",
    "noise.clip_source",
    "schedule.accumulation",
    "schedule.restarts",
)
"""What every description states: other facts about it are conventions, where it is hidden."""


def may_be_hidden(facts: Mapping[str, object], stated: Mapping[str, object]) -> bool:
    """Return whether no convention is wrong about the run, where no more than that is stated."""
    if "sampling.clients_rate" in facts:
        # Clients are users, whose draws besides are told, as far as there are any.
        needed = {"sampling.clients_rate", "schedule.steps", "sampling.method"}
        if facts["claim.unit"] == "silo":
            needed.add("data.users")
        elif facts["sampling.sampled"] == "users":
            needed.add("sampling.rate")
        if not needed <= set(stated):
            return False
    unit, drawn = facts["claim.unit"], facts["sampling.sampled"]
    clipped = facts["noise.clip_bounds"]
    several = "data.records_per_user" in stated and facts["data.records_per_user"] != 1
    by_convention = unit == "silo" or not (several or "data.users" in stated)
    if unit != "record" and "claim.unit" not in stated and by_convention:
        return False  # by convention a record is protected, unless users are mentioned
    if unit == "user":
        return "data.records_per_user" in stated or (drawn, clipped) == ("users", "unit")
    if unit == "silo" or (drawn, clipped) == ("records", "record"):
        return True
    keys = ("data.records_per_user", "sampling.sampled", "noise.clip_bounds")
    if stated.get("sampling.sampled") == "users":
        return True
    mentioned = "data.users" in stated or facts["data.records_per_user"] != 1
    return (
        mentioned
        and any(key in stated for key in keys)
        and ("data.users" in stated or "data.records_per_user" in stated)
    )


def descriptions(run: WholeRun, source: random.Random) -> tuple[dict[str, object], list[str]]:
    """Return some facts of a run, and the keys of the others in the order of their saying."""
    while True:
        keys = [key for key in run.facts if key not in CERTAIN]
        source.shuffle(keys)
        said = source.randint(1, len(keys))
        stated = {
            key: value for key, value in run.facts.items() if key in CERTAIN or key in keys[:said]
        }
        if may_be_hidden(run.facts, stated):
            return stated, keys[said:]


def tables(facts: Mapping[str, object]) -> dict[str, dict[str, object]]:
    """Return facts as the tables of a description."""
    nested: dict[str, dict[str, object]] = {}
    for key, value in facts.items():
        table, _, name = key.partition(".")
        nested.setdefault(table, {})[name] = value
    return nested
