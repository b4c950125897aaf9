"""The client of the budget ledger: a connection, and an odometer that claims before releases.

- `ledger`, `claimed_events`: the odometer, its claims, and what can be claimed.
- `connection`, `receipts`, `remembered_keys`: requests, what a receipt signs, and whose it is.
"""

from typing import Final

TOKEN_VARIABLE: Final = "PRIVPLAN_LEDGER_TOKEN"
"""The variable of the environment that holds the token: an option would show it to others."""

KEYS_VARIABLE: Final = "PRIVPLAN_LEDGER_KEYS"
"""The variable that names the folder in which keys of ledgers are remembered."""
