"""A block of rounds that was paid in its first one, and which rounds may be made of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from .. import events as ev
from .. import records
from ..errors import BudgetExceeded, Unsupported

_ALIKE: Final = (
    *("block", "phase", "contribution", "noise", "sensitivity", "weights", "sampling", "silos"),
    "reaches",
)
"""What every round of a block states alike."""


class PaidBlock:
    """The block that one gate has paid last; its rounds are made in their order, each once.

    A gate that is opened for a run that goes on has paid none: no sums of the rounds before are
    left, so what was paid there is spent, and a new block begins.
    """

    def __init__(self) -> None:
        self._first: records.RoundIntent | None = None
        self._last_round = 0

    def require_whole(self, intent: records.RoundIntent) -> None:
        """Raise `Unsupported` where the first round of a block states less than all of it.

        Its event may have no more noise than the intent draws, since the rounds behind the first
        state none that their mechanism could be held to.
        """
        if intent.block is None:
            return
        for event in (intent.event, *intent.views.values()):
            if isinstance(event, ev.NoGuarantee):
                continue
            # The noise of a single round differs by observer, and the rest does not.
            noise = event.noise_multiplier if isinstance(event, ev.MatrixGaussian) else None
            if noise is None or event != intent.block.event(noise):
                raise Unsupported(
                    f"Round {intent.round} begins a block, and does not state the event of all.",
                    "Single rounds that share noise cost less by themselves than they do together.",
                    "State the event of the block.",
                )
        if isinstance(intent.event, ev.MatrixGaussian):
            # Whatever the relation: what one unit moves, over its sensitivity multiplier.
            moved = Fraction(intent.contribution.bound) * Fraction(intent.weights.largest_sum)
            stated = Fraction(intent.event.noise_multiplier) * moved
            if stated > Fraction(intent.noise.std) or intent.noise.draws != 1:
                raise Unsupported(
                    f"Round {intent.round} begins a block, and states more noise than it draws.",
                    "The rounds behind it would be released for less than they cost.",
                    "State the event of the mechanism that draws, with one sum in each round.",
                )

    def paid(self, intent: records.RoundIntent) -> None:
        """Take the first round of a block, once it was paid."""
        if intent.block is not None:
            self._first, self._last_round = intent, intent.round

    def take(self, intent: records.RoundIntent) -> None:
        """Count a later round of the block; raise `BudgetExceeded` where it is not the next."""
        first = self._first
        follows = first is not None and intent.round == self._last_round + 1
        # What it shows is part of what was paid, so it may promise nothing of its own.
        states_nothing = all(
            event == ev.Compose(()) or isinstance(event, ev.NoGuarantee)
            for event in (intent.event, *intent.views.values())
        )
        alike = first is not None and all(
            getattr(first, name) == getattr(intent, name) for name in _ALIKE
        )
        inside = intent.block is not None and intent.round <= intent.block.last
        if not (follows and states_nothing and alike and inside):
            raise BudgetExceeded(
                f"Round {intent.round} is not the next one of a block that was paid.",
                "Rounds with correlated noise are paid together, in the first of them.",
                "Begin a new block, whose first round pays for all of it.",
            )
        self._last_round = intent.round
