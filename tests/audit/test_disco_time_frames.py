"""Runs with time frames under audit: the longest frame is counted, and edits of who was there."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.sensitivity.release import root_down
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.residual.tier import residual_tier
from privplan.audit.verify import verify
from privplan.fl.disco.noise import NoiseTerms, mechanism_of, views_of
from privplan.fl.running.run_and_resume import run

from ..accountant.participating import exact
from ..cases import for_each
from ..fl.disco_runs import text
from ..fl.small_runs import of
from .forging import Edit, Line, Lines, each, forged

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sklearn", "cryptography", "torch")),
    reason="runs need the extra `fl`",
)

MOVING: Final = ("1-4", "1-2", "1-2", "3-4", "2-4")
TWO_GROUPS: Final = ("1-2", "1-2", "1-2", "3-4", "3-4", "3-4")
ALWAYS: Final = ("1-4", "1-2", "1-2", "1-2", "3-4", "3-4", "3-4")

LOCAL: Final = {"noise": '"local"'}
IN_CLEAR: Final = {"aggregation": '"plain"'}

RUNS: Final[dict[str, tuple[tuple[str, ...], dict[str, dict[str, str]]]]] = {
    "moving": (MOVING, {}),
    "two groups": (TWO_GROUPS, {}),
    "always": (ALWAYS, {}),
    "quantile": (TWO_GROUPS, {"disco": {"clip": '"quantile"'}}),
    "previous, in the clear": (
        MOVING,
        {"disco": {**LOCAL, "clip": '"previous"'}, "security": IN_CLEAR},
    ),
    "local": (MOVING, {"disco": LOCAL}),
    "records": (MOVING, {"privacy": {"unit": '"record"'}, "disco": {"divisor": "400"}}),
    "told": (ALWAYS, {"security": {"colluders": "1"}}),
}
"""The frames, and what else differs from the usual configuration: noise multiplier 3."""


def config_text(name: str) -> str:
    frames, tables = RUNS[name]
    written = "[" + ", ".join(f'"{frame}"' for frame in frames) + "]"
    return text(
        "seed",
        **{
            **tables,
            "run": {"rounds": "4"},
            "data": {"silos": str(len(frames))},
            "disco": {"time_frames": written, **tables.get("disco", {})},
        },
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Any]]:
    """Return what makes a run, once: its folder and its result."""
    kept: dict[str, tuple[Path, Any]] = {}

    def run_of(name: str) -> tuple[Path, Any]:
        if name not in kept:
            folder = tmp_path_factory.mktemp("runs")
            config = folder / "run.toml"
            config.write_text(config_text(name))
            kept[name] = folder / "out", run(config, folder / "out")
        return kept[name]

    return run_of


def members_of(frames: tuple[str, ...], number: int) -> list[int]:
    pairs = [tuple(map(int, frame.split("-"))) for frame in frames]
    return [peer for peer, (first, last) in enumerate(pairs) if first <= number <= last]


def truth_of(name: str, observer: str) -> float:
    """Return the exact epsilon of the worst pair of a peer that is replaced and one that looks.

    A share is s = z C / sqrt(m), so mu^2 is the sum of 4 C^2 / (s^2 h) = 4 m / (z^2 h) over the
    rounds of the first one's frame.  h shares hide it: those of the others in the round, less the
    looking peer's and its helpers'; 1 where messages are seen; all where nobody who adds one looks.
    """
    frames, tables = RUNS[name]
    told = int(tables.get("security", {}).get("colluders", "0"))
    clear = tables.get("security") == IN_CLEAR
    groups = [members_of(frames, number) for number in range(1, 5)]
    smallest, worst = min(map(len, groups)), 0.0
    for replaced in range(len(frames)):
        for looking in range(len(frames)):
            square = 0.0
            for group in groups:
                if replaced not in group or looking == replaced:
                    continue
                hidden = len(group)
                if observer == "peer":
                    hidden -= told + (looking in group)
                if clear and observer != "model":
                    hidden = 1
                square += 4.0 * smallest / (9.0 * hidden)
            worst = max(worst, square)
    return exact(math.sqrt(worst))


def longest(frames: tuple[str, ...]) -> int:
    return max(int(frame.split("-")[1]) - int(frame.split("-")[0]) + 1 for frame in frames)


@for_each("name", list(RUNS))
def test_the_audit_counts_the_longest_frame(
    name: str, made: Callable[[str], tuple[Path, Any]]
) -> None:
    folder, done = made(name)
    report = audit_budget(folder)
    assert report.errors == ()
    assert report.ok
    unseen = ["delta-not-compared"] if name == "records" else []
    assert [hazard.id for hazard in report.hazards] == unseen
    assert edits_of(folder) == ()
    (opened,) = of(folder, records.RunOpen)
    assert opened.plan.counted == longest(RUNS[name][0])
    found = {row.observer: row.total.upper for row in report.rows}
    assert set(found) == {"model", "peer", "coordinator"}
    for observer, guarantee in done.guarantees.items():
        planned = guarantee.epsilon.upper
        assert truth_of(name, observer) * (1 - 1e-9) <= found[observer], observer
        # In a larger group there is more noise than the plan counts with, and nowhere less.
        assert found[observer] <= planned * (1 + 1e-9), observer
        if name in ("two groups", "always", "quantile", "told"):  # groups of one size
            assert found[observer] == pytest.approx(planned, rel=1e-6), observer
    assert any("Who takes part in which round is public" in one for one in report.assumptions)
    assert not any(measured.contradicted for measured in residual_tier(folder))


# --- edited logs --------------------------------------------------------------------------------


def in_round(change: Callable[[Line], object], *numbers: int) -> Edit:
    def edited(line: Line) -> None:
        if line["round"] in numbers:
            change(line)

    return each("round.intent", edited)


def absent(*peers: int) -> Callable[[Line], object]:
    """Name some peers no more."""
    return lambda line: line.update(silos=[one for one in line["silos"] if one not in peers])


def present(*peers: int) -> Callable[[Line], object]:
    return lambda line: line.update(silos=sorted({*line["silos"], *peers}))


def refitted(smallest: int, noise: float) -> Edit:
    """Let noise, events, sensitivity, shares and streams of all rounds fit who is named in them."""

    def edit(lines: Lines) -> Lines:
        members: dict[int, int] = {}
        terms = NoiseTerms("shared", smallest, 0, "shares", "silo")
        for line in lines:
            if line["type"] == "round.intent":
                members[line["seq"]] = shares = len(line["silos"])
                bound = float(line["contribution"]["bound"])
                other = mechanism_of(terms, noise, bound=bound, members=shares, source="public")
                line["noise"].update(
                    shares=shares,
                    std=repr(other.std),
                    share_std=repr(other.share_std),
                    grid=repr(other.grid),
                )
                multiplier = root_down((Fraction(other.std) / Fraction(bound)) ** 2)
                line["event"] = ev.Gaussian(multiplier).to_json()
                alone = views_of(NoiseTerms("shared", shares, 0, "shares", "silo"), multiplier)
                for observer in line["views"]:
                    line["views"][observer] = alone[observer].to_json()
            if line["type"] == "round.release":
                shares = members[line["intent"]]
                line["streams"] = line["streams"][:shares]
                line["shares"] = shares
                line["normaliser"]["value"] = repr(float(shares))
        return lines

    return edit


def configured(frames: tuple[str, ...], **plan: Any) -> Edit:
    def change(line: Line) -> None:
        line["configuration"]["disco"]["time_frames"] = list(frames)
        line["plan"].update(plan)

    return each("run.open", change)


def in_file(frames: tuple[str, ...], noise: float = 3.0) -> Callable[[Path], object]:
    """Write the frames into the configuration of the folder too."""

    def change(folder: Path) -> None:
        path = folder / "config.toml"
        lines = path.read_text().splitlines()
        new = "time_frames = [" + ", ".join(f'"{frame}"' for frame in frames) + "]"
        lines = [new if line.startswith("time_frames") else line for line in lines]
        own = f"noise_multiplier = {noise!r}"
        lines = [own if line.startswith("noise_multiplier") else line for line in lines]
        assert new in lines
        path.write_text("\n".join(lines) + "\n")

    return change


def swapped(lines: Lines) -> Lines:
    """Let rounds 2 and 3 say each who took part in the other."""
    intents = {line["round"]: line for line in lines if line["type"] == "round.intent"}
    intents[2]["silos"], intents[3]["silos"] = intents[3]["silos"], intents[2]["silos"]
    return lines


def moved(lines: Lines) -> Lines:
    """Let the whole of round 3 stand before round 2."""
    third = [line for line in lines if line.get("round") == 3 or line.get("intent") == 5]
    others = [line for line in lines if line not in third]
    place = next(i for i, line in enumerate(others) if line.get("round") == 2)
    return [*others[:place], *third, *others[place:]]


SHORT: Final = ("1-2", *ALWAYS[1:])
LONG: Final = (ALWAYS[0], "1-4", *ALWAYS[2:])

CONFIGURED: Final = "configuration-mismatch"

FORGED: Final[dict[str, tuple[tuple[Edit, ...], Callable[[Path], object] | None, str]]] = {
    "a peer is named no more": ((in_round(absent(0), 3, 4),), None, CONFIGURED),
    "nor counted as a share": ((in_round(absent(0), 3, 4), refitted(4, 3.0)), None, CONFIGURED),
    "nor in the first line": (
        (in_round(absent(0), 3, 4), refitted(4, 3.0), configured(SHORT)),
        None,
        CONFIGURED,
    ),
    "nor in the plan": (
        (in_round(absent(0), 3, 4), refitted(4, 3.0), configured(SHORT, counted=2)),
        None,
        CONFIGURED,
    ),
    "nor in the file": (
        (in_round(absent(0), 3, 4), refitted(4, 3.0), configured(SHORT, counted=2)),
        in_file(SHORT),
        CONFIGURED,
    ),
    "all but the rounds": ((configured(SHORT, counted=2),), in_file(SHORT), CONFIGURED),
    "fewer rounds of a peer in the plan": ((configured(ALWAYS, counted=2),), None, CONFIGURED),
    "all peers in all rounds": (
        (each("round.intent", lambda line: line.pop("silos")),),
        None,
        CONFIGURED,
    ),
    "a round of others": ((swapped,), None, CONFIGURED),
    "a round moved": ((moved,), None, "broken-lineage"),
    "a longer frame": ((configured(LONG),), None, CONFIGURED),
    "a longer frame in the file": ((configured(LONG),), in_file(LONG), CONFIGURED),
    "a peer more": ((in_round(present(1), 3, 4),), None, CONFIGURED),
    "a peer more with its share": (
        (in_round(present(1), 3, 4), refitted(4, 3.0)),
        None,
        CONFIGURED,
    ),
    "a smaller smallest group": (
        (each("run.open", lambda line: line["security"].update(fewest=3)),),
        None,
        CONFIGURED,
    ),
}


@for_each("name", list(FORGED))
def test_an_edit_of_who_was_there_gains_nothing(
    name: str, made: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    edits, beside, found_by = FORGED[name]
    folder = forged(made("always")[0], tmp_path / "forged", *edits)
    if beside is not None:
        beside(folder)
    assert verify(folder).ok  # the chain is whole
    report = audit_budget(folder)
    assert not report.ok
    assert report.supported is False
    assert found_by in {hazard.id for hazard in report.hazards if hazard.severity == "error"}
    # And what the log still supports is never below what the peers' rounds and noise prove.
    assert report.total.upper >= truth_of("always", "peer")


def test_a_shorter_frame_in_all_lines_but_the_last_is_found(
    made: Callable[[str], tuple[Path, Any]], tmp_path: Path
) -> None:
    """First line, rounds and file fit the shorter frame of peer 0; the last line tells."""
    noise = 3.0 * math.sqrt(3 / 4)  # the same share of noise, made for a group of three
    plan = views_of(NoiseTerms("shared", 3, 0, "shares", "silo"), noise)
    seen = {name: ev.Repeat(2, event).to_json() for name, event in plan.items()}

    def opening(line: Line) -> None:
        line["configuration"]["privacy"]["noise_multiplier"] = repr(noise)
        line["security"]["fewest"] = 3

    edits = (
        in_round(absent(0), 3, 4),
        refitted(3, noise),
        configured(SHORT, counted=2, events=seen),
        each("run.open", opening),
    )
    folder = forged(made("always")[0], tmp_path / "forged", *edits)
    in_file(SHORT, noise)(folder)
    report = audit_budget(folder)
    assert not report.ok
    assert "close-mismatch" in {one.id for one in report.hazards if one.severity == "error"}
    assert report.total.upper >= truth_of("always", "peer")
