"""Edits of the logs of real runs, and of the files beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .forging import Edit, Lines, each, relinked, renumbered, restreamed, without, without_rounds

THRICE = "avg-thrice"
ABORTED = "avg-records-masked-aborted"
LOST = "avg-records-masked-resumed-3"
DANGLING = "avg-records-masked-resumed-2"
LAST = "avg-records-masked-resumed-9"
MOMENTS = "avg-moments-masked"


def without_releases(numbers: Sequence[int]) -> Edit:
    """Cut rounds out, and leave what was measured of them."""

    def stays(line: dict[str, Any]) -> bool:
        return line["type"] == "evaluation" or line.get("round") not in numbers

    return lambda lines: [line for line in lines if stays(line)]


def padded(numbers: Sequence[int]) -> Edit:
    """Put copies of a measurement in the place of rounds, so that every later line keeps its."""

    def edit(lines: Lines) -> Lines:
        kept = [one for one in lines if one["type"] == "evaluation" and one["round"] < numbers[0]]
        return [
            {**kept[-1], "seq": line["seq"]} if line.get("round") in numbers else line
            for line in lines
        ]

    return edit


def named_last(lines: Lines) -> Lines:
    """Let the last line name the model that the last release left."""
    lines[-1]["model"] = [one for one in lines if one["type"] == "round.release"][-1]["model_out"]
    return lines


def aborted(number: int) -> Edit:
    """Let a round be aborted instead of released, and measure nothing of it."""

    def edit(lines: Lines) -> Lines:
        kept = []
        for line in lines:
            if line["type"] == "round.release" and line["round"] == number:
                kept.append(
                    {
                        "type": "round.abort",
                        "round": number,
                        "intent": line["intent"],
                        "reason": "interrupted",
                        "seq": line["seq"],
                    }
                )
            elif line["type"] != "evaluation" or line["round"] != number:
                kept.append(line)
        return kept

    return edit


def refused_before(number: int) -> Edit:
    """Put an abort without an intent before a round, as of a silo that is missing."""

    def edit(lines: Lines) -> Lines:
        place = next(at for at, line in enumerate(lines) if line.get("round") == number)
        abort = {
            "type": "round.abort",
            "round": number,
            "intent": None,
            "reason": "missing-party",
            "seq": 1000,
        }
        return [*lines[:place], abort, *lines[place:]]

    return edit


def lengthened(lines: Lines) -> Lines:
    """Let the last release read twice as many bytes of each stream."""
    for own in [one for one in lines if one["type"] == "round.release"][-1]["streams"]:
        own["last"] += own["last"] - own["first"]
    return lines


def measured_late(lines: Lines) -> Lines:
    """Move what was measured of the first round before the last line."""
    first = next(line for line in lines if line["type"] == "evaluation")
    others = [line for line in lines if line is not first]
    return [*others[:-1], first, others[-1]]


def set_in(kind: str, **fields: Any) -> Edit:
    return each(kind, lambda line: line.update(fields))


def told(run: str, found: str, *edits: Edit) -> tuple[str, tuple[Edit, ...], set[str]]:
    """Return a run, edits of its log, and the names of what is found."""
    return run, edits, set(found.split())


MIDDLE, FIRST_TWO = without_rounds([2, 3]), without_rounds([1, 2])
UNRECOVERED = without("run.recover")

EDITS: dict[str, tuple[str, tuple[Edit, ...], set[str]]] = {
    "rounds from the middle": told(
        THRICE, "missing-rounds broken-lineage broken-streams close-mismatch", MIDDLE
    ),
    "rounds from the middle, numbered anew": told(
        THRICE, "broken-lineage broken-streams", MIDDLE, renumbered
    ),
    "rounds from the middle, linked anew": told(
        THRICE, "broken-streams", MIDDLE, renumbered, relinked
    ),
    "rounds from the middle, with new ranges": told(
        THRICE, "broken-lineage", MIDDLE, renumbered, restreamed
    ),
    "the last round, its lines filled": told(
        THRICE, "repeated-evaluation", padded([4]), renumbered, relinked, restreamed, named_last
    ),
    "a round behind one that is aborted instead": told(
        THRICE, "missing-recovery", aborted(2), renumbered, relinked
    ),
    "rounds that hide behind one that is aborted": told(
        *(THRICE, "broken-streams missing-recovery", without_rounds([2]), aborted(3)),
        *(renumbered, relinked),
    ),
    "an abort in the middle, and no recovery": told(THRICE, "missing-recovery", refused_before(3)),
    "a measurement that is moved": told(THRICE, "repeated-evaluation", measured_late),
    "the first rounds": told(
        THRICE, "missing-rounds foreign-first-model broken-streams close-mismatch", FIRST_TWO
    ),
    "the first rounds, numbered anew": told(
        THRICE, "foreign-first-model", FIRST_TWO, renumbered, restreamed
    ),
    "an aborted round with its recovery": told(
        *(ABORTED, "missing-recovery repeated-evaluation", without_rounds([2]), UNRECOVERED),
        renumbered,
    ),
    "an aborted round with its recovery, numbers left": told(
        *(ABORTED, "missing-rounds missing-recovery repeated-evaluation", without_rounds([2])),
        UNRECOVERED,
    ),
    "an aborted round, its recovery left": told(
        ABORTED, "missing-rounds recovery-mismatch", without_rounds([2])
    ),
    "a lost round with its recovery": told(
        LOST, "missing-rounds close-mismatch", without_rounds([1]), UNRECOVERED
    ),
    "a recovery alone, behind a lost round": told(
        LOST, "broken-lineage missing-recovery", UNRECOVERED
    ),
    "a recovery alone, behind a dangling intent": told(DANGLING, "missing-recovery", UNRECOVERED),
    "a recovery alone, behind the last intent": told(
        LAST, "missing-recovery repeated-evaluation", UNRECOVERED
    ),
    "the normalising phase": told(
        MOMENTS, "missing-moments foreign-model", without_rounds([0]), renumbered
    ),
    "a measurement that is left": told(
        THRICE,
        "unknown-evaluation close-mismatch foreign-model foreign-metrics",
        lambda lines: [
            one for one in lines if one["type"] == "evaluation" or one.get("round") != 4
        ],
    ),
    "a sum that was copied": told(
        THRICE, "repeated-release", set_in("round.release", aggregate="ab" * 32)
    ),
    "a commitment that was copied": told(
        THRICE,
        "repeated-release",
        each("round.release", lambda line: line["sealed"].update(joined="ab" * 32)),
    ),
    "another count in the last line": told(THRICE, "close-mismatch", set_in("run.close", rounds=5)),
    "another model in the last line": told(
        THRICE, "close-mismatch foreign-model", set_in("run.close", model="ab" * 32)
    ),
    "a recovery that goes on with an earlier round": told(
        LOST,
        "recovery-mismatch",
        each("run.recover", lambda line: line.update(next_round=line["next_round"] - 1)),
    ),
    "fewer values in each release": told(
        THRICE, "foreign-length", set_in("round.release", values=15)
    ),
    "more values in each release": told(
        THRICE, "foreign-length", set_in("round.release", values=62)
    ),
    "releases without the ranges of their streams": told(
        THRICE, "broken-streams", set_in("round.release", streams=[])
    ),
    "a longer range in the last release": told(THRICE, "broken-streams", lengthened),
    "another seed of the first model": told(
        THRICE,
        "foreign-first-model",
        each("run.open", lambda line: line["configuration"]["training"].update(seed=5)),
    ),
}
"""By name: a run, how its log is edited, and what is found, warnings and what follows aside."""


needs_runs = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("torch", "sklearn", "cryptography")),
    reason="runs need the extra `fl`",
)


# --- files beside the log -----------------------------------------------------------------------


def changed_model(folder: Path, **arrays: Any) -> None:
    with np.load(folder / "model.npz") as held:
        content = dict(held) | arrays
    np.savez(
        folder / "model.npz", **{name: one for name, one in content.items() if one is not None}
    )


def about(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return a change of what the model's file says about itself."""

    def made(folder: Path) -> None:
        with np.load(folder / "model.npz") as held:
            content = json.loads(held["about"].tobytes())
        change(content)
        changed_model(folder, about=np.frombuffer(json.dumps(content).encode(), np.uint8))

    return made


