"""What of a release of votes reaches each observer, by a configuration alone.

Votes of who is held out are one sum by the aggregation of the run, so the table of
`fl.observers.reaches` says what of them reaches whom (`HeldOutRelease.reaches`).  Messages that are
shuffled have reaches of their own, which their system determines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...accountant.records import Reach, RoundIntent
from ..declarations.declaration import Read
from ..declarations.stated_settings import StatedSettings
from ..observers.names import MODEL
from ..observers.reaches import Route, reaches_of
from .expected_log import ExpectedPhase
from .expected_opening import security_of


def reaches_of_votes(read: Read, intent: RoundIntent, phase: ExpectedPhase) -> Mapping[str, Reach]:
    """Return what of its votes a run states to reach each observer of whom it has an event.

    `phase` is what else the release states.  Raises `NotStated` where a key is missing.
    """
    if phase.reaches is not None:
        return phase.reaches
    given = StatedSettings(read)
    route = Route(
        given.aggregation,
        given.silos,
        security_of(read),
        phase.noise.tolerated_dropouts,
        unit=phase.contribution.unit,
    )
    reaches = reaches_of((MODEL, *intent.views), route)
    apart = {name: replace(reaches[name], sees="each") for name in phase.sees_each & set(reaches)}
    return {**reaches, **apart}
