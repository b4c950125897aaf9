"""What [security] demands of a configuration: protocols, coalitions, peers and slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...accountant.errors import enumerated
from ..declarations.declaration import Complaint, Rule
from ..declarations.given_settings import GivenSettings
from ..observers.names import COORDINATOR, PEER_OBSERVERS, coalition_of, coalitions_in
from ..secagg.peers import MIN_PEERS, OF_TWO_PEERS
from .declared_rules import able_to_sum_by, aggregation_complaint

WEIGHT_TELLS: Final = (
    "A peer that holds a record of a user would learn from its weight how many it has."
)
"""Why additive shares are summed under uniform weights."""

_MASKED: Final = ("masked",)
_WEIGHED: Final = ("private-weighting",)

_PRIVATELY_WEIGHTED: Final = 'has aggregation = "private-weighting" in [security], and '

_AGGREGATIONS_WITH_USE: Final[Mapping[str, tuple[str, ...]]] = {
    "dropouts": _MASKED,
    "count_limit": _WEIGHED,
    "records_per_count": _WEIGHED,
    "slots": _WEIGHED,
    "processes": _WEIGHED,
    "keep_transcripts": _MASKED + _WEIGHED + ("shares", "shuffle"),
}
"""Keys of [security] that only some aggregations have a use for."""


def _unused_protocol(given: GivenSettings) -> Complaint | None:
    aggregation = given.security.aggregation
    for key, aggregations in _AGGREGATIONS_WITH_USE.items():
        if f"security.{key}" in given.system.uses:
            continue
        if given.states("security", key) and aggregation not in aggregations:
            return (
                f'gives `{key}` in [security], which aggregation = "{aggregation}" has no use for',
                f"It belongs to {enumerated(aggregations, 'and')}.",
                f"Leave `{key}` out, or choose another aggregation.",
            )
    return None


def _hidden_weights(given: GivenSettings) -> Complaint | None:
    if given.security.aggregation != "private-weighting":
        return None
    if "private-weighting" not in given.system.aggregations:
        return (
            f"{_PRIVATELY_WEIGHTED}{given.system.name} has no weights to hide",
            "The protocol weights every user by its records, and nobody sees how many they are.",
            f'Choose {able_to_sum_by("private-weighting")}, or write aggregation = "masked".',
        )
    moments = given.data.normalisation == "private"
    return hidden_weights_complaint(given.training.weighting, moments=moments)


def hidden_weights_complaint(weighting: str, *, moments: bool) -> Complaint | None:
    """Refuse weights that are public, and private moments, under private weighting."""
    if weighting != "records":
        return (
            f'{_PRIVATELY_WEIGHTED}weighting = "{weighting}" in [training]',
            "Uniform weights are public; there is nothing to hide.",
            'Write weighting = "records", or aggregation = "masked".',
        )
    if moments:
        return (
            f'{_PRIVATELY_WEIGHTED}normalisation = "private" in [data]',
            "The moments would be summed under weights in the clear, which tell the counts.",
            'Write normalisation = "public", or aggregation = "masked".',
        )
    return None


def weighting_complaint(weighting: str) -> Complaint | None:
    """Refuse weights by records where silos add up among themselves."""
    if weighting != "records":
        return None
    return (
        'has aggregation = "shares" in [security], and weighting = "records" in [training]',
        WEIGHT_TELLS,
        'Write weighting = "uniform", or aggregation = "masked".',
    )


def _other_aggregation(given: GivenSettings) -> Complaint | None:
    return aggregation_complaint(given.system, given.security.aggregation)


def _quoted(word: str) -> str:
    return f'"{word}"'


def _coalition(given: GivenSettings) -> Complaint | None:
    told = given.security.colluders
    named = max(coalitions_in(given.observers_named), default=0)
    if told < named:
        return (
            f"names server+{named} in [privacy] with colluders = {told} in [security]",
            "So many silos would tell the server what they know, and the protocol would be made "
            "for fewer.",
            f"Write colluders = {named}, or leave it out.",
        )
    observer = given.privacy.observer
    if coalition_of(observer) is not None and given.security.aggregation == "private-weighting":
        return (
            f'has observer = "{observer}" in [privacy] and aggregation = "private-weighting"',
            "Private weighting admits no coalition: the server and a silo know together how many "
            "records every user has, without any noise.",
            'Write aggregation = "masked" with weighting = "uniform", or observer = "server".',
        )
    return None


def _among_peers(given: GivenSettings) -> Complaint | None:
    """Refuse what silos cannot have that add up among themselves."""
    if given.security.aggregation != "shares":
        return None
    what = 'has aggregation = "shares" in [security], and '
    coordinated = (COORDINATOR,) if COORDINATOR in given.system.observers else ()
    known = (*PEER_OBSERVERS, *coordinated)
    for name in given.observers_named:
        if name not in known:
            return (
                f"{what}names {name} in [privacy]",
                "There is no server among peers, and every silo is one: it sees the sum, of which "
                "it can take its own part off.",
                f"Name {enumerated([*map(_quoted, known)], 'and')}; `colluders` in [security] says "
                "how many may tell a peer what they know.",
            )
    by_records = weighting_complaint(given.training.weighting)
    if by_records is not None:
        return by_records
    silos = given.stated("data", "silos")
    if silos is not None and silos < MIN_PEERS:
        return (
            f"{what}silos = {silos} in [data]",
            "One alone has nobody to add up with." if silos < 2 else OF_TWO_PEERS,
            f"Write silos = {MIN_PEERS} or more, or another aggregation.",
        )
    return None


def _slots(given: GivenSettings) -> Complaint | None:
    return slots_complaint(given.security.slots, given.privacy.sampling_rate)


def slots_complaint(slots: int | None, rate: float) -> Complaint | None:
    """Refuse slots of which no number k is real so that k / slots is the rate exactly."""
    if slots is None:
        return None
    chosen = round(rate * slots)
    if 0 < chosen < slots and chosen / slots == rate:
        return None
    nearest = min(max(chosen, 1), slots - 1) / slots
    step = f"Write sampling_rate = {nearest!r}, or other slots."
    if rate == 1.0:
        step = "Leave `slots` out, or write a sampling_rate below 1 under [privacy]."
    return (
        f"gives slots = {slots} in [security] for sampling_rate = {rate!r} in [privacy]",
        "A user joins with probability k / slots, where k of so many answers are real.",
        step,
    )


SECURITY_RULES: Final[tuple[Rule, ...]] = (
    _unused_protocol,
    _hidden_weights,
    _other_aggregation,
    _coalition,
    _among_peers,
    _slots,
)
