"""Trainings by somebody else's function: each finished model is on the disk, and none comes twice.

A job trains one model, asks it about all records, and writes what it says; the model itself is
thrown away.  The file is there as a whole or not at all, so that an audit that was killed goes on
behind the last one.
"""

from __future__ import annotations

import hashlib
import io
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np

from ...accountant.arrays import FloatArray, IntArray
from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.regular_file import own_folder, regular_content
from ...fl.files import atomic
from ..shadows.replicas import Executor
from .audit_plan import AuditFacts
from .model_scores import AuditedRecords, refuse_constant

Train: TypeAlias = Callable[[IntArray, int], Any]
"""train(indices, seed) returns a model that was trained on these records of `data`, and no other.

`indices` (k,) rise; `seed` is in [0, 2^31) and decides on whatever else is drawn.
"""

SCORES: Final = "scores"
GIVEN: Final = "given"

MAX_SCORE_BYTES: Final = 2**30

POLL_SECONDS: Final = 0.5
"""How often finished models are counted while others train."""


@dataclass(frozen=True)
class TrainingProgress:
    """How far an audit has come: `finished` of `models`, and about how many seconds are left.

    `seconds_left` is None before a model was finished by this call.  `plan_head` is the hash of
    the plan's line: keep it elsewhere before the training ends.
    """

    finished: int
    models: int
    seconds_left: float | None
    plan_head: str


@dataclass(frozen=True)
class TrainingJob:
    """One model to train: its number, the records that it is trained on, and its seed."""

    model: int
    indices: IntArray
    seed: int


def score_file(folder: Path, model: int | str) -> Path:
    """Return the file with the scores of a model."""
    return folder / SCORES / (f"{model:05d}.npy" if isinstance(model, int) else f"{model}.npy")


def write_scores(path: Path, scores: FloatArray) -> None:
    """Put a model's scores on the disk, for the owner's eyes only."""
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(scores, "<f8"), allow_pickle=False)
    try:
        atomic.write(path, buffer.getvalue(), private=True)
    except OSError as error:
        raise PrivplanError(
            f"{path} cannot be written: {error.strerror}.",
            "Each finished model is kept, so that none is trained twice.",
            "Make room on the disk, and call again with the same folder.",
        ) from None


def read_scores_of(path: Path, count: int) -> tuple[FloatArray, str]:
    """Return a model's scores, (count,), and the digest of their file.

    A file is read as it was written, by its one possible header, and no other `.npy` file.
    """
    header = _header(count)
    try:
        # Not by a link in the place of the folder of scores either.
        content = regular_content(path, MAX_SCORE_BYTES, within=path.parent.parent)
    except (OSError, ValueError):
        content = b""
    if not content.startswith(header) or len(content) != len(header) + 8 * count:
        raise InvalidInput(
            f"{path} cannot be read as scores of {count} records.",
            "An audit keeps what each model says of the records.",
            "Take the folder from a copy that nobody has touched.",
        )
    scores = np.frombuffer(content, "<f8", offset=len(header)).astype(np.float64)
    if not np.isfinite(scores).all():
        raise InvalidInput(f"{path} must hold {count} finite numbers.")
    return scores, hashlib.sha256(content).hexdigest()


def _header(count: int) -> bytes:
    """Return the header of the file of so many scores."""
    buffer = io.BytesIO()
    about = {"descr": "<f8", "fortran_order": False, "shape": (count,)}
    np.lib.format.write_array_header_1_0(buffer, about)
    return buffer.getvalue()


def finished_models(folder: Path, models: int) -> list[int]:
    """Return the models whose scores are on the disk."""
    return [model for model in range(models) if score_file(folder, model).is_file()]


def train_models(
    folder: Path,
    train: Train,
    facts: AuditFacts,
    scored: tuple[AuditedRecords, ...],
    executor: Executor,
) -> None:
    """Train and score every model whose scores are not on the disk.

    Raises what a training raises, as `PrivplanError` with it as its cause, and `InvalidInput` for
    scores that no attack can use, or of a training that ignores its indices.
    """
    models = len(facts.design.inside)
    done = set(finished_models(folder, models))
    jobs = [
        TrainingJob(model, facts.indices(model), facts.seeds[model])
        for model in range(models)
        if model not in done
    ]
    atomic.clear(folder / SCORES)
    executor.map(partial(_train_and_score, folder, train, scored, len(facts.design.shadows)), jobs)


def _train_and_score(
    folder: Path,
    train: Train,
    scored: tuple[AuditedRecords, ...],
    shadows: int,
    job: TrainingJob,
) -> None:
    try:
        model = train(job.indices.copy(), job.seed)
    except Exception as error:
        raise PrivplanError(
            f"The training of model {job.model} failed: {type(error).__name__}.",
            "It keeps its coins and its seed, and finished models are kept.",
            "Mend `train`, and call again with the same folder.",
        ) from error
    name = f"model {job.model} of `train`"
    parts = [records.phi(model, name) for records in scored]
    refuse_constant(parts[0], name)
    scores = np.concatenate(parts)
    twin = score_file(folder, job.model ^ 1)
    if job.model < shadows and twin.is_file():
        _refuse_twin(scores, read_scores_of(twin, len(scores))[0], job.model)
    write_scores(score_file(folder, job.model), scores)


def _refuse_twin(scores: FloatArray, twin: FloatArray, model: int) -> None:
    if np.array_equal(scores, twin):
        raise InvalidInput(
            f"`train` ignores its indices: models {model & ~1} and {model | 1} say the same of "
            "all records.",
            "They have the same seed, and no record in common.",
            "Train on the records that `indices` name, and on no other.",
        )


@contextmanager
def watched(
    folder: Path,
    models: int,
    plan_head: str,
    progress: Callable[[TrainingProgress], object] | None,
) -> Iterator[None]:
    """Call `progress` from a thread of its own whenever further models are finished."""
    if progress is None:
        yield
        return
    before, began, ended = len(finished_models(folder, models)), time.monotonic(), threading.Event()
    progress(TrainingProgress(before, models, None, plan_head))

    def tell() -> None:
        told = before
        while not ended.wait(POLL_SECONDS):
            finished = len(finished_models(folder, models))
            if finished > told:
                told = finished
                each = (time.monotonic() - began) / (finished - before)
                left = each * (models - finished)
                progress(TrainingProgress(finished, models, left, plan_head))

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    progress(TrainingProgress(models, models, 0.0, plan_head))


def new_scores_folder(folder: Path) -> None:
    """Make the folder of scores, for its owner alone."""
    own_folder(folder / SCORES, 0o700)
