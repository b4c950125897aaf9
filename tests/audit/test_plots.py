"""Plots: what the axes hold, that no guarantee is drawn too low, and what a picture holds."""

from __future__ import annotations

import itertools
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.claims.table import Claim
from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Evaluation
from privplan.audit.measurement import ExampleResult, Measurement
from privplan.audit.plots import chart as charts
from privplan.audit.plots import text_chart
from privplan.audit.plots.chart import Band, Gap
from privplan.audit.plots.comparisons import claims_chart
from privplan.audit.plots.ledger_course import LedgerCourse
from privplan.audit.plots.loss_curves import trade_off_chart
from privplan.audit.plots.spending import SpendingCourse
from privplan.audit.report import read
from privplan.cli.main import app
from privplan.fl.log.reader import BadLine

from ..cases import for_each
from . import ledgers
from .ledger_services import TRAINING, Ledger, served

DELTA = 1e-5
EVENT = ev.Repeat(200, ev.Poisson(0.02, ev.Gaussian(1.0)))


pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def axes() -> Any:
    """Return axes that a person made."""
    from matplotlib.figure import Figure

    return Figure().subplots()


@pytest.fixture
def ax() -> Any:
    """Return axes that a person made."""
    return axes()


@cache
def sized(epsilon: float = 2.0, rounds: int = 200, rate: float = 0.02) -> pp.Calibration:
    """Return the noise of a run of Poisson samples."""
    return pp.calibrate(
        lambda noise: ev.Repeat(rounds, ev.Poisson(rate, ev.Gaussian(noise))),
        epsilon=epsilon,
        delta=DELTA,
    )


def run_folder(folder: Path, accuracy: str = "0.75", **given: Any) -> Path:
    """Write the log of a run of 20 rounds whose model was measured at its end."""
    records = ledgers.weighted(**given)
    last = Evaluation(20, "declared-public", {"accuracy": accuracy, "loss": "0.5"})
    return ledgers.written(folder, [*records[:-1], last, records[-1]])


def line(ax: Any, label: str) -> tuple[list[float], list[float]]:
    """Return the numbers of the line with a label."""
    for each in ax.get_lines():
        if each.get_label().startswith(label):
            return list(map(float, each.get_xdata())), list(map(float, each.get_ydata()))
    raise AssertionError(f"no line {label}: {[each.get_label() for each in ax.get_lines()]}")


def subtitle(ax: Any) -> str:
    """Return the line under the title."""
    return next(str(text.get_text()) for text in ax.texts if text.get_gid() == "subtitle")


def at(numbers: tuple[Sequence[float], Sequence[float]], x: float) -> float:
    """Return the largest number of a line at one x, as it is drawn."""
    drawn: list[float] = []
    pairs = list(zip(*numbers, strict=True))
    for (a, start), (b, end) in itertools.pairwise(pairs):
        if a <= x <= b:
            drawn.append(max(start, end) if a == b else start + (end - start) * (x - a) / (b - a))
    return max(drawn)


def test_epsilon_of_an_event_is_never_drawn_below_what_is_certified(ax: Any) -> None:
    assert pp.plot.epsilon_by_round(EVENT, delta=DELTA, budget=3.0, ax=ax) is ax
    upper = line(ax, "proven, upper end")
    band = next(each for each in ax.collections).get_paths()[0].vertices
    for rounds in (1, 2, 17, 63, 101, 199, 200):
        proven = pp.account(ev.Repeat(rounds, EVENT.event), delta=DELTA).epsilon
        assert at(upper, rounds) >= proven.upper
        # The other end is drawn too, and never above what is true.
        here = [y for x, y in band if abs(x - rounds) < 1e-9]
        assert not here or min(here) <= proven.upper
    assert upper[1][-1] == pp.account(EVENT, delta=DELTA).epsilon.upper
    assert line(ax, "budget: epsilon 3")[1] == [3.0, 3.0]
    assert not any("exceeds the budget" in text.get_text() for text in ax.texts)
    over = pp.plot.epsilon_by_round(EVENT, delta=DELTA, budget=1.5, ax=axes())
    assert any("exceeds the budget" in text.get_text() for text in over.texts)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("rounds", "epsilon (nats)")
    assert ax.get_title(loc="left") == "Epsilon by round"
    assert subtitle(ax) == "unit: record; neighbours: add-remove; delta: 1e-05; observer: model"
    assert ax.get_xlim() == (0.0, 200.0)


