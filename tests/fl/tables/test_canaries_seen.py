"""Canaries in files that no single column of a released model shows: who sees more looks there.

| system | who looks | what is scored |
|---|---|---|
| FedPower's power iterations | who sees each noisy product | it, along its public basis |
| DELM's schemes, without PCA | the server | each client's messages, by their likelihood ratio |
| DELM's schemes, with PCA | a reader of the folder | the covariances that were released |
| ULDP-NAIVE | a reader of the folder | the weights, of few canaries in each of many runs |
| FLAME's `double` and `topk` | a reader of the folder | the model, along each canary's signs |

**Power.**  A test contradicts an honest run with probability 0.001 at most.  The rows of a run
together move a product by sqrt(r) times what one may, as a public basis has r orthonormal columns,
so the basis here is square, and each canary moves all that is claimed.  What FedPower's number for
the model covers is the product; the folder holds its singular vectors, which show less.  Clients of
DELM have one column, whose row moves all that is claimed, too.

A silo of ULDP-NAIVE moves by its clip whoever is in it: m canaries share that, and each has
1 / sqrt(m) of the claimed shift.  Of FLAME's `double` a reader does not know which 256 of 512
coordinates a canary sends, and 100 canaries are noise to each other; of `topk` it sees sums, and no
message.  With a tenth of the noise these find 1.5 and 2.2 times the claim; of honest runs, nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.linalg import hadamard

from privplan.accountant.arrays import FloatArray, IntArray
from privplan.accountant.mechanisms import NoisyGram, product_rows
from privplan.fl.delm.coefficients import CoefficientRounds
from privplan.fl.fedpower import utility
from privplan.fl.fedpower.canaries import RehearsedRemoval
from privplan.fl.fedpower.power import PowerIteration

from ...audit import broken, broken_flame, broken_gram, broken_power
from ...cases import for_each
from .canary_files import Case, Fault, attacked
from .test_canaries_in_files import PAIR, STEPS, a_tenth_of_each_message, a_tenth_of_the_noise

# --- FedPower -------------------------------------------------------------------------------------

COLUMNS = 200


@contextmanager
def products() -> Iterator[list[FloatArray]]:
    """Collect each noisy product Y, (d, r), times the transpose of its public basis Z."""
    seen: list[FloatArray] = []
    bases: list[FloatArray] = []
    honest = PowerIteration.iterate

    def iterate(system: PowerIteration, product: FloatArray) -> Any:
        basis = bases[-1] if bases else system.initial().reshape(product.shape)
        found = honest(system, product)
        seen.append(product @ basis.T)
        bases.append(found.basis)
        return found

    with mock.patch.object(PowerIteration, "iterate", iterate):
        yield seen


def along_columns(seen: FloatArray) -> FloatArray:
    """Return by how much products have moved along each canary's column, over all rounds."""
    return np.einsum("rii->i", seen)


def removal_without_keys() -> AbstractContextManager[Any]:
    """Noise of all nodes but one is taken off without the protocol that hides which."""

    def make(_: Any) -> Any:
        return lambda *_: RehearsedRemoval(np.random.default_rng(3))

    return mock.patch.object(utility, "paillier_removal", make)


TWICE: dict[str, dict[str, Any]] = {"run": {"rounds": 2}, "privacy": {"noise_multiplier": 2**0.5}}


def iterated(system: str, **more: Any) -> Case:
    """Return a case of two rounds of a power iteration with as many directions as columns."""
    return Case(
        system,
        {**TWICE, "fedpower": {"rank": COLUMNS, "row_norm": 0.5, **more}},
        along_columns,
        watch=products,
        patterns=np.eye(COLUMNS, dtype=np.int64),
        apart=True,
        labelled=False,
    )


OF_SILOS = replace(
    iterated("fedpower-power"),
    tables={
        "run": {"rounds": 2},
        "privacy": {"noise_multiplier": 2**0.5, "unit": "silo"},
        "fedpower": {"rank": COLUMNS, "row_norm": 0.5, "silo_rows": 1},
    },
    rows=((1, "yes"),) * 4,  # four times as many as a silo keeps
    silos=COLUMNS,
)
"""Each canary is all of a silo."""

