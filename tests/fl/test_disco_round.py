"""A round of DISCO's peers is the plain computation and its noise, bit for bit."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.randomness import Streams
from privplan.accountant.sensitivity.release import root_up
from privplan.fl.disco.system import Disco

from ..cases import for_each
from .disco_runs import VARIANTS, InTensors, Plain, built, integers_of, models_of, settings
from .extras import needs

pytestmark = needs("cryptography")


def terms_of(system: Disco, parameters: Any) -> list[Any]:
    """Return each row that is clipped, before it is: by plain loops."""
    local: Any = system.setup.local
    silo = system.setup.federation.silo
    if system.setup.privacy.unit == "record":
        return [-local.gradient(parameters, np.array([index])) for index in range(len(silo))]
    peers = range(system.setup.silos)
    return [local.delta(parameters, np.flatnonzero(silo == peer)) for peer in peers]


def in_tensors(row: Any, sizes: tuple[int, ...], clip: float) -> Any:
    """Return a row whose tensors are each shortened to C / sqrt(L)."""
    parts, radius = [], clip / math.sqrt(len(sizes))
    for part in np.split(row, np.cumsum(sizes)[:-1]):
        norm = math.sqrt(float(np.add.reduce(part * part)))
        parts.append(part * min(1.0, radius / max(norm, radius)))
    return np.concatenate(parts)


def again(system: Disco, seed: int) -> list[Any]:
    """Return the models of a run with a fixed clip, computed a second time."""
    noise, clip = system.promise.noise_multiplier, system.setup.training.clip
    peers, rate = system.setup.silos, system.setup.training.global_rate
    std = root_up((Fraction(noise) * Fraction(clip)) ** 2)
    share = root_up(Fraction(std) ** 2 / peers)
    grid = 2.0 ** (math.floor(math.log2(share)) - 20)
    parameter = root_up((Fraction(share) / Fraction(grid)) ** 2 + 64)
    streams, parameters, models = Streams.seeded(seed), system.initial(), [system.initial()]
    sizes = (3, 1) if system.table.clip_by == "tensor" else (parameters.size,)
    kept = {silo: streams.stream(f"noise/silo-{silo}") for silo in range(peers)}
    for _ in range(system.setup.rounds):
        total = [0] * parameters.size
        terms = terms_of(system, parameters)
        assert any(np.linalg.norm(row) > clip for row in terms), "nothing was clipped"
        for row in terms:
            shortened = in_tensors(row, sizes, clip) if len(sizes) > 1 else row
            steps = integers_of(shortened, clip, grid)
            total = [one + int(step) for one, step in zip(total, steps, strict=True)]
        for silo in range(peers):
            drawn = discrete_gaussian(kept[silo], parameters.size, parameter)
            total = [one + int(step) for one, step in zip(total, drawn, strict=True)]
        divisor = float(system.table.divisor or peers)
        parameters = parameters + rate / divisor * (np.array(total, np.float64) * grid)
        models.append(parameters)
    return models


@for_each("clip_by", ["model", "tensor"])
@for_each("unit", ["silo", "record"])
@for_each("variant", list(VARIANTS))
def test_models_are_those_of_the_plain_computation(variant: str, unit: str, clip_by: str) -> None:
    own = settings(*VARIANTS[variant], unit=unit, clip_by=clip_by)
    system = built(own, local=InTensors)
    made, _ = models_of(system, seed=7)
    expected = again(built(own, local=InTensors), 7)
    assert len(made) == len(expected) == 4
    for (parameters, _), other in zip(made, expected, strict=True):
        assert np.array_equal(parameters, other)
    assert not np.array_equal(expected[0], expected[1])


@for_each("clip", ["fixed", "previous", "quantile"])
def test_the_protocol_changes_no_bit_of_a_model(clip: str) -> None:
    runs = {
        name: models_of(built(settings("local", name, clip=clip)), seed=3)[0]
        for name in ("plain", "masked", "shares")
    }
    for name in ("masked", "shares"):
        for one, other in zip(runs["plain"], runs[name], strict=True):
            assert np.array_equal(one[0], other[0])
            assert all(np.array_equal(one[1][key], other[1][key]) for key in one[1])
    assert np.any(models_of(built(settings("local", "plain", clip=clip)), seed=4)[0][1][0])


@for_each("clip_by", ["model", "tensor"])
def test_a_long_update_counts_as_one_at_the_clip(clip_by: str) -> None:
    """With hardly any noise, and so to its scale, the sum is that of the shortened updates."""
    rows = np.array([[30.0, 40.0, 0.0, 0.0], [0.03, 0.0, 0.0, 0.04], [0.0, 0.0, -9.0, 0.0]])
    quiet = {"noise_multiplier": 1e-4}
    system = built(settings(privacy=quiet, clip_by=clip_by, rounds=1), rows=rows)
    made, _ = models_of(system)
    expected = np.array([0.15 + 0.03, 0.20, -0.25, 0.04]) * 2.0 / 3.0
    assert np.abs(made[1][0] - expected).max() < 6 * 1e-4 * 0.25 * 2.0 / 3.0


def test_sums_over_records_are_divided_by_the_public_number() -> None:
    one = models_of(built(settings(unit="record", divisor=40, rounds=1)))[0][1][0]
    other = models_of(built(settings(unit="record", divisor=80, rounds=1)))[0][1][0]
    start = built(settings(unit="record")).initial()
    assert np.allclose(one - start, 2.0 * (other - start), rtol=1e-12)


def test_peers_train_where_the_plain_loop_trains() -> None:
    """The control of the comparison: another step of training gives another model."""
    own = settings(rounds=1)
    system = built(own)
    other = built(settings(rounds=1, training={"local_epochs": 1}))
    assert isinstance(system.setup.local, Plain)
    assert not np.array_equal(models_of(system)[0][1][0], models_of(other)[0][1][0])
