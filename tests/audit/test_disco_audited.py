"""Runs of DISCO's peers under audit: sound ones without a finding, edited logs found out."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.mechanisms import Gaussian
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.evidence import observers
from privplan.audit.report import read, render, verdict
from privplan.audit.residual.tier import residual_tier
from privplan.audit.verify import verify
from privplan.cli.reports import forecast
from privplan.fl.disco.noise import NoiseTerms, mechanism_of
from privplan.fl.disco.settings import COUNT_PHASE
from privplan.fl.running.forecast import told_every_message
from privplan.fl.running.run_and_resume import plan_run, run

from ..cases import for_each
from ..fl.disco_runs import configuration
from .forging import Edit, Line, Lines, each, forged, without, without_rounds

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sklearn", "cryptography", "torch")),
    reason="runs need the extra `fl`",
)

VARIANTS: dict[str, dict[str, dict[str, str]]] = {
    "shared": {"disco": {}},
    "told": {"data": {"silos": "5"}, "security": {"colluders": "2"}},
    "previous, by tensor": {"disco": {"clip": '"previous"', "clip_by": '"tensor"'}},
    "quantile": {"disco": {"clip": '"quantile"'}},
    "local": {"disco": {"noise": '"local"'}},
    "local, masked, quantile": {
        "disco": {"noise": '"local"', "clip": '"quantile"'},
        "security": {"aggregation": '"masked"'},
    },
    "local, in the clear, previous": {
        "disco": {"noise": '"local"', "clip": '"previous"'},
        "security": {"aggregation": '"plain"'},
    },
    "local, masked, told": {
        "disco": {"noise": '"local"'},
        "data": {"silos": "4"},
        "security": {"aggregation": '"masked"', "colluders": "1"},
    },
    "records": {"privacy": {"unit": '"record"'}, "disco": {"divisor": "400"}},
    "records, by tensor, in the clear": {
        "privacy": {"unit": '"record"'},
        "disco": {"divisor": "400", "clip_by": '"tensor"', "noise": '"local"'},
        "security": {"aggregation": '"plain"'},
    },
}
"""What differs from the usual configuration; every run draws from the operating system."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """Return what makes the run of a variant, once: its folder and its result."""
    kept: dict[str, tuple[Path, Any]] = {}

    def run_of(name: str) -> tuple[Path, Any]:
        if name not in kept:
            folder = tmp_path_factory.mktemp("runs") / "out"
            kept[name] = folder, run(configuration("seed", **VARIANTS[name]), folder)
        return kept[name]

    return run_of


@for_each("name", list(VARIANTS), items=2)
def test_the_audit_has_the_numbers_of_the_run(
    name: str, made: Callable[[str], tuple[Path, Any]]
) -> None:
    folder, done = made(name)
    report = audit_budget(folder)
    assert report.errors == ()
    assert report.ok
    # How many records there are stands in no log, so no delta can be compared with that.
    unseen = ["delta-not-compared"] if name.startswith("records") else []
    assert [hazard.id for hazard in report.hazards] == unseen
    assert edits_of(folder) == ()
    facts = read(folder)
    assert verdict(facts)[0] == "good"
    assert "a peer that holds nothing of the unit" in render(facts)
    found = {row.observer: row.total.upper for row in report.rows}
    # Of a coordinator who is told something there is a row beside; nothing is called a server else.
    coalitions = {"server+1", "server+1-with-records"} if name == "local, masked, told" else set()
    assert set(found) - coalitions == {"model", "peer", "coordinator"}
    for observer, guarantee in done.guarantees.items():
        assert found[observer] == pytest.approx(guarantee.epsilon.upper, rel=1e-6), observer
        assert found[observer] <= guarantee.epsilon.upper * (1 + 1e-9), observer


@for_each("name", ["shared", "local", "local, masked, quantile", "local, masked, told"])
def test_what_a_peer_is_supposed_not_to_be_told_stands_where_its_number_needs_it(
    name: str, made: Callable[[str], tuple[Path, Any]]
) -> None:
    """With noise of its own in every message, a number holds whoever tells what they sent."""
    folder, _ = made(name)
    shared = name == "shared"
    (row,) = (row for row in audit_budget(folder).rows if row.observer == "peer")
    assert (row.rests_on != ()) == shared
    planned = plan_run(configuration("seed", **VARIANTS[name]))
    (expected,) = (each for each in planned.observers if each.observer == "peer")
    assert expected.rests_on == row.rests_on
    assert told_every_message(planned.prepared.system) == (frozenset() if shared else {"peer"})
    said = " ".join(forecast.report_of(planned, Path("run.toml")).text.split())
    assert ("a peer, even where all others tell it what they sent" in said) != shared
    assert ("a peer, which sees" in said) == shared


@for_each("name", [one for one in VARIANTS if one.startswith("local, ")])
def test_rows_of_a_server_would_say_no_more(
    name: str, made: Callable[[str], tuple[Path, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator stands for a server, and a peer sees what a silo would: nothing is hidden."""
    folder, _ = made(name)
    among_peers = {row.observer: row.total.upper for row in audit_budget(folder).rows}
    monkeypatch.setattr(observers, "_summing", lambda _: ("server", "silo"))
    as_served = {row.observer: row.total.upper for row in audit_budget(folder).rows}
    assert set(as_served) - set(among_peers) == {"server", "silo"}
    assert among_peers["coordinator"] >= as_served["server"]
    assert among_peers["peer"] >= as_served["silo"]


