"""A number that a common accountant gives, beside the settings that it is given for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..description.run_settings import RunSettings

Change = Literal[
    "none",
    "fewer-steps",
    "one-epoch",
    "one-round",
    "one-client",
    "delta-one-over-records",
    "delta-one-over-batches",
    "other-rate",
    "other-batch",
    "other-noise",
    "other-relation",
    "clients-times-records",
    "no-amplification",
]
"""What was changed of the settings before an accountant gave the claimed number."""

SAME: Final[Change] = "none"


@dataclass(frozen=True)
class Reproduction:
    """An `accountant` (in words) gives `epsilon` for `settings`, which prints as the claim does.

    `change` says what of the described settings is different in them, and `says` the same in one
    sentence for a person.  No guarantee: some accountants are approximations.
    """

    accountant: str
    epsilon: float
    settings: RunSettings
    change: Change
    says: str