def test_rounds_of_an_event_are_its_repetitions_and_parts() -> None:
    def rounds(event: ev.Event) -> tuple[int, list[float]]:
        course = SpendingCourse.of_event(event, delta=DELTA, neighbours="add-remove")
        return course.rounds, [point.epsilon for point in course.points]

    both = ev.Compose([ev.Repeat(3, ev.Gaussian(4.0)), ev.Laplace(2.0)])
    count, epsilons = rounds(both)
    assert count == 4
    assert epsilons == sorted(epsilons)
    assert epsilons[2] == pp.account(ev.Repeat(3, ev.Gaussian(4.0)), delta=DELTA).epsilon.upper
    assert epsilons[3] == pp.account(both, delta=DELTA).epsilon.upper
    count, grouped = rounds(ev.Group(2, ev.Repeat(3, ev.Gaussian(4.0))))
    assert count == 3
    assert grouped[0] > epsilons[0]
    assert rounds(ev.Gaussian(4.0))[0] == 1


def test_a_run_is_drawn_from_its_log(tmp_path: Path, ax: Any) -> None:
    folder = run_folder(tmp_path / "run")
    pp.plot.epsilon_by_round(folder, ax=ax)
    audited = ledgers.audit_budget(folder)
    upper = line(ax, "proven, upper end")
    assert upper[1][-1] == audited.total.epsilon.upper
    assert audited.claim is not None
    assert line(ax, "budget")[1][0] == audited.claim.epsilon
    assert subtitle(ax) == "unit: user; neighbours: add-remove; delta: 1e-05; observer: model"
    assert SpendingCourse.of_facts(read(folder)) == SpendingCourse.of_folder(folder)
    log = folder / "log.jsonl"
    log.write_text(log.read_text().replace('"round":3', '"round":4', 1))
    with pytest.raises(BadLine):
        pp.plot.epsilon_by_round(str(folder), ax=ax)


def test_rounds_without_a_finite_epsilon_are_a_gap_and_no_line() -> None:
    course = SpendingCourse.of_event(
        ev.Repeat(4, ev.Gaussian(2.0)), delta=DELTA, neighbours="add-remove"
    )
    last = replace(course.points[-1], epsilon=math.inf)
    cut = replace(course, points=(*course.points[:-1], last))
    gap, band = cut.chart().marks
    assert isinstance(gap, Gap)
    assert isinstance(band, Band)
    assert (gap.start, gap.end) == (3.0, 4.0)
    assert max(band.x) == 3.0
    with pytest.raises(InvalidInput, match="no round has a finite epsilon"):
        replace(course, points=(last,)).chart()


def test_an_event_needs_a_delta_and_nothing_else_is_drawn(ax: Any) -> None:
    with pytest.raises(InvalidInput, match="`delta` is missing"):
        pp.plot.epsilon_by_round(EVENT, ax=ax)
    with pytest.raises(InvalidInput):
        pp.plot.epsilon_by_round(3, delta=DELTA, ax=ax)  # type: ignore[arg-type]


@for_each(
    ("against", "label", "results"),
    [
        ("epsilon", "target epsilon (nats)", [sized(1.0), sized(2.0), sized(4.0)]),
        ("rounds", "rounds", [sized(rounds=50), sized(rounds=400), sized()]),
        ("rate", "sampling rate (share of the units in a round)", [sized(rate=0.1), sized()]),
    ],
)
def test_noise_is_drawn_against_what_differs(
    against: str, label: str, results: list[pp.Calibration]
) -> None:
    ax = axes()
    pp.plot.noise(results, ax=ax)
    assert (ax.get_xlabel(), ax.get_title(loc="left")) == (label, f"Noise against {against}")
    assert ax.get_ylabel() == "noise multiplier (noise / contribution bound)"
    joined = [each for each in ax.get_lines() if each.get_label().endswith("in between too")]
    x, y = joined[0].get_xdata(), joined[0].get_ydata()
    dots = next(each for each in ax.get_lines() if each.get_linestyle() == "None")
    assert sorted(dots.get_ydata()) == sorted(each.value for each in results)
    # Between two points there is never less noise than the weaker of them needs.
    middle = math.sqrt(dots.get_xdata()[0] * dots.get_xdata()[1])
    assert at((x, y), middle) == max(dots.get_ydata()[:2])
    assert subtitle(ax).startswith("unit: record; neighbours: add-remove; delta: 1e-05; ")
    assert f"{against}: " not in subtitle(ax)


