"""What keys demand of one another: nothing contradicts, and nothing is without effect."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from .evaluation import BUNDLED
from .observers import coalition_of, coalitions_in

Given: TypeAlias = Mapping[str, Mapping[str, Any]]
"""What a configuration says: checked values by table and key; `[run] system` is there."""

Complaint: TypeAlias = tuple[str, str, str]
"""What is wrong (to stand after the name of the file), why, and what to do."""

_PRIVATE: Final = ("uldp-naive", "uldp-group", "uldp-avg", "uldp-sgd")
_WEIGHTED: Final = ("uldp-avg", "uldp-sgd")
_USERS: Final = ("uldp-naive", "uldp-avg", "uldp-sgd")
_TRAINING: Final = ("fedavg", "uldp-naive", "uldp-group", "uldp-avg")  # uldp-sgd sends a gradient

_SUITS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("privacy", "sampling_rate"): _WEIGHTED,
    ("training", "weighting"): _WEIGHTED,
    ("training", "clip"): _PRIVATE,
    ("training", "local_rate"): _TRAINING,
    ("training", "local_epochs"): _TRAINING,
    ("training", "batch"): _TRAINING,
    ("training", "dropout"): _TRAINING,
    ("uldp", "group_records"): ("uldp-group",),
    ("uldp", "record_rate"): ("uldp-group",),
    ("uldp", "as_published"): _USERS,
}
"""Keys that only some systems have a use for."""

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


_NOT_PUBLISHED: Final[Mapping[str, str]] = {
    "slots": "the server draws",
    "records_per_count": "every record counts",
    "processes": "one process does the work",
}
"""Keys of [security] that private weighting as published has no use for, and what it does."""


def complaint(given: Given) -> Complaint | None:
    """Return the first thing that contradicts another, or None."""
    return next((found for rule in _RULES if (found := rule(given)) is not None), None)


def _system(given: Given) -> str:
    return str(given["run"]["system"])


def _promises_nothing(given: Given) -> Complaint | None:
    if _system(given) != "fedavg" or not given.get("privacy"):
        return None
    return (
        "has keys in [privacy], and fedavg promises nothing",
        "It adds no noise, so a target or a unit would only look like a promise.",
        'Leave [privacy] out, or write system = "uldp-avg".',
    )


def _without_effect(given: Given) -> Complaint | None:
    system = _system(given)
    for (table, key), systems in _SUITS.items():
        if key in given.get(table, {}) and system not in systems:
            return (
                f"gives `{key}` in [{table}], and {system} has no use for it",
                f"It belongs to {' and '.join(systems)}.",
                f"Leave `{key}` out, or choose another system.",
            )
    return None


def _aggregation(given: Given) -> str:
    return str(given.get("security", {}).get("aggregation", "plain"))


def _unused_protocol(given: Given) -> Complaint | None:
    own = _aggregation(given)
    for key, aggregations in _SERVES.items():
        if key in given.get("security", {}) and own not in aggregations:
            return (
                f'gives `{key}` in [security], which aggregation = "{own}" has no use for',
                f"It belongs to {' and '.join(aggregations)}.",
                f"Leave `{key}` out, or choose another aggregation.",
            )
    return None


def _hidden_weights(given: Given) -> Complaint | None:
    if _aggregation(given) != "private-weighting":
        return None
    what = 'has aggregation = "private-weighting" in [security], and '
    if _system(given) not in _WEIGHTED:
        return (
            f"{what}{_system(given)} has no weights to hide",
            "The protocol weights every user by its records, and nobody sees how many they are.",
            'Choose uldp-avg or uldp-sgd, or write aggregation = "masked".',
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
    unit = given.get("privacy", {}).get("unit", "user")
    if unit == "user":
        return None
    return (
        f'needs `unit` in [privacy] to be user; it is "{unit}"',
        f"{_system(given)} promises privacy for all records of a user together.",
        'Write unit = "user", or leave it out.',
    )


def _noise(given: Given) -> Complaint | None:
    privacy = given.get("privacy", {})
    if _system(given) == "fedavg" or "epsilon" in privacy or "noise_multiplier" in privacy:
        return None
    return (
        "lacks `epsilon` or `noise_multiplier` in [privacy]",
        "One of them decides the noise; with both, epsilon is a limit that cuts the rounds.",
        "Write epsilon = 8.0 under [privacy], for example.",
    )


def _moments(given: Given) -> Complaint | None:
    private = given["data"].get("normalisation") == "private"
    published = given.get("uldp", {}).get("as_published")
    if private and (_system(given) not in _USERS or published):
        name = f"{_system(given)} as published" if published else _system(given)
        return (
            f'has normalisation = "private" in [data], and {name} cannot pay for it',
            "Moments of private records are a release for users, which its promise does not cover.",
            'Write normalisation = "public", or choose uldp-avg, uldp-sgd or uldp-naive.',
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


def _group(given: Given) -> Complaint | None:
    if _system(given) != "uldp-group" or "group_records" in given.get("uldp", {}):
        return None
    return (
        "lacks `group_records` in [uldp]",
        "uldp-group lets so many records of one user take part, and protects them together.",
        "Write group_records = 8 under [uldp], for example.",
    )


def _rate(given: Given) -> Complaint | None:
    if "record_rate" not in given.get("uldp", {}) or "batch" not in given.get("training", {}):
        return None
    return (
        "gives both `record_rate` in [uldp] and `batch` in [training]",
        "Each says how many records join a local step of uldp-group.",
        "Leave one of them out.",
    )


def _published(given: Given) -> Complaint | None:
    if not given.get("uldp", {}).get("as_published") or "epsilon" not in given["privacy"]:
        return None
    return (
        "gives `epsilon` in [privacy] beside as_published = true in [uldp]",
        "What is published keeps no target, so no noise can be found for one.",
        "Give noise_multiplier alone, or leave as_published out.",
    )


def _published_weighting(given: Given) -> Complaint | None:
    published = given.get("uldp", {}).get("as_published")
    if not published or _system(given) not in _WEIGHTED:
        return None
    if _aggregation(given) != "private-weighting":
        return (
            f"has as_published = true in [uldp], and {_system(given)} is sound as it is published",
            "It is the private weighting protocol of the paper that leaks.",
            'Leave it out, or write aggregation = "private-weighting" under [security].',
        )
    for key, reason in _NOT_PUBLISHED.items():
        if key in given.get("security", {}):
            return (
                f"gives `{key}` in [security] beside as_published = true in [uldp]",
                f"The protocol is run as the paper's code has it, and there {reason}.",
                "Leave one of them out.",
            )
    return None


def _device(given: Given) -> Complaint | None:
    if given["run"].get("device", "cpu") == "cpu" or _system(given) not in _PRIVATE:
        return None
    return (
        f'asks for device = "{given["run"]["device"]}" in [run], and {_system(given)} is private',
        "On a GPU the last bits of one user's update can change with who else takes part, and the "
        "clip does not bound that; on a CPU it was measured not to happen.",
        'Write device = "cpu"; fedavg may use a GPU.',
    )


def _test_data(given: Given) -> Complaint | None:
    said, data = given.get("evaluation", {}), given["data"]
    test, source = said.get("test"), said.get("source")
    bundled = data["name"] in BUNDLED
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


_RULES: Final[tuple[Callable[[Given], Complaint | None], ...]] = (
    _promises_nothing,
    _without_effect,
    _unused_protocol,
    _hidden_weights,
    _coalition,
    _slots,
    _unit,
    _noise,
    _moments,
    _group,
    _rate,
    _published_weighting,
    _published,
    _device,
    _test_data,
)
