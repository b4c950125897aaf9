"""What is read of a log: intents with their releases, phases of training, commitments."""

from __future__ import annotations

from .entries import Entry, Ledger, Recovery, SpentIntent, rounds_of

__all__ = ["Entry", "Ledger", "Recovery", "SpentIntent", "rounds_of"]