def test_plans_say_their_noise_by_phase_and_what_differs_twice_is_asked_for(ax: Any) -> None:
    def planned(rounds: int) -> pp.Plan:
        phases = [
            pp.Phase("statistics", lambda noise: ev.Gaussian(noise), 1),
            pp.Phase("train", lambda noise: ev.Gaussian(noise), rounds),
        ]
        return pp.plan(phases, epsilon=2.0, delta=DELTA)

    plans = [planned(10), planned(40)]
    pp.plot.noise(plans, ax=ax)
    assert line(ax, "phase train")[0][-1] == 41.0
    assert {label for label in ax.get_legend_handles_labels()[1] if "between" not in label} == {
        "phase statistics",
        "phase train",
    }
    with pytest.raises(InvalidInput, match="Results differ in epsilon and rounds"):
        pp.plot.noise([sized(1.0), sized(2.0, 50)])
    with pytest.raises(InvalidInput, match="nothing to plot"):
        pp.plot.noise([])
    with pytest.raises(InvalidInput, match="a calibration or a plan; it is an int"):
        pp.plot.noise([3])  # type: ignore[list-item]


def test_a_profile_is_a_band_whose_upper_end_is_the_guarantee(ax: Any) -> None:
    profile = pp.privacy_profile(EVENT, [0.0, 0.5, 1.0, 2.0])
    pp.plot.privacy_profile(profile, unit="user", ax=ax)
    x, y = line(ax, "proven delta, upper end")
    on_axis = list(map(math.log, y))  # the axis is logarithmic, and so is what joins two points
    for epsilon in (0.0, 0.25, 0.7, 1.9):
        truth = pp.account(EVENT, epsilon=epsilon).delta.upper
        assert at((x, on_axis), epsilon) >= math.log(truth) - 1e-12
    assert ax.get_yscale() == "log"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epsilon (nats)", "delta (probability)")
    assert subtitle(ax) == "unit: user; neighbours: add-remove"
    with pytest.raises(InvalidInput, match="PrivacyProfile is needed; this is"):
        pp.plot.privacy_profile(EVENT)  # type: ignore[arg-type]


ATTACK = Measurement(
    tier="claim",
    what="canaries",
    value=1.0,
    kind="lower-bound",
    contradicted=False,
    proves="something",
    observer="model",
    unit="record",
    neighbours="add-remove",
    delta=DELTA,
    curves={"trade-off": ((0.1, 0.7), (0.5, 0.3))},
)


def test_no_attack_comes_below_the_line_of_the_trade_off(ax: Any) -> None:
    curve = pp.roc(EVENT, [0.01, 0.1, 0.3, 0.6])
    attack = pp.risk(EVENT, fpr=0.01)
    pp.plot.trade_off(curve, measured=ATTACK, risk=attack, claimed=(2.0, DELTA), ax=ax)
    x, y = line(ax, "proven: no attack comes below")
    for rate in (0.005, 0.05, 0.2, 0.45, 0.8):
        below = min(v for a, v in zip(x, y, strict=True) if a >= rate)
        truth = 1.0 - pp.roc(EVENT, [rate]).upper[0]
        assert below <= truth + 1e-12
        # The line itself, as it is drawn, lies at or below the truth as well.
        assert -at((x, [-each for each in y]), rate) <= truth + 1e-12
    assert line(ax, "measured, tier claim") == ([0.1, 0.5], [0.7, 0.3])
    assert line(ax, "at FPR 0.01")[1] == [1.0 - attack.tpr.upper]
    assert line(ax, "claimed: epsilon 2")[1][0] == 1.0 - DELTA
    assert ax.get_xlim() == ax.get_ylim() == (0.0, 1.0)


def test_a_claimed_line_is_exactly_what_epsilon_and_delta_allow() -> None:
    chart = trade_off_chart(None, unit="record", neighbours="add-remove", claimed=(1.0, 0.1))
    claimed = chart.marks[-1]
    assert isinstance(claimed, charts.Line)
    for rate in (0.0, 0.05, 0.2, 0.3, 0.6, 0.95):
        misses = max(0.0, 0.9 - math.e * rate, (0.9 - rate) / math.e)
        assert at((claimed.x, claimed.y), rate) == pytest.approx(misses)


