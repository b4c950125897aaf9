"""Demonstrations: published claims of privacy against small simulations of their own mechanisms.

Each module here holds one, under the name `DEMO`; it is loaded when it is asked for.  A
demonstration shows that a claim fails; that none is shown says nothing about any other claim.

- `demo`, `counting`: what a demonstration is, and bounds from how often an event was seen.
- `fedpower`, `fedpower_client_view`, `fedpower_removal`: FedPower's algorithms.
- `flame`, `flame_topk`, `flame_tuples`: FLAME's protocols.
- `disco_radius`, `disco_shares`, `disco_share_search`: DISCO's noise and float shares.
- `naive_factor`, `noise_free_residue`, `paillier_randomness`, `published_weighting`: Uldp-FL: ULDP-
  NAIVE and Protocol 1.
- `wishart_support`: DELM's private PCA.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import nearest
from .demo import Demo, Weakness

__all__ = ["DEMOS", "MEASURES", "NAMES", "Demo", "Weakness", "as_name", "run_demo"]

NAMES: Final = (
    "naive-factor",
    "paillier-randomness",
    "noise-free-residue",
    "flame-topk",
    "flame-tuples",
    "disco-radius",
    "disco-shares",
    "fedpower-client-view",
    "fedpower-removal",
    "wishart-support",
)
"""In the order of the table of claims; `disco-radius` is the module `disco_radius`."""

MEASURES: Final[Mapping[str, str]] = {
    "naive-factor": "uldp-fl",
    "paillier-randomness": "uldp-fl",
    "noise-free-residue": "uldp-fl",
    "flame-topk": "flame",
    "flame-tuples": "flame",
    "disco-radius": "disco",
    "fedpower-client-view": "fedpower",
    "fedpower-removal": "fedpower",
    "wishart-support": "delm",
}
"""The demonstrations that measure rows of the table of claims, and of which system."""


class _Demos(Mapping[str, Demo]):
    """Name -> demonstration; its module is imported when it is looked up."""

    def __getitem__(self, name: str) -> Demo:
        if name not in NAMES:
            raise KeyError(name)
        module = importlib.import_module(f".{name.replace('-', '_')}", __package__)
        demo: Demo = module.DEMO
        return demo

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)

    def __contains__(self, name: object) -> bool:
        return name in NAMES


DEMOS: Final[Mapping[str, Demo]] = _Demos()
"""All demonstrations by name, in the order of `NAMES`."""


def as_name(name: str) -> str:
    """Return `name` if it is one of `NAMES`; raise `InvalidInput` otherwise."""
    if name in NAMES:
        return name
    close = nearest(str(name).lower(), NAMES, least_ratio=0.4)
    raise InvalidInput(
        f"There is no demonstration {name!r}; there are {', '.join(NAMES)}.",
        "Each shows one published claim against a simulation of its mechanism.",
        f"privplan audit demo {close}" if close else "privplan audit demo",
    )


def run_demo(name: str, seed: int = 0) -> Weakness:
    """Run a demonstration; the same seed gives the same result.

    Range: `seed` 0 or above.  Raises `InvalidInput`, also for a name that is not in `NAMES`.
    """
    import numpy as np

    number = validate.count_from(0, seed=seed)
    return DEMOS[as_name(name)].run(np.random.default_rng(number))
