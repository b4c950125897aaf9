"""Small trainings with Opacus, right ones and wrong ones, under the observer."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import opacus
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, TensorDataset, WeightedRandomSampler

import privplan as pp

warnings.filterwarnings("ignore", module="opacus")
warnings.filterwarnings("ignore", module="torch")

RECORDS, BATCH, EPOCHS = 400, 20, 2
STEPS = EPOCHS * RECORDS // BATCH
NOISE, CLIP = 1.0, 1.5

PUBLIC = {"rate": 0.05, "rate_source": "a constant of the study", "divisor": 20.0}
BY_RECORDS = {"neighbours": "replace-one", "records": RECORDS, "batch": BATCH}
Step = Callable[["Training", Any], None]


def plan(**changes: Any) -> pp.TrainingPlan:
    """Return the plan of the small training; `public` facts of its rate unless it has records."""
    usual: dict[str, Any] = {
        "steps": STEPS,
        "noise_multiplier": NOISE,
        "clip": CLIP,
        "delta": 1e-4,
        "steps_per_intent": 10,
    }
    if "records" not in changes and "rate" not in changes:
        usual |= PUBLIC
    return pp.TrainingPlan(**{**usual, **changes})


def data(records: int = RECORDS) -> TensorDataset:
    """Return records of 8 features and a class of two."""
    generator = torch.Generator().manual_seed(11)
    features = torch.randn(records, 8, generator=generator)
    return TensorDataset(features, (features.sum(1) > 0).long())


class Training:
    """An ordinary training: a model, an optimizer, a loader, and the loop."""

    def __init__(
        self, batch: int = BATCH, records: int = RECORDS, hidden: int = 4, **loader: Any
    ) -> None:
        # The model's own start is no secret, and takes nothing from the generator of the noise.
        self.model: Any = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, 2))
        self.plain: Any = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.optimizer: Any = self.plain
        self.public = DataLoader(data(records), batch_size=batch, shuffle=True)
        self.loader: Any = DataLoader(data(records), batch_size=batch, **loader)
        self.criterion: Any = nn.CrossEntropyLoss()
        self.steps = 0

    def private(self, engine: PrivacyEngine, **options: Any) -> None:
        """Make all of it private."""
        given = {"noise_multiplier": NOISE, "max_grad_norm": CLIP, **options}
        if options.get("grad_sample_mode") == "ghost":
            self.model, self.optimizer, self.criterion, self.loader = engine.make_private(
                module=self.model,
                optimizer=self.optimizer,
                criterion=self.criterion,
                data_loader=self.loader,
                **given,
            )
            return
        self.model, self.optimizer, self.loader = engine.make_private(
            module=self.model, optimizer=self.optimizer, data_loader=self.loader, **given
        )

    def step(self, batch: Any) -> None:
        """Make one step, or a part of one."""
        features, classes = batch
        self.optimizer.zero_grad()
        self.criterion(self.model(features), classes).backward()
        self.optimizer.step()
        self.steps += 1

    def epochs(self, count: int = EPOCHS, step: Step | None = None, loader: Any = None) -> None:
        """Make passes over a loader, the private one if no other is given."""
        for _ in range(count):
            for batch in self.loader if loader is None else loader:
                if step is None:
                    self.step(batch)
                else:
                    step(self, batch)


def trained(
    folder: Path,
    planned: pp.TrainingPlan | None = None,
    step: Step | None = None,
    training: Training | None = None,
    **options: Any,
) -> Training:
    """Train under the observer, and return the training."""
    made = Training() if training is None else training
    engine = PrivacyEngine(accountant="rdp")
    with pp.logged(engine, folder, plan=planned or plan()):
        made.private(engine, **options)
        made.epochs(step=step)
    return made


# --- right trainings ------------------------------------------------------------------------------


def flat(folder: Path) -> None:
    """Flat clipping, a public rate."""
    trained(folder)


def replaced(folder: Path) -> None:
    """The number of records is public."""
    trained(folder, plan(**BY_RECORDS))


def zeroed(folder: Path) -> None:
    """The same under zero-out."""
    trained(folder, plan(**{**BY_RECORDS, "neighbours": "zero-out"}))


def per_layer(folder: Path) -> None:
    """A clip for each layer; together they have the norm of the plan."""
    trained(folder, clipping="per_layer", max_grad_norm=[CLIP / 2.0] * 4)


def ghost(folder: Path) -> None:
    """Ghost clipping."""
    trained(folder, grad_sample_mode="ghost")


def summed(folder: Path) -> None:
    """Sums are released, not means."""
    trained(folder, plan(divisor=None), loss_reduction="sum")


def in_parts(folder: Path) -> None:
    """Batches in parts that fit into memory."""
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    with pp.logged(engine, folder, plan=plan()):
        made.private(engine)
        with BatchMemoryManager(
            data_loader=made.loader, max_physical_batch_size=6, optimizer=made.optimizer
        ) as parts:
            made.epochs(loader=parts)


def calibrated(folder: Path) -> None:
    """Opacus finds the noise, with our accountant; the plan has no more noise than that."""
    made, engine = Training(), PrivacyEngine(accountant="privplan")
    noise = opacus.accountants.utils.get_noise_multiplier(
        target_epsilon=3.0, target_delta=1e-4, sample_rate=0.05, steps=STEPS, accountant="privplan"
    )
    planned = plan(noise_multiplier=noise, epsilon=3.0)
    with pp.logged(engine, folder, plan=planned):
        made.model, made.optimizer, made.loader = engine.make_private_with_epsilon(
            module=made.model,
            optimizer=made.optimizer,
            data_loader=made.loader,
            target_epsilon=3.0,
            target_delta=1e-4,
            epochs=EPOCHS,
            max_grad_norm=CLIP,
        )
        made.epochs()


def given(folder: Path) -> None:
    """An optimizer that was made before."""
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    made.private(engine)
    with pp.logged(engine, folder, plan=plan(), optimizer=made.optimizer, data_loader=made.loader):
        made.epochs()


def stopped(folder: Path) -> None:
    """A training that ends early."""
    made, engine = Training(), PrivacyEngine(accountant="rdp")
    with pp.logged(engine, folder, plan=plan()):
        made.private(engine)
        made.epochs(1)


RIGHT = (
    flat,
    replaced,
    zeroed,
    per_layer,
    ghost,
    summed,
    in_parts,
    calibrated,
    given,
    stopped,
)

# --- wrong ones, and the finding that names each --------------------------------------------------


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
}
