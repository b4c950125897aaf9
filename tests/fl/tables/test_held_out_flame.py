"""Votes of who is held out under FLAME: two messages of every user, through the shuffler."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.errors import InvalidInput
from privplan.accountant.mechanisms import Gate, Ticket
from privplan.accountant.randomness import Streams
from privplan.audit.budget import audit_budget, audit_ledger
from privplan.audit.budget.report import Chain
from privplan.audit.configuration.comparison import compared
from privplan.audit.edits import edits_of
from privplan.audit.ledger.entries import Entry, Ledger
from privplan.audit.ledger.phases import score_of
from privplan.fl.canaries import MemoryLog, rehearsal_settings
from privplan.fl.data.held_out import held_out
from privplan.fl.flame.votes import ShuffledVotes
from privplan.fl.frame.held_out_messages import deviation_of_messages
from privplan.fl.log.reader import Scan
from privplan.fl.observers.stated_assumptions import BLIND_SHUFFLER
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.preparation import prepare
from privplan.fl.shuffling import Shuffling, Terms
from privplan.fl.shuffling.ideal import IdealShuffling
from privplan.fl.tables.user_names import user_name

from ...cases import for_each
from ..extras import needs
from .hospitals import LISTED, MARKER, configuration, write
from .hospitals import rows as file_rows
from .playback import left, played
from .test_table_runs import NASTY

pytestmark = needs("torch", "pyarrow", "cryptography", "nacl")

Tables = dict[str, dict[str, Any]]

NOISE = 1.5
SHARE = 0.4
VOTES: dict[str, Any] = {"test": "held-out", "held_out": SHARE, "held_out_noise": NOISE}

IDEAL = {"transport": "ideal"}
WORDS = {"randomizer": "responses", "steps": 4}

SETTINGS: tuple[tuple[str, Tables], ...] = (
    ("flame-simple", {"flame": IDEAL}),
    ("flame-simple", {"security": {"keep_transcripts": True}}),
    ("flame-simple", {"flame": {**IDEAL, **WORDS}}),
    ("flame-simple", {"flame": {**IDEAL, "granularity": "tuple"}}),
    ("flame-simple", {"flame": IDEAL, "security": {"colluders": 3}}),
    ("flame-double", {"flame": {**IDEAL, "chosen": 4, "padded_to": 22}}),
    ("flame-double", {"flame": {**IDEAL, **WORDS, "chosen": 4}}),
    ("flame-topk", {"flame": {**IDEAL, "chosen": 2, "decoys": 3}}),
    (
        "flame-topk",
        {
            "flame": {"chosen": 2, "decoys": 1},
            "security": {"keep_transcripts": True},
        },
    ),
)
"""Each protocol, either randomizer and transport, and what else decides who sees what."""

UNPROVEN: tuple[tuple[str, Tables], ...] = (
    ("flame-topk", {"flame": {**IDEAL, "chosen": 2, "granularity": "tuple"}}),
    ("flame-topk", {"flame": {**IDEAL, "chosen": 2, "padded_to": 8, "overflow": "cap"}}),
)
"""Rounds of which nothing is proven: votes have their noise, and the run no number."""


def configured(system: str, tables: Tables, **more: dict[str, Any]) -> Tables:
    return configuration(system, **{"evaluation": VOTES, **tables, **more})


def is_out(patient: str) -> bool:
    """Return whether a patient is held out, by its id alone."""
    return bool(held_out(np.array([user_name(patient, 0)]), SHARE, 0)[0])


OUT = next(who for who in LISTED if is_out(who) and who != MARKER)
IN = next(who for who in LISTED if not is_out(who))


def gone(patient: str) -> Callable[[list[str]], list[str]]:
    """Take one patient out of all files."""
    return lambda lines: [line for line in lines if not line.startswith(f"{patient},")]


def other(patient: str) -> Callable[[list[str]], list[str]]:
    """Give one patient whatever rows a file can hold, in place of its own."""
    rows = [line.replace(f"{MARKER},", f"{patient},", 1) for line in NASTY]
    rows += [f"{patient},1,m,III,n,,{word}" for word in ("yes", "no") * 20]
    return lambda lines: [*rows, *gone(patient)(lines)]


def nobody(_: list[str]) -> list[str]:
    """Leave no row in any file."""
    return []


EDITS = (gone(OUT), gone(IN), other(OUT), other(IN), other(MARKER), nobody)


def ran(folder: Path, tables: Tables, edited: Any = None) -> tuple[Path, Any]:
    """Make a run in a new folder with the files; return its folder and what it came to."""
    folder.mkdir()
    write(folder, edited)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return folder / "out", pp.run(tables, "out")


def prepared(folder: Path, tables: Tables) -> Any:
    """Return a run that may begin, and nothing of which is released."""
    folder.mkdir(exist_ok=True)
    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return prepare(Configuration.of(tables).settings)


def ledger_of(folder: Path) -> Ledger:
    return Ledger.of([Entry(line.number, line.seq, line.record) for line in Scan(folder)])


def measured(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "metrics.json").read_text())
    return content


# -- what leaves a run --------------------------------------------------------------------------


@pytest.mark.quick(6)
@for_each("edited", range(len(EDITS)))
@for_each("system, tables", [*SETTINGS, *UNPROVEN])
def test_neighbours_differ_in_noised_values_alone_and_not_at_all_with_the_same(
    tmp_path: Path, system: str, tables: Tables, edited: int
) -> None:
    """Whoever is gone or has other rows; sizes and numbers of messages too, in transcripts."""
    said = configured(system, tables, run={"seed": 5, "rounds": 2})
    plain = played(tmp_path / "plain", said)
    assert plain.code == 0, plain.said
    noised = played(tmp_path / "noised", said, EDITS[edited])
    assert left(noised, after_noise=False) == left(plain, after_noise=False)
    same = played(tmp_path / "same", said, EDITS[edited], plain.noised)
    assert left(same) == left(plain)
    if "security" in tables and tables["security"].get("keep_transcripts"):
        seen = left(plain)
        assert {round for round, *_ in seen["transcripts/analyzer.jsonl"]} == {1, 2, 3}


def test_the_patients_that_are_changed_do_change_what_is_mixed(tmp_path: Path) -> None:
    """The comparison above would find a difference: who is held out moves votes, others models."""
    said = configured("flame-simple", {"flame": IDEAL}, run={"seed": 5, "rounds": 1})

    def sums(name: str, edited: Any = None) -> tuple[Any, Any]:
        run = played(tmp_path / name, said, edited)
        rounds = [each.sums for each in run.noised if hasattr(each, "sums")]
        return rounds[0], rounds[1]

    model, votes = sums("plain")
    assert votes.shape == (2, 1)
    model_without, votes_without = sums("out", gone(OUT))
    assert np.array_equal(model, model_without)
    assert not np.array_equal(votes, votes_without)
    assert not np.array_equal(model, sums("in", gone(IN))[0])


# -- what votes are -----------------------------------------------------------------------------


@for_each("words", [False, True])
@for_each("system", ["flame-simple", "flame-double", "flame-topk"])
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


# -- what votes cost ----------------------------------------------------------------------------


@pytest.mark.quick(3)
@for_each("system, tables", SETTINGS)
def test_a_dry_run_a_run_and_an_audit_say_the_same_price(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    said = configured(system, tables)
    folder, outcome = ran(tmp_path / "run", said)
    forecast = played(tmp_path / "dry", said, dry=True)
    assert forecast.code == 0, forecast.said
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path / "dry")
        planned = pp.plan_run(said).prepared.plan
    budget = audit_budget(folder)
    assert budget.supported, budget
    assert budget.ok
    assert {hazard.id for hazard in budget.hazards} <= {"reach-assumed"}
    assert not edits_of(folder)
    rows = {row.observer: row.total.upper for row in budget.rows}
    for who, proven in outcome.result.guarantees.items():
        assert proven.epsilon == planned.guarantees[who].epsilon
        assert rows[who] == pytest.approx(proven.epsilon.upper, rel=1e-9)
    score = score_of(ledger_of(folder))
    assert score is not None
    assert score == outcome.result.held_out
    assert score.to_json() == measured(folder)["held_out"]
    assert score.votes == pytest.approx(len(LISTED) * SHARE)
    if "randomizer" not in tables.get("flame", {}):
        # Laplace noise of scale 1.5 times 1/2 on each of 22 messages.
        assert score.deviation == pytest.approx(math.sqrt(2 * len(LISTED)) * NOISE / 2)


@for_each("colluders", [0, 3])
def test_votes_are_composed_with_the_rounds_at_the_price_of_two_mixes_of_all_users(
    tmp_path: Path, colluders: int
) -> None:
    tables: Tables = {"flame": IDEAL, "security": {"colluders": colluders}}
    plan = prepared(tmp_path, configured("flame-simple", tables)).plan
    assert [phase.name for phase in plan.phases] == ["train", "held-out"]
    votes = plan.phases[1].views
    mix = ev.Shuffle(len(LISTED) - colluders, ev.Laplace(NOISE))
    assert votes["model"] == votes["analyzer"] == votes["shuffler"] == ev.Repeat(2, mix)
    assert votes["client"] == ev.Repeat(2, replace(mix, users=mix.users - 1))
    assert votes["colluding"] == ev.Repeat(2, ev.Laplace(NOISE))
    training = ev.Repeat(2, plan.phases[0].event)
    both = ev.Compose((training, ev.Repeat(1, votes["model"])))
    due = pp.account(both, delta=1e-5, neighbours="replace-one").epsilon.upper
    assert plan.guarantees["model"].epsilon.upper == pytest.approx(due, rel=1e-6)
    alone = pp.account(training, delta=1e-5, neighbours="replace-one").epsilon.upper
    assert due > 1.05 * alone


def test_noise_of_the_rounds_is_found_for_what_votes_leave_of_a_budget(tmp_path: Path) -> None:
    tables = configured("flame-simple", {"flame": IDEAL})
    tables["privacy"] = {"epsilon": 8.0}
    folder, outcome = ran(tmp_path / "run", tables)
    total = outcome.result.guarantees["analyzer"].epsilon.upper
    assert 7.9 < total <= 8.0
    assert audit_budget(folder).ok
    tables["evaluation"] = {"test": "none"}
    without = prepared(tmp_path / "none", tables).plan.phases[0].noise_multiplier
    assert outcome.prepared.plan.phases[0].noise_multiplier > without


@for_each("system, tables", UNPROVEN)
def test_rounds_of_which_nothing_is_proven_are_no_better_for_votes(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    folder, outcome = ran(tmp_path / "run", configured(system, tables))
    assert outcome.result.held_out is not None
    assert outcome.result.held_out.deviation == pytest.approx(math.sqrt(44) * NOISE / 2)
    assert all(math.isinf(row.total.upper) for row in audit_budget(folder).rows)
    assert not edits_of(folder)


def votes_with(ledger: Ledger, **changes: Any) -> Ledger:
    """Return a ledger whose intent of votes says something else."""
    *rounds, last = ledger.spent
    return replace(ledger, spent=(*rounds, replace(last, intent=replace(last.intent, **changes))))


def test_a_log_that_says_another_deviation_or_event_of_votes_is_contradicted(
    tmp_path: Path,
) -> None:
    folder, _ = ran(tmp_path / "run", configured("flame-simple", {"flame": IDEAL}))
    ledger = ledger_of(folder)
    chain = Chain(ledger.records, "f" * 64)
    assert audit_ledger(ledger, chain).ok
    intent = ledger.spent[-1].intent
    louder = replace(intent.noise, std=2 * intent.noise.std, share_std=2 * intent.noise.share_std)
    quieter = replace(intent.noise, std=intent.noise.std / 2, share_std=intent.noise.std / 2)
    bound = replace(intent.contribution, bound=0.25)
    fewer = ev.Repeat(2, ev.Shuffle(len(LISTED) + 1, ev.Laplace(NOISE)))
    for changes in (
        {"noise": louder},
        {"noise": quieter},
        {"contribution": bound},
        {"event": fewer},
    ):
        found = audit_ledger(votes_with(ledger, **changes), chain)
        assert not found.ok, changes
        assert {hazard.id for hazard in found.hazards if hazard.severity == "error"}, changes
    once = replace(intent.noise, draws=1)
    assert not audit_ledger(votes_with(ledger, noise=once), chain).ok


def test_users_that_are_said_to_be_more_than_send_are_contradicted(tmp_path: Path) -> None:
    folder, _ = ran(tmp_path / "run", configured("flame-simple", {"flame": IDEAL}))
    ledger = ledger_of(folder)
    reaches = {
        who: replace(reach, users=100) if reach.users else reach
        for who, reach in (ledger.spent[-1].intent.reaches or {}).items()
    }
    found = audit_ledger(votes_with(ledger, reaches=reaches), Chain(ledger.records, "f" * 64))
    assert not found.ok


def test_votes_of_another_configuration_are_found_though_they_agree_with_themselves(
    tmp_path: Path,
) -> None:
    """Nobody colludes in the round of votes, says a log that is of a run with three who do."""
    tables: Tables = {"flame": IDEAL, "security": {"colluders": 3}}
    folder, _ = ran(tmp_path / "run", configured("flame-simple", tables))
    free = prepared(tmp_path / "free", configured("flame-simple", {"flame": IDEAL})).system
    ledger = ledger_of(folder)
    assert not compared(ledger).differences
    event, reaches = free.votes.views["model"], free.votes.reaches
    found = compared(votes_with(ledger, event=event, reaches=reaches)).differences
    assert {"event", "reaches.analyzer.colluders"} <= {one.fact for one in found}


@for_each("transport", ["ideal", "sealed"])
def test_votes_rest_on_a_shuffler_that_cannot_read_where_nothing_is_encrypted(
    tmp_path: Path, transport: str
) -> None:
    run = prepared(tmp_path, configured("flame-simple", {"flame": {"transport": transport}}))
    for who, reach in run.system.votes.reaches.items():
        rests = transport == "ideal" and who != "colluding"
        assert reach.rests_on == run.system.reaches()[who].rests_on
        assert (BLIND_SHUFFLER in reach.rests_on) == rests


# -- a run that is cut off ----------------------------------------------------------------------


class Stop(BaseException):
    """A kill."""


def cut(folder: Path, tables: Tables, owner: Any, name: str, *, before: bool) -> None:
    """Begin a run, and cut it off before or after a function of its votes."""
    known = getattr(owner, name)

    def stopping(first: Any, *args: Any, **named: Any) -> Any:
        ticket = first if isinstance(first, Ticket) else next(iter(args[1:2]), None)
        if isinstance(ticket, Ticket) and ticket.intent.phase != "held-out":
            return known(first, *args, **named)
        if not before:
            known(first, *args, **named)
        raise Stop

    write(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        patched.setattr(owner, name, stopping)
        with pytest.raises(Stop):
            pp.run(tables, "out")


def resumed(folder: Path) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return pp.resume("out")


def votes_in(folder: Path) -> tuple[int, int, int]:
    """Return how many intents, releases and evaluations of votes a log has."""
    ledger = ledger_of(folder)
    of_votes = [spent for spent in ledger.spent if spent.intent.phase == "held-out"]
    released = sum(len(spent.releases) for spent in of_votes)
    return len(of_votes), released, len(ledger.evaluations)


@for_each("system, tables", [*SETTINGS, *UNPROVEN])
def test_votes_that_were_not_begun_are_made_after_a_kill(
    tmp_path: Path, system: str, tables: Tables
) -> None:
    """The resumed run is that which was not cut off: model, plan, price, and one vote."""
    tables = configured(system, tables, run={"seed": 5, "rounds": 2})
    whole, uncut = ran(tmp_path / "whole", tables)
    folder = tmp_path / "cut"
    folder.mkdir()
    cut(folder, tables, ShuffledVotes, "values", before=False)
    assert votes_in(folder / "out") == (0, 0, 0)
    outcome = resumed(folder)
    assert votes_in(folder / "out") == votes_in(whole) == (1, 1, 1)
    assert outcome.result.model == uncut.result.model
    assert outcome.result.guarantees == uncut.result.guarantees
    assert outcome.result.held_out is not None
    assert outcome.result.held_out.deviation == uncut.result.held_out.deviation
    assert outcome.result.held_out == score_of(ledger_of(folder / "out"))
    if (system, tables) not in UNPROVEN:
        assert audit_budget(folder / "out").total == audit_budget(whole).total
    assert not edits_of(folder / "out")


@for_each(
    "owner, name, table",
    [
        (IdealShuffling, "round", IDEAL),
        (Shuffling, "round", {}),
        (Ticket, "close", IDEAL),
        (Ticket, "close", {}),
    ],
)
def test_votes_that_were_cut_off_are_spent_and_never_made_again(
    tmp_path: Path, owner: Any, name: str, table: dict[str, Any]
) -> None:
    """The noise was drawn, and perhaps kept: nothing of it counts, and the run has an end."""
    tables = configured("flame-simple", {"flame": table})
    cut(tmp_path, tables, owner, name, before=owner is Ticket)
    folder = tmp_path / "out"
    assert votes_in(folder) == (1, 0, 0)
    outcome = resumed(tmp_path)
    assert outcome.result.held_out is None
    assert outcome.result.rounds == 2
    assert votes_in(folder) == (1, 0, 0)
    assert "held_out" not in measured(folder)
    budget = audit_budget(folder)
    assert budget.ok
    assert budget.spent == 3
    assert not edits_of(folder)


# -- canaries, and what is refused --------------------------------------------------------------


@for_each("system, table", [("flame-simple", {}), ("flame-double", {"chosen": 4})])
def test_a_run_is_rehearsed_at_the_noise_that_votes_left_for_the_training(
    tmp_path: Path, system: str, table: dict[str, Any]
) -> None:
    tables = configured(system, {"flame": {**IDEAL, **table}})
    tables["privacy"] = {"epsilon": 8.0}
    plan = prepared(tmp_path, tables).plan
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        rehearsed, (said,) = rehearsal_settings(Configuration.of(tables).settings, 1)
    assert "votes" in said
    assert rehearsed.evaluation.held_out_noise is None
    assert rehearsed.privacy.noise_multiplier == plan.phases[0].noise_multiplier


def test_canaries_attack_the_rounds_of_a_run_with_votes(tmp_path: Path) -> None:
    from privplan.audit.attack import AttackRequest, attack

    tables = configured("flame-simple", {"flame": IDEAL}, privacy={"noise_multiplier": 4.0})
    folder, _ = ran(tmp_path / "run", tables)
    found = attack(folder, AttackRequest(tiers=("claim",), canaries=40, seed=1), append=False)
    (one,) = found.measurements
    assert not one.contradicted
    assert one.claimed is not None
    assert one.claimed < audit_budget(folder).total.upper  # the training alone


@for_each("system", ["flame-simple", "flame-topk"])
def test_a_method_as_published_cannot_pay_for_votes(tmp_path: Path, system: str) -> None:
    table = {**IDEAL, "as_published": True, **({"chosen": 2} if system == "flame-topk" else {})}
    tables = configured(system, {"flame": table})
    with pytest.raises(InvalidInput, match="as published cannot pay for votes") as refused:
        Configuration.of(tables)
    assert "leave as_published out" in str(refused.value)
    # By hand, where no rule is asked.
    sound = configured(system, {"flame": {**table, "as_published": False}})
    settings = Configuration.of(sound).settings
    own = replace(settings.table, as_published=True)  # type: ignore[type-var]
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        with pytest.raises(InvalidInput, match="as published cannot pay for votes"):
            prepare(replace(settings, table=own))


@for_each("sealed", [True, False])
def test_parties_have_other_terms_and_are_as_many(sealed: bool) -> None:
    made: Any = Shuffling if sealed else IdealShuffling
    first = made(Terms(5, 7, 7), colluders=2)
    second = first.with_terms(Terms(5, 2, 2))
    assert second.terms == Terms(5, 2, 2)
    assert first.terms == Terms(5, 7, 7)
    assert second.network is first.network
    assert second.security == first.security
    if sealed:
        assert second._key.public != first._key.public
        assert second._session != first._session
        with pytest.raises(InvalidInput, match="6 clients"):
            first.with_terms(Terms(6, 2, 2))
