"""jax_privacy: the log that a training under one of its execution plans leaves.

Where the extra `jax-privacy` is not installed these are skipped.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax_privacy", reason="the extra `jax-privacy` is not installed")

import dp_accounting
import jax
import numpy as np
import optax
from dp_accounting import NeighboringRelation
from jax import numpy as jnp
from jax_privacy import batch_selection
from jax_privacy.experimental.execution_plan import BandMFExecutionPlanConfig
from jax_privacy.matrix_factorization import toeplitz

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import BudgetExceeded, InvalidInput, LogBroken
from privplan.audit.adapters.dp_accounting import CertifiedAccountant
from privplan.audit.adapters.jax_privacy import Mechanism, plan_of
from privplan.audit.verify import verify
from privplan.fl.log import LogWriter, Sidecar
from privplan.fl.log.hash_chain import LOG

from . import jax_trainings as runs
from .jax_trainings import ITERATIONS, NOISE, RATE, RECORDS, RIGHT, WRONG, execution, plan, trained
from .judged_trainings import errors, require_found, require_not_accused
from .logs import rechained

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("make", RIGHT, ids=lambda make: make.__name__)
def test_right_trainings_are_not_accused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / "out")
    require_not_accused(tmp_path / "out")


@pytest.mark.parametrize(("make", "found"), WRONG.items(), ids=[make.__name__ for make in WRONG])
def test_wrong_trainings_are_found(
    tmp_path: Path, make: Callable[[Path], None], found: set[str]
) -> None:
    make(tmp_path / "out")
    require_found(tmp_path / "out", found)


@pytest.mark.parametrize("bands", [1, 2, 5])
def test_the_plan_is_the_event_of_jax_privacy(bands: int) -> None:
    """What its parts say is what it accounts: sampled Gaussian releases, one for each cycle."""
    strategy = 1.0 / np.arange(1.0, bands + 1.0)
    made = execution(strategy, iterations=23)
    planned = plan_of(made, delta=1e-5, neighbours="zero-out", rate_source="published")
    assert planned.steps == -(-23 // bands)
    theirs = pp.account(ev.from_dp_event(made.dp_event), delta=1e-5, neighbours="zero-out").epsilon
    ours = planned.guarantee.epsilon
    assert theirs.lower <= ours.upper <= theirs.upper * (1.0 + 1e-4)


def test_a_strategy_that_was_optimised_is_read_from_its_inverse() -> None:
    made = BandMFExecutionPlanConfig.default(
        num_bands=4,
        iterations=40,
        strategy_optimization_steps=20,
        epsilon=None,
        delta=None,
        noise_multiplier=1.0,
        sampling_prob=0.2,
    ).plan
    strategy = toeplitz.optimize_banded_toeplitz(40, 4, max_optimizer_steps=20)
    known = Mechanism.of(made)
    assert known.banded
    assert known.column == pytest.approx(float(np.linalg.norm(strategy)), rel=1e-4)


def test_columns_that_differ_are_no_strategy_of_one_column(tmp_path: Path) -> None:
    made = execution((1.0, 0.5), column_normalize=True)
    assert not Mechanism.of(made).banded
    trained(tmp_path / "out", made)
    assert "private-bound" in errors(tmp_path / "out")


@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"])
def test_jax_privacy_finds_noise_with_our_accountant(relation: str) -> None:
    made = BandMFExecutionPlanConfig(
        iterations=100,
        strategy=np.ones(1),
        epsilon=1.0,
        delta=1e-5,
        sampling_prob=0.05,
        partition_type=batch_selection.PartitionType.INDEPENDENT,
        accountant=CertifiedAccountant(NeighboringRelation[relation]),
    ).plan
    accountant = CertifiedAccountant(NeighboringRelation[relation]).compose(made.dp_event)
    assert 0.98 < accountant.get_epsilon(1e-5) <= 1.0


def test_it_makes_a_fresh_accountant_for_each_try() -> None:
    event = dp_accounting.PoissonSampledDpEvent

    def made(noise: float) -> Any:
        return dp_accounting.SelfComposedDpEvent(
            event(0.01, dp_accounting.GaussianDpEvent(noise)), 100
        )

    noise = dp_accounting.calibrate_dp_mechanism(
        make_fresh_accountant=CertifiedAccountant,
        make_event_from_param=made,
        target_epsilon=1.0,
        target_delta=1e-5,
    )
    proven = pp.account(ev.from_dp_event(made(noise)), delta=1e-5).epsilon
    assert 0.98 < proven.upper <= 1.0


def test_the_intent_of_a_cycle_is_on_the_disk_before_its_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    normal, counts = jax.random.normal, []
    made = execution((1.0, 0.5, 0.25))
    planned = plan(made, steps_per_intent=1)

    def drawn(*arguments: Any, **options: Any) -> Any:
        lines = map(json.loads, (tmp_path / "out" / LOG).read_text().splitlines())
        counts.append(sum(line["type"] == "round.intent" for line in lines))
        return normal(*arguments, **options)

    monkeypatch.setattr(jax.random, "normal", drawn)
    trained(tmp_path / "out", made, planned)
    assert counts == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]


def test_a_log_that_cannot_be_written_stops_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[object] = []
    normal = jax.random.normal

    def counted(*arguments: Any, **options: Any) -> Any:
        drawn.append(arguments)
        return normal(*arguments, **options)

    def fails(*_: object) -> int:
        raise LogBroken("The disk is full.")

    made, planned = execution(), plan()
    monkeypatch.setattr(LogWriter, "append", fails)
    monkeypatch.setattr(jax.random, "normal", counted)
    with pytest.raises(LogBroken):
        trained(tmp_path / "out", made, planned)
    assert drawn == []


def test_noise_in_compiled_code_is_refused(tmp_path: Path) -> None:
    model = jnp.zeros(4)
    with pp.logged(execution(), tmp_path / "out", plan=plan()) as observed:
        transform = observed.noise_addition_transform
        state = transform.init(model)
        with pytest.raises(InvalidInput, match="compiled"):
            jax.jit(transform.update)(model, state)


def test_a_cycle_beyond_the_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BudgetExceeded):
        trained(tmp_path / "out", execution(), plan(steps=ITERATIONS - 1))


def test_a_key_that_can_be_guessed_is_exchanged_for_one_that_cannot(tmp_path: Path) -> None:
    """Of jax_privacy's own key 31 bits are drawn; a seed that somebody gave stays, and is found."""
    for seed, exchanged in ((None, True), (5, False)):
        made = execution(noise_seed=seed)
        with pp.logged(made, tmp_path / str(seed), plan=plan()) as observed:
            transform = observed.noise_addition_transform
            keys = [
                np.asarray(jax.random.key_data(transform.init(jnp.zeros(4))[0])) for _ in range(2)
            ]
            theirs = np.asarray(
                jax.random.key_data(made.noise_addition_transform.init(jnp.zeros(4))[0])
            )
        assert theirs[0] == 0
        assert exchanged != np.array_equal(keys[0], keys[1])
        assert exchanged != np.array_equal(keys[0], theirs)


