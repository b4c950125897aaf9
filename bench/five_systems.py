"""The five published systems on the same data: what is claimed, proven and measured of each run.

    make systems        or: python bench/five_systems.py [DATA ...] [PAPER ...]

Each case (`five_systems_cases`) is run five times as `privplan run` would, with five dealings of
the records to users and silos; noise comes from the operating system, and how much of it follows
from no record, so it is found once.  The first run is audited, and attacked as `privplan audit
attack --tier claim` would, with a seed that was fixed beforehand; the best of several attacks would
be no bound at its confidence.  A rehearsal reads no record, so one attack is of all five runs.
Where a published form cannot be rehearsed, the demonstration of its weakness (`privplan audit
demo`) stands for it, by name and in the setting of the paper.

Writes `five_systems.json` next to this file, and the table between its marks in the documentation.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
from five_systems_cases import DATA, DELTA, EPSILON, Case, cases, present
from five_systems_table import write_table
from verdicts import progress

import privplan as pp
from privplan.accountant.errors import PrivplanError
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.audit.demos import DEMOS, run_demo
from privplan.fl.parties.network import Network
from privplan.fl.running.run_and_resume import Outcome
from privplan.fl.shuffling import Terms

SEEDS: Final = 5
ATTACK_SEED: Final = 1
BYTES_A_NUMBER: Final = 8
"""Of an update in the clear: float64."""

METRICS: Final = ("accuracy", "projector_distance", "variance_share")
FILE: Final = Path(__file__).with_suffix(".json")


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count the bytes that each party sends through a network."""
    sent: Counter[str] = Counter()
    deliver = Network.deliver

    def counting(self: Network, message: Any) -> None:
        sent[message.sender] += message.size
        deliver(self, message)

    with patch.object(Network, "deliver", counting):
        yield sent


def _bytes_of_client(sent: Counter[str], outcome: Outcome) -> tuple[int, str]:
    """Return the most bytes that a client sent in a run, and how that is known."""
    clients = [size for name, size in sent.items() if name.startswith(("silo-", "client-"))]
    if clients:
        return max(clients), "counted"
    rounds, terms = outcome.result.rounds, getattr(outcome.prepared.system, "terms", None)
    chosen = getattr(terms, "chosen", None)
    if chosen is not None:  # arrays were handed over; `sealed` would carry a box and a coordinate
        return rounds * chosen * (4 + Terms(1).box), "boxes of the sealed transport"
    return rounds * BYTES_A_NUMBER * outcome.parameters.size, "numbers in the clear"


def _finite(value: float | None) -> float | str | None:
    """Return a number that JSON has, or the word `inf`."""
    return value if value is None or math.isfinite(value) else "inf"


@cache
def _demonstrated(name: str) -> dict[str, Any]:
    """Return what a demonstration measured of its first row, once a run of this bench."""
    measurement = run_demo(name).measurements[0]
    return {
        "value": _finite(measurement.value),
        "quantity": measurement.quantity,
        "claimed": _finite(measurement.claimed),
        "delta": measurement.delta,
        "observer": measurement.observer,
        "by": f"privplan audit demo {name}",
        "setting": DEMOS[name].rows[0],
        "contradicted": measurement.contradicted,
    }


def _measured(case: Case, folder: Path) -> dict[str, Any]:
    """Return what the attack on a run measured, or the demonstration that stands for it."""
    request = AttackRequest(tiers=("claim",), seed=ATTACK_SEED, canaries=case.canaries)
    try:
        found = attack(folder, request, append=False).measurements[0]
    except PrivplanError as error:
        if not case.demonstration:
            raise
        return {**_demonstrated(case.demonstration), "instead_of_attack": error.what}
    return {
        "value": _finite(found.value),
        "quantity": found.quantity,
        "claimed": _finite(found.claimed),
        "delta": found.delta,
        "observer": found.observer,
        "by": "privplan audit attack --tier claim",
        "canaries": found.sample.get("canaries"),
        "contradicted": found.contradicted,
    }


def _noise(case: Case, outcome: Outcome) -> float | None:
    """Return the noise multiplier that was found for a target epsilon; None where none was."""
    if "epsilon" not in case.configuration["privacy"] or outcome.prepared.opening.as_published:
        return None
    promise = getattr(outcome.prepared.system, "promise", None)
    return getattr(promise, "noise_multiplier", None)


