"""What [security] demands of a configuration: protocols, coalitions, peers and slots."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from ..observers.names import COORDINATOR, PEER_OBSERVERS, coalition_of, coalitions_in
from ..secagg.peers import MIN_PEERS
from .declared_rules import able_to_sum_by, aggregation_complaint
from .rule_facts import aggregation_of, enumerated, observers_in, system_of

_MASKED: Final = ("masked",)
_WEIGHED: Final = ("private-weighting",)

_AGGREGATIONS_WITH_USE: Final[Mapping[str, tuple[str, ...]]] = {
    "dropouts": _MASKED,
    "count_limit": _WEIGHED,
    "records_per_count": _WEIGHED,
    "slots": _WEIGHED,
    "processes": _WEIGHED,
    "keep_transcripts": _MASKED + _WEIGHED + ("shares", "shuffle"),
}
"""Keys of [security] that only some aggregations have a use for."""


def _unused_protocol(given: Given) -> Complaint | None:
    aggregation = aggregation_of(given)
    for key, aggregations in _AGGREGATIONS_WITH_USE.items():
        if f"security.{key}" in system_of(given).uses:
            continue
        if key in given.get("security", {}) and aggregation not in aggregations:
            return (
                f'gives `{key}` in [security], which aggregation = "{aggregation}" has no use for',
                f"It belongs to {enumerated(aggregations, 'and')}.",
                f"Leave `{key}` out, or choose another aggregation.",
            )
    return None


def _hidden_weights(given: Given) -> Complaint | None:
    if aggregation_of(given) != "private-weighting":
        return None
    what = 'has aggregation = "private-weighting" in [security], and '
    if "private-weighting" not in system_of(given).aggregations:
        return (
            f"{what}{system_of(given).name} has no weights to hide",
            "The protocol weights every user by its records, and nobody sees how many they are.",
            f'Choose {able_to_sum_by("private-weighting")}, or write aggregation = "masked".',
        )
    weighting = given.get("training", {}).get("weighting", "records")
    private = given["data"].get("normalisation") == "private"
    return hidden_weights_complaint(weighting, moments=private)


def hidden_weights_complaint(weighting: str, *, moments: bool) -> Complaint | None:
    """Refuse weights that are public, and private moments, under private weighting."""
    what = 'has aggregation = "private-weighting" in [security], and '
    if weighting != "records":
        return (
            f'{what}weighting = "{weighting}" in [training]',
            "Uniform weights are public; there is nothing to hide.",
            'Write weighting = "records", or aggregation = "masked".',
        )
    if moments:
        return (
            f'{what}normalisation = "private" in [data]',
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
        "A peer that holds a record of a user would learn from its weight how many it has.",
        'Write weighting = "uniform", or aggregation = "masked".',
    )


def _other_aggregation(given: Given) -> Complaint | None:
    return aggregation_complaint(system_of(given), aggregation_of(given))


def _quoted(word: str) -> str:
    return f'"{word}"'


def _coalition(given: Given) -> Complaint | None:
    told = given.get("security", {}).get("colluders")
    named = max(coalitions_in(observers_in(given)), default=0)
    if told is not None and told < named:
        return (
            f"names server+{named} in [privacy] beside colluders = {told} in [security]",
            "So many silos would tell the server what they know, and the protocol would be made "
            "for fewer.",
            f"Write colluders = {named}, or leave it out.",
        )
    observer = given.get("privacy", {}).get("observer", "model")
    if coalition_of(observer) is not None and aggregation_of(given) == "private-weighting":
        return (
            f'has observer = "{observer}" in [privacy] and aggregation = "private-weighting"',
            "Private weighting admits no coalition: the server and a silo know together how many "
            "records every user has, without any noise.",
            'Write aggregation = "masked" with weighting = "uniform", or observer = "server".',
        )
    return None


def _among_peers(given: Given) -> Complaint | None:
    """Refuse what silos cannot have that add up among themselves."""
    if aggregation_of(given) != "shares":
        return None
    what = 'has aggregation = "shares" in [security], and '
    coordinated = (COORDINATOR,) if COORDINATOR in system_of(given).observers else ()
    known = (*PEER_OBSERVERS, *coordinated)
    for name in observers_in(given):
        if name not in known:
            return (
                f"{what}names {name} in [privacy]",
                "There is no server among peers, and every silo is one: it sees the sum, of which "
                "it can take its own part off.",
                f"Name {enumerated([*map(_quoted, known)], 'and')}; `colluders` in [security] says "
                "how many may tell a peer what they know.",
            )
    by_records = weighting_complaint(given.get("training", {}).get("weighting", "uniform"))
    if by_records is not None:
        return by_records
    silos = given["data"].get("silos", MIN_PEERS)
    if silos < MIN_PEERS:
        return (
            f"{what}silos = {silos} in [data]",
            "One alone has nobody to add up with."
            if silos < 2
            else "Of two, each learns what the other sent.",
            f"Write silos = {MIN_PEERS} or more, or another aggregation.",
        )
    return None


def _slots(given: Given) -> Complaint | None:
    slots = given.get("security", {}).get("slots")
    if slots is None:
        return None
    rate = given.get("privacy", {}).get("sampling_rate", 1.0)
    # k of the slots are real; k / slots must be the rate exactly, as the plan counts on it.
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
