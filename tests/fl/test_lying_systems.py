"""Systems of another package that do not keep to what the frame asks: refused by name and field."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gaussian
from privplan.fl.declarations.declaration import Declaration
from privplan.fl.declarations.packages import built_in
from privplan.fl.frame.model import Round, model_digest
from privplan.fl.frame.phases import Phase
from privplan.fl.frame.rounds import Draft
from privplan.fl.frame.setup import setup
from privplan.fl.frame.state import State
from privplan.fl.log import read
from privplan.fl.running.checkpoint import MODEL_FILE, Checkpoint

pytest.importorskip("sklearn")

TABLES: Any = {
    "run": {"system": "liar", "rounds": 2},
    "data": {"name": "breast-cancer", "users": 20},
    "privacy": {"noise_multiplier": 5.0, "delta": 1e-3},
}


@pytest.fixture
def means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "brought"))
    import means

    return means


@pytest.fixture
def lying(means: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what runs an honest system of which some things are changed."""

    class Honest(means.Means):  # type: ignore[misc]
        def mechanism(self, noise_multiplier: float) -> Gaussian:
            return Gaussian(bound=10.0, std=10.0 * noise_multiplier, terms="unit", unit="user")

        def round(self, number: int, parameters: Any, gate: Any, state: Any) -> Any:
            mechanism = self.mechanism(self.promise.noise_multiplier)

            def work(ticket: Any) -> Any:
                (total,) = mechanism.noisy(ticket, [mechanism.total(self.rows())], ["noise"])
                return self.draft(number, parameters, total)

            return self.make_round(number, parameters, gate, work)

        def draft(self, number: int, parameters: Any, total: Any) -> Any:
            constant = records.Normaliser("constant", 20.0)
            return Draft(total / 20.0, aggregate=total, normaliser=constant)

    def run(changes: dict[str, Any] | None = None, *, make: Any = None, measure: Any = None) -> Any:
        kind = type("Liar", (Honest,), {"state": State(), **(changes or {})})
        module: Any = ModuleType("liars")
        module.make = make or (lambda own, data, local, _: kind(setup(own, data, local)))
        module.measure = measure or (lambda *_: {"one": 1.0})
        monkeypatch.setitem(sys.modules, "liars", module)
        declared = Declaration(
            name="liar",
            make="liars:make",
            measure="liars:measure",
            summary="a system of a test",
            package="numpy",
            trains=False,
            phases=("release",),
        )
        monkeypatch.setitem(built_in(), "liar", declared)
        return pp.run(TABLES, "out")

    return run


def draft(change: Callable[[Any], Any]) -> dict[str, Any]:
    def made(_: Any, number: int, __: Any, total: Any) -> Any:
        return Draft(change(total) if number == 2 else total / 20.0, aggregate=total)

    return {"draft": made}


def test_an_honest_one_runs(lying: Any) -> None:
    assert lying().result.rounds == 2


def test_a_model_may_be_the_sum_itself(lying: Any) -> None:
    from privplan.audit.budget import audit_budget

    lying({"draft": lambda _, __, ___, total: Draft(total, aggregate=total)})
    assert "repeated-release" not in {hazard.id for hazard in audit_budget("out").hazards}


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda total: total * np.nan, "is not finite"),
        (lambda total: total + np.inf, "is not finite"),
        (lambda total: total[:-1], r"must be a vector \(31,\) of float64"),
        (lambda total: total[None], r"must be a vector \(31,\) of float64"),
        (lambda total: total.astype(np.float32), "of float64"),
        (lambda total: total.astype(object), "of float64"),
        (lambda total: total.tolist(), "of float64"),
        (lambda _: None, "of float64"),
    ],
)
def test_a_model_is_one_finite_vector_in_every_round(
    lying: Any, change: Callable[[Any], Any], what: str
) -> None:
    with pytest.raises(InvalidInput, match=what) as refused:
        lying(draft(change))
    assert "liar (package numpy)" in refused.value.what
    assert Checkpoint.read(Path("out/checkpoint.npz")).round == 1


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda *_: None, "must return a Draft; it returned a NoneType"),
        (lambda _, __, x, t: Draft(x + t, aggregate="x"), "aggregate .* must be an array"),
    ],
)
def test_a_draft_is_one(lying: Any, made: Any, what: str) -> None:
    with pytest.raises(InvalidInput, match=what):
        lying({"draft": made})


def rounds(made: Callable[..., Any], means: Any) -> dict[str, Any]:
    def round(self: Any, number: int, parameters: Any, gate: Any, state: Any) -> Any:
        honest = lambda: super(type(self), self).round(number, parameters, gate, state)  # noqa: E731
        return made(honest, parameters)

    assert means
    return {"round": round}


@pytest.mark.parametrize(
    "made",
    [
        lambda *_: None,
        lambda _, x: Round(x + 1.0, 1),
        lambda honest, _: replace(honest(), parameters=np.ones(31)),
        lambda honest, _: replace(honest(), released=1),
    ],
)
def test_a_model_that_its_round_did_not_release_is_refused(
    lying: Any, means: Any, made: Callable[..., Any]
) -> None:
    with pytest.raises(InvalidInput, match=r"liar \(package numpy\)"):
        lying(rounds(made, means))
    assert not Path("out/checkpoint.npz").exists()


