"""What keys demand of one another: nothing contradicts, and nothing is without effect.

What is of every system stands here; what is of one, in the rules that it declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.built_in import without_promise
from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.package_errors import blame_package
from ..declarations.registry import declaration_of, declared, with_use_for
from ..observers.names import PEER_OBSERVERS, coalition_of, coalitions_in
from ..secagg.peers import FEWEST
from .public_test_data import BUNDLED_SOURCES

_PROTECTED: Final[Mapping[str, str]] = {
    "user": "all records of a user together",
    "record": "one record",
    "silo": "all records of a silo together",
    "entry": "one entry",
}
"""What a promise is for, by its unit."""

_MOMENTS: Final = ("privacy", "normalisation_noise")
"""The key that has a rule of its own: who has no use for it cannot normalise privately at all."""

_MASKED: Final = ("masked",)
_WEIGHED: Final = ("private-weighting",)

_SERVES: Final[Mapping[str, tuple[str, ...]]] = {
    "dropouts": _MASKED,
    "count_limit": _WEIGHED,
    "records_per_count": _WEIGHED,
    "slots": _WEIGHED,
    "processes": _WEIGHED,
    "keep_transcripts": _MASKED + _WEIGHED + ("shares", "shuffle"),
}
"""Keys of [security] that only some aggregations have a use for."""


def first_complaint(given: Given) -> Complaint | None:
    """Return the first thing that contradicts another, or None: rules of all, then of its own."""
    for rule in _RULES:
        said = rule(given)
        if said is not None:
            return said
    return _of_system(given)


def _of_system(given: Given) -> Complaint | None:
    """Return the first complaint of the rules that the system declares."""
    system = declaration_of(_system(given))
    for rule in system.rules:
        with blame_package(system, "rules"):
            said = rule(given)
            if said is not None:
                what, why, step = map(str.strip, said)
                said = what, why, step
        if said is not None:
            return said
    return None


def _system(given: Given) -> str:
    return str(given["run"]["system"])


def _promises_nothing(given: Given) -> Complaint | None:
    if _promises(given) or not given.get("privacy"):
        return None
    return (
        f"has keys in [privacy], and {_system(given)} promises nothing",
        "It adds no noise, so a target or a unit would only look like a promise.",
        "Leave [privacy] out, or choose another system.",
    )


def _trains_nothing(given: Given) -> Complaint | None:
    if declaration_of(_system(given)).trains or not given.get("training"):
        return None
    return (
        f"has keys in [training], and {_system(given)} trains no model",
        "What is without effect would only look like a choice.",
        "Leave [training] out, or choose another system.",
    )


def _without_effect(given: Given) -> Complaint | None:
    system = declaration_of(_system(given))
    for table, keys in given.items():
        for key in keys:
            if (table, key) != _MOMENTS and not system.has_use_for(table, key):
                return (
                    f"gives `{key}` in [{table}], and {system.name} has no use for it",
                    f"It belongs to {' and '.join(with_use_for(table, key))}.",
                    f"Leave `{key}` out, or choose another system.",
                )
    return None


def _promises(given: Given) -> bool:
    return declaration_of(_system(given)).promises


def _aggregation(given: Given) -> str:
    usual = declaration_of(_system(given)).usual_aggregation
    return str(given.get("security", {}).get("aggregation", usual))


def _unused_protocol(given: Given) -> Complaint | None:
    aggregation = _aggregation(given)
    for key, aggregations in _SERVES.items():
        if key in given.get("security", {}) and aggregation not in aggregations:
            return (
                f'gives `{key}` in [security], which aggregation = "{aggregation}" has no use for',
                f"It belongs to {' and '.join(aggregations)}.",
                f"Leave `{key}` out, or choose another aggregation.",
            )
    return None


def _hidden_weights(given: Given) -> Complaint | None:
    if _aggregation(given) != "private-weighting":
        return None
    what = 'has aggregation = "private-weighting" in [security], and '
    if "private-weighting" not in declaration_of(_system(given)).aggregations:
        return (
            f"{what}{_system(given)} has no weights to hide",
            "The protocol weights every user by its records, and nobody sees how many they are.",
            f'Choose {_taking("private-weighting")}, or write aggregation = "masked".',
        )
    if given.get("training", {}).get("weighting", "records") != "records":
        return (
            f'{what}weighting = "uniform" in [training]',
            "Uniform weights are public; there is nothing to hide.",
            'Write weighting = "records", or aggregation = "masked".',
        )
    if given["data"].get("normalisation") == "private":
        return (
            f'{what}normalisation = "private" in [data]',
            "The moments would be summed under weights in the clear, which tell the counts.",
            'Write normalisation = "public", or aggregation = "masked".',
        )
    return None


def _other_aggregation(given: Given) -> Complaint | None:
    aggregations = declaration_of(_system(given)).aggregations
    if _aggregation(given) in aggregations:
        return None
    return (
        f'has aggregation = "{_aggregation(given)}" in [security], and {_system(given)} cannot sum '
        "by it",
        "What the server sees decides what it learns, so none is taken for another.",
        f"Choose {_taking(_aggregation(given))}, or write aggregation = "
        f"{' or '.join(map(_quoted, aggregations))}.",
    )


def _taking(aggregation: str) -> str:
    """Return the names of the systems that can sum by an aggregation."""
    systems = declared().values()
    return " or ".join(system.name for system in systems if aggregation in system.aggregations)


def _quoted(word: str) -> str:
    return f'"{word}"'


def observers_in(given: Given) -> tuple[str, ...]:
    """Return the observers that a configuration names, in whatever key."""
    privacy = given.get("privacy", {})
    return tuple(filter(None, (privacy.get("observer"), *privacy.get("observers", ()))))


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
    if coalition_of(observer) is not None and _aggregation(given) == "private-weighting":
        return (
            f'has observer = "{observer}" in [privacy] and aggregation = "private-weighting"',
            "Private weighting admits no coalition: the server and a silo know together how many "
            "records every user has, without any noise.",
            'Write aggregation = "masked" with weighting = "uniform", or observer = "server".',
        )
    return None


def _among_peers(given: Given) -> Complaint | None:
    """Refuse what silos cannot have that add up among themselves."""
    if _aggregation(given) != "shares":
        return None
    what = 'has aggregation = "shares" in [security], and '
    for name in observers_in(given):
        if name not in PEER_OBSERVERS:
            return (
                f"{what}names {name} in [privacy]",
                "There is no server among peers, and every silo is one: it sees the sum, of which "
                "it can take its own part off.",
                'Name "model" and "peer"; `colluders` in [security] says how many may tell a peer '
                "what they know.",
            )
    if given.get("training", {}).get("weighting") == "records":
        return (
            f'{what}weighting = "records" in [training]',
            "A peer that holds a record of a user would learn from its weight how many it has.",
            'Write weighting = "uniform", or aggregation = "masked".',
        )
    silos = given["data"].get("silos", FEWEST)
    if silos < FEWEST:
        return (
            f"{what}silos = {silos} in [data]",
            "Of two, each learns what the other sent, and one has nobody to add up with.",
            f"Write silos = {FEWEST} or more, or another aggregation.",
        )
    return None


def _slots(given: Given) -> Complaint | None:
    slots = given.get("security", {}).get("slots")
    if slots is None:
        return None
    rate = given.get("privacy", {}).get("sampling_rate", 1.0)
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


def _unit(given: Given) -> Complaint | None:
    units = declaration_of(_system(given)).units
    unit = given.get("privacy", {}).get("unit", units[0])
    if unit in units:
        return None
    return (
        f'needs `unit` in [privacy] to be {" or ".join(units)}; it is "{unit}"',
        f"{_system(given)} promises privacy for {_PROTECTED.get(units[0], units[0])}.",
        f'Write unit = "{units[0]}", or leave it out.',
    )


def _noise(given: Given) -> Complaint | None:
    privacy = given.get("privacy", {})
    if not _promises(given) or "epsilon" in privacy or "noise_multiplier" in privacy:
        return None
    return (
        "lacks `epsilon` or `noise_multiplier` in [privacy]",
        "One of them decides the noise; with both, epsilon is a limit that cuts the rounds.",
        "Write epsilon = 8.0 under [privacy], for example.",
    )


def _moments(given: Given) -> Complaint | None:
    private = given["data"].get("normalisation") == "private"
    if private and not declaration_of(_system(given)).has_use_for(*_MOMENTS):
        return (
            f'has normalisation = "private" in [data], and {_system(given)} cannot pay for it',
            "Moments of private records are a release for users, which its promise does not cover.",
            f'Write normalisation = "public", or choose {" or ".join(with_use_for(*_MOMENTS))}.',
        )
    noisy = "normalisation_noise" in given.get("privacy", {})
    if noisy and not private:
        return (
            "gives `normalisation_noise` in [privacy], which has no effect",
            'It is the noise of the moments that normalisation = "private" in [data] releases.',
            'Leave it out, or write normalisation = "private" under [data].',
        )
    if private and not noisy:
        return (
            'has normalisation = "private" in [data], and lacks `normalisation_noise` in [privacy]',
            "The moments of private records are released with that noise, and cost budget.",
            "Write normalisation_noise = 5.0 under [privacy], for example.",
        )
    return None


def _device(given: Given) -> Complaint | None:
    if given["run"].get("device", "cpu") == "cpu" or not _promises(given):
        return None
    return (
        f'asks for device = "{given["run"]["device"]}" in [run], and {_system(given)} is private',
        "On a GPU the last bits of one user's update can change with who else takes part, and the "
        "clip does not bound that; on a CPU it was measured not to happen.",
        f'Write device = "cpu"; {" and ".join(without_promise())} may use a GPU.',
    )


def _test_data(given: Given) -> Complaint | None:
    said, data = given.get("evaluation", {}), given["data"]
    test, source = said.get("test"), said.get("source")
    bundled = data["name"] in BUNDLED_SOURCES
    if test == "public" and source is None and not bundled:
        return (
            'has test = "public" in [evaluation], and lacks `source` there',
            f"{data['name']} is read from a path, and whether it is public nobody can see from it.",
            'Write source = "who published the test data, and where" under [evaluation], or '
            'test = "none".',
        )
    if source is not None and (test == "none" or (test is None and not bundled)):
        return (
            "gives `source` in [evaluation], which has no effect",
            'It says why test = "public" is so.',
            'Write test = "public" beside it, or leave it out.',
        )
    if source is not None and str(data.get("path", "\0")) in source:
        return (
            "names its `path` of [data] in `source` of [evaluation]",
            "The source stands in the log, which may be published, and a path may name somebody.",
            "Say who published the data, and where: a title, a DOI or a web address.",
        )
    every = given["run"].get("evaluate_every")
    if every == 0 and test == "public":
        return (
            'has test = "public" in [evaluation] and evaluate_every = 0 in [run]',
            "With 0 the model is never measured.",
            "Leave one of them out.",
        )
    if every and test == "none":
        return (
            f'gives evaluate_every = {every} in [run], and has test = "none" in [evaluation]',
            "Without test data nothing is measured.",
            "Leave one of them out.",
        )
    return None


_RULES: Final[tuple[Rule, ...]] = (
    _promises_nothing,
    _trains_nothing,
    _without_effect,
    _unused_protocol,
    _hidden_weights,
    _other_aggregation,
    _coalition,
    _among_peers,
    _slots,
    _unit,
    _noise,
    _moments,
    _device,
    _test_data,
)
