"""DELM's PCA step by itself: the plain computation and its noise, what is projected, refusals."""

from __future__ import annotations

import doctest
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import RoundDescription
from privplan.accountant.mechanisms.discrete_sampler import discrete_gaussian
from privplan.accountant.mechanisms.gram_rows import gram_total
from privplan.accountant.randomness import Streams
from privplan.accountant.records import RoundIntent, Security
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.derivation.supported_event import supported
from privplan.audit.ledger.entries import SpentIntent
from privplan.fl.delm import pca
from privplan.fl.delm.pca import (
    DIRECTIONS,
    RELEASED,
    leading_directions,
    mean_matrix,
    pca_release,
    pca_sealed,
)
from privplan.fl.delm.pca_terms import PcaTerms, expected_pca
from privplan.fl.frame.expected_log import NotStated

from ..cases import for_each
from .pca_releases import federation, gate_of, setup_of, step

KINDS = ("wishart", "gaussian")
ABOUT = RoundDescription(0, "pca")


def test_as_published_it_is_the_plain_sum_with_z_z_t_of_every_client_bit_for_bit() -> None:
    records, release = federation(), step("wishart")
    arrays = release.release(gate_of(release, seed=7)[0], lambda _: None)
    mechanism, streams = release.mechanism, Streams.seeded(7)
    d, steps = 6, mechanism.std * 2.0**mechanism.bits
    whole = np.zeros((d, d), np.int64)
    for silo in range(3):
        rows = records.features[records.silo == silo].astype(np.float64)
        # On the grid by hand: shortened to norm 1, and cut off towards 0.
        short = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
        grid = np.trunc(short * 2.0**mechanism.bits)
        z = discrete_gaussian(streams.stream(f"pca/silo-{silo}"), d * (d + 1), steps)
        z = z.reshape(d + 1, d)
        exact = gram_total(mechanism, rows.astype(np.float32)).total
        off = np.abs(exact - (grid.T @ grid)[np.triu_indices(d)])
        assert off.max() <= 4 * len(rows) * 2.0**mechanism.bits  # of rows that are shortened
        whole[np.triu_indices(d)] += exact
        whole += np.triu(z.T @ z)
    due = whole[np.triu_indices(d)].astype(np.float64) * 4.0**-mechanism.bits
    assert arrays[RELEASED].tolist() == due.tolist()


def test_gaussian_noise_is_enough_in_every_client_by_itself() -> None:
    release = step("gaussian", epsilon=0.6)
    mechanism = release.mechanism
    server = release.views["server"]
    assert isinstance(server, ev.Gaussian)
    assert mechanism.share_std >= server.noise_multiplier
    proven = pp.account(server, delta=1e-5).epsilon
    assert 0.5999 < proven.upper <= 0.6
    model = release.views["model"]
    assert isinstance(model, ev.Gaussian)
    assert model.noise_multiplier == pytest.approx(math.sqrt(3.0) * server.noise_multiplier)
    given = step("gaussian", noise_multiplier=5.0)
    assert given.views["server"].noise_multiplier == pytest.approx(5.0)  # type: ignore[attr-defined]


def test_gaussian_noise_is_added_to_the_same_exact_sums() -> None:
    release, records = step("gaussian"), federation()
    seeds = [release.release(gate_of(release, seed)[0], lambda _: None) for seed in range(40)]
    mechanism = release.mechanism
    exact = mechanism.units(gram_total(mechanism, records.features).total)
    residual = np.stack([one[RELEASED] - exact for one in seeds]) / mechanism.std
    diagonal = mechanism.diagonal
    assert residual[:, diagonal].std() == pytest.approx(1.0, abs=0.25)  # of 240 numbers
    assert residual[:, ~diagonal].std() == pytest.approx(0.5**0.5, abs=0.15)  # of 600


