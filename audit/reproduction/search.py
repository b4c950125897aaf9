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

from ...accountant.errors import PrivplanError
from ..description.printed_number import PrintedNumber
from ..description.run_settings import RunSettings
from .accountants import exact_values, quick_values
from .accounted_phases import phases_of, scaled_noise
from .changes import Neighbour, neighbours_of
from .closed_forms import LIMIT_NAME, limit_values
from .last_epoch import within_last_epoch
from .loss_accountants import loss_values, printed_range
from .matching import Accepted, ChanceBudget, accepted_changed, accepted_same, is_target
from .renyi_accountants import (
    EARLIER_NAME,
    OPACUS_NAME,
    opacus_divergences,
    opacus_value,
    without_replacement_values,
)
from .reproduction import SAME, AccountantValue, Change, Method, Reproduction

_SAME_SAYS: Final = "The number is that of the described settings."
_FEWEST_NOISE_DIGITS: Final = 3
_EXACT_EVALUATIONS: Final = 8
"""How many changed settings a search asks the pld engine about: each takes .01 to .2 s."""

_EXACT_BELOW_RENYI: Final = 0.4
"""The exact value is rarely below this part of the Renyi one."""

_EXACT_OF_RENYI: Final = 0.87
"""About where it lies, where that is not known of the described settings."""

_EXACT_SPREAD: Final = 0.15
"""How far, as a logarithm, the exact part of a neighbour may lie from the described settings'."""

_OTHER_MATHEMATICS: Final[frozenset[Change]] = frozenset(
    {
        *("no-amplification", "other-relation", "one-round", "one-epoch", "one-client"),
        *("clients-times-records", "accumulation"),
    }
)
"""Changes after which that part is another one."""

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
    return Reproduction(value.accountant, value.value, settings, SAME, _SAME_SAYS, value.method)


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
    says = f"{_SAME_SAYS[:-1]}, for a noise multiplier that prints as {noise:g}."
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
    accepted: Accepted
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
        renyi = _opacus(settings) or 0.0
        near = self.exact_of_renyi * renyi
        low, high = printed_range(near, near, kind)
        # Paid for whether or not the claim is near enough for the engine to be asked.
        if renyi <= 0.0 or (neighbour is not None and not self.budget.admits(low, high)):
            return False
        if neighbour is not None and neighbour.change in _OTHER_MATHEMATICS:
            near_enough = _EXACT_BELOW_RENYI * renyi <= self.claimed <= renyi + 0.012
        else:
            near_enough = abs(math.log(self.claimed / near)) <= _EXACT_SPREAD
        if not near_enough:
            return False
        self.exact_asked += 1
        return self.exact_asked <= _EXACT_EVALUATIONS

    @cached_property
    def exact_of_renyi(self) -> float:
        """Return what part of the Renyi value the exact one is, for the described settings."""
        values, renyi = _exact(self.settings), _opacus(self.settings)
        return values[0].low / renyi if values and renyi else _EXACT_OF_RENYI


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
    relation = "replace-one" if settings.neighbours == "replace-one" else "add-remove"
    return loss_values(phases_of(settings), settings.family, settings.delta or 0.0, relation)


def _changed(neighbour: Neighbour, value: AccountantValue) -> Reproduction:
    return Reproduction(
        value.accountant,
        value.value,
        neighbour.settings,
        neighbour.change,
        f"The number is that of {neighbour.says}.",
        value.method,
    )