@for_each(
    "name",
    ["told", "quantile", "local, masked, quantile", "records", "records, by tensor, in the clear"],
)
def test_the_noise_that_was_drawn_is_the_noise_that_is_logged(name: str, tmp_path: Path) -> None:
    """A sound run is contradicted once in 2,500; with this seed none of these is."""
    run(configuration(**VARIANTS[name]), tmp_path / "out")
    found = residual_tier(tmp_path / "out")
    assert found
    assert not any(measured.contradicted for measured in found)


@for_each("name", ["shared", "quantile", "records"])
def test_half_the_noise_is_contradicted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest: Any = Gaussian._with_noise

    def half(self: Gaussian, stream: Any, total: Any) -> Any:
        return total + (honest(self, stream, total) - total) // 2

    monkeypatch.setattr(Gaussian, "_with_noise", half)
    run(configuration(**VARIANTS[name]), tmp_path / "out")
    assert any(measured.contradicted for measured in residual_tier(tmp_path / "out"))


# --- edited logs ----------------------------------------------------------------------------------


def in_first_line(part: str, **changes: Any) -> Edit:
    return each("run.open", lambda line: line[part].update(changes))


def configured(table: str, **changes: Any) -> Edit:
    return each("run.open", lambda line: line["configuration"][table].update(changes))


def in_rounds(change: Callable[[Line], object], *numbers: int) -> Edit:
    """Change the intents of sums of updates, of all rounds or of some."""

    def edited(line: Line) -> None:
        if line["phase"] == "train" and (not numbers or line["round"] in numbers):
            change(line)

    return each("round.intent", edited)


def share_by(factor: float) -> Callable[[Line], object]:
    def change(line: Line) -> None:
        line["noise"]["share_std"] = repr(float(line["noise"]["share_std"]) * factor)

    return change


def clip_of(bound: float, source: str) -> Callable[[Line], object]:
    """State another clip, with the noise that the mechanism gives it: every fact but it fits."""

    def change(line: Line) -> None:
        noise = float(line["noise"]["std"]) / float(line["contribution"]["bound"])
        terms = NoiseTerms("shared", 3, 0, "shares", "silo")
        other = mechanism_of(terms, noise, bound=bound, members=3, source="models")
        line["contribution"].update(bound=repr(bound), source=source)
        stated = {"std": other.std, "share_std": other.share_std, "grid": other.grid}
        line["noise"].update({name: repr(value) for name, value in stated.items()})
        line["sensitivity"] = repr(other.sensitivity("replace-one"))

    return change


def source_of(source: str) -> Callable[[Line], object]:
    return lambda line: line["contribution"].update(source=source)


def without_phase(phase: str, *, measured: bool = True) -> Edit:
    """Cut out every intent of a phase, and what it released; and measurements, if so wished."""

    def edit(lines: Lines) -> Lines:
        gone = {line["seq"] for line in lines if line.get("phase") == phase}
        kept = [line for line in lines if not gone & {line["seq"], line.get("intent")}]
        kept = [line for line in kept if measured or line["type"] != "evaluation"]
        for line in kept:
            if line["type"] == "run.close":
                line["rounds"] = sum(one["type"] == "round.release" for one in kept)
        return kept

    return edit


def first_clips(lines: Lines) -> Lines:
    """Let every sum state the facts of the first one, as if its clip had never moved."""
    sums = [line for line in lines if line.get("phase") == "train"]
    for line in sums:
        line.update({name: sums[0][name] for name in ("contribution", "noise", "sensitivity")})
    return lines


PREVIOUS_RUN = "previous, by tensor"
CONFIGURED = "configuration-mismatch"