def _spread(values: list[float]) -> dict[str, float]:
    """Return the mean over seeds and its standard error."""
    return {
        "mean": float(np.mean(values)),
        "standard_error": float(np.std(values, ddof=1)) / math.sqrt(len(values)),
    }


def measured(case: Case) -> dict[str, Any]:
    """Run a case with every seed, audit and attack its first run, and return its row."""
    metrics: list[Mapping[str, float]] = []
    seconds, processor = list[float](), time.process_time()
    noise: float | None = None
    with tempfile.TemporaryDirectory() as name:
        for seed in range(SEEDS):
            tables = {**case.configuration, "data": {**case.configuration["data"], "seed": seed}}
            tables["run"] = {**tables["run"], "evaluate_every": tables["run"].get("rounds", 1)}
            if noise is not None:
                tables["privacy"] = {**tables["privacy"], "noise_multiplier": noise}
                tables["privacy"].pop("epsilon", None)
            folder, begun = Path(name) / str(seed), time.process_time()
            with _counted() as sent:
                outcome = pp.run(tables, folder)
            seconds.append(time.process_time() - begun)
            metrics.append(outcome.metrics)
            if seed == 0:
                size, how = _bytes_of_client(sent, outcome)
                first = outcome
                noise = _noise(case, outcome)
        audited = audit_budget(Path(name) / "0")
        found = _measured(case, Path(name) / "0")
    claim = first.prepared.opening.claim
    return {
        "paper": case.paper,
        "form": case.form,
        "data": case.data,
        "system": case.system,
        "rounds": first.result.rounds,
        "released": int(first.parameters.size),
        "unit": claim.unit,
        "neighbours": claim.neighbours,
        "observer": claim.observer,
        "delta": claim.delta,
        "claimed": _finite(claim.epsilon),
        "supported": audited.ok,
        "hazards": [hazard.id for hazard in audited.hazards],
        "proven": {row.observer: _finite(row.total.upper) for row in audited.rows},
        "as_published": first.prepared.opening.as_published,
        "measured": found,
        "metrics": {
            key: _spread([each[key] for each in metrics]) for key in METRICS if key in metrics[0]
        },
        "processor_seconds": _spread(seconds),
        "bytes_of_client": size,
        "bytes_are": how,
        "configuration": _without_path(case),
        "processor_seconds_of_row": time.process_time() - processor,
    }


def _without_path(case: Case) -> dict[str, Any]:
    tables = dict(case.configuration)
    tables["data"] = {key: value for key, value in tables["data"].items() if key != "path"}
    return tables


def _keep(row: dict[str, Any]) -> None:
    """Put a row in the file, in its place, and leave the others as they are."""
    kept = json.loads(FILE.read_text())["rows"] if FILE.exists() else []
    rows = {(each["data"], each["paper"], each["form"]): each for each in (*kept, row)}
    order = [(records.name, paper) for records in DATA for paper in PAPERS]
    ordered = sorted(
        rows.values(),
        key=lambda each: (order.index((each["data"], each["paper"])), each["form"] != "sound"),
    )
    common = {"epsilon": EPSILON, "delta": DELTA, "seeds": SEEDS, "attack_seed": ATTACK_SEED}
    FILE.write_text(json.dumps({**common, "rows": ordered}, indent=1) + "\n")


def main() -> None:
    """Measure all cases, or those on the data and of the papers that are named; others stay."""
    names = [name for name in sys.argv[1:] if name not in PAPERS]
    names = names or [records.name for records in DATA]
    papers = [name for name in sys.argv[1:] if name in PAPERS] or PAPERS
    for records in DATA:
        if records.name in names and not present(records):
            print(f"{records.name} is left out: no folder {records.path}", file=sys.stderr)
    for case in (case for case in cases() if case.data in names and case.paper in papers):
        progress(f"{case.data}: {case.paper}, {case.form}")
        _keep(measured(case))
    write_table(FILE)


PAPERS: Final = ("uldp-fl", "flame", "disco", "fedpower", "delm")
"""In the order of the table of claims."""

if __name__ == "__main__":
    main()
