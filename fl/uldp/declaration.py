"""The declarations of Uldp-FL's systems."""

from __future__ import annotations

from typing import Final

from ..frame.declaration import Declaration

_NAIVE: Final = f"{__package__}.canaries.naive"
_GROUP: Final = f"{__package__}.canaries.group"
_USERS: Final = f"{__package__}.canaries.dispatch"
_ENCRYPTED: Final = {"private-weighting": 200}
"""Each canary is encrypted."""

SYSTEMS: Final = (
    Declaration(
        name="uldp-naive",
        make=f"{__package__}.naive:naive",
        carrier=f"{_NAIVE}:carry",
        canaries=1_000,  # each has a rehearsal of its own
        canary_work=f"{_NAIVE}:work",
    ),
    Declaration(
        name="uldp-group",
        make=f"{__package__}.group:group",
        carrier=f"{_GROUP}:carry",
        canaries=3_000,  # the cost grows with their square
        canary_work=f"{_GROUP}:work",
    ),
    Declaration(
        name="uldp-avg",
        make=f"{__package__}.weighted:average",
        carrier=f"{_USERS}:carry",
        canaries=_ENCRYPTED,
        canary_work=f"{_USERS}:work",
    ),
    Declaration(
        name="uldp-sgd",
        make=f"{__package__}.weighted:gradient",
        carrier=f"{_USERS}:carry",
        canaries=_ENCRYPTED,
        canary_work=f"{_USERS}:work",
    ),
)
