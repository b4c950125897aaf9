"""The last released model of a run and its measurements so far, in one file.

The file appears by being renamed, after the release stands in the log.  So no model is kept that
the log does not know; and where a run was cut off in between, the kept model is the one that the
last release started from.

What a phase releases once (`fl.frame.phases.SingleRelease`) cannot be lost so: no round could be
made without it.  It is kept just before its release stands in the log, and counts for nothing
without.

State (`fl.frame.state`) stands in the same file, each array under its name, and with the vector
the names and shapes of its parts.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput
from ..data.moments import Moments
from ..files import atomic, stored_arrays
from ..frame.state import Arrays, Shape

CHECKPOINT_FORMAT: Final = "privplan-model/1"

CHECKPOINT_FILE: Final = "checkpoint.npz"
"""The model so far, while a run is under way."""

EARLY_FILE: Final = "early.npz"
"""A model that is kept before its release stands in the log (`fl.frame.phases.Phase.make_kept`)."""

MODEL_FILE: Final = "model.npz"
"""The last model, once a run is done."""

MODELS_FOLDER: Final = "models"
"""The folder of every released model, where the settings ask for them."""

"""Arrays of a file that are no state."""

MAX_CHECKPOINT_BYTES: Final = 2**33
"""Most bytes that are read as a model."""


@dataclass(frozen=True)
class RoundMeasurement:
    """What the test data said about the model after a round.

    `epsilon` is what was spent by then, by observer: a reading, and no guarantee.
    """

    round: int
    metrics: Mapping[str, float]
    epsilon: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The model after `round` (0: the first one), a vector (D,) float64, and what was measured.

    `run_id` names the run in its log, `model` the kind of model.  `state` is what is kept with
    the model, by name, and `parts` the name and shape of each part of the vector, in their order;
    a file that an older version wrote has none, and is one part.
    """

    run_id: str
    round: int
    model: str
    parameters: NDArray[np.float64]
    measured: tuple[RoundMeasurement, ...] = ()
    state: Arrays = field(default_factory=dict)
    parts: tuple[tuple[str, Shape], ...] = ()

    @property
    def moments(self) -> Moments | None:
        """The moments that features are normalised by, where they are private."""
        return Moments.from_arrays(self.state)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return what was released, part by part.

        >>> kept = Checkpoint("", 1, "", np.arange(3.0), parts=(("mean", (2,)), ("count", ())))
        >>> {name: part.tolist() for name, part in kept.arrays().items()}
        {'mean': [0.0, 1.0], 'count': 2.0}
        """
        parts = self.parts or (("parameters", self.parameters.shape),)
        # The vector is the parts one behind the other, each in row-major order.
        ends = np.cumsum([math.prod(shape) for _, shape in parts])
        pieces = np.split(self.parameters, ends[:-1])
        return {
            name: piece.reshape(shape) for (name, shape), piece in zip(parts, pieces, strict=True)
        }

    def write(self, path: Path) -> None:
        """Put the checkpoint in its place, whole or not at all; raises `OSError`."""
        about = {
            "format": CHECKPOINT_FORMAT,
            "run_id": self.run_id,
            "round": self.round,
            "model": self.model,
            "measured": [
                [past.round, dict(past.metrics), dict(past.epsilon)] for past in self.measured
            ],
        }
        if self.parts:
            about["parts"] = [[name, list(shape)] for name, shape in self.parts]
        content = io.BytesIO()
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        arrays = {"parameters": self.parameters, "about": text, **self.state}
        np.savez(content, **arrays)  # type: ignore[arg-type]
        atomic.write(path, content.getvalue())

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Return what a file holds; raises `InvalidInput` for a file that is no checkpoint.

        So it does for a link out of the folder in which the file is.
        """
        try:
            arrays = stored_arrays.read(path, MAX_CHECKPOINT_BYTES, within=path.parent)
            parameters, text = arrays.pop("parameters"), arrays.pop("about")
            return cls._of(parsed_json(text.tobytes(), parse_constant=float), parameters, arrays)
        except OSError as error:
            raise InvalidInput(f"{path.name} cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _broken(path) from None

    @classmethod
    def _of(
        cls, about: Mapping[str, Any], parameters: NDArray[Any], state: dict[str, NDArray[Any]]
    ) -> Checkpoint:
        Moments.from_arrays(state)  # raises where there are some, and no moments
        if (
            about["format"] != CHECKPOINT_FORMAT
            or parameters.dtype != np.float64
            or parameters.ndim != 1
        ):
            raise ValueError
        measured = tuple(
            RoundMeasurement(int(number), _as_floats(metrics), _as_floats(epsilon))
            for number, metrics, epsilon in about["measured"]
        )
        parts = tuple(
            (str(name), tuple(int(size) for size in shape))
            for name, shape in about.get("parts", ())
        )
        if parts and sum(math.prod(shape) for _, shape in parts) != parameters.size:
            raise ValueError
        return cls(
            str(about["run_id"]),
            int(about["round"]),
            str(about["model"]),
            parameters,
            measured,
            state,
            parts,
        )


def round_model_name(number: int) -> str:
    """Return the name of the file of the model that a round released.

    >>> round_model_name(7)
    'round-000007.npz'
    """
    return f"round-{number:06}.npz"


def _as_floats(values: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in values.items()}


def _broken(path: Path) -> InvalidInput:
    return InvalidInput(
        f"{path.name} is no model of a run, or it was altered.",
        "A run goes on from the last model that it released, and from no other.",
        "Restore the file, or start a new run in another folder.",
    )
