"""A small run of each published system, audited and attacked: claimed, proven, measured of a run.

Which runs these are is declared by the systems (`fl.declarations.example`).  Each is made as
`privplan run` would, in a folder that is thrown away; what is proven comes from its log, and what
is measured from the tier `claim` of an attack on it.  Data are bundled, so nothing is a secret.
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import Unsupported
from ...fl.declarations.declaration import Example
from ...fl.declarations.registry import declared
from ...fl.running.run_and_resume import run
from ..budget import audit_budget
from ..measurement import ExampleResult
from .log_attack import attack
from .report import AttackRequest

EXAMPLE_CONFIDENCE: Final = 0.99
"""Of each number: there is one for each example, and they are looked at together."""

EXAMPLE_SEED: Final = 0
"""Of the canaries of every attack, fixed beforehand: the best of many seeds is no bound."""


def paper_of(system: str) -> str:
    """Return the published system that the example of a system stands for.

    Raises `Unsupported` for a system without an example.
    """
    return _example(system).paper


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
        request = AttackRequest(
            tiers=("claim",),
            canaries=example.canaries,
            seed=EXAMPLE_SEED,
            confidence=EXAMPLE_CONFIDENCE,
        )
        measurement = attack(folder, request, append=False).measurements[0]
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
        measured=measurement.value,
        confidence=measurement.confidence,
        canaries=example.canaries,
        contradicted=measurement.contradicted,
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
