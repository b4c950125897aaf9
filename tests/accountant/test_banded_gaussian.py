"""Correlated noise: it is C x + z on integers, with one event for a block, and no round is free."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.arrays import FloatArray, IntArray
from privplan.accountant.errors import BudgetExceeded, InvalidInput, Unsupported
from privplan.accountant.guarantee import Bounds, Guarantee
from privplan.accountant.mechanisms import BandedGaussian, Gate, Gaussian
from privplan.accountant.mechanisms.banded_gaussian import require_coefficients
from privplan.accountant.odometer import Odometer
from privplan.accountant.plan import Plan, PlannedPhase
from privplan.accountant.randomness import Streams

from ..cases import for_each
from .gates import FakeRecorder, about

COEFFICIENTS = (1.0, 0.5, 0.375)
BLOCK = records.Block(1, 7, COEFFICIENTS, 3)
MECHANISM = BandedGaussian(bound=1.0, std=4.0, shares=2, block=BLOCK, number=1)
VIEWS = ("model", "server")


def toeplitz(rounds: int, coefficients: tuple[float, ...]) -> FloatArray:
    """Return C, element by element."""
    matrix = np.zeros((rounds, rounds))
    for row, column in itertools.product(range(rounds), repeat=2):
        if 0 <= row - column < len(coefficients):
            matrix[row, column] = coefficients[row - column]
    return matrix


def gate_of(blocks: int = 1, seed: int = 1) -> tuple[Gate, FakeRecorder, list[str]]:
    """Return a gate with a plan of so many blocks, and the order in which things happen."""
    event = MECHANISM.event("add-remove")
    known = Guarantee(Bounds(0.0, 1.0), Bounds.exactly(1e-5), "add-remove", "gdp", "user", "model")
    phase = PlannedPhase(
        "train", 4.0, event, 7 * blocks, dict.fromkeys(VIEWS, event), blocks=blocks
    )
    made = Plan(
        (phase,), dict.fromkeys(VIEWS, known), 1.0, 1e-5, "add-remove", "given", 0.0, "none"
    )
    order: list[str] = []
    recorder = FakeRecorder(order)
    return Gate(Odometer.for_plan(made), recorder, Streams.seeded(seed)), recorder, order


def intent_of(number: int, mechanism: BandedGaussian = MECHANISM) -> records.RoundIntent:
    """Return the intent of a round."""
    views = {"server": MECHANISM.event("add-remove")}
    return replace(mechanism, number=number).intent(about(number, views=views), "add-remove")


def released(gate: Gate, numbers: range, terms: IntArray) -> list[IntArray]:
    """Release the rounds, and return the sum of each: u_t, in steps."""
    sums = []
    for number in numbers:
        mechanism = replace(MECHANISM, number=number)
        with gate.open(intent_of(number)) as ticket:
            lags = range(number, max(0, number - len(COEFFICIENTS)), -1)
            rows = [
                mechanism.row([terms[lag - 1, silo] for lag in lags])
                for silo in range(terms.shape[1])
            ]
            sums.append(sum(mechanism.noisy_steps(ticket, rows, ["noise/a", "noise/b"])))
            ticket.close(values=terms.shape[2])
    return sums


def test_what_is_released_is_c_x_and_the_white_noise_of_the_plain_mechanism() -> None:
    terms = np.random.default_rng(3).integers(-1000, 1000, (7, 2, 5))
    gate, _, _ = gate_of()
    sums = np.array(released(gate, range(1, 8), terms))
    # The oracle: C x by a dense matrix, and z of the plain mechanism from the same streams.
    rows = np.einsum("ts,skd->tkd", toeplitz(7, COEFFICIENTS), terms) * 256
    plain = Gaussian(bound=1.0, std=4.0, shares=2)
    streams = Streams.seeded(1)
    other = Gate(None, FakeRecorder([]), streams, unpromised=True)
    white = []
    for number in range(1, 8):
        with other.open(plain.intent(about(number), "add-remove")) as ticket:
            zero = np.zeros(5, np.int64)
            white.append(sum(plain.noisy_steps(ticket, [zero, zero], ["noise/a", "noise/b"])))
            ticket.close()
    assert (sums == rows.sum(axis=1) + np.array(white)).all()
    assert plain.grid == MECHANISM.grid


def test_solving_the_recursion_multiplies_the_noise_by_the_inverse() -> None:
    terms = np.random.default_rng(4).integers(-1000, 1000, (7, 2, 5))
    gate, _, _ = gate_of()
    sums = released(gate, range(1, 8), terms)
    solved: list[FloatArray] = []
    for number, total in enumerate(sums, start=1):
        mechanism = replace(MECHANISM, number=number)
        solved.append(mechanism.solved(mechanism.units(total), solved[::-1]))
    matrix = toeplitz(7, COEFFICIENTS)
    clear = terms.sum(axis=1) * MECHANISM.terms_alone.grid
    noise = np.array(sums) * MECHANISM.grid - matrix @ clear
    assert np.allclose(np.array(solved), clear + np.linalg.inv(matrix) @ noise, atol=1e-9)


def test_a_terms_grid_is_256_steps_and_its_clip_is_exact() -> None:
    rows = np.array([[30.0, 40.0], [0.3, -0.4]])
    total = MECHANISM.total(rows)
    grid = MECHANISM.terms_alone.grid
    assert grid == 256 * MECHANISM.grid
    assert np.abs(total * grid - (np.array([0.6, 0.8]) + np.array([0.3, -0.4]))).max() < 2 * grid
    assert int((MECHANISM.total(rows[:1]) ** 2).sum()) <= int((1.0 / grid) ** 2)


def test_a_row_needs_all_of_its_terms() -> None:
    total = np.zeros(3, np.int64)
    with pytest.raises(InvalidInput, match="needs the sums of 2 rounds"):
        replace(MECHANISM, number=2).row([total])
    assert replace(MECHANISM, number=7).row([total] * 3).tolist() == [0, 0, 0]
    with pytest.raises(InvalidInput, match="too many steps"):
        MECHANISM.row([np.array([2**60])])


def test_the_first_round_has_the_event_of_all_and_the_others_none() -> None:
    expected = ev.MatrixGaussian(
        4.0, ev.ToeplitzStrategy(7, COEFFICIENTS), ev.SeparatedParticipation(3, 3)
    )
    assert intent_of(1).event == expected
    assert intent_of(1).views == {"server": expected}
    assert intent_of(2).event == ev.Compose(())
    assert intent_of(2).views == {"server": ev.Compose(())}
    assert intent_of(1).block == intent_of(2).block == BLOCK


@for_each(("rounds", "separation"), [(7, 3), (6, 3), (8, 4)])
def test_no_unit_moves_a_block_further_than_the_sensitivity(rounds: int, separation: int) -> None:
    """By every set of rounds and every sign; bands at most the separation never overlap."""
    matrix = toeplitz(rounds, COEFFICIENTS)
    most = -(-rounds // separation)
    norm = float(np.linalg.norm(COEFFICIENTS))
    largest = 0.0
    for count in range(1, most + 1):
        for chosen in itertools.combinations(range(rounds), count):
            if any(after - before < separation for before, after in itertools.pairwise(chosen)):
                continue
            for signs in itertools.product((-1.0, 1.0), repeat=count):
                moved = np.zeros(rounds)
                moved[list(chosen)] = signs
                largest = max(largest, float(np.linalg.norm(matrix @ moved)))
    assert largest <= norm * most**0.5 * (1 + 1e-12)
    # Single rounds, added up as if each had noise of its own, come to less: that is no guarantee.
    assert largest > most**0.5


def test_bands_beyond_the_separation_are_refused() -> None:
    with pytest.raises(InvalidInput, match="3 bands are more than the 2 rounds"):
        BandedGaussian(bound=1.0, std=4.0, block=replace(BLOCK, separation=2), number=1)


@for_each("coefficients", [(1.0, 0.3), (0.5, 0.25), (1.0, -0.5), (1.0, 0.25, 0.5), (2.0, 1.0)])
def test_coefficients_off_the_grid_are_refused(coefficients: tuple[float, ...]) -> None:
    with pytest.raises(InvalidInput, match="multiples of 2\\^-8"):
        BandedGaussian(
            bound=1.0, std=4.0, block=replace(BLOCK, coefficients=coefficients), number=1
        )


@for_each(
    "change", [{"rounds": 2}, {"coefficients": ()}, {"separation": 0}, {"coefficients": (0.0, 1.0)}]
)
def test_a_block_that_is_none_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(InvalidInput, match="`Block` needs"):
        replace(BLOCK, **change)  # type: ignore[arg-type]


def test_a_missing_share_and_a_round_outside_are_refused() -> None:
    with pytest.raises(InvalidInput, match="silos that all stay"):
        replace(MECHANISM, tolerated_dropouts=1)
    with pytest.raises(InvalidInput, match="must be a round of the block"):
        replace(MECHANISM, number=8)
    with pytest.raises(Unsupported, match="random sample"):
        MECHANISM.event("add-remove", records.Sampling("poisson", "user", 0.5, "server"))


def test_a_block_is_paid_once() -> None:
    gate, recorder, _ = gate_of()
    released(gate, range(1, 8), np.zeros((7, 2, 3), np.int64))
    assert recorder.types == ["round.intent", "round.release"] * 7
    with pytest.raises(BudgetExceeded, match="no release is left"):
        gate.open(intent_of(1))


@for_each("numbers", [(2,), (1, 3), (1, 2, 2)])
def test_a_round_that_was_not_paid_is_refused(numbers: tuple[int, ...]) -> None:
    gate, recorder, _ = gate_of()
    for number in numbers[:-1]:
        gate.open(intent_of(number)).abort()
    lines = len(recorder.lines)
    with pytest.raises(BudgetExceeded, match="not the next one of a block"):
        gate.open(intent_of(numbers[-1]))
    assert len(recorder.lines) == lines


@for_each(
    "mechanism",
    [
        replace(MECHANISM, block=replace(BLOCK, coefficients=(1.0, 0.5, 0.25))),
        replace(MECHANISM, std=2.0),
        replace(MECHANISM, bound=0.5),
    ],
)
def test_a_round_of_other_noise_is_not_covered(mechanism: BandedGaussian) -> None:
    gate, _, _ = gate_of()
    gate.open(intent_of(1)).abort()
    with pytest.raises(BudgetExceeded, match="not the next one of a block"):
        gate.open(intent_of(2, mechanism))


def test_a_new_block_needs_a_plan_that_pays_for_it() -> None:
    """A run that goes on has a new gate: it covers no round of a block that was paid before."""
    second = replace(MECHANISM, block=replace(BLOCK, first=8), number=8)
    gate, _, _ = gate_of(blocks=2)
    gate.open(intent_of(1)).abort()
    again = second.intent(about(8), "add-remove")
    gate.open(again).abort()
    with pytest.raises(BudgetExceeded, match="no release is left"):
        gate.open(again)


def test_a_ticket_of_another_round_draws_nothing() -> None:
    gate, _, _ = gate_of()
    ticket = gate.open(intent_of(1))
    with pytest.raises(Unsupported, match="another block"):
        replace(MECHANISM, number=2).noisy(ticket, [np.zeros(3, np.int64)] * 2, ["a", "b"])
    plain = Gaussian(bound=1.0, std=4.0, shares=2)
    with pytest.raises(Unsupported, match="another mechanism"):
        plain.noisy(ticket, [np.zeros(3, np.int64)] * 2, ["a", "b"])


@for_each(
    "event",
    [
        ev.Gaussian(4.0),
        ev.Compose(()),
        replace(BLOCK, coefficients=(1.0, 0.25)).event(4.0),
        replace(BLOCK, separation=7).event(4.0),
    ],
)
def test_a_first_round_states_the_event_of_its_whole_block(event: ev.Event) -> None:
    gate, recorder, _ = gate_of()
    for change in ({"event": event}, {"views": {"server": event}}):
        with pytest.raises(Unsupported, match="the event of all"):
            gate.open(replace(intent_of(1), **change))  # type: ignore[arg-type]
    assert not recorder.lines


def first_of_less_noise() -> records.RoundIntent:
    """Return the intent of a first round that draws deviation 1, and states the event of 10."""
    noisy = replace(MECHANISM, std=1.0)
    views = {"server": noisy.event("add-remove")}
    return noisy.intent(about(1, views=views), "add-remove")


@for_each(
    "change",
    [
        {"event": BLOCK.event(10.0)},
        {"event": BLOCK.event(math.nextafter(1.0, 2.0))},
        {"noise": replace(MECHANISM, std=1.0).noise(2)},
    ],
)
def test_a_first_round_states_no_more_noise_than_it_draws(change: dict[str, Any]) -> None:
    """Else it would pay little and be given up, and the rounds behind it would be drawn."""
    gate, recorder, _ = gate_of()
    with pytest.raises(Unsupported, match="more noise than it draws"):
        gate.open(replace(first_of_less_noise(), **change))
    assert not recorder.lines
    with pytest.raises(BudgetExceeded, match="not the next one of a block"):
        gate.open(replace(MECHANISM, std=1.0, number=2).intent(about(2), "add-remove"))


def test_a_later_round_that_reaches_others_is_not_covered() -> None:
    gate, _, _ = gate_of()
    gate.open(intent_of(1)).abort()
    reaches = {"server": records.Reach("each")}
    with pytest.raises(BudgetExceeded, match="not the next one of a block"):
        gate.open(replace(intent_of(2), reaches=reaches))


def sums_of(*values: Any, dtype: Any = np.int64) -> list[Any]:
    return [np.array(value, dtype) for value in values]


@for_each(
    "totals",
    [
        sums_of([[1, 2, 3]], [1, 2, 3]),  # (1, 3) and (3,) would be added up by broadcasting
        sums_of([[1], [2]], [1, 2, 3]),
        sums_of([1, 2], [3, 4, 5]),
        sums_of([1.0, 2.0], [1.0, 2.0], dtype=float),
        sums_of([2**30, 1], [2**30, 1], dtype=np.int32),  # 256 times that wraps around
        sums_of([100], [100], dtype=np.int8),
        sums_of([1], [1], dtype=np.uint64),
        sums_of([True], [False], dtype=bool),
        [[1, [2]], [3, 4]],
        [[math.nan, 1.0], [1.0, 1.0]],
        ["a", "b"],
        [None, None],
        [[2**80], [1]],
    ],
)
def test_a_row_takes_integers_of_64_bits_and_of_equal_shape_only(totals: list[Any]) -> None:
    with pytest.raises(InvalidInput, match="sums of a row"):
        replace(MECHANISM, number=2).row(totals)


@for_each("extreme", [-(2**63), 2**63 - 1, -(2**62), 2**56])
def test_a_row_that_could_wrap_around_is_refused(extreme: int) -> None:
    assert abs(extreme) * 256 > 2**62  # in the integers of Python, which do not wrap around
    for totals in (sums_of([extreme], [0]), sums_of([0], [2 * (extreme // 2)])):
        with pytest.raises(InvalidInput, match="too many steps"):
            replace(MECHANISM, number=2).row(totals)


def test_a_row_is_that_of_pythons_integers() -> None:
    totals = sums_of([2**40 + 1, -(2**41)], [-(2**42) + 3, 5], [7, 2**43])
    row = replace(MECHANISM, number=3).row(totals)
    exact = [256 * int(a) + 128 * int(b) + 96 * int(c) for a, b, c in zip(*totals, strict=True)]
    assert row.dtype == np.int64
    assert row.tolist() == exact


@for_each("number", [1.5, 1.0, "1", None, True, 0, -1, 8, math.nan])
def test_a_round_between_rounds_would_be_paid_by_nobody(number: Any) -> None:
    with pytest.raises(InvalidInput, match="`number` must be"):
        replace(MECHANISM, number=number)


def test_a_numpy_integer_is_a_round() -> None:
    assert type(replace(MECHANISM, number=np.int64(1)).number) is int


def test_a_multiplier_is_that_of_the_event_of_its_block() -> None:
    given = {"bound": 0.3, "relation": "replace-one", "shares": 3, "block": BLOCK}
    mechanism = BandedGaussian.with_multiplier(5.0, **given)
    event = mechanism.event("replace-one")
    assert mechanism.is_first
    assert isinstance(event, ev.MatrixGaussian)
    assert 5.0 <= event.noise_multiplier < 5.0 * (1.0 + 1e-12)
    assert BandedGaussian.with_multiplier(5.0, number=2, **given).number == 2
    with pytest.raises(InvalidInput, match="`block` must be"):
        BandedGaussian.with_multiplier(5.0, bound=1.0, relation="add-remove")


@for_each(
    "coefficients", [["a"], [None], [(1.0,)], [True], [math.nan], [math.inf], [], None, "1", 1.0]
)
def test_coefficients_that_are_no_list_of_numbers_are_refused(coefficients: Any) -> None:
    with pytest.raises(InvalidInput, match="coefficients of correlated noise"):
        require_coefficients(coefficients)
