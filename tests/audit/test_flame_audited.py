"""Runs of FLAME under audit: sound ones have the numbers of their plan, edited logs are found."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import Unsupported
from privplan.audit.attack import AttackRequest, attack
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.report import read, render, verdict
from privplan.audit.verify import verify
from privplan.fl.running.run_and_resume import run

from ..cases import for_each
from ..fl import configured
from .forging import Edit, Line, Lines, forged

pytestmark = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("sklearn", "cryptography", "torch")),
    reason="runs need the extra `fl`",
)

WORDS = {"randomizer": '"responses"'}
IDEAL = {"transport": '"ideal"'}
PIECES = {"granularity": '"tuple"'}
CAPPED = {"padded_to": "3", "overflow": '"cap"'}

VARIANTS: dict[str, tuple[str, dict[str, str]]] = {
    "simple": ("flame-simple", {}),
    "simple, words": ("flame-simple", WORDS | IDEAL),
    "simple, in a piece": ("flame-simple", PIECES | IDEAL),
    "double": ("flame-double", {"padded_to": "10"}),
    "double, capped": ("flame-double", CAPPED | IDEAL),
    "double, words": ("flame-double", {"padded_to": "10"} | WORDS | IDEAL),
    "double, words, capped": ("flame-double", CAPPED | WORDS),
    "double, words, in a piece": ("flame-double", PIECES | WORDS | IDEAL),
    "double, told": ("flame-double", {"padded_to": "10"} | IDEAL),
    "topk": ("flame-topk", IDEAL),
    "topk, capped": ("flame-topk", {"overflow": '"cap"'}),
    "topk, words": ("flame-topk", WORDS),
    "topk, decoys": ("flame-topk", {"decoys": "4"} | IDEAL),
    "topk, decoys everywhere": ("flame-topk", {"decoys": "26"} | IDEAL),
    "topk, words, decoys everywhere": ("flame-topk", {"decoys": "26"} | WORDS),
    "topk, decoys everywhere, told": ("flame-topk", {"decoys": "26"} | IDEAL),
    "double, told by most": ("flame-double", {"padded_to": "10"} | IDEAL),
    "topk, all, told by most": ("flame-topk", {"chosen": "31"} | IDEAL),
    "topk, all": ("flame-topk", {"chosen": "31"} | IDEAL),
}
"""The table `[flame]` of each run: one round of 10 users, who send 5 of 31 coordinates."""

SLOW = {
    "simple, words",
    "double, words",
    "topk, words",
    "topk, all",
    "topk, words, decoys everywhere",
    "topk, decoys everywhere, told",
    "topk, all, told by most",
    "double, told",
    "topk, capped",
}

UNPROVEN: dict[str, tuple[str, dict[str, str]]] = {
    "topk, too few places": ("flame-topk", CAPPED | IDEAL),
    "topk, words, too few places": ("flame-topk", {"padded_to": "9"} | CAPPED | WORDS | IDEAL),
    "topk, in a piece": ("flame-topk", PIECES | IDEAL),
}
"""What holds for no data set, or shows which coordinates are largest."""


def settings(name: str, **tables: dict[str, str]) -> Any:
    system, table = (VARIANTS | UNPROVEN)[name]
    chosen = {} if system == "flame-simple" else {"chosen": "5"}
    whole: dict[str, dict[str, str]] = {
        "run": {"rounds": "1"},
        "data": {"users": "10"},
        "training": {"model": '"logistic"', "local_epochs": "1"},
        "flame": chosen | table,
    }
    if name.endswith("told"):
        whole["security"] = {"colluders": "2"}
    if name.endswith("told by most"):  # but for one user besides the unit's
        whole["security"] = {"colluders": "8"}
    for key, values in tables.items():
        whole[key] = whole.get(key, {}) | values
    return configured.read(system, **whole)


Made = Callable[[str], tuple[Path, Any]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Return what makes the run of a variant, once: its folder and its result."""
    kept: dict[str, tuple[Path, Any]] = {}

    def run_of(name: str) -> tuple[Path, Any]:
        if name not in kept:
            folder = tmp_path_factory.mktemp("runs") / "out"
            kept[name] = folder, run(settings(name), folder)
        return kept[name]

    return run_of


def marked(names: Any) -> list[Any]:
    return [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in names]


