"""Edits of the logs of real runs, and of the files beside them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from .forging import (
    Edit,
    Lines,
    each,
    relinked,
    renumbered,
    restreamed,
    without,
    without_rounds,
)

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


EDITS: dict[str, tuple[str, tuple[Edit, ...], set[str]]] = {
    "rounds from the middle": (
        THRICE,
        (without_rounds([2, 3]),),
        {"missing-rounds", "broken-lineage", "broken-streams", "close-mismatch"},
    ),
    "rounds from the middle, numbered anew": (
        THRICE,
        (without_rounds([2, 3]), renumbered),
        {"broken-lineage", "broken-streams"},
    ),
    "rounds from the middle, linked anew": (
        THRICE,
        (without_rounds([2, 3]), renumbered, relinked),
        {"broken-streams"},
    ),
    "rounds from the middle, with new ranges": (
        THRICE,
        (without_rounds([2, 3]), renumbered, restreamed),
        {"broken-lineage"},
    ),
    "the last round, its lines filled": (
        THRICE,
        (padded([4]), renumbered, relinked, restreamed, named_last),
        {"repeated-evaluation"},
    ),
    "a round behind one that is aborted instead": (
        THRICE,
        (aborted(2), renumbered, relinked),
        {"missing-recovery"},
    ),
    "rounds that hide behind one that is aborted": (
        THRICE,
        (without_rounds([2]), aborted(3), renumbered, relinked),
        {"broken-streams", "missing-recovery"},
    ),
    "an abort in the middle, and no recovery": (
        THRICE,
        (refused_before(3),),
        {"missing-recovery"},
    ),
    "a measurement that is moved": (
        THRICE,
        (measured_late,),
        {"repeated-evaluation"},
    ),
    "the first rounds": (
        THRICE,
        (without_rounds([1, 2]),),
        {"missing-rounds", "foreign-first-model", "broken-streams", "close-mismatch"},
    ),
    "the first rounds, numbered anew": (
        THRICE,
        (without_rounds([1, 2]), renumbered, restreamed),
        {"foreign-first-model"},
    ),
    "an aborted round with its recovery": (
        ABORTED,
        (without_rounds([2]), without("run.recover"), renumbered),
        {"missing-recovery", "repeated-evaluation"},
    ),
    "an aborted round with its recovery, numbers left": (
        ABORTED,
        (without_rounds([2]), without("run.recover")),
        {"missing-rounds", "missing-recovery", "repeated-evaluation"},
    ),
    "an aborted round, its recovery left": (
        ABORTED,
        (without_rounds([2]),),
        {"missing-rounds", "recovery-mismatch"},
    ),
    "a lost round with its recovery": (
        LOST,
        (without_rounds([1]), without("run.recover")),
        {"missing-rounds", "close-mismatch"},
    ),
    "a recovery alone, behind a lost round": (
        LOST,
        (without("run.recover"),),
        {"broken-lineage", "missing-recovery"},
    ),
    "a recovery alone, behind a dangling intent": (
        DANGLING,
        (without("run.recover"),),
        {"missing-recovery"},
    ),
    "a recovery alone, behind the last intent": (
        LAST,
        (without("run.recover"),),
        {"missing-recovery", "repeated-evaluation"},
    ),
    "the normalising phase": (
        MOMENTS,
        (without_rounds([0]), renumbered),
        {"missing-moments", "foreign-model"},
    ),
    "a measurement that is left": (
        THRICE,
        (
            lambda lines: [
                one for one in lines if one["type"] == "evaluation" or one.get("round") != 4
            ],
        ),
        {"unknown-evaluation", "close-mismatch", "foreign-model", "foreign-metrics"},
    ),
    "a sum that was copied": (
        THRICE,
        (each("round.release", lambda line: line.update(aggregate="ab" * 32)),),
        {"repeated-release"},
    ),
    "a commitment that was copied": (
        THRICE,
        (each("round.release", lambda line: line["sealed"].update(joined="ab" * 32)),),
        {"repeated-release"},
    ),
    "another count in the last line": (
        THRICE,
        (set_in("run.close", rounds=5),),
        {"close-mismatch"},
    ),
    "another model in the last line": (
        THRICE,
        (set_in("run.close", model="ab" * 32),),
        {"close-mismatch", "foreign-model"},
    ),
    "a recovery that goes on with an earlier round": (
        LOST,
        (each("run.recover", lambda line: line.update(next_round=line["next_round"] - 1)),),
        {"recovery-mismatch"},
    ),
    "fewer values in each release": (
        THRICE,
        (each("round.release", lambda line: line.update(values=15)),),
        {"foreign-length"},
    ),
    "more values in each release": (
        THRICE,
        (each("round.release", lambda line: line.update(values=62)),),
        {"foreign-length"},
    ),
    "releases without the ranges of their streams": (
        THRICE,
        (set_in("round.release", streams=[]),),
        {"broken-streams"},
    ),
    "a longer range in the last release": (
        THRICE,
        (lengthened,),
        {"broken-streams"},
    ),
    "another seed of the first model": (
        THRICE,
        (each("run.open", lambda line: line["configuration"]["training"].update(seed=5)),),
        {"foreign-first-model"},
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


def changed_about(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    with np.load(folder / "model.npz") as held:
        about = json.loads(held["about"].tobytes())
    change(about)
    changed_model(folder, about=np.frombuffer(json.dumps(about).encode(), np.uint8))


def changed_metrics(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    content = json.loads((folder / "metrics.json").read_text())
    change(content)
    (folder / "metrics.json").write_text(json.dumps(content))


BESIDE: dict[str, tuple[Callable[[Path], object], str]] = {
    "another model": (
        lambda folder: changed_model(folder, parameters=np.zeros(31)),
        "holds the model",
    ),
    "another run": (
        lambda folder: changed_about(folder, lambda about: about.update(run_id="x")),
        "is of the run",
    ),
    "another round": (
        lambda folder: changed_about(folder, lambda about: about.update(round=1)),
        "of round 1, which released",
    ),
    "a round before the first": (
        lambda folder: changed_about(folder, lambda about: about.update(round=0)),
        "is of before the first round",
    ),
    "another measurement in the model": (
        lambda folder: changed_about(
            folder, lambda about: about["measured"][0][1].update(accuracy=0.99)
        ),
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
        lambda folder: changed_metrics(
            folder, lambda own: own["rounds"][-1]["metrics"].update(accuracy=0.999)
        ),
        "0.999",
    ),
    "a smaller epsilon": (
        lambda folder: changed_metrics(
            folder, lambda own: own["guarantees"]["model"].update(epsilon=0.1)
        ),
        "says epsilon 0.1 at delta 1e-05 before 'model', and the last line",
    ),
    "another unit": (
        lambda folder: changed_metrics(
            folder, lambda own: own["guarantees"]["server"].update(unit="silo")
        ),
        "says unit 'silo' before 'server', and the log 'user'",
    ),
    "other neighbours": (
        lambda folder: changed_metrics(
            folder, lambda own: own["guarantees"]["server"].update(neighbours="zero-out")
        ),
        "says neighbours 'zero-out' before 'server', and the log 'add-remove'",
    ),
    "another engine": (
        lambda folder: changed_metrics(
            folder, lambda own: own["guarantees"]["model"].update(engine="x")
        ),
        "says engine 'x' before 'model'",
    ),
    "an observer less": (
        lambda folder: changed_metrics(folder, lambda own: own["guarantees"].pop("silo")),
        "leaves it out",
    ),
    "a measurement less": (
        lambda folder: changed_metrics(folder, lambda own: own["rounds"].pop(0)),
        "leaves it out",
    ),
    "fewer releases": (
        lambda folder: changed_metrics(folder, lambda own: own.update(released=5)),
        "says released 5, and the log 2",
    ),
    "no measurements": (
        lambda folder: (folder / "metrics.json").write_text('{"rounds": [1]}'),
        "is no table of measurements",
    ),
}
