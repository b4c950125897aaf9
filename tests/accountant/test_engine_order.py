"""One table of engines: whoever leaves the choice to privplan asks the same ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import privplan as pp
from privplan.accountant import account as accounting
from privplan.accountant import events as ev
from privplan.accountant.bound_routes import routes
from privplan.accountant.composition import Composition
from privplan.accountant.engine_order import ENGINE_ORDERS, engine_order, engines_for
from privplan.accountant.errors import Unsupported
from privplan.audit.evidence import epsilon_total
from privplan.audit.evidence.epsilon_total import MAX_KINDS_AT_VAST_EPSILON, VAST_EPSILON, total

from ..cases import for_each


@dataclass(frozen=True)
class Case:
    make: object
    epsilon: float = 1.0
    delta: float = 1e-5
    neighbours: str = "add-remove"

    @property
    def target(self):
        return {"epsilon": self.epsilon, "delta": self.delta, "neighbours": self.neighbours}


def _shuffled(users, **given):
    return Case(lambda s: ev.Shuffle(users, ev.Laplace(s)), neighbours="replace-one", **given)


CASES = {
    "gaussian": Case(lambda s: ev.Repeat(10, ev.Gaussian(s))),
    "two gaussians": Case(lambda s: ev.Compose([ev.Gaussian(s), ev.Gaussian(2 * s)])),
    "poisson gaussian": Case(lambda s: ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(s)))),
    "laplace": Case(lambda s: ev.Repeat(10, ev.Laplace(s))),
    "one laplace": Case(ev.Laplace),
    "mixed": Case(lambda s: ev.Compose([ev.Gaussian(2 * s), ev.Laplace(2 * s)])),
    "group": Case(lambda s: ev.Group(2, ev.Repeat(10, ev.Poisson(0.01, ev.Gaussian(s))))),
    "zcdp": Case(lambda s: ev.Repeat(10, ev.ZCDP(1 / s))),
    "exponential": Case(lambda s: ev.Repeat(10, ev.Exponential(1 / s))),
    "pure": Case(lambda s: ev.Repeat(10, ev.Pure(1 / s))),
    "renyi": Case(lambda s: ev.Compose([ev.Renyi([2.0, 32.0], [0.1 / s, 2.0 / s]), ev.Laplace(s)])),
    "shuffle": _shuffled(1000, epsilon=0.2, delta=1e-6),
    "poisson shuffle": Case(
        lambda s: ev.Poisson(0.5, ev.Shuffle(30, ev.Laplace(s))), neighbours="replace-one"
    ),
    "fixed-size shuffle": Case(
        lambda s: ev.FixedSize(30, 90, ev.Shuffle(30, ev.Laplace(s))), neighbours="replace-one"
    ),
}
EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@pytest.fixture
def asked(monkeypatch):
    """Return the names of the engines that were asked, in order; it fills as they are."""
    names: list[str] = []
    epsilon_total._answered.cache_clear()  # another test may have asked the same

    def recorded(name, method):
        def ask(*args, **kwargs):
            if name not in names:
                names.append(name)
            return method(*args, **kwargs)

        return ask

    for name in accounting._ENGINES:
        cls = type(accounting.engine_named(name))
        for question in {"epsilon", "delta", "certificate", "estimate"} & set(dir(cls)):
            monkeypatch.setattr(cls, question, recorded(name, getattr(cls, question)))
    return names


def test_the_cases_cover_every_row():
    covered = {engine_order(Composition.of(case.make(2.0))).about for case in CASES.values()}
    assert covered == {row.about for row in ENGINE_ORDERS}


def test_several_shuffled_rounds_are_not_one():
    shuffle = ev.Shuffle(100, ev.Laplace(2.0))
    assert engines_for(Composition.of(shuffle)) == ("blanket", "pld", "rdp")
    for event in (ev.Repeat(2, shuffle), ev.Compose([shuffle, ev.Laplace(9.0)])):
        assert engines_for(Composition.of(event)) == ("pld", "rdp")


@EACH
def test_every_caller_asks_the_engines_of_the_table(case, asked):
    planned = pp.calibrate(case.make, **case.target)
    event, leader = planned.event, planned.guarantee.engine
    wanted = set(engines_for(Composition.of(event)))
    assert set(asked) == wanted
    for target in ({"delta": case.delta}, {"epsilon": case.epsilon}):
        asked.clear()
        answer = pp.account(event, **target, neighbours=case.neighbours)
        assert tuple(asked) == engines_for(Composition.of(event))
        if "delta" in target:  # what is calibrated is what account says
            assert answer.engine == leader
            ours, theirs = answer.epsilon, planned.guarantee.epsilon
            assert ours.upper == pytest.approx(theirs.upper, rel=1e-6)
            assert ours.lower == pytest.approx(theirs.lower, rel=1e-3)
    asked.clear()
    found = total({event: 1}, delta=case.delta, neighbours=case.neighbours)
    assert found.upper <= case.epsilon
    assert asked[0] == "rdp"
    assert set(asked) == wanted
    asked.clear()
    listed = routes(event, delta=case.delta, neighbours=case.neighbours)
    row = engine_order(Composition.of(event))
    assert set(asked) == {*row.engines, *row.shown}
    assert {*row.engines, *row.shown} <= {route.name.split()[-1] for route in listed}
    if "shuffle" not in row.about or case.epsilon < 1.0:  # of the shuffles the plain one
        assert_no_forced_engine_finds_less_noise(case, planned)


def assert_no_forced_engine_finds_less_noise(case, planned):
    leader = planned.guarantee.engine
    forced = pp.calibrate(case.make, **case.target, engine=leader)
    assert planned.value <= forced.value * (1 + 1e-5)
    row = engine_order(Composition.of(planned.event))
    less = case.make(planned.value / (1 + 1e-5))
    for engine in {*row.engines, *row.shown} - {leader}:
        try:
            proven = pp.account(
                less, delta=case.delta, neighbours=case.neighbours, engine=engine
            ).epsilon.upper
        except Unsupported:
            continue
        assert proven > case.epsilon


def test_a_renyi_curve_is_not_excused_for_what_it_is():
    event = ev.Renyi([2.0, 8.0], [0.1, 0.4])
    for question in ({"delta": 1e-5}, {"delta": 0.0}, {"epsilon": 1.0}):
        assert not any("no mathematics" in each for each in pp.account(event, **question).warnings)


def test_the_audit_asks_rdp_alone_where_many_kinds_of_events_are_vast(asked):
    kinds = {
        ev.Poisson(0.5, ev.Gaussian(0.01 + i / 1000)): 3
        for i in range(MAX_KINDS_AT_VAST_EPSILON + 1)
    }
    found = total(kinds, delta=1e-5, neighbours="add-remove")
    assert found.upper > VAST_EPSILON
    assert asked == ["rdp"]


@for_each("event", [ev.Gaussian(0.012), ev.Poisson(0.5, ev.Gaussian(0.01)), ev.Gaussian(0.0001)])
def test_the_audit_proves_of_vast_numbers_what_the_run_states(event):
    found = total({event: 3}, delta=1e-5, neighbours="add-remove")
    assert found.upper > VAST_EPSILON
    assert found.upper == pp.account(ev.Repeat(3, event), delta=1e-5).epsilon.upper


def test_a_lower_end_comes_from_the_engine_that_has_one_even_where_another_refuses():
    lower = {ev.Poisson(0.01, ev.Gaussian(1.0)): 100}
    found = total(lower, delta=1e-5, neighbours="add-remove", lower=lower)
    assert 0.99 * found.upper < found.epsilon.lower


def test_noise_that_one_engine_cannot_reach_on_the_way_is_found_from_nearby():
    # At a noise of 1e9 pld has too many outcomes to list, so the search by it stops; not from here.
    found = pp.calibrate(lambda s: ev.DiscreteGaussian(s, 1000), epsilon=1, delta=1e-5)
    assert found.guarantee.engine == "pld"
    assert found.guarantee.epsilon.upper == pytest.approx(1.0, rel=1e-3)


def test_the_best_of_a_fixed_number_of_gaussian_runs_is_composed_by_pld() -> None:
    """Not all that the runs release is seen, so the closed form refuses, and pld is tighter."""
    event = ev.BestOf("fixed", 5, ev.Gaussian(3.0))
    found = accounting.account(event, delta=1e-5)
    assert found.engine == "pld"
    assert found.epsilon.upper < accounting.account(event, delta=1e-5, engine="rdp").epsilon.upper
