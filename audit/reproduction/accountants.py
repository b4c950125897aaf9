"""What common accountants print for the settings of a run; none of it is a guarantee."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Final

from ...accountant.errors import PrivplanError
from ..description.run_description import Phase
from ..description.run_settings import RunSettings
from .accounted_phases import FAMILIES, once_an_epoch, phases_of, scaled_noise
from .closed_forms import gaussian_forms, limit_values, pure_forms
from .loss_accountants import loss_values
from .renyi_accountants import renyi_values, without_replacement_values
from .reproduction import AccountantValue

_ONE_PASS_METHODS: Final = ("shuffled",)


def quick_values(settings: RunSettings) -> tuple[AccountantValue, ...]:
    """Return what Renyi accountants and closed forms print for `settings`, the commonest first.

    Empty where noise, steps or (except for Laplace noise) delta are missing.  Under replace-one
    the noise is halved, as a careful person does; unsampled releases, and samples without
    replacement, are also accounted for as dp_accounting does it, with the whole noise.
    """
    phases, delta = phases_of(settings), settings.delta
    if not phases or settings.family not in FAMILIES:
        return ()
    values: list[AccountantValue] = []
    for variant, suffix in _variants(settings):
        values.extend(_named(_quick(phases_of(variant), settings.family, delta), suffix))
    sampled = all(phase.rate < 1.0 for phase in phases) and settings.family != "laplace"
    proper = delta is not None and 0.0 < delta < 1.0
    if settings.neighbours == "replace-one" and sampled and delta is not None and proper:
        values[0:0] = without_replacement_values(phases, delta)
    return tuple(values)


def exact_values(settings: RunSettings) -> tuple[AccountantValue, ...]:
    """Return what PLD and PRV accountants print for `settings`; slower than `quick_values`."""
    delta = settings.delta
    if settings.family not in FAMILIES or delta is None or not 0.0 < delta < 1.0:
        return ()
    relation = "replace-one" if settings.neighbours == "replace-one" else "add-remove"
    values: list[AccountantValue] = []
    for variant, suffix in _passes(settings):
        phases = phases_of(variant)
        if phases:
            values.extend(_named(loss_values(phases, settings.family, delta, relation), suffix))
    return tuple(values)


@lru_cache(maxsize=64)  # runs of one description often differ in what no accountant is told
def _quick(
    phases: tuple[Phase, ...], family: str, delta: float | None
) -> tuple[AccountantValue, ...]:
    proper = delta is not None and 0.0 < delta < 1.0
    values: list[AccountantValue] = []
    try:
        if delta is not None and proper:
            values.extend(renyi_values(phases, family, delta))
            if family != "laplace":
                values.extend(limit_values(phases, delta))
                values.extend(gaussian_forms(phases, delta))
        if family == "laplace":
            values.extend(pure_forms(phases, delta if proper else None))
    except (PrivplanError, OverflowError):
        pass  # what cannot be computed is not printed by anybody either
    return tuple(values)


def _variants(settings: RunSettings) -> Iterator[tuple[RunSettings, str]]:
    """Yield the settings as accountants are told them under their relation, with a suffix."""
    for variant, suffix in _passes(settings):
        if settings.neighbours != "replace-one":
            yield variant, suffix
            continue
        yield scaled_noise(variant, 0.5), f"{suffix}, with the noise halved for replace-one"
        if all(phase.rate >= 1.0 for phase in phases_of(variant)):
            yield variant, f"{suffix}, which does not halve the noise for replace-one"


def _passes(settings: RunSettings) -> Iterator[tuple[RunSettings, str]]:
    yield settings, ""
    if settings.method in _ONE_PASS_METHODS:
        unsampled = once_an_epoch(settings)
        if unsampled is not None:
            yield unsampled, ", with every record once an epoch"


def _named(values: tuple[AccountantValue, ...], suffix: str) -> Iterator[AccountantValue]:
    return (replace(value, accountant=value.accountant + suffix) for value in values)
