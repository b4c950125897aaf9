"""Every observer in words: the one table from which commands, runs and pages speak of them.

A sentence stands after "before", "from" or "against".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...accountant.errors import counted
from .names import PEER, SILO, coalition_of, holds_part


@dataclass(frozen=True)
class Sentences:
    """One observer in words.

    `who_is` says who it is.  `in_a_run` says it of a run, with what it knows there; `told_apart`
    where those of its kind who hold a part of the unit are spoken of as well, or see something
    else.  `sees` adds what an aggregation shows to it, to `short` where that is given.  `about`
    adds whose data its number is for, where a unit is less than a silo.  Each is `who_is` where
    there is nothing to add.
    """

    who: str
    in_a_run: str = ""
    told_apart: str = ""
    short: str = ""
    sees: Mapping[str, str] = field(default_factory=dict)
    about: str = ""


SENTENCES: Final[Mapping[str, Sentences]] = {
    "model": Sentences("whoever sees the released models"),
    "server": Sentences(
        "the server",
        sees={
            "plain": "which sees every silo's noisy update",
            "masked": "which sees only the sum of the silos' noisy updates",
            "noise-removal": "which sees the noisy sum, and the sum of all noise but one silo's",
            "private-weighting": "which sees only the noisy sum, and nobody's weights",
            "shares": "which sees only the sum of the silos' noisy updates",
            "shuffle": "which sees all noisy messages, and not who sent them",
        },
    ),
    "silo": Sentences(
        "a silo that holds nothing of the unit",
        in_a_run="a silo, which knows its own noise",
        told_apart="a silo that has no records of the user, and knows its own noise",
        about="for records in other silos",
    ),
    "silo-with-records": Sentences(
        "a silo that holds some of the unit",
        in_a_run="a silo that holds some of the user's records, for those in other silos",
    ),
    "peer": Sentences(
        "a peer that holds nothing of the unit",
        short="a peer",
        sees={
            "plain": "which sees every peer's noisy update",
            "masked": "which sees the released models and knows what it added",
            "shares": "which sees the sum and knows what it added",
            "told": "even where all others tell it what they sent",
        },
        about="for records in other silos",
    ),
    "client": Sentences(
        "a client that holds nothing of the unit",
        sees={"shuffle": "which knows its own messages, and sees the others' without senders"},
    ),
    "coordinator": Sentences(
        "the coordinator",
        sees={
            "plain": "which sees every peer's noisy update",
            "masked": "which sees only the sum of the peers' noisy updates",
            "shares": "which sees who takes part, and no number of theirs",
        },
    ),
    "shuffler": Sentences(
        "the shuffler",
        sees={"shuffle": "which knows who sent each message, and its own dummies"},
    ),
    "analyzer": Sentences(
        "whoever sees the shuffled messages",
        sees={"shuffle": "dummies among them, without their senders"},
    ),
    "colluding": Sentences(
        "the shuffler and the analyzer together",
        sees={"shuffle": "who know each message and who sent it"},
    ),
}
"""Observers by their names; `phrase` words coalitions."""


def who_is(observer: str) -> str:
    """Return who an observer is; of a name that is not in the table, that it is somebody's.

    >>> who_is("server"), who_is("auditor")
    ('the server', 'the observer auditor')
    """
    row = SENTENCES.get(observer)
    return f"the observer {observer}" if row is None else row.who


def in_a_run(
    observer: str,
    aggregation: str,
    *,
    unit: str = "user",
    told_apart: bool = False,
    noise_removed: bool = False,
    told: bool = False,
) -> str:
    """Return an observer of a run, with what it sees or knows there.

    `told_apart`: those of its kind who hold a part of the unit see something else, or are spoken
    of along with it.  `noise_removed`: all noise but one silo's is taken off the masked sum, by a
    server that knows whose stays.  `told`: it is counted as if every message reached it, though the
    aggregation shows it less.  `unit`: a silo lies with nobody else, so whose data a number is
    for needs no words.

    >>> in_a_run("server", "masked")
    "the server, which sees only the sum of the silos' noisy updates"
    >>> in_a_run("peer", "plain", unit="silo")
    "a peer, which sees every peer's noisy update"
    """
    row = SENTENCES.get(observer)
    if row is None:
        return who_is(observer)
    if told_apart and row.told_apart:
        return row.told_apart
    seen = row.sees.get("noise-removal" if noise_removed else aggregation)
    if told and aggregation != "plain":
        seen = row.sees.get("told", seen)
    said = row.in_a_run or (row.who if seen is None else f"{row.short or row.who}, {seen}")
    return f"{said}, {row.about}" if row.about and said != row.who and unit != "silo" else said


def phrase(observer: str, dropouts: int = 0, *, whatever: bool = False) -> str:
    """Return an observer in words (`observer_words`), coalitions too.

    `whatever`: a coalition, whether or not one of its silos holds a part of the unit.

    >>> phrase("server+2", 1)
    'the server with 2 silos that hold nothing of the unit, and 1 of the others missing'
    """
    coalition = coalition_of(observer)
    if coalition is None:
        return who_is(observer)
    plural = coalition.colluders > 1
    silos = f"{coalition.colluders:,} silos that hold" if plural else "a silo that holds"
    part = "some" if coalition.holds else "nothing"
    held = f"{silos} {part} of the unit"
    if whatever:
        held = f"{silos.rsplit(' that ', 1)[0]}, whatever {'they hold' if plural else 'it holds'}"
    lost = f", and {dropouts:,} of the others missing" if dropouts else ""
    return f"the server with {held}{lost}"


def population_words(
    users: int,
    silos: int,
    unit: str,
    observers: Collection[str],
    *,
    at_most: bool = False,
    listed: bool = False,
) -> str:
    """Return who takes part in a run, of those whom its numbers are about.

    `at_most`: how many users there are is private, and `users` bounds it; `listed`: who they are is
    public, as somebody says.

    Peers who protect a silo, or a record, have no users; who sends for itself has no silo.

    >>> population_words(50, 20, "silo", ["model", "peer"])
    '20 silos'
    >>> population_words(50, 5, "user", ["model"], listed=True)
    '50 users on a public list, 5 silos'
    >>> population_words(1000, 1, "user", ["analyzer"]), population_words(50, 5, "user", ["model"])
    ('1,000 users', '50 users, 5 silos')
    """
    if unit != "user" and PEER in observers:
        return counted(silos, "silo")
    people = ("at most " if at_most else "") + counted(users, "user")
    people += " on a public list" * listed
    return people if silos == 1 and unit == "user" else f"{people}, {counted(silos, 'silo')}"


def unit_before(observer: str, unit: str, silos: int | None = None) -> str:
    """Return what a promise before an observer is about, to stand after "one".

    `silos` is how many there are, where that is known.

    >>> unit_before("model", "user", 1)
    'user (all of its records)'
    >>> unit_before("model", "user"), unit_before("silo-with-records", "user")
    ('user (all records in all silos)', "user's records in the other silos")
    """
    if holds_part(observer):
        return f"{unit}'s records in the other silos"
    if unit != "user":
        return unit
    if silos == 1:
        return f"{unit} (all of its records)"
    apart = observer == SILO or coalition_of(observer) is not None
    return f"{unit} (all records in {'other' if apart else 'all'} silos)"
