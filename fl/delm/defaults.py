"""How DELM's published schemes train on a data set where nothing else is said."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ..declarations.dataset_defaults import Defaults

CLIENTS: Final = 100
"""As in the paper, as are 250 rounds."""

_SCHEME_RATE: Final = 0.02
"""A step along the mean over clients of sums over records; of few clients these are large."""


def adjusted(dataset: str, usual: Defaults) -> Defaults:  # noqa: ARG001
    """Return the training settings of DELM's published schemes on a data set."""
    silos = None if usual.silos is None else CLIENTS
    return replace(
        usual, rounds=250, users=CLIENTS, silos=silos, global_rate=_SCHEME_RATE, dropout=0.0
    )
