"""The table `[disco]`: what only DISCO's peers have, and what its keys and others demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from ..declarations.declaration import Complaint, Rule, Table
from ..declarations.given_settings import GivenSettings
from ..declarations.toml_key import at_least, key
from ..secagg.peers import MIN_PEERS
from .time_frames import SMALL_GROUP, frame_list

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
    name="disco", about="what only DISCO's peers have", settings=DiscoSettings, published="noise"
)


_LOCAL_KEYS: Final = ("local_rate", "local_epochs", "batch")
"""Keys of local training in steps; a record's gradient is taken at the shared model."""

_NOISE_AS_PUBLISHED: Final = f'noise = "{AS_PUBLISHED_NOISE}" in [{TABLE.name}]'


def shares_for_shared_noise(given: GivenSettings) -> Complaint | None:
    """Refuse shared noise where a message is seen by itself, or the sum by a server."""
    aggregation = given.security.aggregation
    return noise_complaint(aggregation, given.of(DiscoSettings))


def noise_complaint(aggregation: str, table: DiscoSettings) -> Complaint | None:
    """Refuse shared noise where a message is seen by itself, whoever says how it is summed."""
    if table.noise != SHARED or aggregation == "shares":
        return None
    return (
        f'has aggregation = "{aggregation}" in [security], and noise = "shared" in [disco]',
        "Each message then has a part of the noise only, which hides no peer.",
        'Write noise = "local" under [disco], or aggregation = "shares".',
    )


def all_peers(given: GivenSettings) -> Complaint | None:
    """Refuse peers that may be missing from a sum."""
    if not given.security.dropouts:
        return None
    return (
        "gives `dropouts` in [security], and disco needs every peer of a round",
        "A peer that is missing ends the round for all; no smaller group is summed.",
        "Leave it out.",
    )


def enough_peers(given: GivenSettings) -> Complaint | None:
    """Refuse fewer peers than a round needs."""
    peers = given.stated("data", "silos")
    return None if peers is None else peers_complaint(peers, given.of(DiscoSettings))


def peers_complaint(peers: int, table: DiscoSettings) -> Complaint | None:
    """Refuse fewer peers than a round needs, whoever says how many there are."""
    if peers >= table.min_participants:
        return None
    return (
        f"has silos = {peers} in [data], and a round needs {table.min_participants} peers",
        SMALL_GROUP,
        f"Write silos = {table.min_participants} or more under [data].",
    )


def frames_of_peers(given: GivenSettings) -> Complaint | None:
    """Refuse time frames where nothing counts them, and those that do not fit peers and rounds."""
    if not given.of(DiscoSettings).time_frames:
        return None
    aggregation = given.security.aggregation
    if aggregation == "masked" or given.of(DiscoSettings).as_published:
        excluded, why = _NOISE_AS_PUBLISHED, "The published noise promises nothing to count."
        if aggregation == "masked":
            excluded, why = (
                'aggregation = "masked" in [security]',
                "Masks are made among all silos.",
            )
        return (
            f"gives `time_frames` in [disco] with {excluded}",
            why,
            'Leave it out, or write aggregation = "shares" with noise that holds.',
        )
    if given.states("privacy", "epsilon", "noise_multiplier"):
        return (
            "gives `epsilon` and `noise_multiplier` in [privacy] with `time_frames` in [disco]",
            "With both, epsilon cuts the rounds, and the frames would end after the run.",
            "Leave one of them out.",
        )
    return None


def records_as_unit(given: GivenSettings) -> Complaint | None:
    """Refuse what does not go with records as the unit, and what goes with nothing else."""
    said = unit_complaint(given.privacy.unit, given.of(DiscoSettings))
    if said is not None or given.privacy.unit != "record":
        return said
    for name in _LOCAL_KEYS:
        if given.states("training", name):
            return (
                f'gives `{name}` in [training] for unit = "record" in [privacy]',
                "A record has one gradient a round, at the shared model: there are no local steps.",
                "Leave it out.",
            )
    return None


