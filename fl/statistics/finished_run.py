"""The statistics that a finished run has released, read from its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...accountant import events as ev
from ...accountant import records
from ...accountant.errors import InvalidInput
from ...accountant.mechanisms import NoisyGram
from ...accountant.mechanisms.base import covers
from ...accountant.sensitivity.gram import GramBound
from ..aggregation.unweighted_views import unweighted_views
from ..declarations.declaration import Table
from ..declarations.registry import declaration_of
from ..frame.model import model_digest
from ..log import read
from ..log.post_processing import append_post_processing
from ..observers.names import coalitions_in
from ..running.checkpoint import MODEL_FILE, Checkpoint
from ..running.folder import folder_at
from .settings import ReleaseSettings
from .statistics import ReleasedStatistics

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


def statistics_of_run(folder: str | Path) -> ReleasedStatistics:
    """Return what the run in a folder has released, with the facts that its log states.

    The vector must be the one whose digest the log holds, and the event of the claim's observer one
    that the stated noise supports.  Raises `InvalidInput` otherwise, and for a folder without a
    finished run of a system that releases them.
    """
    path = folder_at(folder)
    opened, intent, release, _ = _records(path)
    checkpoint = Checkpoint.read(path / MODEL_FILE)
    if release.model_out != model_digest(checkpoint.parameters):
        raise InvalidInput(
            f"{MODEL_FILE} is not what the log of the run says was released.",
            "A file of another run, or an altered one, has no guarantee.",
            "Restore the file from a copy.",
        )
    mechanism = _mechanism(intent)
    _require_supported(opened, intent, release, mechanism)
    claim = opened.claim
    intercept = float(_settings(opened).get("intercept", 0.0))
    return ReleasedStatistics.of_vector(
        checkpoint.parameters,
        mechanism,
        event=intent.views.get(claim.observer, intent.event),
        delta=claim.delta,
        neighbours=claim.neighbours,
        intercept=intercept,
        observer=claim.observer if claim.observer in intent.views else "model",
        seeded=opened.randomness.source == "seeded",
    )


def _require_supported(
    opened: records.RunOpen,
    intent: records.RoundIntent,
    release: records.RoundRelease,
    mechanism: NoisyGram,
) -> None:
    """Raise `InvalidInput` where the stated noise does not support what the claim is read from."""
    noise, claim = intent.noise, opened.claim
    true = mechanism.event(claim.neighbours)
    assert isinstance(true, ev.Gaussian | ev.Laplace)  # the families that `NoisyGram` has
    # More shares than silos, wider ones or more draws are facts that the mechanism does not have.
    sound = (
        mechanism.noise() == noise
        and mechanism.contribution == intent.contribution
        and release.draws == 1
        and release.shares >= noise.shares - noise.tolerated_dropouts
        and release.clip_enforced
        and opened.population.silos == noise.shares
        and covers(intent.event, true)
    )
    if sound and claim.observer in intent.views:
        views = unweighted_views(
            true.noise_multiplier,
            family=mechanism.family,
            unit=mechanism.unit,
            silos=noise.shares,
            aggregation=opened.aggregation,
            dropouts=noise.tolerated_dropouts,
            coalitions=coalitions_in((claim.observer,)),
            colluders=0 if opened.security is None else opened.security.colluders,
        )
        seen = views.get(claim.observer)
        sound = seen is not None and covers(intent.views[claim.observer], seen)
    if not sound:
        raise InvalidInput(
            "The log promises more than the noise that it states.",
            "A guarantee is read from the event, and the noise does not support it.",
            "Audit the run: privplan audit budget.",
        )


def fit_recorder(
    folder: str | Path, key: Ed25519PrivateKey | None = None
) -> Callable[[str, Mapping[str, object], str], object]:
    """Return what adds a later fit to the log of a run: its name, settings and digest.

    `key` is that of a signed log.
    """
    path = folder_at(folder)
    of = _records(path)[-1]
    return lambda what, settings, digest: append_post_processing(
        path, of, what, settings, digest, key=key
    )


def _records(
    folder: Path,
) -> tuple[records.RunOpen, records.RoundIntent, records.RoundRelease, int]:
    """Return the first line of a log, the release of its Gram matrix, its intent, and its `seq`."""
    opened: records.RunOpen | None = None
    intents: dict[int, records.RoundIntent] = {}
    released: tuple[records.RoundIntent, records.RoundRelease, int] | None = None
    for line in read(folder):
        record = line.record
        if isinstance(record, records.RunOpen):
            opened = record
        elif isinstance(record, records.RoundIntent):
            intents[line.seq] = record
        elif isinstance(record, records.RoundRelease) and record.model_out is not None:
            intent = intents[record.intent]
            if intent.contribution.gram is not None:
                released = intent, record, line.seq
    if opened is None or _table(opened) is None or released is None:
        raise InvalidInput(
            f"No statistics were released by a run in {folder}.",
            "Its log is not that of a finished run of a system that releases them.",
            'Run a configuration with system = "statistics" first.',
        )
    return opened, *released


def _mechanism(intent: records.RoundIntent) -> NoisyGram:
    """Return the mechanism whose facts an intent states."""
    gram, noise = intent.contribution.gram, intent.noise
    assert gram is not None
    bound = GramBound(
        dimension=gram.dimension,
        classes=gram.classes,
        label_weight=gram.label_weight,
        rows=gram.rows,
        trace=gram.trace,
        by_class=gram.by_class,
    )
    return NoisyGram(
        gram=bound,
        std=noise.std,
        bits=gram.bits,
        family="laplace" if noise.family == "laplace" else "gaussian",
        shares=noise.shares,
        tolerated_dropouts=noise.tolerated_dropouts,
        unit=intent.contribution.unit,  # type: ignore[arg-type]
        row_norm=gram.row_norm,
    )


def _settings(opened: records.RunOpen) -> Mapping[str, Any]:
    declared = _table(opened)
    table = None if declared is None else opened.configuration.get(declared.name)
    return table if isinstance(table, Mapping) else {}


def _table(opened: records.RunOpen) -> Table | None:
    """Return the table of the run's system, where it releases statistics; None for any other."""
    table = declaration_of(opened.system).table
    released = table is not None and issubclass(table.settings, ReleaseSettings)
    return table if released else None
