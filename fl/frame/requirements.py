"""What a system may require of its setup: a user as the unit, no sampling, public normalisation."""

from __future__ import annotations

from ...accountant.errors import InvalidInput, Unsupported
from ..declarations.declaration import SERVER_AGGREGATIONS
from ..declarations.registry import declaration_or_none
from .setup import Setup


def require_aggregation(setup: Setup) -> None:
    """Raise `Unsupported` for an aggregation that the system's declaration does not name."""
    declaration = declaration_or_none(setup.name)
    aggregations = SERVER_AGGREGATIONS if declaration is None else declaration.aggregations
    if setup.aggregation not in aggregations:
        raise Unsupported(
            f"{setup.name} has no aggregation {setup.aggregation!r}.",
            "What the server sees decides what it learns, so none is taken for another.",
            f"Use one of {', '.join(aggregations)}.",
        )


def require_user_unit(setup: Setup) -> None:
    """Raise `InvalidInput` unless the unit is a user, added, removed or replaced as a whole."""
    if setup.privacy.unit != "user":
        raise InvalidInput(
            f"{setup.name} protects users; the unit asked for is {setup.privacy.unit!r}.",
            "Its clipping and its noise are made for all records of a user together.",
            "Give unit = 'user'.",
        )
    if setup.privacy.neighbours == "zero-out":
        raise InvalidInput(
            f"{setup.name} is not accounted under zero-out.",
            "A record of zeros is still trained on, so it is no absent record.",
            "Give neighbours = 'add-remove' or 'replace-one'.",
        )


def require_all_users(setup: Setup) -> None:
    """Raise `InvalidInput` where users are sampled."""
    if setup.privacy.sampling_rate != 1.0:
        raise InvalidInput(
            f"{setup.name} does not sample users.",
            "Every silo takes part with all of its users in each round.",
            "Leave `sampling_rate` out, or use uldp-avg or uldp-sgd.",
        )


def require_public_normalisation(setup: Setup) -> None:
    """Raise `InvalidInput` where features are normalised by private moments."""
    if setup.normalisation is not None:
        raise InvalidInput(
            f"{setup.name} does not normalise features by private moments.",
            "Such moments are a release for users, and its promise does not cover that.",
            "Give normalisation = 'public', or use uldp-avg, uldp-sgd or uldp-naive.",
        )
