"""Trainings with Opacus in which something is wrong, and what names it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from opacus import PrivacyEngine
from torch.utils.data import RandomSampler, WeightedRandomSampler

import privplan as pp

from .opacus_trainings import (
    CLIP,
    NOISE,
    PUBLIC,
    RECORDS,
    STEPS,
    Training,
    data,
    plan,
    trained,
)


def shuffled(folder: Path) -> None:
    """A loader that shuffles, counted as Poisson sampling."""
    trained(folder, poisson_sampling=False, training=Training(shuffle=True))


def less_noise(folder: Path) -> None:
    """Half of the noise from the second epoch on."""

    def step(training: Training, batch: Any) -> None:
        if training.steps == STEPS // 2:
            training.optimizer.noise_multiplier = NOISE / 2.0
        training.step(batch)

    trained(folder, step=step)


def outside(folder: Path) -> None:
    """A step of the inner optimizer, with gradients that nobody clipped."""

    def step(training: Training, batch: Any) -> None:
        if training.steps == 7:
            training.optimizer.zero_grad()
            training.model.disable_hooks()
            training.criterion(training.model(batch[0]), batch[1]).backward()
            training.model.enable_hooks()
            training.plain.step()
        training.step(batch)

    trained(folder, step=step)


def private_divisor(folder: Path) -> None:
    """The divisor of Opacus, which follows the number of records."""
    trained(folder, plan(divisor=None))


def seeded(folder: Path) -> None:
    """Noise from a seed."""
    trained(folder, noise_generator=torch.Generator().manual_seed(3))


def same_noise(folder: Path) -> None:
    """The same noise in each step: somebody seeds in the loop."""
    generator = torch.Generator()
    seed = generator.seed()

    def step(training: Training, batch: Any) -> None:
        generator.manual_seed(seed)
        training.step(batch)

    trained(folder, step=step, noise_generator=generator)


def larger_clip(folder: Path) -> None:
    """A clip that follows the training."""

    def step(training: Training, batch: Any) -> None:
        if training.steps == STEPS // 2:
            training.optimizer.max_grad_norm = 2.0 * CLIP
        training.step(batch)

    trained(folder, step=step)


def larger_rate(folder: Path) -> None:
    """Batches twice as large as the plan's rate allows."""
    trained(folder, plan(**{**PUBLIC, "rate": 0.025}))


def other_loader(folder: Path) -> None:
    """The loader that make_private was given, not the one that it returned."""
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    with pp.logged(engine, folder, plan=plan()):
        made.private(engine)
        made.epochs(loader=made.public)


def weighted(folder: Path) -> None:
    """Records that are drawn by weights, some of them several times."""
    sampler = WeightedRandomSampler([1.0] * (RECORDS // 2) + [3.0] * (RECORDS // 2), RECORDS)
    trained(folder, poisson_sampling=False, training=Training(sampler=sampler))


def with_replacement(folder: Path) -> None:
    """Records that are drawn with replacement."""
    sampler = RandomSampler(data(), replacement=True)
    trained(folder, poisson_sampling=False, training=Training(sampler=sampler))


def accumulated(folder: Path) -> None:
    """Two batches in one step, counted as one."""

    def step(training: Training, batch: Any) -> None:
        training.optimizer.signal_skip_step(do_skip=training.steps % 2 == 0)
        training.step(batch)

    trained(folder, step=step)


def adaptive(folder: Path) -> None:
    """A clip that adapts by the size of the batch as it was."""
    trained(
        folder,
        clipping="adaptive",
        target_unclipped_quantile=0.5,
        clipbound_learning_rate=0.2,
        max_clipbound=10.0,
        min_clipbound=0.1,
        unclipped_num_std=2.0,
    )


def without_noise(folder: Path) -> None:
    """No noise at all."""
    trained(folder, noise_multiplier=0.0)


def larger_layers(folder: Path) -> None:
    """Clips of layers that are raised; the noise is for those before."""

    def step(training: Training, batch: Any) -> None:
        if training.steps == STEPS // 2:
            training.optimizer.max_grad_norms = [CLIP] * 4
        training.step(batch)

    trained(folder, step=step, clipping="per_layer", max_grad_norm=[CLIP / 2.0] * 4)


def plain_loss(folder: Path) -> None:
    """Ghost clipping without its loss, which is what clips."""
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    loss = made.criterion
    with pp.logged(engine, folder, plan=plan()):
        made.private(engine, grad_sample_mode="ghost")
        made.criterion = loss
        made.epochs()


def clipped_inside_to_more(folder: Path) -> None:
    """Ghost clipping by a module whose norm is not that of the optimizer."""
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    made.private(engine, grad_sample_mode="ghost")
    made.model.max_grad_norm = 50.0
    with pp.logged(
        engine,
        folder,
        plan=plan(),
        optimizer=made.optimizer,
        data_loader=made.loader,
        module=made.model,
    ):
        made.epochs()


def failed_and_repeated(folder: Path) -> None:
    """A step that fails behind its noise, and is made again with less of it."""

    def fails(_: Any) -> None:
        raise RuntimeError

    def step(training: Training, batch: Any) -> None:
        if training.steps == 5:
            training.optimizer.attach_step_hook(fails)
            with contextlib.suppress(RuntimeError):
                training.step(batch)
            training.optimizer.attach_step_hook(lambda _: None)
            training.optimizer.noise_multiplier = NOISE / 10.0
        training.step(batch)
        training.optimizer.noise_multiplier = NOISE

    trained(folder, plan(steps=STEPS + 1), step=step)


def other_loader_with_workers(folder: Path) -> None:
    """Another loader than the private one, whose workers would draw ahead."""
    made, engine = Training(num_workers=1), PrivacyEngine(accountant="rdp")
    with pp.logged(engine, folder, plan=plan()):
        made.private(engine)
        made.epochs(1, loader=made.public)


def one_batch(folder: Path) -> None:
    """One large batch in all steps, whatever is drawn."""
    whole = data()[:]
    trained(folder, step=lambda training, _: training.step(whole))


def larger_rate_later(folder: Path) -> None:
    """A rate that is raised in the course of the training."""

    def step(training: Training, batch: Any) -> None:
        training.loader.batch_sampler.sample_rate = 0.5
        training.step(batch)

    trained(folder, step=step)


WRONG: dict[Callable[[Path], None], set[str]] = {
    shuffled: {"shuffled-as-poisson"},
    less_noise: {"off-plan"},
    outside: {"no-noise", "private-bound"},
    private_divisor: {"realised-normaliser"},
    seeded: {"seeded"},
    same_noise: {"reused-randomness"},
    larger_clip: {"adaptive-clip"},
    larger_rate: {"off-plan"},
    other_loader: {"private-bound"},
    weighted: {"private-bound"},
    with_replacement: {"private-bound"},
    accumulated: {"off-plan"},
    adaptive: {"realised-normaliser"},
    without_noise: {"no-noise"},
    larger_layers: {"adaptive-clip"},
    plain_loss: {"private-bound"},
    clipped_inside_to_more: {"more-rounds"},
    failed_and_repeated: {"off-plan"},
    other_loader_with_workers: {"private-bound"},
    one_batch: {"private-bound"},
    larger_rate_later: {"off-plan"},
}
