"""The table `[uldp]`: what only Uldp-FL's systems have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..declarations.declaration import Table
from ..declarations.toml_key import at_least, key, rate


@dataclass(frozen=True, kw_only=True)
class UldpSettings:
    """`[uldp]`: what only Uldp-FL's systems have."""

    as_published: bool = key(
        "run as the paper has it, which proves no guarantee: uldp-naive with sensitivity C, "
        "uldp-avg and uldp-sgd with its private weighting",
        default=False,
    )
    group_records: int | None = key(
        "uldp-group: most records of one user that take part, 2 or more",
        at_least(2),
        default=None,
        shown="required there",
        why="The promise for a user follows from that for one record, so often.",
    )
    record_rate: float | None = key(
        "uldp-group: probability that a record joins one step",
        rate,
        default=None,
        shown="one batch of a silo's nominal records",
        why="It is the probability with which a record joins one step of training.",
    )


TABLE: Final = Table(
    name="uldp",
    about="what only Uldp-FL's systems have",
    settings=UldpSettings,
    group="group_records",
)
