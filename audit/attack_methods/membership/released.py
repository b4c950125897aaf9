"""The model that a run released: is its loss lower on its users than on held-out records?

There is one model, and nobody tossed a coin: members are the run's users, and strangers are made of
held-out test records, dealt at random into pseudo-users of the same sizes.  What sets test records
apart for other reasons (another year, another hospital, how records were dealt to users) counts
here as well, so this is no membership inference; it is what anybody who has both kinds of records
sees first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from ....accountant import validate
from ....accountant.arrays import IntArray
from ....accountant.errors import InvalidInput
from ...measurement import Measurement
from .evidence import (
    confidence,
    log_likelihood,
    matched,
    per_unit,
    require_likelihood,
    require_same_features,
    unseen_test_records,
)
from .results import AttackDescription, measurements
from .tier import LEVELS, Level
from .trials import Trials

if TYPE_CHECKING:
    from ....fl.running.checkpoint import Checkpoint
    from ....fl.settings.schema import Settings

_ABOUT: Final = AttackDescription(
    what="released model, loss threshold",
    level="user",
    neighbours="add-remove",
    assumes=(
        "members are the run's own users and strangers are pseudo-users of held-out records: no "
        "coin decided who is which, so other differences between them count as well",
    ),
)


def released_tier(
    settings: Settings, checkpoint: Checkpoint, *, level: Level = "user", seed: int = 0
) -> tuple[Measurement, ...]:
    """Return how a released model's loss tells training users from held-out records.

    `settings` are the run's, `checkpoint` is its `model.npz`.  At level `user` the score is the sum
    over a user's records; as many users are compared as test records give pseudo-users of their
    sizes.  `seed` deals the test records.

    Raises `InvalidInput` for a model that does not fit the settings, or too few test records, and
    `Unsupported` where a record by itself has no likelihood (`cox`).
    """
    validate.choice(LEVELS, level=level)
    rng = np.random.default_rng(validate.count_from(0, seed=seed))
    from ....fl.running.preparation import prepare

    prepared = prepare(settings)
    require_likelihood(prepared.model)
    _require_same_model(checkpoint, prepared.model.name)
    federation = prepared.federation
    require_same_features(prepared.model, federation)
    kept = unseen_test_records(federation)
    if checkpoint.moments is not None:
        federation = checkpoint.moments.applied(federation)
    labels, held_out = cast(IntArray, federation.labels), cast(IntArray, federation.test_labels)
    model, parameters = prepared.model, checkpoint.parameters
    with np.errstate(all="ignore"):  # what diverged is refused below
        sure = log_likelihood(confidence(model, parameters, federation.features, labels))
        strange = log_likelihood(
            confidence(model, parameters, federation.test_features[kept], held_out[kept])
        )
    about = replace(
        _ABOUT,
        level=level,
        sample={
            "attack": "loss",
            "loss on members": float(-sure.mean()),
            "loss on strangers": float(-strange.mean()) if len(strange) else "none",
        },
    )
    if level == "record":
        scores = np.concatenate([sure, strange])
        # A test record is somebody's of whom nothing else is known.
        people = np.concatenate([federation.user, federation.users + np.arange(len(strange))])
        members = np.arange(len(scores)) < len(sure)
        return measurements(Trials(scores[None], members[None], people), about)
    sizes = np.bincount(federation.user, minlength=federation.users)
    taken, pseudo = matched(sizes, len(strange), rng)
    if not len(taken):
        raise InvalidInput(
            f"There are too few test records ({len(strange)}) for a pseudo-user.",
            "A pseudo-user has as many records as a user.",
            "Choose the level 'record'.",
        )
    inside = per_unit(sure[None], federation.user, federation.users)[:, taken]
    dealt = pseudo >= 0
    outside = per_unit(strange[None, dealt], pseudo[dealt], len(taken))
    scores = np.concatenate([inside, outside], axis=1)
    about = replace(about, sample={**about.sample, "pseudo-users": len(taken)})
    members = np.arange(2 * len(taken)) < len(taken)
    return measurements(Trials(scores, members[None], np.arange(2 * len(taken))), about)


def _require_same_model(checkpoint: Checkpoint, name: str) -> None:
    """Raise `InvalidInput` for a model of another kind, though it may have as many parameters."""
    if checkpoint.model != name:
        raise InvalidInput(
            f"The released model is of the kind {checkpoint.model!r:.60}; the settings say {name}.",
            next_step="Give the settings and the model of one run.",
        )
