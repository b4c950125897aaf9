"""The table `[uldp]`: what only Uldp-FL's systems have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..declarations.declaration import Table
from ..declarations.toml_key import Key, at_least, flag, rate


@dataclass(frozen=True, kw_only=True)
class UldpSettings:
    """`[uldp]`: what only Uldp-FL's systems have."""

    as_published: bool = False
    group_records: int | None = None
    record_rate: float | None = None


TABLE: Final = Table(
    name="uldp",
    about="what only Uldp-FL's systems have",
    settings=UldpSettings,
    group="group_records",
    keys=(
        Key(
            "as_published",
            flag,
            "run as the paper has it, which proves no guarantee: uldp-naive with sensitivity C, "
            "uldp-avg and uldp-sgd with its private weighting",
            "false",
        ),
        Key(
            "group_records",
            at_least(2),
            "uldp-group: most records of one user that take part, 2 or more",
            "required there",
            "The promise for a user follows from that for one record, so often.",
        ),
        Key(
            "record_rate",
            rate,
            "uldp-group: probability that a record joins one step",
            "one batch of a silo's nominal records",
            "It is the probability with which a record joins one step of training.",
        ),
    ),
)