def metrics(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    """Return a change of the file of measurements."""

    def made(folder: Path) -> None:
        content = json.loads((folder / "metrics.json").read_text())
        change(content)
        (folder / "metrics.json").write_text(json.dumps(content))

    return made


def guaranteed(observer: str, **fields: object) -> Callable[[Path], None]:
    """Return a change of what the file of measurements promises to an observer."""
    return metrics(lambda content: content["guarantees"][observer].update(fields))


BESIDE: dict[str, tuple[Callable[[Path], object], str]] = {
    "another model": (
        lambda folder: changed_model(folder, parameters=np.zeros(31)),
        "holds the model",
    ),
    "another run": (about(lambda own: own.update(run_id="x")), "is of the run"),
    "another round": (about(lambda own: own.update(round=1)), "of round 1, which released"),
    "a round before the first": (
        about(lambda own: own.update(round=0)),
        "is of before the first round",
    ),
    "another measurement in the model": (
        about(lambda own: own["measured"][0][1].update(accuracy=0.99)),
        "says of round 1",
    ),
    "no moments": (
        lambda folder: changed_model(folder, normalisation_released=None),
        "holds no moments to normalise by, and the log released the moments",
    ),
    "other moments": (
        lambda folder: changed_model(folder, normalisation_released=np.zeros(60)),
        "and the log released the moments",
    ),
    "no model at all": (
        lambda folder: (folder / "model.npz").write_bytes(b"PK" + bytes(100)),
        "is no model of a run",
    ),
    "a better accuracy": (
        metrics(lambda own: own["rounds"][-1]["metrics"].update(accuracy=0.999)),
        "0.999",
    ),
    "a smaller epsilon": (
        guaranteed("model", epsilon=0.1),
        "says epsilon 0.1 at delta 1e-05 before 'model', and the last line",
    ),
    "another unit": (
        guaranteed("server", unit="silo"),
        "says unit 'silo' before 'server', and the log 'user'",
    ),
    "other neighbours": (
        guaranteed("server", neighbours="zero-out"),
        "says neighbours 'zero-out' before 'server', and the log 'add-remove'",
    ),
    "another engine": (guaranteed("model", engine="x"), "says engine 'x' before 'model'"),
    "an observer less": (metrics(lambda own: own["guarantees"].pop("silo")), "leaves it out"),
    "a measurement less": (metrics(lambda own: own["rounds"].pop(0)), "leaves it out"),
    "fewer releases": (
        metrics(lambda own: own.update(released=5)),
        "says released 5, and the log 2",
    ),
    "no measurements": (
        lambda folder: (folder / "metrics.json").write_text('{"rounds": [1]}'),
        "is no table of measurements",
    ),
}
