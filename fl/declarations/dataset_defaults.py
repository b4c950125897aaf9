"""What a run trains with unless it is told otherwise: the values of the paper, per data set.

These are of the data: model, local training, rounds, users.  The server's step and the clip are of
a system, which says them in its declaration (`adjust`), with all else that it does otherwise.

Source of `creditcard`, `mnist`, `heart-disease` and `tcga-brca`: Kato, Xiong, Takagi, Cao and
Yoshikawa 2024, *Uldp-FL*, arXiv 2308.12210, section 5.1, and the scripts published with it.  What
it does not give was chosen here and is marked `# own`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from .toml_key import RATINGS, TABLE


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """How a system trains on a data set.

    `local_rate`, `local_epochs`, `batch`: a unit's SGD (`training.Recipe`).  `global_rate` is the
    server's step, `clip` the L2 norm that one contribution is clipped to; infinite where nothing
    is clipped.  `rounds`, `users`: as in the paper's main figures.  `silos` is None where the data
    fixes them.  `dropout` is the rate in training.
    """

    model: str
    local_rate: float
    local_epochs: int
    batch: int
    global_rate: float = 1.0
    clip: float = math.inf
    rounds: int
    users: int
    silos: int | None = None
    dropout: float = 0.0


_HEART: Final = Defaults(
    model="logistic", local_rate=0.001, local_epochs=50, batch=4, rounds=50, users=50
)

_CARDS: Final = Defaults(
    model="mlp",
    local_rate=0.01,
    local_epochs=50,
    batch=64,
    rounds=100,
    users=100,
    silos=5,
    dropout=0.5,
)

_OWN: Final = Defaults(
    model="softmax", local_rate=0.1, local_epochs=1, batch=32, rounds=50, users=100, silos=100
)  # own

_DEFAULTS: Final = {
    "heart-disease": _HEART,
    "tcga-brca": replace(_HEART, model="cox", batch=8),
    "creditcard": _CARDS,
    "mnist": replace(_CARDS, model="cnn", rounds=200),
    # own, all of them
    "digits": replace(_OWN, local_epochs=10, batch=16, silos=5),
    "breast-cancer": replace(_OWN, model="logistic", local_epochs=10, batch=8, users=50, silos=4),
    "low-rank": replace(_OWN, model="logistic", local_epochs=10, batch=8),
    "digits-32": replace(_OWN, model="alexnet", local_rate=0.05, local_epochs=5, batch=8, silos=5),
    "synthetic-digits": replace(_OWN, local_epochs=2),
    "emnist": replace(_OWN, model="mlp-64"),
    "cifar-10": replace(_OWN, model="alexnet"),
}
"""How each data set is usually trained on."""

_TABLE: Final = replace(_OWN, model="logistic", users=1, silos=None)
"""A table of one's own: nobody has said what is usual for it.  Its users must be said."""

_MATRIX: Final = Defaults(
    model="none", local_rate=0.0, local_epochs=0, batch=0, rounds=92, users=0, silos=100
)
"""What is usual with ratings, on which no model is trained.  Their users must be said: there is no
usual number, so 0 stands for it.  92 rounds and 100 nodes are those of the FedPower papers."""

DATASETS_WITH_DEFAULTS: Final = tuple(_DEFAULTS)
"""The data sets that a model can be trained on."""


def dataset_defaults(dataset: str, users: int | None = None) -> Defaults:
    """Return how a data set is usually trained on, by whatever system; with `users`, so many.

    Raises `InvalidInput` for another name.
    """
    if dataset == RATINGS:
        return _MATRIX if users is None else replace(_MATRIX, users=validate.count(users=users))
    if dataset == TABLE:
        return _TABLE
    if dataset not in _DEFAULTS:
        close = nearest(str(dataset).lower(), DATASETS_WITH_DEFAULTS)
        raise InvalidInput(
            f"There are no defaults for `dataset` {dataset!r:.60}.",
            next_step=f"Did you mean {close}?"
            if close
            else f"Choose: {', '.join(DATASETS_WITH_DEFAULTS)}.",
        )
    defaults = _DEFAULTS[dataset]
    return defaults if users is None else replace(defaults, users=validate.count(users=users))