@for_each("name", marked(VARIANTS), items=5)
def test_the_audit_has_the_numbers_of_the_run(name: str, made: Made) -> None:
    folder, done = made(name)
    report = audit_budget(folder)
    assert report.errors == ()
    assert report.ok
    # Without ciphertexts the log says, and the audit repeats, that the shuffler is taken for blind.
    ideal = VARIANTS[name][1].get("transport") == '"ideal"'
    assert [hazard.id for hazard in report.hazards] == (["reach-assumed"] if ideal else [])
    assert ("reads no message" in " ".join(hazard.says for hazard in report.hazards)) == ideal
    for hazard in report.hazards:  # whose number rests on it, and what makes it needless
        resting = {
            repr(row.observer)
            for row in report.rows
            if any("reads no message" in text for text in row.rests_on)
        }
        assert set(re.findall(r"'[a-z]+'", hazard.says.split(" assume")[0])) == resting
        assert len(resting) > 1
        assert 'transport = "sealed"' in hazard.next_step
    assert edits_of(folder) == ()
    facts = read(folder)
    assert verdict(facts)[0] == "good"
    assert ("the shuffler reads no message" in " ".join(render(facts).split())) == ideal
    rows = {row.observer: row.total.upper for row in report.rows}
    assert set(rows) == {"model", "analyzer", "client", "shuffler", "colluding"}
    for observer, guarantee in done.guarantees.items():
        assert rows[observer] == pytest.approx(guarantee.epsilon.upper, rel=1e-9), observer
    sends_all = "everywhere" in name or "topk, all" in name
    if sends_all:
        # Of a message beside decoys everywhere nothing is told but what each of the k says.
        assert rows["shuffler"] == rows["colluding"] < math.inf
    if name.startswith("topk") and not sends_all:
        assert rows["shuffler"] == rows["colluding"] == math.inf
    elif "piece" in name:
        assert len(set(rows.values())) == 1
    else:
        assert rows["analyzer"] == rows["model"] <= rows["shuffler"] <= rows["colluding"] < math.inf
        # Where all is sent by all, the sums are all that the shuffler learns.
        assert (rows["shuffler"] == rows["model"]) == name.startswith("simple")
        # One more who tells takes a user off who was hardly any cover.
        alone = name.endswith("told by most")
        assert rows["analyzer"] < rows["client"] or (alone and rows["analyzer"] == rows["client"])


@for_each("name", list(UNPROVEN))
def test_nothing_is_promised_where_nothing_holds(name: str, made: Made) -> None:
    """In the plan, the log, the audit, the attack and the report."""
    folder, done = made(name)
    assert all(guarantee.epsilon.upper == math.inf for guarantee in done.guarantees.values())
    report = audit_budget(folder)
    assert not report.ok
    assert {row.total.upper for row in report.rows} == {math.inf}
    assert "no-guarantee" in {hazard.id for hazard in report.hazards}
    assert verdict(read(folder))[0] == "bad"
    assert "no guarantee" in render(read(folder)).lower()
    with pytest.raises(Unsupported, match="Nothing is claimed"):
        attack(folder, append=False)


@for_each("name", ["simple", "double"])
def test_an_attack_on_a_run_contradicts_nothing(name: str, made: Made) -> None:
    """Before shuffler and analyzer together: a sound run is contradicted once in 1,000."""
    folder, _ = made(name)
    request = AttackRequest(tiers=("claim", "robust"), observer="colluding", canaries=300, seed=1)
    found = attack(folder, request, append=False)
    assert [measured.verdict for measured in found.measurements] == ["not-contradicted"] * 2
    assert all(measured.value > 0.1 for measured in found.measurements)