@for_each("kind", KINDS)
def test_what_the_log_states(kind: str) -> None:
    release = step(kind, apart=("analyzer",))
    kept: list[Any] = []
    gate, log = gate_of(release)
    arrays = release.release(gate, kept.append)
    (intent,) = [line for line in log.records if isinstance(line, RoundIntent)]
    assert (intent.round, intent.phase, intent.model_in) == (0, "pca", None)
    assert intent.noise.family == kind
    assert intent.reaches is not None
    sees = {name: reach.sees for name, reach in intent.reaches.items()}
    assert sees == {"model": "sum", "server": "each", "silo": "sum-less-own", "analyzer": "each"}
    assert release.views["analyzer"] == release.views["server"]
    promised = {type(event) for event in {**intent.views, "model": intent.event}.values()}
    assert promised == {ev.NoGuarantee if kind == "wishart" else ev.Gaussian}
    assert kept[0].keys() == arrays.keys() == release.state.shapes.keys()
    assert {name: kept[0][name].shape for name in kept[0]} == dict(release.state.shapes)
    expected = expected_pca(release.terms, intent)
    assert (expected.noise, expected.contribution) == (intent.noise, intent.contribution)
    assert expected.sensitivity == intent.sensitivity


def test_beside_a_shuffler_the_model_is_counted_as_what_clients_send() -> None:
    """An audit does so: the model of such a run is made of what the analyzer sees."""
    own = setup_of(federation())
    own = replace(own, security=replace(own.security, aggregation="shuffle"))
    release = pca_release(own, kind="gaussian", components=2, row_norm=1.0, epsilon=0.6)
    server = release.views["server"]
    assert {name for name, event in release.views.items() if event == server} == {
        "model",
        "server",
        "analyzer",
        "shuffler",
    }
    gate, log = gate_of(release)
    release.release(gate, lambda _: None)
    (intent,) = [line for line in log.records if isinstance(line, RoundIntent)]
    shuffler = Security("shuffler", parties=3, fewest=3, key_bits=256)
    facts = RoundFacts.of(SpentIntent(2, 1, intent))
    setting = RunSetting("record", "add-remove", 1, 3, "shuffle", False, security=shuffler)
    for name, event in release.views.items():
        derived = supported(facts, setting, name)
        assert isinstance(derived, ev.Gaussian)
        assert isinstance(event, ev.Gaussian)
        assert event.noise_multiplier <= derived.noise_multiplier
        assert derived.noise_multiplier == pytest.approx(event.noise_multiplier)
    noise = expected_pca(release.terms, intent).noise
    assert noise.std == pytest.approx(intent.noise.std, rel=1e-12)


def test_found_noise_is_read_off_the_log_and_what_it_seals() -> None:
    release = step("gaussian", epsilon=0.6)
    intent = release.mechanism.intent(ABOUT, "add-remove")
    guess = replace(release.terms, noise=99.0)
    assert expected_pca(guess, intent).noise == release.mechanism.noise()
    with pytest.raises(NotStated):
        expected_pca(guess, step("wishart").mechanism.intent(ABOUT, "add-remove"))
    for kind in KINDS:
        release = step(kind)
        gate, log = gate_of(release)
        release.release(gate, lambda _: None)
        sealed = log.records[-1].sealed
        assert set(sealed) == set(pca_sealed(kind))  # type: ignore[arg-type]
    assert "residuals" not in pca_sealed("wishart")


@for_each("kind", KINDS)
def test_the_projection_is_a_function_of_the_release_alone(kind: str) -> None:
    records, release = federation(), step(kind, components=3)
    arrays = release.release(gate_of(release)[0], lambda _: None)
    other = step(kind, federation(records=6), components=3)  # of other records
    assert (other.directions(arrays[RELEASED]) == arrays[DIRECTIONS]).all()
    on = other.project(records, arrays[RELEASED])
    rows = records.features.astype(np.float64)
    short = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    assert on.features == pytest.approx(short @ arrays[DIRECTIONS].T, abs=1e-6)
    assert on.features.shape == (60, 3)
    assert on.test_features.shape == (5, 3)
    assert np.linalg.norm(on.features, axis=1).max() <= 1.0 + 1e-6
    assert (on.labels == records.labels).all()


