"""No lower end of a shuffled run is above what some loader that fits its description shows.

The truth is that of `loader_enumeration`: exact for an adversary who sees the order, computed from
the records of each draw alone, for every loader that the description may be of.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping

import pytest

from privplan.audit.description.run_description import Phase

from ..cases import for_each
from .loader_enumeration import MOVED, Loader, gaussian_delta, loaders, rates
from .small_runs import NO_RATE, lower, proof

Fitting = list[tuple[Loader, list[Phase]]]

ROUNDING = 1e-6
OF_PHASES = ("sampling.rate", "schedule.steps", "noise.noise_multiplier", "data.records")


def in_phases(
    rows: list[list[float]], delta: float, neighbours: str, records: int | None
) -> Mapping[str, object]:
    known = {} if records is None else {"data.records": records}
    return {
        "sampling.method": "shuffled",
        "claim.delta": delta,
        "claim.neighbours": neighbours,
        "schedule.phases": rows,
        "schedule.accumulation": 1,
        **known,
    }


def assert_not_above(
    facts: Mapping[str, object], without: tuple[str, ...], fitting: Fitting
) -> None:
    """Assert that the lower end is not above the truth of any of the loaders."""
    result = proof(facts, without)
    if result.bounds is None or lower(result) == 0.0:
        return
    delta, moved = float(str(facts["claim.delta"])), MOVED[str(facts["claim.neighbours"])]
    for loader, phases in fitting:
        truth = loader.delta(phases, lower(result), moved)
        assert truth >= delta * (1.0 - ROUNDING), (facts, loader, lower(result), truth)


@for_each(
    ("records", "batch", "noises", "delta"),
    [(19, 10, [0.7, 2.0], 0.01), (1999, 1000, [1.0 + 0.1 * index for index in range(10)], 1e-5)],
)
def test_phases_of_one_batch_each_may_lack_what_their_loader_drops(
    records: int, batch: int, noises: list[float], delta: float
) -> None:
    """A single batch of 10 of 19 records, and the rest is dropped: 1 over its number is rate 1."""
    rows = [[noise, 1.0, 1] for noise in noises]
    phases = [Phase(noise, 1.0, 1) for noise in noises]
    fitting = [(Loader(records, batch, drops=True), phases)]
    facts = in_phases(rows, delta, "zero-out", records)
    assert_not_above(facts, OF_PHASES, fitting)
    assert lower(proof(facts, OF_PHASES)) > 0.5 * _epsilon(*fitting[0], delta)


def _epsilon(loader: Loader, phases: list[Phase], delta: float) -> float:
    low, high = 0.0, 100.0
    for _ in range(20):
        middle = (low + high) / 2.0
        low, high = (middle, high) if loader.delta(phases, middle, 1.0) > delta else (low, middle)
    return low


def test_the_last_batch_of_a_pass_may_be_one_record() -> None:
    """Batches of 4 of 9 records: the step with little noise is that of the ninth."""
    rows = [[5.0, 4 / 9, 2], [0.5, 4 / 9, 1]]
    phases = [Phase(noise, rate, int(steps)) for noise, rate, steps in rows]
    facts = in_phases(rows, 0.05, "zero-out", 9)
    assert_not_above(facts, OF_PHASES, [(Loader(9, 4), phases)])


def test_the_last_group_of_batches_may_be_small_and_its_loader_drop_a_record() -> None:
    """Batches of 2 of 9 records, three in a draw: one is dropped, and a pass is of 6 and of 2."""
    facts = {
        "sampling.method": "shuffled",
        "claim.delta": 0.05,
        "claim.neighbours": "zero-out",
        "data.records": 9,
        "sampling.batch": 6,
        "schedule.accumulation": 3,
        "schedule.steps": 8,
        "schedule.epochs": 4,
    }
    phases = [Phase(1.0, 6 / 9, 8)]
    dropping = Loader(9, 2, 3, drops=True)
    assert dropping.draws_of_a_pass() == (6, 2)
    assert_not_above(facts, NO_RATE, [(dropping, phases)])
    by_steps = {key: value for key, value in facts.items() if key != "schedule.epochs"}
    assert_not_above(by_steps, NO_RATE, [(dropping, phases)])


@for_each(("users", "noise", "delta", "known"), [(3, 0.7, 0.05, True), (5, 1.5, 0.01, False)])
def test_records_of_a_user_are_drawn_without_replacement(
    users: int, noise: float, delta: float, known: bool
) -> None:
    """One batch of 4 records; each user has 3: seldom are all of them in it."""
    records = 3 * users
    facts = {
        "sampling.method": "shuffled",
        "claim.delta": delta,
        "claim.unit": "user",
        "claim.neighbours": "zero-out",
        "noise.noise_multiplier": noise,
        "data.users": users,
        "data.records_per_user": 3,
        "noise.clip_bounds": "record",
        "sampling.sampled": "records",
        "sampling.batch": 4,
        "schedule.steps": 1,
        **({"data.records": records} if known else {}),
    }
    without = NO_RATE if known else (*NO_RATE, "data.records")
    epsilon = lower(proof(facts, without))
    chances = [math.comb(4, j) * math.comb(records - 4, 3 - j) for j in range(4)]
    truth = sum(
        chance / math.comb(records, 3) * gaussian_delta(epsilon, j / noise)
        for j, chance in enumerate(chances)
    )
    assert truth >= delta * (1.0 - ROUNDING) or epsilon == 0.0


def _of_phases(generator: random.Random) -> Iterator[tuple[Mapping[str, object], Fitting]]:
    """Yield descriptions by phases of one rate, each with the loaders that it may be of."""
    while True:
        records = generator.randint(3, 12)
        batch = generator.randint(1, records)
        drops = generator.random() < 0.5
        rate = generator.choice(rates(records, batch, drops))
        rows = [
            [generator.choice([0.5, 0.7, 1.0, 2.0]), rate, generator.choice([1, 1, 2, 3, 5])]
            for _ in range(generator.randint(2, 4))
        ]
        phases = [Phase(noise, rate, int(steps)) for noise, _, steps in rows]
        facts = in_phases(
            rows,
            generator.choice([0.05, 0.01, 1e-3]),
            generator.choice(["zero-out", "replace-one"]),
            generator.choice([records, None]),
        )
        fitting = [
            (each, phases)
            for each in loaders(records, batch, 1)
            if any(math.isclose(rate, one) for one in rates(records, batch, each.drops))
        ]
        yield facts, fitting


def _of_groups(generator: random.Random) -> Iterator[tuple[Mapping[str, object], Fitting]]:
    """Yield descriptions by steps or epochs of batches in groups, with the loaders that fit."""
    while True:
        records, together = generator.randint(3, 14), generator.randint(1, 4)
        batch = generator.randint(1, records)
        of_all = generator.random() < 0.5 and batch * together <= records
        steps, epochs = generator.randint(1, 6), generator.randint(1, 4)
        by = generator.choice(["steps", "epochs", "both"])
        fitting = []
        for each in loaders(records, batch, together):
            if each.anew:
                continue
            made = len(each.draws_of_a_pass()) * epochs
            if by == "both" and made != steps:
                continue
            fitting.append((each, [Phase(0.7, 1.0, steps if by == "steps" else made)]))
        if not fitting:
            continue
        facts: dict[str, object] = {
            "sampling.method": "shuffled",
            "claim.delta": generator.choice([0.05, 0.01, 1e-3]),
            "claim.neighbours": generator.choice(["zero-out", "replace-one"]),
            "noise.noise_multiplier": 0.7,
            "data.records": records,
            "sampling.batch": batch * together if of_all else batch,
            "schedule.accumulation": together,
        }
        if by != "epochs":
            facts["schedule.steps"] = steps
        if by != "steps":
            facts["schedule.epochs"] = epochs
        yield facts, fitting


def _assert_all(seed: int, phases: int, groups: int) -> None:
    generator = random.Random(seed)
    for (facts, fitting), _ in zip(_of_phases(generator), range(phases), strict=False):
        assert_not_above(facts, OF_PHASES, fitting)
    for (facts, fitting), _ in zip(_of_groups(generator), range(groups), strict=False):
        assert_not_above(facts, ("sampling.rate", "schedule.steps"), fitting)


def test_small_loaders_show_no_less_than_their_lower_ends() -> None:
    _assert_all(1, phases=8, groups=8)


@pytest.mark.slow
@for_each("seed", range(2, 8))
def test_many_small_loaders_show_no_less_than_their_lower_ends(seed: int) -> None:
    _assert_all(seed, phases=60, groups=60)
