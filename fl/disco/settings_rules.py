"""Rules between the keys of a configuration of DISCO's peers, and what they decide together."""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from .settings import AS_PUBLISHED_NOISE, FIXED, SHARED, TABLE, DiscoSettings

_LOCAL_KEYS: Final = ("local_rate", "local_epochs", "batch")
"""Keys of local training in steps; a record's gradient is taken at the shared model."""

_NOISE_AS_PUBLISHED: Final = f'noise = "{AS_PUBLISHED_NOISE}" in [{TABLE.name}]'


def shares_for_shared_noise(given: Given) -> Complaint | None:
    """Refuse shared noise where a message is seen by itself, or the sum by a server."""
    aggregation = given.get("security", {}).get("aggregation", "shares")
    return noise_complaint(aggregation, _table(given))


def noise_complaint(aggregation: str, table: DiscoSettings) -> Complaint | None:
    """Refuse shared noise where a message is seen by itself, whoever says how it is summed."""
    if table.noise != SHARED or aggregation == "shares":
        return None
    return (
        f'has aggregation = "{aggregation}" in [security], and noise = "shared" in [disco]',
        "Each message then has a part of the noise only, which hides no peer.",
        'Write noise = "local" under [disco], or aggregation = "shares".',
    )


def all_peers(given: Given) -> Complaint | None:
    """Refuse peers that may be missing from a sum."""
    if not given.get("security", {}).get("dropouts"):
        return None
    return (
        "gives `dropouts` in [security], and disco needs every peer of a round",
        "A peer that is missing ends the round for all; no smaller group is summed.",
        "Leave it out.",
    )


def enough_peers(given: Given) -> Complaint | None:
    """Refuse fewer peers than a round needs."""
    peers = given["data"].get("silos")
    return None if peers is None else peers_complaint(peers, _table(given))


def peers_complaint(peers: int, table: DiscoSettings) -> Complaint | None:
    """Refuse fewer peers than a round needs, whoever says how many there are."""
    if peers >= table.min_participants:
        return None
    return (
        f"has silos = {peers} in [data], and a round needs {table.min_participants} peers",
        "In a small group the sum says much about each.",
        f"Write silos = {table.min_participants} or more under [data].",
    )


def frames_of_peers(given: Given) -> Complaint | None:
    """Refuse time frames where nothing counts them, and those that do not fit peers and rounds."""
    if not _table(given).time_frames:
        return None
    aggregation = given.get("security", {}).get("aggregation", "shares")
    if aggregation == "masked" or _as_published(given):
        beside, why = _NOISE_AS_PUBLISHED, "The published noise promises nothing to count."
        if aggregation == "masked":
            beside, why = 'aggregation = "masked" in [security]', "Masks are made among all silos."
        return (
            f"gives `time_frames` in [disco] beside {beside}",
            why,
            'Leave it out, or write aggregation = "shares" with noise that holds.',
        )
    if {"epsilon", "noise_multiplier"} <= given.get("privacy", {}).keys():
        return (
            "gives `epsilon` and `noise_multiplier` in [privacy] beside `time_frames` in [disco]",
            "With both, epsilon cuts the rounds, and the frames would end after the run.",
            "Leave one of them out.",
        )
    return None


def records_as_unit(given: Given) -> Complaint | None:
    """Refuse what does not go with records as the unit, and what goes with nothing else."""
    unit = given.get("privacy", {}).get("unit", "silo")
    said = unit_complaint(unit, _table(given))
    if said is not None or unit != "record":
        return said
    for key in _LOCAL_KEYS:
        if key in given.get("training", {}):
            return (
                f'gives `{key}` in [training] for unit = "record" in [privacy]',
                "A record has one gradient a round, at the shared model: there are no local steps.",
                "Leave it out.",
            )
    return None


def unit_complaint(unit: str, table: DiscoSettings) -> Complaint | None:
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


def published_noise(given: Given) -> Complaint | None:
    """Refuse two ways to say how much noise is published, which has one formula for both."""
    privacy = given.get("privacy", {})
    if not _as_published(given) or not {"epsilon", "noise_multiplier"} <= privacy.keys():
        return None
    return (
        'gives `epsilon` and `noise_multiplier` in [privacy] for noise = "as_published"',
        "Either follows from the other by the published formula, and no budget cuts the rounds.",
        "Leave one of them out.",
    )


def published_parts(given: Given) -> Complaint | None:
    """Refuse what the published program does not have, beside its noise."""
    if not _as_published(given):
        return None
    if given.get("privacy", {}).get("unit", "silo") != "silo":
        return (
            f'has unit = "{given["privacy"]["unit"]}" in [privacy] and {_NOISE_AS_PUBLISHED}',
            "The program clips the update of a peer, and never looks at a single record.",
            'Write unit = "silo", or leave it out.',
        )
    for key, only in (("clip", FIXED), ("clip_by", "tensor")):
        said = given[TABLE.name].get(key, only)
        if said != only:
            return (
                f'has {key} = "{said}" and {_NOISE_AS_PUBLISHED}',
                "The radius of each tensor follows its last norms, up to the clip of [training].",
                f'Write {key} = "{only}", or leave it out.',
            )
    if given.get("security", {}).get("colluders"):
        return (
            f"gives `colluders` in [security], and {_NOISE_AS_PUBLISHED}",
            "Nothing is promised before one peer, and so nothing before several.",
            "Leave it out.",
        )
    return None


def _as_published(given: Given) -> bool:
    return _table(given).as_published


def _table(given: Given) -> DiscoSettings:
    return DiscoSettings(**given.get(TABLE.name, {}))


RULES: Final[tuple[Rule, ...]] = (
    shares_for_shared_noise,
    all_peers,
    enough_peers,
    frames_of_peers,
    published_noise,
    published_parts,
    records_as_unit,
)
"""The rules, in the order in which they are asked."""
