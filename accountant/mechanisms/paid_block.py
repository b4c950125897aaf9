"""A block of rounds that was paid in its first one, and which rounds may be made of it."""

from __future__ import annotations

from .. import events as ev
from .. import records
from ..errors import BudgetExceeded

_SAME: tuple[str, ...] = (
    *("block", "phase", "contribution", "noise", "sensitivity", "weights", "sampling", "silos"),
)
"""What every round of a block states alike."""


class PaidBlock:
    """The block that one gate has paid last; its rounds are made in their order, each once.

    A gate that is opened for a run that goes on has paid none: no sums of the rounds before are
    left, so what was paid there is spent, and a new block begins.
    """

    def __init__(self) -> None:
        self._first: records.RoundIntent | None = None
        self._made = 0

    def paid(self, intent: records.RoundIntent) -> None:
        """Take the first round of a block, once it was paid."""
        self._first, self._made = intent, intent.round

    def take(self, intent: records.RoundIntent) -> None:
        """Count a later round of the block; raise `BudgetExceeded` where it is not the next."""
        first = self._first
        next_one = first is not None and intent.round == self._made + 1
        states_nothing = all(
            event == ev.Compose(()) or isinstance(event, ev.NoGuarantee)
            for event in (intent.event, *intent.views.values())
        )
        alike = first is not None and all(
            getattr(first, name) == getattr(intent, name) for name in _SAME
        )
        inside = intent.block is not None and intent.round <= intent.block.last
        if not (next_one and states_nothing and alike and inside):
            raise BudgetExceeded(
                f"Round {intent.round} is not the next one of a block that was paid.",
                "Rounds with correlated noise are paid together, in the first of them.",
                "Begin a new block, whose first round pays for all of it.",
            )
        self._made = intent.round
