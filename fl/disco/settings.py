"""The table `[disco]`: what only DISCO's peers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Table
from ..declarations.toml_key import Key, at_least, word
from ..secagg.peers import MIN_PEERS
from .time_frames import frame_list

NoiseRule = Literal["shared", "local", "as_published"]
ClipRule = Literal["fixed", "previous", "quantile"]
ClipScope = Literal["model", "tensor"]

SHARED: Final = "shared"
LOCAL: Final = "local"
AS_PUBLISHED_NOISE: Final = "as_published"

COUNT_PHASE: Final = "clip"
"""The name of the release of the count of unclipped updates, in the plan and in the log."""

FIXED: Final = "fixed"
PREVIOUS: Final = "previous"
QUANTILE: Final = "quantile"


@dataclass(frozen=True, kw_only=True)
class DiscoSettings:
    """`[disco]`: what only DISCO's peers have."""

    noise: NoiseRule = "shared"
    clip: ClipRule = "fixed"
    clip_by: ClipScope = "model"
    min_participants: int = MIN_PEERS
    time_frames: tuple[str, ...] = ()
    divisor: int | None = None

    @property
    def as_published(self) -> bool:
        """Whether noise and radius are those of the published program."""
        return self.noise == AS_PUBLISHED_NOISE


TABLE: Final = Table(
    name="disco",
    about="what only DISCO's peers have",
    settings=DiscoSettings,
    published="noise",
    keys=(
        word(
            "noise",
            ("shared", "local", "as_published"),
            "whom a peer's noise hides it by: with that of all others, in their sum (shared, for "
            'aggregation = "shares"), by itself, whoever sees its message (local), or as the '
            "program has it, which proves no guarantee (as_published)",
            "shared",
            "It decides how much noise a peer adds, and so what a number is worth.",
        ),
        word(
            "clip",
            ("fixed", "previous", "quantile"),
            "the clip of a round: that of [training] (fixed), one that follows the noisy mean of "
            "the round before (previous), or a noisy quantile of the norms (quantile)",
            "fixed",
            "A clip that followed the updates themselves would be a release of its own.",
        ),
        word(
            "clip_by",
            ("model", "tensor"),
            "what is clipped together: the whole update to C (model), or each of L tensors to "
            "C / sqrt(L) (tensor); as_published: each tensor to a radius of at most C",
            "model",
            "What is clipped together moves the sum by no more than the clip.",
        ),
        Key(
            "min_participants",
            at_least(MIN_PEERS),
            "fewest peers of a round, 3 or more; with fewer there is no round",
            "3",
            "Of two peers, each learns from the sum what the other sent.",
        ),
        Key(
            "time_frames",
            frame_list,
            'the first and the last round of each peer, as ["1-20", "1-10", "11-20"]: in these it '
            "takes part, and the guarantee counts as many as the longest has",
            "every peer in all rounds",
            "Peers join and leave between rounds, by a schedule that all know.",
        ),
        Key(
            "divisor",
            at_least(1),
            'unit = "record": public number of records that a sum of gradients is divided by',
            "required there",
            "How many records there are is private where one of them comes or goes.",
        ),
    ),
)
