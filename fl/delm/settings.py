"""The table `[delm]`: which objective is released, how it is bounded, and what is fitted to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Table
from ..declarations.toml_key import word
from ..statistics.settings import TABLE as STATISTICS
from ..statistics.settings import ReleaseSettings

ObjectiveName = Literal["linear", "logistic", "softmax"]

LOGISTIC: Final = "logistic"


@dataclass(frozen=True, kw_only=True)
class DelmSettings(ReleaseSettings):
    """`[delm]`: the objective whose coefficients are released, and all that decides the release."""

    objective: ObjectiveName = "softmax"


TABLE: Final = Table(
    name="delm",
    about="which objective is released, how it is bounded, and what is fitted to it",
    settings=DelmSettings,
    keys=(
        word(
            "objective",
            ("linear", "logistic", "softmax"),
            "what is minimised: squares against one-hot labels, or the logistic loss of two "
            "classes or more, to the second degree; all are read off the same release",
            "softmax",
        ),
        *(key for key in STATISTICS.keys if key.name != "fit"),
    ),
)
