"""Small trainings with execution plans of jax_privacy, right ones and wrong ones, observed."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from dp_accounting import NeighboringRelation, pld
from jax import numpy as jnp
from jax_privacy import batch_selection, noise_addition
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig

import privplan as pp
from privplan.audit.adapters.dp_accounting import CertifiedAccountant
from privplan.audit.adapters.jax_privacy import plan_of

RECORDS, ITERATIONS, RATE = 200, 12, 0.1
NOISE, CLIP = 2.0, 0.5
Step = Callable[[int, Any, Any], Any]
DATA = np.random.default_rng(3).normal(size=(RECORDS, 4)).astype(np.float32)


def execution(
    strategy: Any = (1.0,), relation: str = "REPLACE_SPECIAL", batches: Any = None, **changes: Any
) -> Any:
    """Return an execution plan: DP-SGD, or BandMF with a strategy of several bands."""
    usual: dict[str, Any] = {
        "iterations": ITERATIONS,
        "strategy": np.array(strategy),
        "epsilon": None,
        "delta": None,
        "noise_multiplier": NOISE,
        "l2_clip_norm": CLIP,
        "sampling_prob": RATE,
        "accountant": pld.PLDAccountant(NeighboringRelation[relation]),
    }
    made = BandMFExecutionPlanConfig(**{**usual, **changes}).plan
    if batches is not None:
        made = dataclasses.replace(made, batch_selection_strategy=batches)
    return made


def plan(made: Any = None, neighbours: str = "zero-out", **changes: Any) -> pp.TrainingPlan:
    """Return the plan of an execution plan."""
    source = {"rate_source": "a constant of the study", "delta": 1e-4}
    given = plan_of(execution() if made is None else made, neighbours=neighbours, **source)
    return dataclasses.replace(given, **{"steps_per_intent": 5, **changes})


def loss(model: Any, record: Any) -> Any:
    """Return how badly a model fits one record."""
    return jnp.sum((record @ model - 1.0) ** 2)


def trained(
    folder: Path,
    made: Any,
    planned: pp.TrainingPlan | None = None,
    *,
    rng: Any = None,
    batches: Any = None,
    again: bool = False,
    iterations: int = ITERATIONS,
) -> Any:
    """Train under the observer, and return the model.

    `batches` are drawn in place of those of the execution plan; `again` uses the first state of the
    noise in each step.
    """
    model = jnp.zeros(4)
    with pp.logged(made, folder, plan=planned or plan(made)) as observed:
        gradient = jax.jit(observed.clipped_grad(loss))
        first = state = observed.noise_addition_transform.init(model)
        drawn = observed.batch_selection_strategy.batch_iterator(RECORDS, rng)
        for number, indices in enumerate(drawn if batches is None else batches):
            if number == iterations:
                break
            total = gradient(model, chosen_from(indices))
            used = first if again else state
            noisy, state = observed.noise_addition_transform.update(total, used)
            model = model - 0.01 * noisy
    return model


def chosen_from(indices: Any) -> Any:
    """Return records of one shape, so that a gradient is compiled once: others are zero."""
    chosen = np.full((RECORDS, *np.shape(indices)[1:]), -1)
    chosen[: len(indices)] = indices
    return DATA[chosen] * (chosen >= 0)[..., None]


def loop(
    folder: Path,
    made: Any,
    planned: pp.TrainingPlan,
    batches: Callable[[Callable[..., Any]], Any],
    factor: float = 1.0,
) -> None:
    """Train with batches that are made of what draws them; sums are multiplied by a factor."""
    model = jnp.zeros(4)
    with pp.logged(made, folder, plan=planned) as observed:
        gradient = jax.jit(observed.clipped_grad(loss))
        state = observed.noise_addition_transform.init(model)
        for indices in batches(observed.batch_selection_strategy.batch_iterator):
            total = factor * gradient(model, chosen_from(indices))
            _, state = observed.noise_addition_transform.update(total, state)


def first(drawn: Callable[..., Any], count: int, rng: Any = None) -> list[Any]:
    """Return the first batches that are drawn by a new start."""
    return list(itertools.islice(drawn(RECORDS, rng), count))


def trained_by_users(folder: Path, made: Any, planned: pp.TrainingPlan) -> None:
    """Train with batches of users, each with four records, of which two are used."""
    model, users = jnp.zeros(4), np.repeat(np.arange(RECORDS // 4), 4)

    def of_user(values: Any, records: Any) -> Any:
        return jnp.mean(jax.vmap(loss, (None, 0))(values, records))

    with pp.logged(made, folder, plan=planned) as observed:
        gradient = jax.jit(observed.clipped_grad(of_user))
        state = observed.noise_addition_transform.init(model)
        for rows in observed.batch_selection_strategy.batch_iterator(users):
            total = gradient(model, chosen_from(rows.reshape(-1, 2)))
            _, state = observed.noise_addition_transform.update(total, state)


def cut_plan(made: Any, neighbours: str = "zero-out") -> pp.TrainingPlan:
    """Return the plan of batches that are cut."""
    source = {"rate_source": "a constant of the study", "delta": 1e-4, "records": RECORDS}
    return plan_of(made, neighbours=neighbours, **source)


def numbered(made: Any, stddev: float) -> Any:
    """Return an execution plan whose noise was exchanged for another one."""
    key = jax.random.wrap_key_data(np.array([77, 1], dtype=np.uint32))
    noise = noise_addition.gaussian_privatizer(stddev=stddev, prng_key=key)
    return dataclasses.replace(made, noise_addition_transform=noise)


# --- right trainings ------------------------------------------------------------------------------


def dp_sgd(folder: Path) -> None:
    """DP-SGD under zero-out."""
    trained(folder, execution())


def add_remove(folder: Path) -> None:
    """DP-SGD under add-remove."""
    independent = batch_selection.PartitionType.INDEPENDENT
    made = execution(relation="ADD_OR_REMOVE_ONE", partition_type=independent)
    trained(folder, made, plan(made, "add-remove"))


def replace_one(folder: Path) -> None:
    """DP-SGD under replace-one, for which jax_privacy doubles the noise."""
    made = execution(relation="REPLACE_ONE")
    trained(folder, made, plan(made, "replace-one"))


def not_rescaled(folder: Path) -> None:
    """Gradients that keep their size."""
    trained(folder, execution(rescale_to_unit_norm=False))


def normalised(folder: Path) -> None:
    """Sums that are divided by a public constant."""
    trained(folder, execution(normalize_by=20.0))


def banded(folder: Path) -> None:
    """BandMF with three bands."""
    trained(folder, execution((1.0, 0.5, 0.25)))


def banded_apart(folder: Path) -> None:
    """BandMF under add-remove, each record in a group of its own choice."""
    independent = batch_selection.PartitionType.INDEPENDENT
    made = execution((1.0, 0.5), "ADD_OR_REMOVE_ONE", partition_type=independent)
    trained(folder, made, plan(made, "add-remove"))


def fixed_batches(folder: Path) -> None:
    """Batches of a fixed size."""
    batches = batch_selection.FixedBatchSampling(20, ITERATIONS)
    made = execution(batches=batches)
    source = {"rate_source": "", "delta": 1e-4, "records": RECORDS}
    trained(folder, made, plan_of(made, neighbours="replace-one", **source))


def balls_in_bins(folder: Path) -> None:
    """Each record in one batch of each cycle, under BandMF: a sum of it in each cycle."""
    batches = batch_selection.BallsInBinsSampling(ITERATIONS, cycle_length=3)
    trained(folder, execution((1.0, 0.5, 0.25), batches=batches))


def cut_to_a_size(folder: Path) -> None:
    """Poisson samples that are cut."""
    made = execution(truncated_batch_size=22, num_examples=RECORDS)
    trained(folder, made, cut_plan(made))


def cut_groups(folder: Path) -> None:
    """Poisson samples of groups that are cut, under BandMF and replace-one."""
    made = execution(
        (1.0, 0.5),
        "REPLACE_ONE",
        truncated_batch_size=12,
        num_examples=RECORDS,
    )
    trained(folder, made, cut_plan(made, "replace-one"))


def cut_to_more_than_there_are(folder: Path) -> None:
    """A size that no batch reaches."""
    made = execution((1.0, 0.5), truncated_batch_size=2 * RECORDS, num_examples=RECORDS)
    trained(folder, made, cut_plan(made))


def separated(folder: Path) -> None:
    """Batches that are so far apart for each record, with noise that is even."""
    made = execution(batches=batch_selection.BMinSepSampling(RATE, ITERATIONS, 4))
    trained(folder, made, plan(made, "add-remove"))


def separated_banded(folder: Path) -> None:
    """The same under BandMF: a record once in each cycle, whose sample hides nothing."""
    batches = batch_selection.BMinSepSampling(RATE, ITERATIONS, 3, truncated_batch_size=15)
    made = execution((1.0, 0.5, 0.25), batches=batches)
    trained(folder, made, plan(made, noise_multiplier=plan(made).noise_multiplier))


def of_users(folder: Path) -> None:
    """Users are drawn, and each is clipped as a whole."""
    base = batch_selection.CyclicPoissonSampling(RATE, ITERATIONS)
    made = execution(batches=batch_selection.UserSelectionStrategy(base, 2))
    assert plan(made).unit == "user"
    trained_by_users(folder, made, plan(made))


def drawn_ahead(folder: Path) -> None:
    """All batches are drawn before the first step."""
    made = execution((1.0, 0.5, 0.25))
    loop(folder, made, plan(made), lambda drawn: list(drawn(RECORDS)))


def started_again(folder: Path) -> None:
    """Poisson samples, a part of them from a second start."""
    made = execution()
    half = ITERATIONS // 2
    loop(folder, made, plan(made), lambda drawn: [*first(drawn, half), *first(drawn, half)])


def stopped(folder: Path) -> None:
    """A training that ends early."""
    trained(folder, execution(), iterations=4)


def certified(folder: Path) -> None:
    """Noise that jax_privacy finds with our accountant."""
    made = execution(
        epsilon=3.0,
        delta=1e-4,
        noise_multiplier=None,
        accountant=CertifiedAccountant(NeighboringRelation.REPLACE_SPECIAL),
    )
    trained(folder, made, plan(made, epsilon=3.0))


RIGHT = (
    dp_sgd,
    add_remove,
    replace_one,
    not_rescaled,
    normalised,
    banded,
    banded_apart,
    fixed_batches,
    balls_in_bins,
    cut_to_a_size,
    cut_groups,
    cut_to_more_than_there_are,
    separated,
    separated_banded,
    of_users,
    drawn_ahead,
    started_again,
    stopped,
    certified,
)

# --- wrong ones, and the finding that names each --------------------------------------------------


def less_noise(folder: Path) -> None:
    """Noise that was exchanged for less of it."""
    trained(folder, numbered(execution(), 0.5 * NOISE), plan())


def without_noise(folder: Path) -> None:
    """Noise that was exchanged for none."""
    trained(folder, numbered(execution(), 0.0), plan())


def other_matrix(folder: Path) -> None:
    """Independent noise in place of that of BandMF, by which batches of a cycle add up less."""
    made = execution((1.0, 0.5, 0.25))
    trained(folder, numbered(made, 0.5 * NOISE), plan(made))


def too_many_bands(folder: Path) -> None:
    """A strategy of more bands than a cycle has batches, so that a record meets itself."""
    once = batch_selection.CyclicPoissonSampling(RATE, ITERATIONS)
    trained(folder, execution((1.0, 0.5, 0.25), batches=once), plan())


def seeded(folder: Path) -> None:
    """Noise from a seed."""
    trained(folder, execution(noise_seed=5))


def seeded_batches(folder: Path) -> None:
    """Batches from a seed."""
    trained(folder, execution(), rng=5)


def same_noise(folder: Path) -> None:
    """The state of the noise is not passed on."""
    trained(folder, execution(), again=True)


def other_batches(folder: Path) -> None:
    """Batches that somebody else draws."""
    order = np.random.default_rng().permutation(RECORDS)[: ITERATIONS * 10]
    trained(folder, execution(), batches=np.split(order, ITERATIONS))


def fixed_as_poisson(folder: Path) -> None:
    """Batches of a fixed size, counted as Poisson samples."""
    batches = batch_selection.FixedBatchSampling(20, ITERATIONS)
    trained(folder, execution(batches=batches), plan())


def larger_rate(folder: Path) -> None:
    """Batches that are drawn more often than planned."""
    trained(folder, execution(sampling_prob=0.3), plan())


def larger_clip(folder: Path) -> None:
    """A clip that is not the plan's, with noise that is."""
    made = execution(l2_clip_norm=2.0 * CLIP, noise_multiplier=NOISE / 2.0)
    trained(folder, made, plan())


