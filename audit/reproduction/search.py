"""What accountants give for described settings, and which settings near them give a claim.

Nothing here is a guarantee, and no guarantee is made from it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Final

from ...accountant.errors import PrivplanError, counted
from ..description.printed_number import PrintedNumber
from ..description.run_settings import RunSettings
from .accountants import (
    EARLIER_NAME,
    OPACUS_NAME,
    estimated_value,
    exact_values,
    loss_values,
    opacus_divergences,
    opacus_value,
    printed_range,
    quick_values,
    slow,
    without_replacement_values,
)
from .changes import Neighbour, neighbours_of
from .closed_forms import LIMIT_NAME, limit_values
from .last_epoch import within_last_epoch
from .matching import AcceptedRange, ChanceBudget, accepted_changed, accepted_same, is_target
from .reproduction import (
    SAME,
    AccountantValue,
    Change,
    Method,
    Reproduction,
    phases_of,
    scaled_noise,
)

KNOWN_SAMPLERS = ("poisson", "full", "unknown")
"""Samplers for which accountants compute what they are told."""


def left_out(settings: RunSettings) -> tuple[str, ...]:
    """Return what accountants take to be otherwise in a run, as ends of "for these settings, ...".

    >>> left_out(RunSettings(method="shuffled", microbatches=8))
    ('as if batches were Poisson samples', 'as if each record were clipped by itself')
    """
    says = []
    if settings.method not in KNOWN_SAMPLERS:
        says.append("as if batches were Poisson samples")
    if settings.microbatches > 1:
        says.append("as if each record were clipped by itself")
    if settings.accumulation > 1:
        says.append("as if each batch had its own draw of noise")
    if settings.releases:
        count = sum(release.count for release in settings.releases)
        says.append(f"without {counted(count, 'other release')}")
    if settings.restarts > 1:
        says.append(f"without the other {counted(settings.restarts - 1, 'start')}")
    return tuple(says)


_SAME_SAYS: Final = "The number is that of the described settings"
_FEWEST_NOISE_DIGITS: Final = 3
_EXACT_EVALUATIONS: Final = 8
"""How many changed settings a search asks the pld engine about: most take .02 to .2 s."""

_SLOW_COST: Final = 4
"""What a slow one counts for."""

_EXACT_SPREAD: Final = 0.03
_WIDE_SPREAD: Final = 0.2
"""How far, as a logarithm, an estimate of the exact value may be off next to that of the described
settings: little, or after a change of the mathematics (and over an epoch) more."""

_OTHER_MATHEMATICS: Final[frozenset[Change]] = frozenset(
    {
        *("no-amplification", "other-relation", "one-round", "one-epoch", "one-client"),
        *("clients-times-records", "accumulation"),
    }
)
"""Changes after which estimates are off by another part."""

_PENALTIES: Final[dict[Method, int]] = {
    "rdp": 0,
    "rdp-classical": 3,
    "pld": 3,
    "prv": 4,
    "clt": 12,
}
"""How many ranks of plausibility an accountant costs, against the commonest."""

_KINDS: Final[dict[str, tuple[Method, ...]]] = {
    "rdp": ("rdp", "rdp-classical"),
    "prv": ("prv",),
    "pld": ("pld",),
    "gdp": ("clt",),
}
_ORDER: Final[tuple[Method, ...]] = ("rdp", "rdp-classical", "pld", "prv", "zcdp", "clt")


def common_accountants(settings: RunSettings) -> tuple[Reproduction, ...]:
    """Return what every common accountant prints for `settings`, whether or not it is claimed.

    Empty where noise, steps or delta are not known.
    """
    return tuple(_same(settings, value) for value in _values(settings))


def same_settings(settings: RunSettings, claimed: PrintedNumber) -> tuple[Reproduction, ...]:
    """Return the accountants whose value for `settings` prints as the claim, the commonest first.

    A claim that is a round number also matches where it lies within what the noise multiplier's
    own rounding leaves open: noise is searched for a target, and printed shorter.
    """
    accepted = accepted_same(claimed)
    matches = [_same(settings, value) for value in _values(settings) if accepted.meets(value)]
    return tuple(matches) or _by_rounded_noise(settings, claimed)


def _values(settings: RunSettings) -> list[AccountantValue]:
    """Return what all accountants print, bounds before approximations."""
    values = [*quick_values(settings), *exact_values(settings)]
    return sorted(
        values,
        key=lambda value: _ORDER.index(value.method) if value.method in _ORDER else len(_ORDER),
    )


def _same(settings: RunSettings, value: AccountantValue) -> Reproduction:
    says = _same_says(settings)
    return Reproduction(value.accountant, value.value, settings, SAME, says, value.method)


def _same_says(settings: RunSettings, more: str = "") -> str:
    return ", ".join([_SAME_SAYS, *([more] if more else []), *left_out(settings)]) + "."


def _by_rounded_noise(settings: RunSettings, claimed: PrintedNumber) -> tuple[Reproduction, ...]:
    """Return the accountants that give a target for some noise that prints as the described."""
    noise = settings.noise_multiplier
    if noise is None or settings.phases or not is_target(claimed):
        return ()
    number = Decimal(repr(noise)).normalize()
    exponent = number.as_tuple().exponent
    digits = len(number.as_tuple().digits)
    if digits < _FEWEST_NOISE_DIGITS or not isinstance(exponent, int) or exponent >= 0:
        return ()
    half = float(Decimal(5).scaleb(exponent - 1))
    accepted = accepted_changed(claimed)
    ends = []
    for shifted in (noise + half, noise - half):
        changed = replace(settings, noise_multiplier=shifted)
        ends.append(_values(changed))
    says = _same_says(settings, f"for a noise multiplier that prints as {noise:g}")
    return tuple(
        Reproduction(least.accountant, claimed.value, settings, SAME, says, least.method)
        for least, most in zip(*ends, strict=False)
        if least.low <= accepted.high and most.high >= accepted.low
    )


def neighbourhood(
    settings: RunSettings, claimed: PrintedNumber, *, accountant: str | None = None
) -> tuple[Reproduction, ...]:
    """Return the changed settings for which a common accountant prints the claim.

    The most plausible first; empty where nothing near gives it, or where noise, steps or delta
    are not known.  `accountant` (rdp, prv, gdp or pld) is the accountant that the claim names, if
    it does: only that kind is then asked.  The search is kept so small that a number that has
    nothing to do with the settings is met with a chance of about 5 % at most (`matching.py`), so
    that fewer changes are asked about for a claim with few digits.
    """
    centre = _opacus(settings)
    accepted = accepted_changed(claimed)
    if centre is None or centre <= 0.0 or accepted.low <= 0.0:
        return ()
    search = _Search(settings, claimed.value, accepted, ChanceBudget(centre, accepted))
    kinds = _KINDS.get((accountant or "").lower(), tuple(_PENALTIES))
    lowest = min(_PENALTIES[kind] for kind in kinds)
    tasks = [
        (rank + _PENALTIES[kind] - lowest, neighbour, kind)
        for kind in kinds
        for rank, neighbour in (
            (0, None),
            *((each.rank, each) for each in neighbours_of(settings)),
        )
    ]
    tasks.sort(key=lambda task: task[0])
    return tuple(match for _, neighbour, kind in tasks for match in search.ask(neighbour, kind))


@dataclass
class _Search:
    """A search for a claim, which pays for every number that it would accept."""

    settings: RunSettings
    claimed: float
    accepted: AcceptedRange
    budget: ChanceBudget
    exact_asked: int = 0

    def ask(self, neighbour: Neighbour | None, kind: Method) -> Iterator[Reproduction]:
        """Yield the matches of one accountant; no neighbour stands for the last epoch."""
        if kind in ("pld", "prv") and not self._may_be_exact(neighbour, kind):
            return
        if neighbour is None:
            yield from within_last_epoch(self.settings, self.accepted, self.budget, kind)
            return
        if kind in ("pld", "prv"):
            values = [each for each in _exact(neighbour.settings) if each.method == kind]
        else:
            values = [
                each
                for each in _quick(neighbour.settings, kind)
                if self.budget.admits(each.low, each.high)
            ]
        for value in values:
            if self.accepted.meets(value):
                yield _changed(neighbour, value)

    def _may_be_exact(self, neighbour: Neighbour | None, kind: Method) -> bool:
        """Return whether an exact value may be the claim, is paid for, and has its turn."""
        settings = self.settings if neighbour is None else neighbour.settings
        estimate = _estimate(settings)
        if estimate is None or estimate <= 0.0:
            return False
        near = estimate * self.exact_of_estimate
        low, high = printed_range(near, near, kind)
        # Paid for whether or not the claim is near enough for the engine to be asked.
        if neighbour is not None and not self.budget.admits(low, high):
            return False
        spread = _EXACT_SPREAD
        if neighbour is None or neighbour.change in _OTHER_MATHEMATICS:
            spread = _WIDE_SPREAD
        if abs(math.log(self.claimed / (0.5 * (low + high)))) > spread:
            return False
        self.exact_asked += _SLOW_COST if slow(phases_of(settings)) else 1
        return self.exact_asked <= _EXACT_EVALUATIONS

    @cached_property
    def exact_of_estimate(self) -> float:
        """Return what part of its estimate the exact value is, for the described settings."""
        values, estimate = _exact(self.settings), _estimate(self.settings)
        if not values or estimate is None or not estimate > 0.0:
            return 1.0
        # A lower end may be 0 where a coarse grid shows nothing.
        exact = values[0].low or values[0].high
        return exact / estimate if 0.0 < exact < math.inf else 1.0


def _estimate(settings: RunSettings) -> float | None:
    phases, delta = phases_of(settings), settings.delta
    if not phases or delta is None or not 0.0 < delta < 1.0:
        return None
    return estimated_value(phases, settings.family, delta, _relation(settings))


def _opacus(settings: RunSettings) -> float | None:
    values = _quick(settings, "rdp")
    return values[0].value if values else None


def _quick(settings: RunSettings, kind: Method) -> tuple[AccountantValue, ...]:
    phases, delta = phases_of(settings), settings.delta
    if not phases or delta is None or not 0.0 < delta < 1.0:
        return ()
    replaced = settings.neighbours == "replace-one"
    told = phases_of(scaled_noise(settings, 0.5)) if replaced else phases
    try:
        if kind == "clt":
            limits = limit_values(told, delta) if settings.family != "laplace" else iter(())
            return tuple(value for value in limits if value.accountant == LIMIT_NAME)
        improved = kind == "rdp"
        value = float(
            opacus_value(opacus_divergences(told, settings.family), delta, improved=improved)
        )
        name = OPACUS_NAME if improved else EARLIER_NAME
        values = [AccountantValue(name, kind, value, value)]
        if replaced and improved and all(p.rate < 1.0 for p in phases):
            values.append(next(iter(without_replacement_values(phases, delta))))
    except (PrivplanError, OverflowError):
        return ()
    return tuple(values)


def _exact(settings: RunSettings) -> tuple[AccountantValue, ...]:
    phases, delta = phases_of(settings), settings.delta
    if not phases or delta is None:
        return ()
    return loss_values(phases, settings.family, delta, _relation(settings), quick=True)


def _relation(settings: RunSettings) -> str:
    # Accountants treat zero-out as they treat add-remove.
    return "replace-one" if settings.neighbours == "replace-one" else "add-remove"


def _changed(neighbour: Neighbour, value: AccountantValue) -> Reproduction:
    return Reproduction(
        value.accountant,
        value.value,
        neighbour.settings,
        neighbour.change,
        f"The number is that of {neighbour.says}.",
        value.method,
    )