def test_claims_are_intervals_with_what_is_claimed(ax: Any) -> None:
    facts: dict[str, Any] = {"records": 60000, "batch": 256, "steps": 3516, "method": "poisson"}
    results = {
        name: pp.check(claimed=claimed, delta=DELTA, noise_multiplier=1.3, **facts)
        for name, claimed in (("right.toml", 1.0), ("wrong $x$.toml", 0.5))
    }
    pp.plot.claims(results, ax=ax)
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    assert names == ["holds: right.toml", "false: wrong $x$.toml"]
    proven = results["right.toml"].proven
    assert proven is not None
    assert line(ax, "proven, upper end (the guarantee)")[0] == [proven.upper]
    assert line(ax, "between both ends")[0] == [proven.lower, proven.upper]
    assert line(ax, "claimed") == ([1.0, 0.5], [0.0, 1.0])
    assert ax.get_xlabel() == "epsilon (nats)"
    assert subtitle(ax) == "unit: record; neighbours: add-remove; delta: 1e-05"
    assert not any(tick.get_parse_math() for tick in ax.get_yticklabels())


def test_published_claims_say_where_nothing_finite_is_proven(ax: Any) -> None:
    shared: dict[str, Any] = {"unit": "user", "neighbours": "add-remove", "observer": "server"}
    shared |= {"delta": DELTA, "why": "so", "source": "here"}
    rows = [
        Claim("flame", "bound", claimed=1.0, proven=2.0, lower=1.5, **shared),
        Claim("flame", "none", claimed=1.0, proven=math.inf, lower=2.0, **shared),
        Claim("flame", "unknown", claimed=1.0, proven=None, lower=None, **shared),
        Claim("flame", "rate", claimed=1.0, proven=2.0, lower=None, quantity="tpr", **shared),
        ExampleResult(
            **{"paper": "flame", "system": "flame-simple", "data": "digits", "rounds": 5},
            **{"as_published": False, "unit": "user", "neighbours": "add-remove"},
            **{"observer": "analyzer", "delta": DELTA, "claimed": 3.0, "proven": 3.0},
            **{"measured": 0.75, "confidence": 0.95, "canaries": 100, "contradicted": False},
        ),
    ]
    pp.plot.claims(rows, ax=ax)
    assert "no finite bound" in {text.get_text() for text in ax.texts}
    said = " ".join(text.get_text() for text in ax.texts)
    assert "Nothing is proven of 1 row" in said
    assert "1 claim of another quantity than epsilon left out" in said
    assert line(ax, "measured")[0] == [0.75]
    exact = Claim("flame", "exact", claimed=100.0, proven=0.0, lower=None, **shared)
    wide = pp.plot.claims([exact, rows[0]], ax=axes())
    assert wide.get_xscale() == "log"
    assert line(wide, "proven")[0] == [wide.get_xlim()[0]]
    assert any("stands at its left edge" in text.get_text() for text in wide.texts)
    far = Claim("flame", "far", claimed=1.0, proven=1e9, lower=None, **shared)
    cut = pp.plot.claims([far, rows[0]], ax=axes())
    assert line(cut, "proven")[0] == [2.0]  # no bar stands left of where it belongs
    assert "at most 1.000e+09" in {text.get_text() for text in cut.texts}
    assert "→" in text_chart.text_chart(claims_chart([far, rows[0]]), 60)
    with pytest.raises(InvalidInput, match="no claim of an epsilon"):
        pp.plot.claims(rows[3:4])
    with pytest.raises(InvalidInput, match="it is a str"):
        pp.plot.claims(["a claim"])  # type: ignore[list-item]


def test_utility_is_drawn_at_the_end_that_is_the_guarantee(tmp_path: Path, ax: Any) -> None:
    short, long = (
        run_folder(tmp_path / "short", "0.6"),
        run_folder(tmp_path / "long", "0.8", rate=0.5),
    )
    pp.plot.utility({"short": short, "long": long}, ax=ax)
    total = ledgers.audit_budget(short).total.epsilon
    assert line(ax, "short") == ([total.upper], [0.6])
    assert line(ax, "between both ends")[0] == [total.lower, total.upper]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("epsilon (nats)", "accuracy on test data")
    pp.plot.utility([short, long], metric="loss", ax=ax)
    assert ax.get_ylabel() == "loss on test data"
    with pytest.raises(InvalidInput, match="in common they have: accuracy, loss"):
        pp.plot.utility([short, long], metric="auc")
    with pytest.raises(InvalidInput, match="no run is given"):
        pp.plot.utility([])