def test_a_round_without_a_release_of_its_own_is_refused(lying: Any, means: Any) -> None:
    kept: list[Any] = []

    def made(honest: Any, _: Any) -> Any:
        kept.append(kept[0] if kept else honest())
        return kept[-1]

    with pytest.raises(InvalidInput, match=r"Round 2 of liar .* released nothing"):
        lying(rounds(made, means))


@pytest.mark.parametrize("where", ["measure", "later", "given"])
def test_nobody_writes_into_the_model_of_a_run(lying: Any, where: str) -> None:
    held: list[Any] = []

    def altering(_: Any, parameters: Any) -> dict[str, float]:
        parameters[:] = 7.0
        return {"one": 1.0}

    def made(_: Any, __: int, parameters: Any, total: Any) -> Any:
        for array in held:
            array[:] = 7.0
        moved = total / 20.0
        if where == "later":
            held.append(moved)
        if where == "given":
            parameters[:] = 7.0
        return Draft(moved, aggregate=total)

    outcome = lying({"draft": made}, measure=altering if where == "measure" else None)
    last = [line.record for line in read("out") if isinstance(line.record, records.RoundRelease)][
        -1
    ]
    assert model_digest(outcome.parameters) == last.model_out
    assert model_digest(Checkpoint.read(Path("out") / MODEL_FILE).parameters) == last.model_out


def stopping(*_: Any) -> Any:
    raise SystemExit(0)


def test_an_end_of_the_program_is_no_end_of_a_system(lying: Any) -> None:
    with pytest.raises(InvalidInput, match="Package numpy: system liar, `make` fails: SystemExit"):
        lying(make=stopping)
    assert not Path("out").exists()


@pytest.mark.parametrize("make", [lambda *_: None, lambda *_: 3, lambda: None])
def test_what_makes_no_system_is_refused(lying: Any, make: Any) -> None:
    with pytest.raises(InvalidInput, match="Package numpy: system liar"):
        lying(make=make)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "numbers",
    [None, [1.0], {"one": "text"}, {"one": np.ones(2)}, {"one": 10**400}, {3: 1.0}, {"a\n": 1.0}],
)
def test_measures_are_numbers_by_name(lying: Any, numbers: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`measure` of liar \(package numpy\)"):
        lying(measure=lambda *_: numbers)


def test_a_measure_that_fails_is_named(lying: Any) -> None:
    def failing(*_: Any) -> Any:
        raise RuntimeError("no")

    with pytest.raises(InvalidInput, match=r"Package numpy: system liar, `liars:measure` fails"):
        lying(measure=failing)


def phases(listed: Callable[..., Any]) -> dict[str, Any]:
    return {"phases": property(lambda self: listed(self, self.promise.plan.phases[-1]))}


@pytest.mark.parametrize(
    "listed",
    [
        *(lambda *_: None, lambda *_: (), lambda *_: "abc", lambda *_: (1, 2)),
        lambda own, plan: (Phase(plan, 1, own.round), Phase(plan, 4, own.round)),
        lambda own, plan: (Phase(plan, -3, own.round),),
        *(lambda own, plan: (Phase(plan, 1.5, own.round),), lambda _, plan: (Phase(plan, 1, 3),)),
    ],
)
def test_phases_are_those_of_the_plan(lying: Any, listed: Callable[..., Any]) -> None:
    with pytest.raises(InvalidInput, match="hase"):
        lying(phases(listed))
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"epsilon": 0.01}, r"claims epsilon 0.01; its plan proves 0\.68"),
        ({"delta": 1e-9}, "another delta or group"),
        ({"group": 5}, "another delta or group"),
        ({"observer": "martian"}, "'martian', of whom the plan says nothing"),
    ],
)
def test_a_run_claims_what_its_plan_proves(
    lying: Any, means: Any, change: dict[str, Any], what: str
) -> None:
    def opening(self: Any) -> Any:
        honest = means.Means.opening(self)
        return replace(honest, claim=replace(honest.claim, **change))

    with pytest.raises(InvalidInput, match=rf"`opening` of liar \(package numpy\) .*{what}"):
        lying({"opening": opening})
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "first", [None, np.zeros((1, 31)), np.zeros(0), np.zeros(31, int), np.full(31, np.nan)]
)
def test_the_first_model_is_one(lying: Any, first: Any) -> None:
    with pytest.raises(InvalidInput, match=r"first model of liar \(package numpy\)"):
        lying({"initial": lambda _: first, "state": State()})
    assert not Path("out").exists()


@pytest.mark.parametrize("parts", [None, {"a": (3,)}, {"a": (-1,)}, {3: (31,)}, {"a": [31]}])
def test_parts_are_all_of_the_vector(lying: Any, parts: Any) -> None:
    with pytest.raises(InvalidInput, match=r"`parts` of liar \(package numpy\)"):
        lying({"parts": property(lambda _: parts)})
    assert not Path("out").exists()
