"""Files as other libraries write them, in small: what tests of the readers read and damage."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any, Final


def flower_state(
    sampling: str = "without-replacement",
    relation: str = "replace-one",
    compositions: list[tuple[float, int, int]] | None = None,
    population: int = 100_000,
    **config: Any,
) -> dict[str, Any]:
    """Return the state of Flower's accountant; compositions are (noise, clients, rounds)."""
    return {
        "schema_version": 1,
        "backend": "rdp",
        "config": {
            "target_delta": 1e-5,
            "population_size": population,
            "neighboring_relation": relation,
            "sampling_method": sampling,
            "max_epsilon": None,
            **config,
        },
        "orders": [2.0, 3.0],
        "compositions": [
            {
                "event": {
                    "noise_multiplier": noise,
                    "sample_size": clients,
                    "population_size": population,
                },
                "count": rounds,
            }
            for noise, clients, rounds in compositions or [(1.0, 1000, 1000)]
        ],
    }


def svt_budget(**fields: Any) -> dict[str, Any]:
    """Return NVFlare's budget of one call, epsilon 0.5 + 1.5 + 3."""
    return {
        "accountant": "pure_dp_sum",
        "scope": "filter-level",
        "delta": 0.0,
        "round": 2,
        "epsilon_total": 5.0,
        "epsilon_threshold": 0.5,
        "epsilon_query": 1.5,
        "epsilon_release": 3.0,
        "n_upload": 2,
        "acceptance_passes": 1,
        "has_scalar_passthrough": False,
        **fields,
    }


def svt_sum(calls: int, total: float, **fields: Any) -> dict[str, Any]:
    """Return NVFlare's sum over calls."""
    return {
        "accountant": "pure_dp_sum",
        "scope": "filter-level",
        "delta": 0.0,
        "epsilon_total": total,
        "calls": calls,
        "latest_round": calls,
        **fields,
    }


def opake_gaussian(noise: float = 1.1) -> dict[str, Any]:
    """Return opake's Gaussian mechanism."""
    return {"type": "Gaussian", "noise_multiplier": noise}


def opake_poisson(inner: dict[str, Any], rate: float = 0.01, **fields: Any) -> dict[str, Any]:
    """Return opake's Poisson sample of a mechanism."""
    return {
        "type": "Poisson",
        "inner": inner,
        "sample_rate": rate,
        "truncated_batch_size": None,
        "dataset_size": None,
        **fields,
    }


def opake_repeated(inner: dict[str, Any], count: int = 1000) -> dict[str, Any]:
    """Return opake's repetition of a process."""
    return {"type": "Repeated", "inner": inner, "count": count}


OPAKE_STATE: Final[dict[str, Any]] = {
    "process": opake_repeated(opake_poisson(opake_gaussian())),
    "budget": {"type": "EpsilonBudget", "epsilon": 3.0, "delta": 1e-5},
}

OPACUS_LOG: Final = (
    "Files already downloaded and verified\n"
    "\tTrain Epoch: 1 \tLoss: 0.71 Acc@1: 0.62 (ε = 0.84, δ = 1e-05) for α = 14.0\n"
    "\tTrain Epoch: 2 \tLoss: 0.55 Acc@1: 0.71 (ε = 1.19, δ = 1e-05) for α = 11.0\n"
    "Test set: Average loss: 0.5, Accuracy: 7100/10000 (71.00%)\n"
)

CSV: Final = "epoch,loss,epsilon,delta\n1,0.71,0.52,1e-5\n2,0.55,0.71,1e-5\n"
PHASES_CSV: Final = "Sigma;q;steps\n1.3;0.00427;2000\n1.1;0.00427;1516\n"
JSONL: Final = '{"epoch": 1, "epsilon": 0.52}\n{"epoch": 2, "epsilon": 0.71, "acc": 0.8}\n'
CONFIG: Final = (
    "# a run\nnoise_multiplier: 1.1   # sigma\nmax_grad_norm: 1.0\nbatch_size: 256\n"
    "epochs: 15\ntarget_epsilon: 8\ndelta: 1e-5\nmodel:\n  name: resnet\n"
)

SAMPLES: Final[dict[str, bytes]] = {
    "flower": json.dumps(flower_state()).encode(),
    "nvflare": json.dumps(
        {"meta": {"svt_privacy_budget": svt_budget(), "svt_privacy_accountant": svt_sum(2, 10.0)}}
    ).encode(),
    "opake": json.dumps(OPAKE_STATE).encode(),
    "diffprivlib": b"[[0.5, 0], [0.5, 0], [1.0, 1e-05]]",
    "diffprivlib printed": b"BudgetAccountant(epsilon=5, spent_budget=[(0.5, 0), (1.0, 1e-05)])",
    "csv": CSV.encode(),
    "csv of phases": PHASES_CSV.encode(),
    "jsonl": JSONL.encode(),
    "log": OPACUS_LOG.encode(),
    "configuration": CONFIG.encode(),
    "configuration as JSON": b'{"noise_multiplier": 1.1, "epsilon": 2.31, "delta": 1e-05}',
}


def archive_of(members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    """Return a zip archive."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as target:
        for name, content in members.items():
            target.writestr(name, content)
    return stream.getvalue()
