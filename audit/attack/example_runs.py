"""A small run of each published system, audited and attacked: claimed, proven, measured of a run.

Which runs these are is declared by the systems (`fl.declarations.example`).  Each is made as
`privplan run` would, in a folder that is thrown away; what is proven comes from its log, and what is
measured from the tier `claim` of an attack on it.  Data are bundled, so nothing of it is a secret.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import Unsupported
from ...fl.declarations.example import Example
from ...fl.declarations.registry import declared
from ...fl.running.lifecycle import run
from ..budget import audit_budget
from .log_attack import attack
from .report import AttackRequest

EXAMPLE_SEED: Final = 0
"""Of the canaries of every attack, fixed beforehand: the best of many seeds is no bound."""


@dataclass(frozen=True)
class ExampleResult:
    """What a run claims, what its log proves before the same observer, and what was measured.

    `paper` is the published system that it stands for, `system` what was run, `as_published`
    whether it promises nothing.  `claimed` is None where nothing is claimed, `proven` infinite
    where no number holds.  `measured` is a lower bound that is wrong with probability at most
    1 - `confidence`, from `canaries` in a rehearsal; `contradicted` says that the claim is
    rejected.  All three are epsilon at `delta`.

    Range: `measured` 0 or above, `confidence` in (0, 1).  Raises `ValueError` outside of it.
    """

    paper: str
    system: str
    data: str
    rounds: int
    as_published: bool
    unit: str
    neighbours: str
    observer: str
    delta: float
    claimed: float | None
    proven: float
    measured: float
    confidence: float
    canaries: int
    contradicted: bool

    def __post_init__(self) -> None:
        # Written as what must hold, so that NaN fails it.
        if not (self.measured >= 0.0 and 0.0 < self.confidence < 1.0 and self.proven >= 0.0):
            raise ValueError("A value is 0 or above, and a confidence lies between 0 and 1.")


def configuration_of(system: str) -> dict[str, dict[str, Any]]:
    """Return the configuration of a system's example, for `privplan run`.

    Raises `Unsupported` for a system without an example.
    """
    tables = {name: dict(table) for name, table in _example(system).tables.items()}
    return {**tables, "run": {**tables.get("run", {}), "system": system}}


def run_example(system: str) -> ExampleResult:
    """Make the example run of a system, audit its log, attack it, and return all three numbers.

    Raises `Unsupported` for a system without an example, `MissingExtra` without the packages that
    runs need, and what run and attack raise.
    """
    example, configuration = _example(system), configuration_of(system)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "run"
        outcome = run(configuration, folder)
        opening = outcome.prepared.opening
        audited = audit_budget(folder, expected_head=outcome.head)
        request = AttackRequest(tiers=("claim",), canaries=example.canaries, seed=EXAMPLE_SEED)
        found = attack(folder, request, append=False).measurements[0]
    totals = {row.observer: row.total.upper for row in audited.rows}
    claim = opening.claim
    return ExampleResult(
        paper=example.paper,
        system=system,
        data=str(configuration["data"]["name"]),
        rounds=outcome.result.rounds,
        as_published=opening.as_published,
        unit=claim.unit,
        neighbours=claim.neighbours,
        observer=claim.observer,
        delta=claim.delta,
        claimed=claim.epsilon,
        proven=totals.get(claim.observer, math.inf),
        measured=found.value,
        confidence=found.confidence,
        canaries=example.canaries,
        contradicted=found.contradicted,
    )


def _example(system: str) -> Example:
    declaration = declared().get(system)
    if declaration is None or declaration.example is None:
        raise Unsupported(
            f"{system} has no example run.",
            "Its declaration names none.",
            "Run it with a configuration of your own: privplan run CONFIG.toml --out DIR",
        )
    return declaration.example
