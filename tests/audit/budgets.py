"""What tests of budgets share."""

from __future__ import annotations

import privplan as pp
from privplan.accountant import events as ev

from .ledgers import (
    DELTA,
)


def epsilon(event: ev.Event, neighbours: str = "add-remove") -> float:
    return pp.account(event, delta=DELTA, neighbours=neighbours).epsilon.upper