def equal_groups(folder: Path) -> None:
    """Groups of equal size under add-remove: who leaves moves others into another group."""
    independent = batch_selection.PartitionType.INDEPENDENT
    planned = execution((1.0, 0.5), "ADD_OR_REMOVE_ONE", partition_type=independent)
    cycle = batch_selection.CyclicPoissonSampling(RATE, ITERATIONS, cycle_length=2)
    made = dataclasses.replace(planned, batch_selection_strategy=cycle)
    trained(folder, made, plan(planned, "add-remove"))


def other_size(folder: Path) -> None:
    """Batches of a fixed size that is not the plan's."""
    fewer, more = (batch_selection.FixedBatchSampling(size, ITERATIONS) for size in (20, 80))
    source = {"rate_source": "", "delta": 1e-4, "records": RECORDS}
    planned = plan_of(execution(batches=fewer), neighbours="replace-one", **source)
    trained(folder, execution(batches=more), planned)


def fewer_records(folder: Path) -> None:
    """A tenth of the records that the plan counts on."""
    made = execution(batches=batch_selection.FixedBatchSampling(20, ITERATIONS))
    source = {"rate_source": "", "delta": 1e-4, "records": 10 * RECORDS}
    trained(folder, made, plan_of(made, neighbours="add-remove", **source))