def test_with_hardly_any_noise_the_components_are_those_of_the_records() -> None:
    records, release = federation(records=4_000), step("wishart", federation(4_000), epsilon=50.0)
    arrays = release.release(gate_of(release)[0], lambda _: None)
    rows = records.features.astype(np.float64)
    short = rows / np.maximum(1.0, np.linalg.norm(rows, axis=1, keepdims=True))
    true = leading_directions(short.T @ short, 2)
    overlap = np.linalg.svd(true @ arrays[DIRECTIONS].T)[1]
    assert overlap.min() > 0.99


def test_directions_do_not_depend_on_signs_and_are_orthonormal() -> None:
    matrix = np.random.default_rng(1).normal(size=(9, 9))
    matrix = matrix + matrix.T
    directions = leading_directions(matrix, 4)
    assert directions @ directions.T == pytest.approx(np.eye(4), abs=1e-12)
    values = np.einsum("ki,ij,kj->k", directions, matrix, directions)
    assert values == pytest.approx(np.sort(np.linalg.eigvalsh(matrix))[::-1][:4])
    assert (directions[np.arange(4), np.abs(directions).argmax(axis=1)] > 0.0).all()
    assert mean_matrix(matrix[np.triu_indices(9)], 9, 1) == pytest.approx(matrix)


def test_long_rows_stay_finite() -> None:
    features = np.full((4, 6), np.finfo(np.float32).max, np.float32)
    records = federation(
        features=features,
        labels=np.zeros(4, np.int64),
        silos=2,
        user=np.array([0, 1, 0, 1]),
        silo=np.array([0, 1, 0, 1]),
    )
    release = step("wishart", records, row_norm=1e39)
    arrays = release.release(gate_of(release)[0], lambda _: None)
    assert np.isfinite(release.project(records, arrays[RELEASED]).features).all()


@for_each(
    ("given", "match"),
    [
        *(({"components": 7}, "at most 6"), ({"components": 0}, "components")),
        *(({"row_norm": 0.0}, "row_norm"), ({"row_norm": -1.0}, "row_norm")),
        *(({"row_norm": math.nan}, "row_norm"), ({"epsilon": 0.0}, "epsilon")),
        *(({"epsilon": -0.6}, "epsilon"), ({"epsilon": 0.6, "noise_multiplier": 1.0}, "not both")),
        *(({"epsilon": None}, "not both"), ({"epsilon": 1e-14}, "grid")),
        ({"most_rows": 2**60}, "."),
    ],
)
@for_each("kind", KINDS)
def test_what_is_out_of_range_is_refused(kind: str, given: dict[str, Any], match: str) -> None:
    if kind == "gaussian" and match == "grid":
        return  # no noise is too small an epsilon
    with pytest.raises(InvalidInput, match=match):
        step(kind, **given)


@for_each("unit", ["user", "silo"])
def test_gaussian_noise_is_made_for_a_record(unit: str) -> None:
    own = setup_of(federation(), unit)
    with pytest.raises(InvalidInput, match="protects a record"):
        pca_release(own, kind="gaussian", components=2, row_norm=1.0, epsilon=0.6)
    assert pca_release(own, kind="wishart", components=2, row_norm=1.0, epsilon=0.6)


@for_each("value", [math.inf, -math.inf, math.nan])
def test_rows_that_are_not_finite_never_come_so_far(value: float) -> None:
    features = np.zeros((60, 6), np.float32)
    features[3, 2] = value
    with pytest.raises(InvalidInput, match="row 3"):
        federation(features=features)


def test_wishart_noise_has_no_multiplier_and_terms_refuse_another_kind() -> None:
    with pytest.raises(InvalidInput, match="pca"):
        PcaTerms(
            kind="none",
            noise=1.0,
            row_norm=1.0,
            components=1,
            features=2,
            silos=1,
            users=1,
            relation="add-remove",
        )  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="epsilon alone"):
        pca_release(
            setup_of(federation()), kind="wishart", components=2, row_norm=1.0, noise_multiplier=1.0
        )
    with pytest.raises(InvalidInput, match="pca"):
        step("laplace")
    assert doctest.testmod(pca).failed == 0
