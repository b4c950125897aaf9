"""The data of a run of FedPower: a matrix of ratings, or the records of any other data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from ...accountant.errors import InvalidInput
from ..data.federation import Federation
from ..datasets.ratings import (
    FEWEST_RATINGS,
    LARGEST_RATING,
    RATINGS,
    Ratings,
    federate_ratings,
    read_ratings,
)
from ..running.run_data import usual_data

if TYPE_CHECKING:
    from ..settings.schema import DataSettings, Settings

_DEALING_STREAM: Final = 2
"""Public random stream under `[data] seed`: the order in which rows are dealt."""


def federation(settings: Settings) -> tuple[Federation, dict[str, str]]:
    """Return the federation that `[data]` describes, and SHA-256 digests of its data by name.

    Of ratings it is a `RatingFederation`.  Digests are of private data, for the sealed sidecar
    only.  Raises `InvalidInput` for data that cannot be read or do not fit the settings.
    """
    data = settings.data
    if data.name != RATINGS:
        return usual_data(settings)
    ratings = _read(data)
    federated = federate_ratings(
        ratings,
        data.users,
        _silos(data),
        np.random.default_rng([data.seed, _DEALING_STREAM]),
        lists_are_public=data.selection is not None,
    )
    return federated, {"records": ratings.digest}


def _read(data: DataSettings) -> Ratings:
    """Return the ratings under the rules of their lists, which settings made by hand may break."""
    public = data.selection is not None
    if public == (data.columns is not None) or public != (data.selection_source is not None):
        raise InvalidInput(
            "Ratings need `columns`, or `selection` with `selection_source`, in [data].",
            "A filter looks at all rows, so nothing could be guaranteed of lists that are private.",
            "Give the file of a public list of films, or say that the lists are public, and who "
            "says so.",
        )
    return read_ratings(
        _path(data),
        columns=data.columns,
        fewest=(data.fewest_ratings or FEWEST_RATINGS) if public else None,
        largest=data.largest_rating or LARGEST_RATING,
    )


def _path(data: DataSettings) -> Path:
    if data.path is None:
        raise InvalidInput(
            "Ratings are read from a file, and [data] has no `path`.",
            "They are not bundled and not downloaded.",
            "Give a CSV file of ratings, or MovieLens' `u.data`.",
        )
    return data.path


def _silos(data: DataSettings) -> int:
    if data.silos is None:
        raise InvalidInput(
            "Ratings need `silos` in [data].",
            "Whole rows are dealt to so many nodes.",
            "Write silos = 100, for example.",
        )
    return data.silos