# --- DELM -----------------------------------------------------------------------------------------

CLIENTS = 300

MOVED = np.array([1.0, -0.5, 0.5])
"""By how much a row with the label `yes` moves the square of the only column and its label sums."""


@contextmanager
def messages() -> Iterator[list[FloatArray]]:
    """Collect the message of each client in each round: (clients, values)."""
    seen: list[FloatArray] = []
    honest = CoefficientRounds._stepped

    def stepped(
        system: CoefficientRounds, ticket: Any, objective: Any, sent: IntArray, *rest: Any
    ) -> Any:
        seen.append(np.stack([objective.mechanism.units(message) for message in sent]))
        return honest(system, ticket, objective, sent, *rest)

    with mock.patch.object(CoefficientRounds, "_stepped", stepped):
        yield seen


def likelihood_ratio(seen: FloatArray) -> FloatArray:
    """Return the likelihood ratio of each client's messages, whose noise is as wide on all."""
    return (np.abs(seen) - np.abs(seen - MOVED)).sum(axis=(0, 2))


def of_clients(system: str, **more: Any) -> Case:
    """Return a case in which each client has one record, or none, of one column."""
    delm = {"row_norm": 0.5, "intercept": 0.0, "pca": "none", "sensitivity": "proven"}
    return Case(
        system,
        {
            "run": {"rounds": 2},
            "privacy": {"epsilon": 3.0},
            "delm": {**delm, "shuffle": "none", **more},
        },
        likelihood_ratio,
        observer="server",
        watch=messages,
        patterns=np.ones((CLIENTS, 1), np.int64),
        silos=CLIENTS,
        apart=True,
    )


