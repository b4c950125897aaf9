"""The table `[disco]`: what only DISCO's peers have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Table
from ..declarations.toml_key import at_least, key
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

    noise: NoiseRule = key(
        "whom a peer's noise hides it by: with that of all others, in their sum (shared, for "
        'aggregation = "shares"), by itself, whoever sees its message (local), or as the program '
        "has it, which proves no guarantee (as_published)",
        default="shared",
        why="It decides how much noise a peer adds, and so what a number is worth.",
    )
    clip: ClipRule = key(
        "the clip of a round: that of [training] (fixed), one that follows the noisy mean of the "
        "round before (previous), or a noisy quantile of the norms (quantile)",
        default="fixed",
        why="A clip that followed the updates themselves would be a release of its own.",
    )
    clip_by: ClipScope = key(
        "what is clipped together: the whole update to C (model), or each of L tensors to C / "
        "sqrt(L) (tensor); as_published: each tensor to a radius of at most C",
        default="model",
        why="What is clipped together moves the sum by no more than the clip.",
    )
    min_participants: int = key(
        "fewest peers of a round, 3 or more; with fewer there is no round",
        at_least(MIN_PEERS),
        default=MIN_PEERS,
        shown="3",
        why="Of two peers, each learns from the sum what the other sent.",
    )
    time_frames: tuple[str, ...] = key(
        'the first and the last round of each peer, as ["1-20", "1-10", "11-20"]: in these it '
        "takes part, and the guarantee counts as many as the longest has",
        frame_list,
        default=(),
        shown="every peer in all rounds",
        why="Peers join and leave between rounds, by a schedule that all know.",
    )
    divisor: int | None = key(
        'unit = "record": public number of records that a sum of gradients is divided by',
        at_least(1),
        default=None,
        shown="required there",
        why="How many records there are is private where one of them comes or goes.",
    )

    @property
    def as_published(self) -> bool:
        """Whether noise and radius are those of the published program."""
        return self.noise == AS_PUBLISHED_NOISE


TABLE: Final = Table(
    name="disco",
    about="what only DISCO's peers have",
    settings=DiscoSettings,
    published="noise",
)
