"""Exact laws of what an observer sees of a round of few messages, for the worst data of it."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

ODDS: Final = 3
"""By randomized response a bit is sent as it is so many times as often as the other."""

Law = Counter[Hashable]
Value = float
"""What a unit holds: the chance that its bit is 1 before it is answered; a half is a zeroed one."""


@dataclass(frozen=True)
class World:
    """One round of `users` units who each send bits, and who sees what of it.

    The unit is made of the first `group` of them; the next `told` tell what they sent, and of the
    last `lost` no message arrives.  A round of fewer than `fewest` is given up.  `together`
    says that messages of one user stay together, and `draws` how many bits a user sends in all.
    """

    users: int
    method: Literal["none", "poisson", "fixed-size"] = "none"
    rate: float = 1.0
    batch: int = 0
    told: int = 0
    lost: int = 0
    knows_sample: bool = False
    fewest: int = 0
    each: bool = False
    draws: int = 1
    together: bool = False
    group: int = 1

    @property
    def others(self) -> int:
        """How many are not of the unit."""
        return self.users - self.group


def delta_of(world: World, neighbours: str, order: float) -> float:
    """Return the exact delta at e^epsilon = `order`, over bits of the unit and of all others."""
    zeroed = neighbours == "zero-out"
    pairs = [(0.0, 1.0)] if not zeroed else [(0.0, 0.5), (1.0, 0.5)]
    return max(
        _stick(law(world, first, ones), law(world, second, ones), order)
        for one, other in pairs
        for first, second in ((one, other), (other, one))
        for ones in range(world.others + 1)
    )


def _stick(one: Law, other: Law, order: float) -> float:
    return math.fsum(max(chance - order * other[seen], 0.0) for seen, chance in one.items())


@cache
def law(world: World, value: Value, ones: int) -> Law:
    """Return the law of the view where the unit holds `value`, and so many others a 1.

    Whether it is those who tell, or are missing, who hold a 1 matters to nobody: what they send is
    known, or not there.
    """
    values = [value] * world.group + [1.0] * ones + [0.0] * (world.others - ones)
    if world.draws == 1 or world.together:
        return _of_draw(world, values, world.draws)
    single = _of_draw(world, values, 1)
    whole: Law = Counter({(): 1.0})
    for _ in range(world.draws):
        longer: Law = Counter()
        for (seen, chance), (more, likely) in itertools.product(whole.items(), single.items()):
            longer[(*seen, more)] += chance * likely  # type: ignore[misc]
        whole = longer
    return whole


def _of_draw(world: World, values: list[Value], bits: int) -> Law:
    gone = set(range(world.users - world.lost, world.users))
    told = set(range(world.group, world.group + world.told))
    mixed: Law = Counter()
    for sample, chance in _samples(world):
        arrived = [user for user in sample if user not in gone]
        known = sample if world.knows_sample else tuple(user for user in sample if user in told)
        if len(arrived) < world.fewest:
            mixed["given up", known] += chance
            continue
        senders = arrived if world.each else [user for user in arrived if user not in told]
        for words, likely in _words(tuple(values[user] for user in senders), bits).items():
            seen = words if world.each else tuple(sorted(words))  # type: ignore[arg-type,type-var]
            names = tuple(senders) if world.each else ()
            mixed[names, known, seen] += chance * likely
    return mixed


def _samples(world: World) -> Iterator[tuple[tuple[int, ...], float]]:
    everybody = range(world.users)
    if world.method == "none":
        yield tuple(everybody), 1.0
    elif world.method == "fixed-size":
        count = math.comb(world.users, world.batch)
        for sample in itertools.combinations(everybody, world.batch):
            yield sample, 1.0 / count
    else:
        for size in range(world.users + 1):
            chance = world.rate**size * (1.0 - world.rate) ** (world.users - size)
            for sample in itertools.combinations(everybody, size):
                yield sample, chance


@cache
def _words(values: tuple[Value, ...], bits: int) -> Law:
    """Return the law of the messages, each a tuple of bits, of users who hold some values."""
    words: Law = Counter()
    spaces = [tuple(itertools.product((0, 1), repeat=bits))] * len(values)
    for row in itertools.product(*spaces):
        words[row] += math.prod(
            _chance(value, bit) for value, word in zip(values, row, strict=True) for bit in word
        )
    return words


def _chance(value: Value, bit: int) -> float:
    is_one = (1.0 + (ODDS - 1.0) * value) / (ODDS + 1.0)
    return is_one if bit else 1.0 - is_one


# --- numbers with Gaussian noise ------------------------------------------------------------------


def tail(value: float) -> float:
    """Return how likely standard noise is above a value."""
    return math.erfc(value / math.sqrt(2.0)) / 2.0


def gaussian_delta(shift: float, order: float) -> float:
    """Return delta at e^epsilon = `order` of noise of deviation 1 that is shifted."""
    if shift == 0.0:
        return max(1.0 - order, 0.0)
    middle = math.log(order) / shift
    return tail(middle - shift / 2.0) - order * tail(middle + shift / 2.0)


Mixture = Iterable[tuple[float, float, float]]
"""Normal laws, each with its chance, its mean and its deviation."""


def mixture_delta(one: Mixture, other: Mixture, order: float, cells: int = 4000) -> float:
    """Return a lower bound of delta between two mixtures: that of what is rounded to cells."""
    one, other = list(one), list(other)
    least = min(mean - 9.0 * deviation for _, mean, deviation in (*one, *other))
    most = max(mean + 9.0 * deviation for _, mean, deviation in (*one, *other))
    edges = [least + (most - least) * step / cells for step in range(cells + 1)]

    def above(mixture: list[tuple[float, float, float]], edge: float) -> float:
        return math.fsum(c * tail((edge - mean) / deviation) for c, mean, deviation in mixture)

    first, second = ([above(law_, edge) for edge in edges] for law_ in (one, other))
    return math.fsum(
        max(first[i] - first[i + 1] - order * (second[i] - second[i + 1]), 0.0)
        for i in range(cells)
    )
