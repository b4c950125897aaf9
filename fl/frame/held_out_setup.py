"""The release of votes that a run's settings plan: users vote, unless a system says otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...accountant.errors import InvalidInput, Unsupported
from ..aggregation.weighted_sum import weighted_views
from ..observers.names import coalitions_in
from .held_out_release import HeldOutRelease
from .held_out_score import votes_counted
from .held_out_votes import votes_of_users, votes_sum

if TYPE_CHECKING:
    from ...accountant.arrays import BoolArray
    from ..aggregation.sums import Aggregator
    from ..data.federation import Federation
    from ..models import Model
    from ..settings.schema import SecuritySettings, Settings
    from ..training.local_training import LocalTraining
    from .model import Parameters


def held_out_release(
    settings: Settings,
    federation: Federation,
    local: LocalTraining,
    silo_aggregator: Aggregator,
    security: SecuritySettings,
) -> HeldOutRelease | None:
    """Return the release of users' votes; None where nobody is held out.

    A system with another unit replaces how votes are cast (`HeldOutRelease.of_votes`), and one of
    shuffled messages makes a release of its own.  Raises `InvalidInput` where users are held out by
    the settings alone.
    """
    evaluation, rows, privacy = settings.evaluation, federation.held_out, settings.privacy
    if evaluation.held_out_noise is None or evaluation.held_out is None:
        return None
    model: Model | None = getattr(local, "model", None)
    if rows is None:
        raise InvalidInput(
            "Users are held out by the settings, and not by what is trained on.",
            "Their votes are on a model that did not see them.",
            "Make the federation from the settings, or leave `held_out_noise` out.",
        )

    def right(parameters: Parameters) -> BoolArray:
        if model is None:
            raise Unsupported(
                "Nobody can vote on a model that is not there.",
                "What stands in for local training answers no records.",
                "Give local training with a model.",
            )
        from ..training.single_answers import right_answers

        return right_answers(model, parameters, rows.features, rows.labels)

    users, silos, rule = settings.data.users, rows.silos, settings.training.weighting
    noise, aggregation, dropouts = (
        evaluation.held_out_noise,
        security.aggregation,
        security.dropouts,
    )
    named = coalitions_in((privacy.observer, *privacy.observers))
    # Messages of users have events of their own, which a system of such messages states.
    views = (
        {}
        if aggregation == "shuffle"
        else weighted_views(
            noise,
            silos=silos,
            rule=rule,
            neighbours=privacy.neighbours,
            aggregation=aggregation,
            drawn_by="shared-secret" if aggregation == "shares" else "server",
            tolerated_dropouts=dropouts,
            coalitions=tuple(sorted({*named, security.colluders} - {0})),
            colluders=security.colluders,
        )
    )
    return HeldOutRelease(
        noise,
        votes_sum(noise, users=users, silos=silos, rule=rule, dropouts=dropouts),
        views,
        votes_of_users(rule),
        privacy.neighbours,
        rows,
        right,
        votes_counted(privacy.unit or "user", users, silos, evaluation.held_out),
        silo_aggregator,
        aggregation,
        settings.system.promises,
    )