def squares(released: FloatArray) -> FloatArray:
    """Return the diagonal of the covariance matrix that was released."""
    row = np.arange(COLUMNS)
    return released[row * COLUMNS - row * (row - 1) // 2]


def of_components(system: str, **more: Any) -> Case:
    """Return a case of one client with a PCA, which has most of epsilon."""
    delm = {"row_norm": 0.5, "intercept": 0.0, "pca": "gaussian", "sensitivity": "proven"}
    return Case(
        system,
        {
            "privacy": {"epsilon": 6.0},
            "delm": {**delm, "shuffle": "none", "components": 2, "ratio": 0.1, **more},
        },
        squares,
        stored="pca_released",
        patterns=np.eye(COLUMNS, dtype=np.int64),
        silos=1,
    )


def a_tenth_of_laplace() -> AbstractContextManager[Any]:
    """All shares of the noise of coefficients, Laplace or Gaussian, are a tenth as wide."""
    honest = NoisyGram._noise_of_share

    def narrow(mechanism: NoisyGram, stream: Any) -> IntArray:
        return honest(mechanism, stream) // 10

    return mock.patch.object(NoisyGram, "_noise_of_share", narrow)


# --- ULDP-NAIVE and FLAME -------------------------------------------------------------------------

NAIVE = Case(
    "uldp-naive",
    {"training": STEPS},
    lambda moved: moved[:6],
    rows=PAIR * 2,
    others=((-1, "yes"), (1, "no")),  # half of it the other way: out pulls as far as in
    patterns=np.eye(6, dtype=np.int64),
    trained=True,
    runs=32,
)
"""Six canaries in each of 32 runs; all silos are pulled by them, and by one patient more."""

LARGEST = 4
BLOCKS = np.kron(np.eye(100, dtype=np.int64), np.ones(LARGEST, np.int64))
"""Columns of 100 canaries, which are their largest."""

WALSH = hadamard(512)[:100]
"""Signs of 100 canaries in 512 columns."""

FLAME = {
    "flame-double": Case(
        "flame-double",
        {
            "privacy": {"noise_multiplier": 2.0},
            "training": STEPS,
            "flame": {"transport": "ideal", "chosen": 256},
        },
        lambda moved: np.asarray(WALSH @ moved[:512]),
        rows=PAIR,
        instead=((-1, "yes"), (1, "no")),
        patterns=WALSH,
        silos=1,
        trained=True,
        listed=True,
        quiet=300,
    ),
    "flame-topk": Case(
        "flame-topk",
        {"training": STEPS, "flame": {"transport": "ideal", "chosen": LARGEST}},
        lambda moved: np.asarray(BLOCKS @ moved[: BLOCKS.shape[1]]),
        rows=PAIR,
        instead=((-1, "yes"), (1, "no")),
        patterns=BLOCKS,
        silos=1,
        trained=True,
        listed=True,
    ),
}

# --- runs -----------------------------------------------------------------------------------------


def a_tenth_of_products() -> AbstractContextManager[Any]:
    """The noise of products is a tenth as wide as the log says."""
    return broken_power.noise_times(0.1)


def no_cap_of_rows() -> AbstractContextManager[Any]:
    """A silo multiplies all of its rows."""
    return mock.patch.object(product_rows, "_kept", lambda _bound, _most, count: count)


CASES: dict[str, tuple[Case, tuple[Fault, ...], tuple[Fault, ...]]] = {
    "fedpower": (
        iterated("fedpower", design="power"),
        (),
        (a_tenth_of_products, broken_power.no_clipping),
    ),
    "fedpower-power": (
        iterated("fedpower-power"),
        (),
        (a_tenth_of_products, broken_power.no_clipping),
    ),
    "fedpower-power, of silos": (OF_SILOS, (), (a_tenth_of_products, no_cap_of_rows)),
    "fedpower-original": (
        iterated("fedpower-original"),
        (),
        (a_tenth_of_products, broken_power.no_clipping),
    ),
    "fedpower-private": (
        iterated("fedpower-private", entry_clip=1.0),
        (),
        (a_tenth_of_products, broken_power.no_clipping),
    ),
    "fedpower-utility": (
        iterated("fedpower-utility"),
        (removal_without_keys,),
        (a_tenth_of_products, broken_power.no_clipping),
    ),
    "delm-basic": (of_clients("delm-basic"), (), (a_tenth_of_laplace, broken_gram.no_clipping)),
    "delm-basic, once": (of_clients("delm-basic", objective="once"), (), (a_tenth_of_laplace,)),
    "delm-enhanced": (
        of_clients("delm-enhanced"),
        (),
        (a_tenth_of_laplace, broken_gram.no_clipping),
    ),
    "delm-basic, with a PCA": (
        of_components("delm-basic"),
        (),
        (a_tenth_of_laplace, broken_gram.no_clipping),
    ),
    "delm-enhanced, with a PCA": (
        of_components("delm-enhanced", selection="top-k", selected=1),
        (),
        (a_tenth_of_laplace, broken_gram.no_clipping),
    ),
    "uldp-naive": (NAIVE, (), (a_tenth_of_the_noise, broken.no_clipping)),
}
"""By name: a case, what is replaced in all of its runs, and what breaks it."""


@pytest.mark.quick(6)
@for_each("name", CASES, items=2)
def test_an_honest_run_is_not_contradicted_by_who_sees_more(tmp_path: Path, name: str) -> None:
    case, always, _ = CASES[name]
    honest = attacked(case, tmp_path, *always)
    assert not honest.found.rejected
    assert honest.found.epsilon <= honest.claimed


@pytest.mark.quick(5)
@for_each(
    "name, fault", [(name, fault) for name, (_, _, faults) in CASES.items() for fault in faults]
)
def test_a_broken_run_is_contradicted_by_who_sees_more(
    tmp_path: Path, name: str, fault: Fault
) -> None:
    case, always, _ = CASES[name]
    dishonest = attacked(case, tmp_path, *always, fault)
    assert dishonest.found.rejected
    assert dishonest.found.epsilon > dishonest.claimed


@pytest.mark.slow
@for_each("faults", [(), (a_tenth_of_each_message,), (broken_flame.no_clip,)])
@for_each("name", FLAME)
def test_what_a_model_of_flame_shows_contradicts_broken_runs_alone(
    tmp_path: Path, name: str, faults: tuple[Fault, ...]
) -> None:
    seen = attacked(FLAME[name], tmp_path, *faults)
    assert seen.found.rejected == bool(faults)
    assert (seen.found.epsilon > seen.claimed) == bool(faults)
