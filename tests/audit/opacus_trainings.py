"""Small trainings with Opacus under the observer, and those that are right."""

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
from torch.utils.data import DataLoader, TensorDataset

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
