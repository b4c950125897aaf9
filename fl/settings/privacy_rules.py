"""Rules on the table [privacy] of a configuration: its unit, its noise, private normalisation.

Each rule returns what is wrong with the configuration, why, and what to do; None where it is met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.registry import with_use_for
from .rule_facts import MOMENTS_NOISE_KEY, enumerated, system_of

_PROTECTED_BY_UNIT: Final[Mapping[str, str]] = {
    "user": "all records of a user together",
    "record": "one record",
    "silo": "all records of a silo together",
    "entry": "one entry",
}
"""From the unit of a guarantee to the data that it protects, for messages."""


def _unit_rule(given: Given) -> Complaint | None:
    """Require a unit of privacy for which the system has a guarantee; its first is the default."""
    system = system_of(given)
    units = system.units
    unit = given.get("privacy", {}).get("unit", units[0])
    if unit in units:
        return None
    protected = [_PROTECTED_BY_UNIT.get(word, word) for word in units]
    return (
        f'needs `unit` in [privacy] to be {enumerated(units, "or")}; it is "{unit}"',
        f"{system.name} promises privacy for {enumerated(protected, 'or')}.",
        f'Write unit = "{units[0]}", or leave it out.',
    )


def _relation_rule(given: Given) -> Complaint | None:
    """Require neighbours that the system is accounted under; its first are the default."""
    system = system_of(given)
    relation = given.get("privacy", {}).get("neighbours", system.relations[0])
    if relation in system.relations:
        return None
    return (
        f"needs `neighbours` in [privacy] to be {enumerated(system.relations, 'or')}; it is "
        f'"{relation}"',
        f"{system.name} is accounted under {enumerated(system.relations, 'or')} alone.",
        f'Write neighbours = "{system.relations[0]}", or leave it out.',
    )


def _noise_rule(given: Given) -> Complaint | None:
    """Require `epsilon` or `noise_multiplier` of every system that has a guarantee."""
    privacy = given.get("privacy", {})
    if not system_of(given).promises or "epsilon" in privacy or "noise_multiplier" in privacy:
        return None
    return (
        "lacks `epsilon` or `noise_multiplier` in [privacy]",
        "One of them decides the noise; with both, epsilon is a limit that cuts the rounds.",
        "Write epsilon = 8.0 under [privacy], for example.",
    )


def _normalisation_rule(given: Given) -> Complaint | None:
    """Require `normalisation_noise` exactly where the features are normalised privately.

    The moments of the features are then one more release, which the guarantee of the system must
    include.
    """
    system = system_of(given)
    private = given["data"].get("normalisation") == "private"
    if private and not system.has_use_for(*MOMENTS_NOISE_KEY):
        others = " or ".join(with_use_for(*MOMENTS_NOISE_KEY))
        return (
            f'has normalisation = "private" in [data], and {system.name} cannot pay for it',
            "Moments of private records are a release for users, which its promise does not cover.",
            f'Write normalisation = "public", or choose {others}.',
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


PRIVACY_RULES: Final[tuple[Rule, ...]] = (
    _unit_rule,
    _relation_rule,
    _noise_rule,
    _normalisation_rule,
)
"""The rules, in the order in which they are checked."""
