"""The lower end of epsilon: an event that some data attain, where the facts determine it."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from ...accountant import events as ev
from ...accountant.errors import PrivplanError
from ...accountant.sensitivity.release import repeated, root_down
from ...fl.observers.names import MODEL
from ..ledger.gram_facts import gram_of, is_gram, least_attained
from ..ledger.matrix_facts import coarsest_grid
from .noise import SMOOTHING_VARIANCE_STEPS, share_deviation
from .protocol_consistency import (
    is_private,
    largest_weight,
    multiple,
    reliable_facts,
    transfer_rate,
)
from .round_facts import RoundFacts, is_alone
from .run_setting import NoProof, RunSetting
from .sampling import is_hidden

_CLIP_SHARE_ATTAINED: Final = Fraction(999_999, 1_000_000)
"""What clipping and truncation, each with its margin, may take from the largest contribution."""

_MIN_GRID_STEPS_PER_SHARE: Final = 2**16
"""Grid steps of a share from which a sum over the grid is its integral, to 1e-6."""


def attained_event(facts: RoundFacts, setting: RunSetting) -> ev.Event | None:
    """Return an event that some data attain before the model; None where the facts do not say.

    Only what was surely released, and is seen, counts: one sum with Gaussian noise in each round,
    of units' own clipped terms whose weights reach 1 by their rule.  The clip's margin and the grid
    are given away.  Of several sums in a round, or one in each silo, a model shows only what they
    come to together.  Of rounds with correlated noise, and of products, nothing is known to be
    attained (`ledger.product_facts`).
    """
    rate = min(facts.sampling.rate, transfer_rate(facts, setting) or 1.0)
    facts, setting = reliable_facts(facts, setting)
    contribution, noise, drawn = facts.contribution, facts.noise, facts.sampling
    plain = (
        contribution.terms in ("unit", "gram")
        and contribution.norm == "l2"
        and noise.family == "gaussian"
    )
    if (
        not plain
        or facts.voids
        or facts.block is not None
        or facts.weights.largest_sum < 1.0 - 1e-9
    ):
        return None
    shown = noise.draws == 1 <= facts.certain_draws and (
        setting.silos <= 1 or not is_alone(facts, setting)
    )
    if not shown:
        return None
    try:
        scope = setting.scope(contribution.unit)
        if scope == "finer" or (setting.group > 1 and scope != "group"):
            return None
        grid = Fraction(noise.grid)
        if is_gram(contribution):
            grid = Fraction(coarsest_grid(noise, contribution))
        reached = _reached(facts, setting, grid)
        # Of stated variances the largest counts here, as more noise attains less.
        share = max(Fraction(noise.share_std) ** 2, Fraction(share_deviation(noise)) ** 2)
        # Noise may have been made with the smoothing on top of what is stated.
        square = max(Fraction(noise.std) ** 2, share * facts.most_shares)
        square += SMOOTHING_VARIANCE_STEPS * grid**2 * facts.most_shares
        if reached <= 0 or share_deviation(noise) < _MIN_GRID_STEPS_PER_SHARE * grid:
            return None
        event: ev.Event = ev.Gaussian(root_down(square / reached**2) * (1.0 + 1e-15))
        if drawn.method == "poisson" and is_hidden(facts, setting, MODEL):
            # A slightly lower rate attains less, whatever the rounding of the rate was.
            event = ev.Poisson(max(rate * float(_CLIP_SHARE_ATTAINED) - 2.0**-40, 0.0), event)
        elif drawn.method != "none":
            return None
        return repeated(facts.certain_draws, event)
    except (NoProof, PrivplanError):
        return None


def _reached(facts: RoundFacts, setting: RunSetting, grid: Fraction) -> Fraction:
    """Return the contribution that some unit surely makes, in contribution bounds of the event.

    Clipping with its margin and rounding to the grid may shorten the largest one; a lower bound
    takes both off.
    """
    contribution = facts.contribution
    if is_gram(contribution):
        gram = gram_of(contribution)
        if setting.neighbours == "zero-out" or is_private(setting):
            return Fraction(0)
        # How a user's rows are dealt to silos is not stated, nor whether a record has several rows,
        # so of several silos, and of a record, one row is sure.
        together = contribution.unit == "silo" or (
            contribution.unit == "user" and setting.silos <= 1
        )
        moved = least_attained(gram, replaced=setting.reach == 2, rows=gram.rows if together else 1)
        return moved / setting.reach
    reached = Fraction(contribution.bound) * _CLIP_SHARE_ATTAINED - 2 * grid * facts.most_shares
    if setting.security is not None and is_private(setting):
        reached -= 2 * grid * multiple(setting.security.count_limit)  # digits are that coarse
        reached *= largest_weight(setting.security)
    return reached
