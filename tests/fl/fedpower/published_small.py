"""Small runs of FedPower's published algorithms for tests, and what plain numpy makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

from privplan.accountant.mechanisms import NoisyProduct
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.mechanisms.gram_row_grid import GridScale, dense_rows
from privplan.accountant.randomness import Streams
from privplan.fl.data.federation import Federation
from privplan.fl.fedpower.private import private
from privplan.fl.fedpower.published import PublishedIteration, original
from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.fedpower.utility import FedPowerUtility
from privplan.fl.frame.setup import setup
from privplan.fl.settings import schema
from privplan.fl.training.local_training import NoTraining

MASKS: Final = find_spec("cryptography") is not None

SYSTEMS: Final = ("original", "utility", "private") if MASKS else ("original",)
"""The algorithms that can be run here."""

SIGMA: Final = 5.0
SEED: Final = 11


class EachInTurn:
    """Takes off all noises but one, in the clear: in round t that of node t modulo n stays."""

    def __init__(self, posts: Mapping[str, Any], nodes: int) -> None:
        assert len(posts) == nodes + 1
        self.nodes = nodes

    def staying(self, number: int) -> int:
        return number % self.nodes

    def removed(self, number: int, noises: Sequence[Callable[[], Any]], *, largest: int) -> Any:
        drawn = [noise() for noise in noises]
        assert len(drawn) == self.nodes
        assert all(np.abs(noise).max() <= largest for noise in drawn)
        taken = [noise for node, noise in enumerate(drawn) if node != self.staying(number)]
        return np.sum(taken, axis=0, dtype=np.int64)


def settings(
    algorithm: str,
    federation: Federation,
    *,
    privacy: dict[str, Any] | None = None,
    security: dict[str, Any] | None = None,
    rounds: int = 3,
    **table: Any,
) -> schema.Settings:
    """Return settings as a configuration would, for a federation."""
    given = privacy or {}
    if "epsilon" not in given:
        given = {"noise_multiplier": SIGMA, **given}
    usual = schema.SecuritySettings(aggregation="plain" if algorithm == "original" else "masked")
    return schema.Settings(
        run=schema.RunSettings(system=f"fedpower-{algorithm}", rounds=rounds),
        data=schema.DataSettings(name="digits", users=federation.users, silos=federation.silos),
        privacy=replace(
            schema.PrivacySettings(
                unit="record", delta=1e-3, observers=("model", "server", "client")
            ),
            **given,
        ),
        training=schema.NO_TRAINING,
        security=replace(usual, **(security or {})),
        table=FedPowerSettings(**{"rank": 2, "row_norm": 2.0, **table}),
    )


def built(
    algorithm: str, federation: Federation, removal: Any = EachInTurn, **changes: Any
) -> PublishedIteration:
    """Return the system for a federation; Algorithm 2 with a stand-in for the encryption."""
    given_settings = settings(algorithm, federation, **changes)
    if algorithm == "utility":
        parts = setup(given_settings, federation, NoTraining(), whole_ring=True)
        return FedPowerUtility(
            parts, given_settings.of(FedPowerSettings), given_settings.data.seed, removal
        )
    make = {"original": original, "private": private}[algorithm]
    return make(given_settings, federation, NoTraining(), Streams.seeded(0))


def mechanism_of(system: PublishedIteration) -> NoisyProduct:
    """Return the mechanism that draws the noise of a system's products."""
    return system.mechanism(system.promise.noise_multiplier)


class Noises:
    """The noise of streams with a seed, drawn again, in the order in which it is asked for."""

    def __init__(self, mechanism: NoisyProduct, seed: int = SEED) -> None:
        self._streams = Streams.seeded(seed)
        steps = Fraction(mechanism.share_std) / mechanism.grid_bits.step(mechanism.product)
        self._parameter = float(np.sqrt(float(steps**2 + 64)))
        self._mechanism = mechanism

    def of(self, name: str) -> Any:
        """Return the next noise of a stream, (values,) integers."""
        values = self._mechanism.product.values
        return discrete_gaussian(
            self._streams.stream(f"noise/{name}"), values, self._mechanism._parameter
        )


def grid_table(system: PublishedIteration, silo: int) -> Any:
    """Return the rows of a node on the grid, as Python's integers (n, d)."""
    mechanism = mechanism_of(system)
    federation, table = system.setup.federation, system.terms.settings
    rows = federation.features[federation.silo == silo].astype(np.float64)
    if table.divide_by_rows:
        rows = rows * np.sqrt(table.divisor / max(len(rows), table.divisor))
    bits = mechanism.grid_bits.row_bits
    scale = GridScale(square=Fraction(4**bits), intercept=0.0, row_norm=table.row_norm)
    return dense_rows(scale, rows)[0].astype(np.int64).astype(object)


def product_by_hand(rows: Any, basis: Any) -> Any:
    """Return A^T (A Z) in Python's integers, as signed words of 64 bits, (values,)."""
    exact = rows.T @ (rows @ basis.astype(object))
    return wrapped(exact.reshape(-1))


def wrapped(values: Any) -> Any:
    """Return integers modulo 2^64, as signed words."""
    return np.array([(int(value) + 2**63) % 2**64 - 2**63 for value in values], np.int64)