def test_the_log_holds_nothing_of_the_data(tmp_path: Path) -> None:
    runs.dp_sgd(tmp_path / "out")
    text = (tmp_path / "out" / LOG).read_text()
    assert f'"{RECORDS}"' not in text
    assert f":{RECORDS}," not in text
    sealed = [item for item in Sidecar.read(tmp_path / "out").items if item.name == "batch_sizes"]
    assert sum(len(item.value) for item in sealed) == ITERATIONS


def test_edited_logs_are_seen(tmp_path: Path) -> None:
    runs.less_noise(tmp_path / "out")

    def more_noise(lines: list[dict[str, Any]]) -> None:
        for line in lines:
            if line["type"] == "round.intent":
                line["noise"]["std"] = repr(NOISE * runs.CLIP)

    rechained(tmp_path / "out", more_noise)
    assert errors(tmp_path / "out")
    runs.dp_sgd(tmp_path / "fresh")
    log = tmp_path / "fresh" / LOG
    log.write_text(log.read_text().replace(f'"rate":"{RATE}"', '"rate":"0.01"', 1))
    assert not verify(tmp_path / "fresh").ok


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        (
            batch_selection.CyclicPoissonSampling(
                RATE,
                6,
                truncated_batch_size=9,
                cycle_length=2,
                partition_type=batch_selection.PartitionType.INDEPENDENT,
            ),
            "random sizes",
        ),
        (batch_selection.FixedBatchSampling(5, 5, replace=True), "FixedBatchSampling"),
    ],
)
def test_batches_that_are_not_known_here_are_refused(batches: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        Mechanism.of(execution(batches=batches))


def test_noise_of_other_code_is_refused() -> None:
    other = dataclasses.replace(execution(), noise_addition_transform=optax.identity())
    with pytest.raises(InvalidInput, match="not known here"):
        Mechanism.of(other)