def other_cut(folder: Path) -> None:
    """Batches that are cut to another size than the plan's."""
    made = execution(truncated_batch_size=22, num_examples=RECORDS)
    cut = batch_selection.CyclicPoissonSampling(RATE, ITERATIONS, truncated_batch_size=15)
    trained(folder, execution(batches=cut), cut_plan(made))


def cut_as_poisson(folder: Path) -> None:
    """Batches that are cut, counted as if they were not."""
    made = execution(truncated_batch_size=15, num_examples=RECORDS)
    trained(folder, made, plan())


def cut_of_fewer(folder: Path) -> None:
    """Groups that are smaller than the plan's, so that fewer samples are cut."""
    made = execution(truncated_batch_size=22, num_examples=RECORDS)
    trained(folder, made, dataclasses.replace(cut_plan(made), records=2 * RECORDS))


def too_near(folder: Path) -> None:
    """More bands than batches between two of a record."""
    batches = batch_selection.BMinSepSampling(RATE, ITERATIONS, 2)
    trained(folder, execution((1.0, 0.5, 0.25), batches=batches), plan(steps=6))


def separated_as_poisson(folder: Path) -> None:
    """Correlated noise, and batches of which it hides no sample, counted as Poisson samples."""
    made = execution((1.0, 0.5, 0.25))
    batches = batch_selection.BMinSepSampling(RATE, ITERATIONS, 3)
    trained(folder, execution((1.0, 0.5, 0.25), batches=batches), plan(made))


