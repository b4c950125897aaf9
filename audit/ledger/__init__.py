"""What is read of a log: intents with their releases, phases of training, commitments.

- `entries`, `phases`: intents with what came of them; which rounds train.
- `gram_facts`, `product_facts`, `matrix_facts`: what facts of matrices bound.
"""

from __future__ import annotations

from .entries import Entry, Ledger, Recovery, SpentIntent, rounds_of

__all__ = ["Entry", "Ledger", "Recovery", "SpentIntent", "rounds_of"]
