"""A ledger that answers, with tokens and the configuration of a run that claims from it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .ledger_services import Ledger, answering, served, token

WARD: dict[str, dict[str, Any]] = {
    "run": {"system": "uldp-avg", "rounds": 2},
    "data": {"name": "breast-cancer", "users": 40, "silos": 3},
    "privacy": {"epsilon": 2.0, "delta": 1e-6},
}


@dataclass
class Site:
    """A ledger that answers, the tokens that open it, and the configuration of a run."""

    ledger: Ledger
    url: str
    tokens: dict[str, str]
    ward: dict[str, dict[str, Any]]


@contextmanager
def open_site(folder: Path) -> Iterator[Site]:
    """Yield a site whose ledger stands in a folder."""
    with served(folder / "ledger.db") as service, answering(service) as url:
        ledger = Ledger(service)
        issued = {"ana": token(service, "ana", "analyst"), "aud": token(service, "aud", "auditor")}
        table = {"url": url, "data_set": ledger.name, "project": "sepsis"}
        yield Site(ledger, url, issued, {**WARD, "ledger": table})