def test_runs_that_do_not_compare_are_said_to(tmp_path: Path, ax: Any) -> None:
    one = run_folder(tmp_path / "one")
    other = run_folder(tmp_path / "other", neighbours="replace-one")
    pp.plot.utility({"one": one, "other": other}, ax=ax)
    assert line(ax, "other (user, replace-one, delta 1e-05)")
    assert "do not compare" in " ".join(text.get_text() for text in ax.texts)


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the history of a data set with two blocks, of which one spent more."""
    folder = tmp_path_factory.mktemp("ledger")
    with served(folder / "ledger.db") as service:
        ledger = Ledger(service)
        ledger.step("begin", ledger.claim(TRAINING)["id"])
        ledger.step("cancel", ledger.claim(TRAINING, blocks=["b"])["id"])
        ledger.step("begin", ledger.claim(TRAINING, blocks=["b"])["id"])
        (folder / "export.jsonl").write_bytes(b"".join(ledger.lines()))
    return folder / "export.jsonl"


def test_what_a_data_set_spent_stays_below_its_cap(export: Path, ax: Any) -> None:
    pp.plot.ledger_spending(export, ax=ax)
    course = LedgerCourse.of_export(export)
    assert course.audit is not None
    for name, spent in course.audit.spent.items():
        numbers = line(ax, f"block {name}")[1]
        assert numbers[-1] == spent
        assert numbers[0] == 0.0
    cap = line(ax, "cap")[1]
    assert cap == [course.audit.epsilon] * 2
    assert max(line(ax, "block b")[1]) <= cap[0]
    assert "data set: " in subtitle(ax)
    assert f"delta: {course.audit.delta:g}" in subtitle(ax)
    assert ax.get_ylabel() == "epsilon spent, upper end (nats)"
    assert ax.get_xlabel() == "entry of the history"  # it was written within a minute
    later = [replace(m, at=f"2026-11-{1 + m.seq:02}T12:00:00+00:00") for m in course.moments]
    label = replace(course, moments=later).chart().x.label
    assert label == "days since 2026-11-01 12:00 UTC (the service's clock)"


def test_an_audit_of_a_history_draws_what_it_added_up(export: Path) -> None:
    audited = CliRunner().invoke(app, ["audit", "ledger", str(export), "--plot", "-", "--json"])
    result = json.loads(audited.stdout)["result"]
    drawn = CliRunner().invoke(app, ["plot", "ledger", str(export), "--json"])
    plot = json.loads(drawn.stdout)["result"]
    assert result["plot"] == plot
    ends = {mark["label"]: mark["y"][-1] for mark in plot["marks"]}
    assert ends == {"cap": result["epsilon"]} | {
        f"block {name}": spent for name, spent in result["spent"].items()
    }


def test_of_a_history_that_was_changed_only_the_good_part_is_drawn(
    export: Path, tmp_path: Path
) -> None:
    lines = export.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"seq":3', b'"seq":7')
    (tmp_path / "changed.jsonl").write_bytes(b"".join(lines))
    course = LedgerCourse.of_export(tmp_path / "changed.jsonl")
    assert course.chart().notes == (
        "Only the first 3 entries are drawn: a later one contradicts them.",
    )
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(InvalidInput, match="no entry that a service writes"):
        LedgerCourse.of_export(tmp_path / "empty.jsonl").chart()


def test_without_axes_there_is_a_new_figure() -> None:
    first = pp.plot.noise(sized())
    second = pp.plot.noise(sized())
    assert first.figure is not second.figure
    assert tuple(first.figure.get_size_inches()) == (6.4, 4.2)


def test_without_matplotlib_the_extra_is_named() -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "import privplan as pp\n"
        "from privplan.accountant.errors import MissingExtra\n"
        "event = pp.events.Gaussian(2.0)\n"
        "try:\n"
        "    pp.plot.epsilon_by_round(event, delta=1e-5)\n"
        "except MissingExtra as error:\n"
        "    print(error.next_step)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert said == 'Install the extra: pip install "privplan[plots]".\n'


def test_the_front_door_loads_no_plots() -> None:
    program = (
        "import sys, privplan; loaded = set(sys.modules)\n"
        "assert not {name for name in loaded if 'plots' in name}, loaded\n"
        "privplan.plot.noise; assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