def separated_and_cut(folder: Path) -> None:
    """Batches that are cut, under add-remove: who leaves lets others in."""
    batches = batch_selection.BMinSepSampling(RATE, ITERATIONS, 4, truncated_batch_size=9)
    made = execution(batches=batches)
    planned = dataclasses.replace(plan(made), neighbours="add-remove")
    trained(folder, made, planned)


def users_as_records(folder: Path) -> None:
    """Users are drawn and clipped, and a record is promised to be hidden as one of many."""
    base = batch_selection.CyclicPoissonSampling(RATE, ITERATIONS)
    made = execution(batches=batch_selection.UserSelectionStrategy(base, 2))
    trained_by_users(folder, made, plan())


def groups_dealt_again(folder: Path) -> None:
    """Each batch of a cycle from a new start, so that bands overlap."""
    made = execution((1.0, 0.5, 0.25))
    loop(folder, made, plan(made), lambda drawn: [*first(drawn, 2), *first(drawn, 2)])


def batches_left_out(folder: Path) -> None:
    """Two of three batches are left out: always the same group is trained on."""
    made = execution((1.0, 0.5, 0.25))
    loop(folder, made, plan(made), lambda drawn: itertools.islice(drawn(RECORDS), 0, 9, 3))


def same_batches(folder: Path) -> None:
    """The generator of the batches begins anew in the middle."""
    held = np.random.default_rng()

    def drawn_twice(drawn: Any) -> list[Any]:
        state = held.bit_generator.state
        batches = first(drawn, 6, held)
        held.bit_generator.state = state
        return [*batches, *first(drawn, 6, held)]

    made = execution()
    loop(folder, made, plan(made), drawn_twice)


def seeded_generator(folder: Path) -> None:
    """Batches from a generator with a seed."""
    trained(folder, execution(), rng=np.random.default_rng(5))


def enlarged(folder: Path) -> None:
    """Sums that are enlarged before the noise."""
    made = execution()
    loop(folder, made, plan(made), lambda drawn: drawn(RECORDS), factor=50.0)


WRONG: dict[Callable[[Path], None], set[str]] = {
    less_noise: {"off-plan"},
    without_noise: {"no-noise"},
    other_matrix: {"off-plan"},
    too_many_bands: {"private-bound"},
    seeded: {"seeded"},
    seeded_batches: {"seeded"},
    same_noise: {"reused-randomness"},
    other_batches: {"private-bound"},
    fixed_as_poisson: {"shuffled-as-poisson"},
    larger_rate: {"off-plan"},
    larger_clip: {"off-plan"},
    equal_groups: {"shuffled-as-poisson"},
    other_size: {"event-mismatch"},
    fewer_records: {"event-mismatch"},
    other_cut: {"event-mismatch"},
    cut_as_poisson: {"shuffled-as-poisson"},
    cut_of_fewer: {"event-mismatch"},
    too_near: {"private-bound"},
    separated_as_poisson: {"event-mismatch"},
    separated_and_cut: {"event-mismatch"},
    users_as_records: {"private-bound"},
    groups_dealt_again: {"private-bound"},
    batches_left_out: {"private-bound"},
    same_batches: {"private-bound"},
    seeded_generator: {"seeded"},
    enlarged: {"private-bound"},
}