def unit_complaint(unit: str | None, table: DiscoSettings) -> Complaint | None:
    """Refuse a divisor or a clip that does not go with the unit: a record needs a public divisor.

    Its clip follows no peer's update.
    """
    of_records = unit == "record"
    if of_records != (table.divisor is not None):
        said = "lacks" if of_records else "gives"
        return (
            f"{said} `divisor` in [disco] for unit = "
            f'"{"record" if of_records else "silo"}" in [privacy]',
            "A sum over records is divided by a public number, and one over peers by theirs.",
            "Write divisor = 500, for example: about how many records there are, and not taken "
            "from the data."
            if of_records
            else 'Leave it out, or write unit = "record" under [privacy].',
        )
    if of_records and table.clip != FIXED:
        return (
            f'has clip = "{table.clip}" in [disco] and unit = "record" in [privacy]',
            "Such a clip follows the updates of whole peers.",
            'Write clip = "fixed".',
        )
    return None


def published_noise(given: GivenSettings) -> Complaint | None:
    """Refuse two ways to say how much noise is published, which has one formula for both."""
    both = given.states("privacy", "epsilon", "noise_multiplier")
    if not both or not given.of(DiscoSettings).as_published:
        return None
    return (
        'gives `epsilon` and `noise_multiplier` in [privacy] for noise = "as_published"',
        "Either follows from the other by the published formula, and no budget cuts the rounds.",
        "Leave one of them out.",
    )


def published_parts(given: GivenSettings) -> Complaint | None:
    """Refuse what the published program does not have, besides its noise."""
    table, clip_by = given.of(DiscoSettings), given.stated(TABLE.name, "clip_by")
    if not table.as_published:
        return None
    colluders = given.stated("security", "colluders")
    return published_complaint(given.privacy.unit, table, clip_by=clip_by, colluders=colluders)


def published_complaint(
    unit: str | None, table: DiscoSettings, *, clip_by: str | None = None, colluders: int | None
) -> Complaint | None:
    """Refuse what the published program does not have; `clip_by` where it is stated."""
    if unit != "silo":
        return (
            f'has unit = "{unit}" in [privacy] and {_NOISE_AS_PUBLISHED}',
            "The program clips the update of a peer, and never looks at a single record.",
            'Write unit = "silo", or leave it out.',
        )
    for name, said, only in (("clip", table.clip, FIXED), ("clip_by", clip_by, "tensor")):
        if said not in (None, only):
            return (
                f'has {name} = "{said}" and {_NOISE_AS_PUBLISHED}',
                "The radius of each tensor follows its last norms, up to the clip of [training].",
                f'Write {name} = "{only}", or leave it out.',
            )
    if colluders:
        return (
            f"gives `colluders` in [security], and {_NOISE_AS_PUBLISHED}",
            "Nothing is promised before one peer, and so nothing before several.",
            "Leave it out.",
        )
    return None


def votes_of_all(given: GivenSettings) -> Complaint | None:
    """Refuse votes without a promise, and of peers that are gone."""
    table = given.of(DiscoSettings)
    if not given.holds_out:
        return None
    if table.as_published:
        return (
            f'has test = "held-out" in [evaluation] and {_NOISE_AS_PUBLISHED}',
            "Votes are one noisy sum more of a run that pays for it, and this noise pays nothing.",
            'Write test = "none", or noise that holds.',
        )
    if table.time_frames:
        return (
            'has test = "held-out" in [evaluation], and `time_frames` in [disco]',
            "All peers vote after the last round, and with time frames some of them are gone.",
            'Write test = "none", or leave `time_frames` out.',
        )
    return None


RULES: Final[tuple[Rule, ...]] = (
    shares_for_shared_noise,
    all_peers,
    enough_peers,
    frames_of_peers,
    published_noise,
    published_parts,
    records_as_unit,
    votes_of_all,
)
"""The rules, in the order in which they are asked."""
