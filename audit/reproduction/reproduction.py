"""A number that a common accountant gives, beside the settings that it is given for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..description.run_settings import RunSettings

Change = Literal[
    "none",
    "fewer-steps",
    "more-steps",
    "one-epoch",
    "one-round",
    "one-client",
    "delta-one-over-records",
    "delta-one-over-batches",
    "other-delta",
    "other-rate",
    "other-batch",
    "other-records",
    "other-noise",
    "other-relation",
    "accumulation",
    "microbatches",
    "clients-times-records",
    "no-amplification",
]
"""What was changed of the settings before an accountant gave the claimed number."""

SAME: Final[Change] = "none"

Method = Literal[
    "rdp",
    "rdp-classical",
    "pld",
    "prv",
    "clt",
    "zcdp",
    "textbook-gaussian",
    "simple-composition",
    "advanced-composition",
    "small-rate-approximation",
]
"""The kind of mathematics: `clt` and `small-rate-approximation` bound nothing, and
`textbook-gaussian` is a theorem for an epsilon below 1 only."""


@dataclass(frozen=True)
class AccountantValue:
    """What an `accountant` (in words) prints: a value between `low` and `high`; no guarantee."""

    accountant: str
    method: Method
    low: float
    high: float

    @property
    def value(self) -> float:
        """Return the middle of what it may print."""
        return 0.5 * (self.low + self.high)


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
    method: Method = "rdp"
