"""What [privacy] demands of a configuration: unit, noise, and the moments that are released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.registry import with_use_for
from .rule_facts import MOMENTS_NOISE_KEY, system_of

_PROTECTED_BY_UNIT: Final[Mapping[str, str]] = {
    "user": "all records of a user together",
    "record": "one record",
    "silo": "all records of a silo together",
    "entry": "one entry",
}
"""What a promise is for, by its unit."""


def _unit(given: Given) -> Complaint | None:
    system = system_of(given)
    units = system.units
    unit = given.get("privacy", {}).get("unit", units[0])
    if unit in units:
        return None
    return (
        f'needs `unit` in [privacy] to be {" or ".join(units)}; it is "{unit}"',
        f"{system.name} promises privacy for {_PROTECTED_BY_UNIT.get(units[0], units[0])}.",
        f'Write unit = "{units[0]}", or leave it out.',
    )


def _noise(given: Given) -> Complaint | None:
    privacy = given.get("privacy", {})
    if not system_of(given).promises or "epsilon" in privacy or "noise_multiplier" in privacy:
        return None
    return (
        "lacks `epsilon` or `noise_multiplier` in [privacy]",
        "One of them decides the noise; with both, epsilon is a limit that cuts the rounds.",
        "Write epsilon = 8.0 under [privacy], for example.",
    )


def _moments(given: Given) -> Complaint | None:
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


PRIVACY_RULES: Final[tuple[Rule, ...]] = (_unit, _noise, _moments)