@pytest.mark.slow  # the claim of shuffled messages is computed again for each of many factors
@for_each("name", ["double", "topk"])
def test_an_attack_by_the_analyzer_contradicts_nothing(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    run(settings(name), folder)
    found = attack(folder, AttackRequest(seed=1, canaries=300))
    assert {measured.tier for measured in found.measurements} >= {"claim", "robust"}
    assert not any(measured.verdict == "contradicted" for measured in found.measurements)
    assert verify(folder).ok
    assert "canaries" in render(read(folder))


# --- edited logs ----------------------------------------------------------------------------------


def nested(value: Any) -> list[Line]:
    """Return all objects in a value of a log, however deep."""
    inner = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(inner, list):
        return []
    here = [value] if isinstance(value, dict) else []
    return here + [deeper for one in inner for deeper in nested(one)]


def stated(line: Line) -> list[Line]:
    """Return what a line states of mixed messages: reaches and events."""
    return [
        one
        for one in nested(line)
        if one.get("sees") == "shuffled" or one.get("type") in ("sampled-shuffle", "shuffle")
    ]


def in_reaches(*observers: str, **changes: Any) -> Edit:
    """Change what intents state of what reaches these observers, or all, and nothing else."""

    def edit(lines: Lines) -> Lines:
        for line in lines:
            for observer, reach in line.get("reaches", {}).items():
                if reach["sees"] == "shuffled" and observer in (observers or (observer,)):
                    reach.update(changes)
        return lines

    return edit


def everywhere(**changes: Any) -> Edit:
    """Change all that the log says of how messages are mixed, in each line and in each event."""

    def edit(lines: Lines) -> Lines:
        for line in lines:
            for one in stated(line):
                one.update({name: value for name, value in changes.items() if name in one})
        return lines

    return edit


def as_mixed(lines: Lines) -> Lines:
    """State messages that stay together as mixed one by one, by all that the log says of them."""
    for line in lines:
        if line["type"] != "round.intent":
            continue
        draws = line["noise"]["draws"]
        mixed = {"sees": "shuffled", "users": 10, "granularity": "coordinate"}
        if draws < 31:
            mixed |= {
                "dimensions": 31,
                "chosen": draws,
                "padded_to": 10,
                "selection": "oblivious",
                "overflow": "refuse",
            }
        for observer in ("model", "analyzer", "client"):
            line["reaches"][observer].update(mixed)
    return lines


def configured_as(**changes: Any) -> Edit:
    """Change the configuration in the first line."""

    def edit(lines: Lines) -> Lines:
        lines[0]["configuration"]["flame"].update(changes)
        return lines

    return edit


def with_users(users: int) -> Edit:
    """Let the configuration, the population and the protocol have more users."""

    def edit(lines: Lines) -> Lines:
        lines[0]["configuration"]["data"]["users"] = users
        lines[0]["population"]["users"] = users
        lines[0]["security"].update(parties=users, fewest=users)
        return lines

    return edit


def less_epsilon(lines: Lines) -> Lines:
    """Halve the epsilon of every word."""
    for line in lines:
        for one in nested(line):
            if one.get("type") == "randomized-response":
                one["epsilon"] = one["epsilon"] / 2
    return lines


BETTER: dict[str, dict[str, Any]] = {
    "padded_to": {"padded_to": 40},
    "users": {"users": 40},
    "users and padding": {"users": 40, "padded_to": 40},
    "dimensions": {"dimensions": 310},
    "chosen": {"chosen": 1},
    "overflow": {"overflow": "cap"},
    "granularity": {"granularity": "tuple"},
}
OBLIVIOUS = {"selection": "oblivious"}

FORGED: dict[str, tuple[str, tuple[Edit, ...]]] = {
    **{f"{what}, by reaches": ("double", (in_reaches(**how),)) for what, how in BETTER.items()},
    **{
        f"{what}, of one observer": ("double", (in_reaches("client", **how),))
        for what, how in BETTER.items()
    },
    **{f"{what}, everywhere": ("double", (everywhere(**how),)) for what, how in BETTER.items()},
    "overflow, everywhere": ("double, capped", (everywhere(overflow="refuse"),)),
    "overflow, configured too": (
        "double, capped",
        (everywhere(overflow="refuse"), configured_as(overflow="refuse")),
    ),
    "padding, configured too": (
        "double, capped",
        (everywhere(padded_to=10), configured_as(padded_to=10)),
    ),
    "selection, by reaches": ("topk", (in_reaches(**OBLIVIOUS),)),
    "selection, everywhere": ("topk", (everywhere(**OBLIVIOUS),)),
    "padding of too few places": ("topk, too few places", (in_reaches(padded_to=10),)),
    "padding of too few places, configured too": (
        "topk, too few places",
        (in_reaches(padded_to=10), everywhere(padded_to=10), configured_as(padded_to=10)),
    ),
    "pieces that are mixed": ("double, words, in a piece", (as_mixed,)),
    "pieces that are mixed, configured too": (
        "double, words, in a piece",
        (as_mixed, configured_as(granularity="coordinate", padded_to=10)),
    ),
    "all pieces that are mixed": ("simple, in a piece", (as_mixed,)),
    "chosen, in the configuration": ("double", (configured_as(chosen=1),)),
    "granularity, in the configuration": ("double", (configured_as(granularity="tuple"),)),
    "more users": ("double", (with_users(40), everywhere(users=40, padded_to=40))),
    "words of less epsilon": ("double, words, capped", (less_epsilon,)),
    "fewer words": ("double, words, capped", (configured_as(steps=1),)),
}
"""The variant, and the edits of each forged log."""


@for_each("name", list(FORGED), items=5)
def test_an_edited_log_is_not_believed(name: str, made: Made, tmp_path: Path) -> None:
    """It has a finding that is an error, whatever its numbers are."""
    variant, edits = FORGED[name]
    honest, _ = made(variant)
    folder = forged(honest, tmp_path / "forged", *edits)
    assert verify(folder).ok  # the chain is whole
    report = audit_budget(folder)
    assert _log(honest) != _log(folder)
    assert not report.ok
    assert report.supported is False
    assert any(hazard.severity == "error" for hazard in report.hazards)


def _log(folder: Path) -> list[str]:
    return (folder / "log.jsonl").read_text().splitlines()
