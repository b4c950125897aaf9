"""Audits of scores: seconds and memory at 256 x 50,000, and what four peers say of the same scores.

    python bench/score_audits.py [--peers PYTHON --sources DIR]

Without an interpreter that has the peers (see `score_peers.py`) only our own numbers are made.
Everything is written to `bench/score_audits.json`, from which `privplan explain scores` is filled.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import privplan as pp
from privplan.audit.attack_methods.membership import ATTACKS, trials_of
from privplan.audit.model_audits.score_tables import as_phi, score_tables

MODELS, RECORDS, TARGETS = 256, 50_000, 16
NULLS = 12
MAX_ATTACK_SECONDS = 10.0
MAX_GIGABYTES = 1.0
DELTA = 1e-5
HERE = Path(__file__).parent


def size(kind: str) -> dict[str, float]:
    """Return seconds of CPU of each attack, of reading the tables, and the peak of memory."""
    rng = np.random.default_rng(0)
    inside = rng.random((MODELS, RECORDS)) < 0.5
    given = rng.normal(size=(MODELS, RECORDS))
    given += rng.normal(2.0, 2.0, RECORDS)
    given += inside
    others = rng.normal(2.0, 2.0, (MODELS, 1000))
    if kind == "loss":
        given, others = np.logaddexp(0.0, -given), np.logaddexp(0.0, -others)
    took = {}
    before = time.process_time()
    tables = score_tables(
        target=as_phi(given[:TARGETS], kind),  # type: ignore[arg-type]
        target_membership=inside[:TARGETS],
        shadows=as_phi(given[TARGETS:], kind),  # type: ignore[arg-type]
        membership=inside[TARGETS:],
        population=(
            as_phi(others[:TARGETS], kind),  # type: ignore[arg-type]
            as_phi(others[TARGETS:], kind),  # type: ignore[arg-type]
        ),
    )
    del given
    took["tables"] = time.process_time() - before
    for attack in ATTACKS:
        before = time.process_time()
        trials_of(tables.evidence, attack, "record")
        took[attack] = time.process_time() - before
    took["gigabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return took


def with_signal() -> dict[str, Any]:
    """Return one over-fitted network of digits, named first, and 64 shadows."""
    sys.path.insert(0, str(HERE.parent))
    from tests.audit.digit_models import digit_models

    models = digit_models()
    rows = [0, *range(TARGETS, len(models.inside))]
    return {
        "phi": as_phi(models.logits[rows], "logits", models.labels),
        "population": as_phi(models.others[rows], "logits", models.labels_of_others),
        "inside": models.inside[rows],
        "logits": models.logits[0],
        "labels": models.labels,
    }


def without_signal(seed: int) -> dict[str, Any]:
    """Return scores that membership does not move, of 1 target and 64 shadows in pairs."""
    rng = np.random.default_rng([43, seed])
    half = rng.random((32, 1400)) < 0.5
    shadows = np.stack([half, ~half], axis=1).reshape(64, 1400)
    inside = np.concatenate([rng.random((1, 1400)) < 0.5, shadows])
    labels = rng.integers(0, 10, 1400)
    logits = rng.normal(size=(1400, 10))
    phi = rng.normal(2.0, 2.0, 1400) + rng.normal(size=inside.shape)
    logits[np.arange(1400), labels] += phi[0]
    others = rng.normal(2.0, 2.0, 397) + rng.normal(size=(65, 397))
    return {"phi": phi, "population": others, "inside": inside, "logits": logits, "labels": labels}


def ours(held: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Return what privplan says of the same scores, epsilon at 95 % over all attacks."""
    phi, inside, others = held["phi"], held["inside"], held["population"]
    audit = pp.audit_scores(
        phi[0],
        inside[0],
        shadows=phi[1:],
        membership=inside[1:],
        population=(others[:1], others[1:]),
        delta=DELTA,
        coins="independent",
    )
    return {
        each.attack: {
            "auc": each.auc.value,
            "tpr": each.tpr[0].value if each.tpr else float("nan"),
            "epsilon": each.epsilon_lower or 0.0,
        }
        for each in audit.attacks
    }


def peers(several: list[dict[str, Any]], python: str, sources: str) -> list[dict[str, Any]]:
    """Return what the peers say of each set of scores."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder) / f"{index}.npz") for index in range(len(several))]
        for path, held in zip(paths, several, strict=True):
            np.savez(path, **held)
        told = subprocess.run(
            [python, str(HERE / "score_peers.py"), sources, *paths],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
    return [json.loads(line) for line in told.stdout.splitlines() if line.startswith("{")]


def table(python: str | None, sources: str | None) -> dict[str, Any]:
    """Return areas, hits and epsilons with signal, and how often there is an epsilon without."""
    signal, nulls = with_signal(), [without_signal(seed) for seed in range(NULLS)]
    before = time.process_time()
    found: dict[str, Any] = {"signal": {"privplan": {"says": ours(signal)}}}
    found["signal"]["privplan"]["seconds"] = time.process_time() - before
    said: dict[str, dict[str, list[float]]] = {"privplan": {"epsilon": []}}
    for held in nulls:
        said["privplan"]["epsilon"].append(max(row["epsilon"] for row in ours(held).values()))
    if python is not None and sources is not None:
        answers = peers([signal, *nulls], python, sources)
        found["signal"] |= answers[0]
        for each in answers[1:]:
            for peer, answer in each.items():
                for row in answer.get("says", {}).values():
                    for name, value in row.items():
                        if name.startswith("epsilon"):
                            said.setdefault(peer, {}).setdefault(name, []).append(value)
    found["nulls"] = {
        f"{peer}, {name}": {
            "above zero": sum(value > 0.0 for value in values),
            "of": len(values),
            "median": float(np.median(values)),
        }
        for peer, names in said.items()
        for name, values in names.items()
    }
    return found


def main() -> None:
    """Write and print all numbers."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--peers")
    asked.add_argument("--sources")
    asked.add_argument("--size", choices=("phi", "loss"))
    options = asked.parse_args()
    if options.size:
        print(json.dumps(size(options.size)))
        return
    sizes = {}
    for kind in ("phi", "loss"):
        told = subprocess.run(
            [sys.executable, __file__, "--size", kind], check=True, capture_output=True, text=True
        )
        sizes[kind] = json.loads(told.stdout)
        slowest = max(sizes[kind][attack] for attack in ATTACKS)
        within = slowest < MAX_ATTACK_SECONDS and sizes[kind]["gigabytes"] < MAX_GIGABYTES
        print(kind, {name: round(value, 2) for name, value in sizes[kind].items()}, within)
    numbers = {"sizes": sizes, **table(options.peers, options.sources)}
    (HERE / "score_audits.json").write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    for peer, answer in numbers["signal"].items():
        print(peer, answer)
    for name, row in numbers["nulls"].items():
        print(name, row)


if __name__ == "__main__":
    main()
