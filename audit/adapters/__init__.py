"""privplan inside of other libraries: one file for each, which alone imports that library.

`logged` is the way in for a training: it finds the adapter by whose object it is given.

- `opacus`, `opacus_observer`: trainings with Opacus: certified numbers, and their log.
- `opacus_canaries`, `loop_canaries`, `canary_files`: canary gradients in such a training, or in a
  loop of somebody's own; their coins, and what is seen of them.
- `flower`, `flower_observer`: runs with Flower's strategies and mods for privacy.
- `jax_privacy`, `jax_mechanism`, `jax_batches`: trainings under execution plans of jax_privacy.
- `replacements`: methods of another library's objects, wrapped while a training is observed.
- `dp_accounting`: a certified accountant in the place of dp_accounting's.
- `run_log`, `training_plan`, `epsilon_by_step`: a log of any training loop, what it plans, and
  epsilon after each step.
- `noise_states`: what noise was drawn from, in each process of a run.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...accountant.errors import InvalidInput

if TYPE_CHECKING:
    from .training_plan import TrainingPlan

OBSERVED_LIBRARIES: Final[Mapping[str, str]] = {
    "opacus": "opacus",
    "flwr": "flower",
    "jax_privacy": "jax_privacy",
}
"""Packages whose trainings are observed, and the modules here that observe them."""


def logged(
    private: Any, folder: str | Path, *, plan: TrainingPlan, **parts: Any
) -> AbstractContextManager[Any]:
    """Log the training of another library in a folder, under a plan: the adapter's `logged`.

    `private` is what makes a training private there: a `PrivacyEngine` of Opacus, one of Flower's
    strategies DifferentialPrivacy..., or an execution plan of jax_privacy; `parts` are the other
    options of the adapter.  Raises `InvalidInput` for an object of another library, and
    `MissingExtra` where the library is not installed.
    """
    kinds = [kind.__module__.partition(".")[0] for kind in type(private).__mro__]
    library = next((name for name in kinds if name in OBSERVED_LIBRARIES), None)
    if library is None:
        raise InvalidInput(
            f"Nothing here observes {private!r:.60}.",
            f"Trainings of these libraries are observed: {', '.join(OBSERVED_LIBRARIES)}.",
            "For any other loop: with pp.RunLog(folder, plan) as log.",
        )
    adapter = importlib.import_module(f".{OBSERVED_LIBRARIES[library]}", __name__)
    context: AbstractContextManager[Any] = adapter.logged(private, folder, plan=plan, **parts)
    return context
