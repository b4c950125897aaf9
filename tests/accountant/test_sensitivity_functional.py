"""The functional mechanism: bounds against a search for worse neighbours; tight ones attained."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.sensitivity.functional import (
    DATA,
    MODELS,
    QUADRATIC,
    Objective,
    delta_as_published,
    release,
    sensitivity,
)

from ..cases import for_each
from ..sweeps import sweep
from .objectives import CLASSES, coefficients, project, search


@for_each("d", sweep([2, 1, 3], quick=1))
@for_each("quadratic", QUADRATIC)
@for_each("data", DATA)
@for_each("model", MODELS)
def test_no_worse_neighbours_are_found(model: str, data: str, quadratic: str, d: int) -> None:
    objective = Objective(model, d, data, quadratic, CLASSES)
    count, steps = (60, 120) if model != "softmax" else (40, 60)
    for replaced, relation in ((False, "add-remove"), (True, "replace-one")):
        bound = sensitivity(objective, relation)
        for norm, limit in ((1, bound.l1), (2, bound.l2)):
            found = search(objective, norm, replaced=replaced, count=count, steps=steps)
            assert found <= limit * (1 + 1e-12)
            tight = not replaced or (norm == 2 and "statistics" not in model)
            # For d = 1 the bound on the cube is not sharp for centred labels: 0.69 of it is there.
            least = 0.69 if (model, d) == ("centred-statistics", 1) else 0.7
            assert found >= (0.98 if tight else least) * limit


@for_each("classes", [2, 5, 10])
@for_each("quadratic", QUADRATIC)
@for_each("data", DATA)
def test_softmax_with_other_numbers_of_classes(data: str, quadratic: str, classes: int) -> None:
    """Random pairs stay below; single records and opposite ones attain what is claimed."""
    d, rng = 2, np.random.default_rng(classes)
    objective = Objective("softmax", d, data, quadratic, classes)
    single, both = sensitivity(objective), sensitivity(objective, "replace-one")
    x = project(np.round(rng.normal(size=(600, d)), 1), data)
    x[:2] = np.ones(d) if data == "coordinate" else np.ones(d) / math.sqrt(d)
    x[2] = [1.0, 0.0]
    y = rng.integers(0, classes, 600).astype(float)
    rows = coefficients("softmax", quadratic, x, y, classes)
    for norm, limit in ((1, single.l1), (2, single.l2)):
        sizes = np.linalg.norm(rows, norm, axis=1)
        assert limit * (1 - 1e-12) <= sizes.max() <= limit * (1 + 1e-12)
    other = np.roll(x, 1, axis=0) * rng.choice([-1.0, 1.0], (600, d))
    y_other = np.where(rng.random(600) < 0.5, y, np.roll(y, 1))
    gap = rows - coefficients("softmax", quadratic, other, y_other, classes)
    for norm, limit in ((1, both.l1), (2, both.l2)):
        assert np.linalg.norm(gap, norm, axis=1).max() <= limit * (1 + 1e-12)
    mirrored = rows - coefficients("softmax", quadratic, -x, y, classes)
    assert np.linalg.norm(mirrored, axis=1).max() == pytest.approx(both.l2, rel=1e-12)


@for_each("d", [2, 3, 6])
@for_each("quadratic", QUADRATIC)
@for_each("model", ["linear", "logistic", "softmax"])
def test_an_opposite_record_attains_the_replaced_l2_on_the_ball(
    model: str, quadratic: str, d: int
) -> None:
    x = np.full((1, d), d**-0.5)
    y = np.ones(1)
    gap = coefficients(model, quadratic, x, y) - coefficients(model, quadratic, -x, y)
    bound = sensitivity(Objective(model, d, "l2", quadratic, CLASSES), "replace-one").l2
    assert np.linalg.norm(gap) == pytest.approx(bound, rel=1e-12)


@for_each(
    ("quadratic", "square", "axes"),
    [
        ("full", 4.5, ([1.0, 0.0], [0.0, 1.0])),
        ("upper-triangle", 4.5, ([0.5**0.5, 0.5**0.5], [0.5**0.5, -(0.5**0.5)])),
        ("monomials", 6.25, ([1.0, 0.0], [0.0, 1.0])),
    ],
)
def test_statistics_attain_their_replaced_l2_on_the_ball(
    quadratic: str, square: float, axes: tuple[list[float], list[float]]
) -> None:
    v_square = 2.5 if quadratic == "monomials" else 3.0
    u = math.sqrt(4.0 - v_square) * np.array(axes[0])
    v = math.sqrt(v_square) * np.array(axes[1])
    x, other, y = (u + v)[None] / 2, (u - v)[None] / 2, np.ones(1)
    assert np.linalg.norm(x) == pytest.approx(1.0)
    gap = coefficients("statistics", quadratic, x, y)
    gap = gap - coefficients("statistics", quadratic, other, y)
    assert np.linalg.norm(gap) ** 2 == pytest.approx(square)
    bound = sensitivity(Objective("statistics", 2, "l2", quadratic), "replace-one").l2
    assert bound == pytest.approx(math.sqrt(square), rel=1e-15)


@for_each("quadratic", QUADRATIC)
@for_each("d", [1, 2, 3, 4, 5, 8, 19, 20])
@for_each("model", ["linear", "logistic", "softmax"])
def test_signs_attain_the_replaced_l2_on_the_cube(model: str, d: int, quadratic: str) -> None:
    """Over every number of coordinates that flip."""
    bound = sensitivity(Objective(model, d, "coordinate", quadratic, CLASSES), "replace-one").l2
    x, y = np.ones((1, d)), np.ones(1)
    best = 0.0
    for flipped in range(d + 1):
        other = x.copy()
        other[:, :flipped] = -1.0
        gap = coefficients(model, quadratic, x, y) - coefficients(model, quadratic, other, y)
        best = max(best, float(np.linalg.norm(gap)))
    assert best == pytest.approx(bound, rel=1e-12)


@for_each("d", [1, 2, 3, 4, 7, 10])
@for_each("model", ["linear", "logistic"])
def test_the_replaced_l1_on_the_cube_is_attained(model: str, d: int) -> None:
    slope = {"linear": 2, "logistic": 4}[model]
    for quadratic in ("upper-triangle", "monomials", "full"):
        bound = sensitivity(Objective(model, d, "coordinate", quadratic), "replace-one").l1
        if quadratic == "upper-triangle":
            t = min(slope / (d + 1), 1.0)
            x, other = np.ones((1, d)), np.full((1, d), -t)
        else:
            u = np.zeros(d)  # |u_j| + |v_j| = 2 and sum |u_j| = d - slope/2
            total = max(d - slope // 2, 0)
            u[: total // 2] = 2.0
            if total % 2:
                u[total // 2] = 1.0
            v = 2.0 - u
            x, other = (u + v)[None] / 2, (u - v)[None] / 2
        y = np.ones(1)
        gap = coefficients(model, quadratic, x, y) - coefficients(model, quadratic, other, y)
        assert np.abs(gap).sum() == pytest.approx(bound, rel=1e-12)


@for_each("d", [2, 8, 64, 392])
@for_each("data", DATA)
def test_the_printed_table_bounds_ours(data: str, d: int) -> None:
    """Twice a single record is what is usually printed; every entry here is at most that."""
    reach, square = (d, d * d) if data == "coordinate" else (math.sqrt(d), d)
    c = 10
    printed = {
        ("linear", "full"): 2 * (2 * reach + square),
        ("logistic", "full"): reach + square / 4,
        ("softmax", "full"): 4 * (1 - 1 / c) * reach + 2 * (1 - 1 / c) * square,
        ("statistics", "upper-triangle"): (
            2 * reach + d * (d + 1) if data == "coordinate" else 2 * reach + d + 1
        ),
    }
    for (model, form), number in printed.items():
        objective = Objective(model, d, data, form, c)
        assert 2 * sensitivity(objective).l1 == pytest.approx(number, rel=1e-12)
        assert sensitivity(objective, "replace-one").l1 <= number


def test_known_l2_values_on_the_ball() -> None:
    def l2(model: str, quadratic: str, neighbours: str, d: int = 5) -> float:
        return sensitivity(Objective(model, d, "l2", quadratic), neighbours).l2

    for form in ("upper-triangle", "full"):
        assert l2("linear", form, "add-remove") == pytest.approx(math.sqrt(5))
        assert l2("linear", form, "replace-one") == 4.0
        assert l2("logistic", form, "add-remove") == pytest.approx(math.sqrt(1 / 4 + 1 / 64))
        assert l2("logistic", form, "replace-one") == 1.0
        assert l2("statistics", form, "add-remove") == pytest.approx(math.sqrt(2))
        assert l2("statistics", form, "replace-one") == pytest.approx(math.sqrt(4.5))
    assert l2("logistic", "monomials", "add-remove") == pytest.approx(
        math.sqrt(1 / 4 + (2 - 1 / 5) / 64)
    )
    assert l2("logistic", "monomials", "replace-one") == 1.0
    assert l2("statistics", "monomials", "add-remove") == pytest.approx(math.sqrt(3 - 1 / 5))
    assert l2("statistics", "monomials", "replace-one") == 2.5


def test_sensitivities_are_rounded_up() -> None:
    for d in (2, 3, 7, 392):
        moved = sensitivity(Objective("statistics", d, "l2", "monomials"), "add-remove")
        assert Fraction(moved.l2) ** 2 >= 3 - Fraction(1, d)
        assert Fraction(moved.l1) - d - 0 >= 0
        assert (Fraction(moved.l1) - d) ** 2 >= d
        tight = sensitivity(Objective("linear", d, "l2", "full"), "add-remove").l2
        assert Fraction(tight) ** 2 >= 5 > Fraction(math.nextafter(tight, 0.0)) ** 2


def epsilon(event: ev.Event, neighbours: str) -> float:
    return pp.account(event, delta=1e-5, neighbours=neighbours).epsilon.upper


def test_delm_with_its_own_noise_holds_for_a_linear_logistic_model() -> None:
    """250 rounds at epsilon_2 = 1.2, d = 392: .122 per coordinate and .001 on the ball, or less."""
    d, rounds = 392, 250
    scale = delta_as_published("logistic", d) / 1.2
    for data, limit in (("coordinate", 0.122), ("l2", 0.001)):
        run = release(
            Objective("logistic", d, data, "full"),
            "replace-one",
            scale=scale,
            schedule="fresh",
            rounds=rounds,
        )
        (concentrated,) = run.alternatives
        assert isinstance(concentrated, ev.ZCDP)
        assert epsilon(concentrated, "replace-one") <= limit
        assert epsilon(concentrated, "replace-one") >= 0.9 * limit
        assert epsilon(run.event, "replace-one") > epsilon(concentrated, "replace-one")
    pure = 2 * sensitivity(Objective("logistic", d, "l2", "full")).l1 / scale * rounds
    assert pure == pytest.approx(0.911, abs=1e-3)
    wide = Objective("logistic", 784, "l2", "full")
    pure = 2 * sensitivity(wide).l1 * rounds * 1.2 / delta_as_published("logistic", 784)
    assert pure == pytest.approx(0.435, abs=1e-3)
    assert delta_as_published("logistic", 784) == pytest.approx(154_448)
    assert 2 * sensitivity(wide).l1 == pytest.approx(224, abs=0.5)
    assert delta_as_published("softmax", 784, 10) == 2 * 784 + 10 * 784**2


def test_the_digits_model_costs_at_most_2_15() -> None:
    objective = Objective("statistics", 64, "l2", "upper-triangle", 10)
    run = release(objective, "replace-one", scale=81 / 1.2, schedule="fresh", rounds=250)
    assert epsilon(run.alternatives[0], "replace-one") == pytest.approx(2.15, abs=0.005)
    assert sensitivity(objective, "replace-one").l1 < 81


def test_totals_when_all_of_l1_sits_in_one_coordinate() -> None:
    objective = Objective("logistic", 392, "coordinate", "full")
    for neighbours in ("add-remove", "replace-one"):
        scale = sensitivity(objective, neighbours).l1 / 1.2
        run = release(objective, neighbours, scale=scale, schedule="fresh", rounds=250)
        assert epsilon(run.event, neighbours) == pytest.approx(184.2, abs=0.1)
    assert epsilon(ev.Repeat(250, ev.Pure(1.2)), "add-remove") == pytest.approx(224.6, abs=0.1)


def test_poisson_totals() -> None:
    objective = Objective("logistic", 392, "coordinate", "full")
    one = sensitivity(objective).l1
    for factor, total in ((1.0, 4.2), (2.0, 1.9)):
        run = release(
            objective, scale=factor * one / 1.2, schedule="poisson", rounds=250, rate=32 / 600
        )
        assert run.alternatives == ()
        assert epsilon(run.event, "add-remove") == pytest.approx(total, abs=0.06)


def test_a_sampled_release_is_scaled_for_a_record_that_comes_or_goes() -> None:
    """Drawn against not drawn differ by a whole contribution, whatever the relation."""
    objective = Objective("statistics", 3, "l2")
    for noise in ("laplace", "gaussian"):
        given = {"scale": 7.0, "noise": noise, "schedule": "poisson", "rate": 0.1}
        first, second = (
            release(objective, relation, **given) for relation in ("add-remove", "replace-one")
        )
        assert first.event == second.event
        assert second.neighbours == "replace-one"
        single = sensitivity(objective)
        bound = single.l1 if noise == "laplace" else single.l2
        assert isinstance(first.event, ev.Poisson)
        assert first.event.event.noise_multiplier == pytest.approx(7.0 / bound)


@for_each("neighbours", ["add-remove", "zero-out", "replace-one"])
def test_events_move_by_the_sensitivity(neighbours: str) -> None:
    objective, scale = Objective("linear", 3, "coordinate", "monomials"), 5.0
    moved = sensitivity(objective, neighbours)
    reach = 2 if neighbours == "replace-one" else 1
    laplace = release(objective, neighbours, scale=scale)
    gaussian = release(objective, neighbours, scale=scale, noise="gaussian")
    assert reach / laplace.event.noise_multiplier == pytest.approx(moved.l1 / scale)
    assert reach / laplace.event.noise_multiplier >= moved.l1 / scale
    assert reach / gaussian.event.noise_multiplier == pytest.approx(moved.l2 / scale)
    assert gaussian.alternatives == ()
    assert laplace.alternatives[0].rho == pytest.approx((moved.l2 / scale) ** 2 / 2)


def test_zcdp_of_the_vector_covers_laplace_noise_on_concrete_coefficients() -> None:
    """Renyi divergences of the product of Laplace shifts, summed exactly, never exceed rho a."""
    objective, b = Objective("logistic", 3, "coordinate", "full"), 2.0
    rho = release(objective, "replace-one", scale=b).alternatives[0].rho
    rng = np.random.default_rng(3)
    for _ in range(50):
        x, other = rng.choice([-1.0, 1.0], (2, 1, 3))
        y = rng.integers(0, 2, 2).astype(float)
        gap = coefficients("logistic", "full", x, y[:1])
        shift = np.abs(gap - coefficients("logistic", "full", other, y[1:]))[0] / b
        for a in (1.5, 2.0, 8.0, 64.0):
            moments = a / (2 * a - 1) * np.exp((a - 1) * shift)
            moments += (a - 1) / (2 * a - 1) * np.exp(-a * shift)
            assert np.log(moments).sum() / (a - 1) <= rho * a * (1 + 1e-12)


def test_more_features_and_weaker_data_bounds_never_move_less() -> None:
    for model, form, relation in itertools.product(
        MODELS, QUADRATIC, ("add-remove", "replace-one")
    ):
        for data in DATA:
            chain = [sensitivity(Objective(model, d, data, form), relation) for d in range(1, 12)]
            for a, b in itertools.pairwise(chain):
                assert a.l1 <= b.l1
                assert a.l2 <= b.l2
        for d in (1, 2, 9):
            cube = sensitivity(Objective(model, d, "coordinate", form), relation)
            ball = sensitivity(Objective(model, d, "l2", form), relation)
            single = sensitivity(Objective(model, d, "l2", form))
            assert ball.l1 <= cube.l1 * (1 + 1e-14)
            assert ball.l2 <= cube.l2
            assert ball.l1 <= 2 * single.l1 * (1 + 1e-14)
            assert ball.l2 <= 2 * single.l2


def test_bad_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="model"):
        Objective("mlp", 3)
    with pytest.raises(InvalidInput, match="quadratic"):
        Objective("linear", 3, "l2", "half")
    with pytest.raises(Unsupported, match="private data"):
        Objective("linear", 3, bound_source="private")
    objective = Objective("linear", 3)
    with pytest.raises(InvalidInput, match="once"):
        release(objective, scale=1.0, rounds=5)
    with pytest.raises(InvalidInput, match="rate"):
        release(objective, scale=1.0, schedule="poisson", rounds=5)
    with pytest.raises(InvalidInput, match="rate"):
        release(objective, scale=1.0, schedule="fresh", rounds=5, rate=0.1)
    with pytest.raises(InvalidInput, match="scale"):
        release(objective, scale=0.0)
    with pytest.raises(InvalidInput, match="neighbours"):
        sensitivity(objective, "group")
    with pytest.raises(Unsupported, match="extreme"):
        release(objective, scale=1e-300)
