"""What FLAME's users vote, and how far noise moves the sums: as their deviation says."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gate
from privplan.accountant.randomness import Streams
from privplan.fl.canaries import MemoryLog
from privplan.fl.flame.votes import ShuffledVotes
from privplan.fl.frame.held_out_messages import deviation_of_messages
from privplan.fl.tables.user_names import user_name

from ...cases import for_each
from ..extras import needs
from .held_out_flame import (
    IDEAL,
    VOTES,
    WORDS,
    Tables,
    configured,
    prepared,
    ran,
)
from .held_out_runs import (
    is_out,
    measured,
)
from .hospitals import LISTED, configuration
from .hospitals import rows as file_rows

pytestmark = needs("torch", "pyarrow", "cryptography", "nacl")


@for_each(
    "system, words",
    [
        ("flame-simple", False),
        ("flame-simple", True),
        ("flame-double", True),
        ("flame-topk", False),
    ],
)
def test_votes_are_those_of_the_records_that_are_held_out(
    tmp_path: Path, system: str, words: bool
) -> None:
    """At hardly any noise a score is what a plain count of the files gives."""
    quiet = {**VOTES, "held_out_noise": 0.02 if words else 1e-4}
    table = {**IDEAL, **({"randomizer": "responses", "steps": 1000} if words else {})}
    if system != "flame-simple":
        table["chosen"] = 2
    seen: list[tuple[Any, Any, Any]] = []
    values = ShuffledVotes.values

    def counted(votes: Any, parameters: Any) -> Any:
        meant = values(votes, parameters)
        seen.append((votes.votes.rows, votes.votes.right(parameters), meant))
        return meant

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(ShuffledVotes, "values", counted)
        tables = configuration(system, evaluation=quiet, flame=table)
        folder, _ = ran(tmp_path / "run", tables)
    ((rows, answers, meant),) = seen
    held = [line for silo in range(3) for line in file_rows(silo) if is_out(line.split(",")[0])]
    assert len(answers) == len(held) > 10
    of_user: dict[int, list[bool]] = {}
    for user, right in zip(rows.user, answers, strict=True):
        of_user.setdefault(int(user), []).append(bool(right))
    due = sum(sum(said) / len(said) for said in of_user.values())
    score = measured(folder)["held_out"]
    close = 0.3 if words else 0.01
    assert score["right"] == pytest.approx(due, abs=close)
    assert score["right"] + score["wrong"] == pytest.approx(len(of_user), abs=2 * close)
    # Everybody sends, and means no vote unless it is held out and has a record.
    assert meant.shape == (len(LISTED), 2)
    names = sorted((user_name(who, 0), who) for who in LISTED)
    voters = {line.split(",")[0] for line in held}
    for (_, who), row in zip(names, meant, strict=True):
        if who in voters:
            assert row.sum() == pytest.approx(0.0)
        else:
            assert row.tolist() == [-0.5, -0.5]


def test_a_vote_is_of_whom_the_list_says_at_the_place_of_its_name(tmp_path: Path) -> None:
    """Each user's own share of right answers stands in its row: never in that of a neighbour."""
    run = prepared(tmp_path, configured("flame-simple", {"flame": IDEAL}))
    votes: Any = run.system.votes
    rows = votes.votes.rows
    for user, name in enumerate(rows.names.tolist()):
        only = replace(votes.votes, right=lambda _, user=user: rows.user == user)
        meant = replace(votes, votes=only).values(run.system.initial())
        (place,) = np.flatnonzero(meant[:, 0] == 0.5)
        assert votes.listed[place] == name


def samples(folder: Path, tables: Tables, count: int) -> tuple[Any, Any, float]:
    """Return so many releases of the same votes, what they are of, and the deviation stated."""
    run = prepared(folder, tables)
    votes: Any = run.system.votes
    parameters = run.system.initial()
    known = votes.values(parameters).sum(axis=0) + len(LISTED) / 2
    gate = Gate(None, MemoryLog(), Streams.seeded(3), unpromised=True)  # nobody is protected here
    kept: list[Any] = []
    for _ in range(count):
        votes.release(3, parameters, gate, kept.append)
    released = np.stack([arrays["held_out_released"] for arrays in kept])
    (deviation,) = kept[0]["held_out_deviation"].tolist()
    return released, known, deviation


@for_each("table, least", [({}, 0.9), (WORDS, 0.8), ({**WORDS, "steps": 1}, 0.8)])
def test_released_votes_lie_around_the_count_as_their_deviation_says(
    tmp_path: Path, table: dict[str, Any], least: float
) -> None:
    tables = configured("flame-simple", {"flame": {**IDEAL, **table}})
    count = 400
    released, known, deviation = samples(tmp_path / "run", tables, count)
    errors = released - known
    assert np.abs(errors.mean(axis=0)).max() < 4.0 * deviation / math.sqrt(count)
    spread = math.sqrt(float((errors**2).mean()))
    # 800 squares: their mean is off by a twentieth of itself or so.
    assert least * deviation < spread < 1.1 * deviation


@for_each("epsilon", [0.05, 1.0, 4.0, 30.0])
@for_each("steps", [1, 2, 5, 16])
def test_the_deviation_of_words_is_the_largest_that_any_vote_has(
    epsilon: float, steps: int
) -> None:
    """By listing all words: of any value none has more, and one has that, but for roundings."""
    event = ev.Repeat(2, ev.Shuffle(50, ev.RandomizedResponse(epsilon, steps + 1)))
    stated = deviation_of_messages(records.Noise("randomized-response", 0.0), event, 1)
    truth = 1.0 / (1.0 + steps * math.exp(-epsilon))
    lie = (1.0 - truth) / steps
    words = np.arange(steps + 1.0)
    found = []
    for value in np.linspace(0.0, steps, 40 * steps + 1):
        lower = min(int(value), steps - 1)
        chances = np.full(steps + 1, lie)
        chances[lower] += (truth - lie) * (lower + 1 - value)
        chances[lower + 1] += (truth - lie) * (value - lower)
        mean = float(chances @ words)
        found.append(math.sqrt(chances @ (words - mean) ** 2) / (steps * (truth - lie)))
    assert max(found) <= stated * (1.0 + 1e-9)
    assert max(found) >= 0.999 * stated


def test_an_event_that_says_nothing_of_words_has_no_deviation() -> None:
    noise = records.Noise("randomized-response", 0.0)
    assert math.isnan(deviation_of_messages(noise, ev.Shuffle(50, ev.Local(1.0)), 50))
    assert math.isnan(deviation_of_messages(noise, ev.NoGuarantee("it has none"), 50))