FORGED: dict[str, tuple[str, str, tuple[Edit, ...]]] = {
    "less noise in a share": ("shared", "event-mismatch", (in_rounds(share_by(0.5)),)),
    "more noise in a share": ("shared", CONFIGURED, (in_rounds(share_by(2.0)),)),
    "more shares": (
        "shared",
        "protocol-mismatch",
        (in_rounds(lambda line: line["noise"].update(shares=6)),),
    ),
    "fewer shares": (
        "shared",
        "protocol-mismatch",
        (in_rounds(lambda line: line["noise"].update(shares=2)),),
    ),
    "a clip raised alone": (
        "shared",
        "neighbour-mismatch",
        (in_rounds(lambda line: line["contribution"].update(bound="0.6", source="models"), 2),),
    ),
    "a clip raised with its noise": ("shared", CONFIGURED, (in_rounds(clip_of(0.6, "models"), 2),)),
    # By chance no clip may move in a run; here the second one does.
    "a clip of models in the first round": (
        PREVIOUS_RUN,
        "adaptive-clip",
        (in_rounds(clip_of(0.2, "models"), 2), in_rounds(source_of("models"), 1)),
    ),
    "a released clip in the first round": (
        PREVIOUS_RUN,
        "adaptive-clip",
        (in_rounds(clip_of(0.2, "models"), 2), in_rounds(source_of("released"), 1)),
    ),
    "a clip of models where none has moved": (
        PREVIOUS_RUN,
        CONFIGURED,
        (in_rounds(source_of("models"), 1),),
    ),
    "a released clip that nothing released": (
        PREVIOUS_RUN,
        CONFIGURED,
        (in_rounds(source_of("released"), 2),),
    ),
    "weights that change beside the clip": (
        PREVIOUS_RUN,
        "adaptive-clip",
        (in_rounds(lambda line: line["weights"].update(largest_sum="0.5"), 2),),
    ),
    "a clip above the first": (PREVIOUS_RUN, CONFIGURED, (in_rounds(clip_of(0.6, "models"), 2),)),
    "a clip below a twentieth": (
        PREVIOUS_RUN,
        CONFIGURED,
        (in_rounds(clip_of(0.3 / 21, "models"), 2),),
    ),
    "a quantile that moved too far": (
        "quantile",
        CONFIGURED,
        (in_rounds(clip_of(0.3 * 1.11, "released"), 2),),
    ),
    "a smaller ring": ("shared", CONFIGURED, (in_first_line("security", ring_bits=32),)),
    "fewer colluders": ("told", CONFIGURED, (in_first_line("security", colluders=0),)),
    "fewer colluders, in the configuration too": (
        "told",
        "configuration-file-mismatch",
        (in_first_line("security", colluders=0), configured("security", colluders=0)),
    ),
    "shared noise for local": (
        "local",
        "configuration-file-mismatch",
        (configured("disco", noise="shared"),),
    ),
    "no counts": ("quantile", "adaptive-clip", (without_phase(COUNT_PHASE),)),
    "no counts, and no clip that moved, of a run that goes on": (
        "quantile",
        CONFIGURED,
        (without_phase(COUNT_PHASE), first_clips, without("run.close")),
    ),
    "no count in a first round, which is all there is": (
        "quantile",
        CONFIGURED,
        (without_phase(COUNT_PHASE), without_rounds([2, 3]), without("run.close")),
    ),
    "a clip that moved, called the first": (
        "quantile",
        CONFIGURED,
        (first_clips, without("run.close")),
    ),
    "no sums, only counts": ("quantile", CONFIGURED, (without_phase("train", measured=False),)),
    "a fixed clip for a quantile": ("quantile", CONFIGURED, (configured("disco", clip="fixed"),)),
}
"""The variant, what finds the edit at least, and the edit of each forged log."""


@for_each("name", list(FORGED))
def test_an_edited_log_is_not_believed(
    name: str, made: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    variant, found_by, edits = FORGED[name]
    folder = forged(made(variant)[0], tmp_path / "forged", *edits)
    assert verify(folder).ok  # the chain is whole
    report = audit_budget(folder)
    assert not report.ok
    assert report.supported is False
    assert found_by in {hazard.id for hazard in report.hazards if hazard.severity == "error"}


@for_each("bound", [0.3 / 19, 0.29])
def test_a_clip_that_the_rule_allows_is_no_edit_by_itself(
    bound: float, made: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    """The control of the clips above: such a log is refused for nothing else than its range."""
    edit = in_rounds(clip_of(bound, "models"), 2)
    folder = forged(made(PREVIOUS_RUN)[0], tmp_path / "forged", edit)
    ids = {hazard.id for hazard in audit_budget(folder).hazards}
    assert CONFIGURED not in ids
    assert "event-mismatch" not in ids
