"""The last released model of a run and its measurements so far, in one file.

The file appears by being renamed, after the release stands in the log.  So no model is kept that
the log does not know; and where a run was cut off in between, the kept model is the one that the
last release started from.

Moments that features are normalised by cannot be lost so: nothing could be trained without them.
They are kept just before their release stands in the log, and count for nothing without it.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..accountant.errors import InvalidInput
from . import durable
from .moments import Moments

FORMAT: Final = "privplan-model/1"

CHECKPOINT: Final = "checkpoint.npz"
"""The model so far, while a run is under way."""

MODEL: Final = "model.npz"
"""The last model, once a run is done."""

MODELS: Final = "models"
"""The folder of every released model, where the settings ask for them."""

LARGEST: Final = 2**33
"""Most bytes that are read as a model."""


@dataclass(frozen=True)
class Measured:
    """What the test data said about the model after a round.

    `epsilon` is what was spent by then, by observer: a reading, and no guarantee.
    """

    round: int
    metrics: Mapping[str, float]
    epsilon: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The model after `round` (0: the first one), a vector (D,) float64, and what was measured.

    `run_id` names the run in its log, `model` the kind of model; `moments` are those that its
    features are normalised by, where they are private.
    """

    run_id: str
    round: int
    model: str
    parameters: NDArray[np.float64]
    measured: tuple[Measured, ...] = ()
    moments: Moments | None = None

    def write(self, path: Path) -> None:
        """Put the checkpoint in its place, whole or not at all; raises `OSError`."""
        about = {
            "format": FORMAT,
            "run_id": self.run_id,
            "round": self.round,
            "model": self.model,
            "measured": [
                [one.round, dict(one.metrics), dict(one.epsilon)] for one in self.measured
            ],
        }
        content = io.BytesIO()
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        arrays = {"parameters": self.parameters, "about": text}
        if self.moments is not None:
            arrays |= self.moments.to_arrays()
        np.savez(content, **arrays)  # type: ignore[arg-type]
        durable.write(path, content.getvalue())

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Return what a file holds; raises `InvalidInput` for a file that is no checkpoint."""
        try:
            content = b"" if path.stat().st_size > LARGEST else path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"{path.name} cannot be read: {error.strerror}.") from None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                parameters, text = arrays["parameters"], arrays["about"]
                moments = Moments.from_arrays(arrays)
            return cls._of(json.loads(text.tobytes()), parameters, moments)
        except (ValueError, KeyError, TypeError, EOFError, OSError, zipfile.BadZipFile):
            raise _broken(path) from None

    @classmethod
    def _of(
        cls, about: Mapping[str, Any], parameters: NDArray[Any], moments: Moments | None
    ) -> Checkpoint:
        if about["format"] != FORMAT or parameters.dtype != np.float64 or parameters.ndim != 1:
            raise ValueError
        measured = tuple(
            Measured(int(number), _numbers(found), _numbers(epsilon))
            for number, found, epsilon in about["measured"]
        )
        return cls(
            str(about["run_id"]),
            int(about["round"]),
            str(about["model"]),
            parameters,
            measured,
            moments,
        )


def name_of(number: int) -> str:
    """Return the name of the file of the model that a round released.

    >>> name_of(7)
    'round-000007.npz'
    """
    return f"round-{number:06}.npz"


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}


def _broken(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path.name} is no model of a run, or it was altered.",
        "A run goes on from the last model that it released, and from no other.",
        "Restore the file, or start a new run in another folder.",
    )
