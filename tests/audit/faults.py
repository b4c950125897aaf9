"""Logs with one fault each, and without: what the rules of hazards are tried on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Evaluation,
    Planned,
    Population,
    Reach,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    RunRecover,
    Security,
    StreamRange,
)
from privplan.audit.findings import Finding
from privplan.fl.frame.initial_model import initial_digest

from .grams import gram_log, noisy
from .ledgers import (
    CLIP,
    SECURE,
    Change,
    Records,
    also,
    audited,
    changed,
    grouped,
    intents,
    masks,
    opening,
    part,
    weighted,
)
from .protocols import TRANSFER as TRANSFER
from .protocols import private as private

CLEAN: dict[str, Callable[[], Records]] = {
    "uniform": weighted,
    "by records": lambda: weighted(rule="records"),
    "sampled by the server": lambda: weighted(rate=0.1),
    "sampled by the silos together": lambda: weighted(rate=0.1, drawn_by="shared-secret"),
    "replaced": lambda: weighted(neighbours="replace-one"),
    "replaced, sampled, by records": lambda: weighted(
        rate=0.3, rule="records", neighbours="replace-one"
    ),
    "one silo": lambda: weighted(silos=1),
    "Gram matrices": lambda: gram_log(noisy()),
    "groups of records": grouped,
    "masked": lambda: weighted(aggregation="masked"),
    "masked, some may be missing": lambda: weighted(aggregation="masked", dropouts=2),
    "masked, two silos": lambda: weighted(aggregation="masked", silos=2, rule="records"),
    "masked, sampled by the server": lambda: weighted(aggregation="masked", rate=0.1),
    "masked, sampled by the silos": lambda: weighted(
        aggregation="masked", rate=0.1, drawn_by="shared-secret", dropouts=1
    ),
    "masked, groups of records": lambda: under_masks(grouped()),
    "private weights": private,
    "private weights, sampled by the server": lambda: private(rate=0.3),
    "private weights, oblivious transfer": lambda: private(rate=0.3, drawn_by=TRANSFER),
    "private weights, oblivious transfer, replaced": lambda: private(
        rate=0.3, drawn_by=TRANSFER, neighbours="replace-one", silos=2
    ),
    "private weights, sampled by the silos": lambda: private(rate=0.3, drawn_by="shared-secret"),
}


def masked() -> Records:
    return weighted(aggregation="masked")


def shared() -> Records:
    """Peers who sum their silos' terms by additive shares."""
    change = also(
        opening(
            aggregation="shares",
            security=Security("additive-shares", parties=5, fewest=5, ring_bits=64),
            claim=part(unit="silo"),
        ),
        intents(contribution=part(unit="silo")),
    )
    return change(weighted(2, rule="none", silos=5, views=False))


def under_masks(records: Records) -> Records:
    return opening(aggregation="masked", security=masks(5, 5))(records)


def seeing(sees: str) -> Change:
    """Say in every round what reaches the server."""
    return intents(reaches={"server": Reach(sees)})  # type: ignore[arg-type]


def only_first(change: Change) -> Change:
    """Return a change that is made to the first round alone."""

    def made(records: Records) -> Records:
        return [
            new if getattr(old, "round", 1) == 1 else old
            for old, new in zip(records, change(records), strict=True)
        ]

    return made


def sampled() -> Records:
    return weighted(rate=0.1)


def records_only() -> Records:
    """DP-SGD on records in one silo, for records."""
    made = grouped(size=1)
    return changed(made, RunOpen, claim=part(unit="record"), population=Population(50, 1, 1000))


def found(records: Records) -> dict[str, Finding]:
    return {hazard.id: hazard for hazard in audited(records).hazards}


def left(hazard: Finding) -> float:
    """Return what the log still supports, as a hazard says."""
    assert hazard.epsilon is not None
    return hazard.epsilon.upper


def without_last(records: Records) -> Records:
    return records[:-1]


def first_round_twice(records: Records) -> Records:
    """Add the first round again, with randomness of its own, and count it in the plan."""
    again = replace(records[1], round=1)  # type: ignore[type-var]
    released = replace(
        records[2],  # type: ignore[type-var]
        intent=len(records) - 1,
        streams=(StreamRange("cd" * 16, 0, 1000),),
    )
    return [*records[:-1], again, released, records[-1]]


def one_more_round(records: Records) -> Records:
    more = first_round_twice(records)
    number = len(more) // 2 - 0
    more[-3] = replace(more[-3], round=number)  # type: ignore[type-var]
    more[-2] = replace(more[-2], round=number)  # type: ignore[type-var]
    return more


def cut_off(*, forgets: bool = False, next_round: int = 21) -> Change:
    """Cut the run off after its last intent, and resume it without that."""

    def change(records: Records) -> Records:
        dangling = () if forgets else (len(records) - 3,)
        recovered = RunRecover(0, dangling, next_round, SECURE)
        return [*records[:-2], recovered, replace(records[-1], rounds=19)]  # type: ignore[type-var]

    return change


def evaluated(data: str, event: ev.Event | None = None) -> Change:
    """Put a measurement before the close."""

    def change(records: Records) -> Records:
        one = Evaluation(20, data, {"accuracy": "0.8"}, event)  # type: ignore[arg-type]
        return [*records[:-1], one, records[-1]]

    return change


def clips(source: str, **noise: object) -> Change:
    """Let the clip and the noise shrink from round to round, in the same ratio."""

    def change(records: Records) -> Records:
        made: Records = []
        for record in records:
            if isinstance(record, RoundIntent):
                factor = 1.0 - record.round / 100.0
                record = replace(
                    record,
                    contribution=replace(
                        record.contribution,
                        bound=CLIP * factor,
                        source=source,  # type: ignore[arg-type]
                    ),
                    noise=replace(
                        record.noise,
                        std=record.noise.std * factor,
                        share_std=record.noise.share_std * factor,
                        **noise,  # type: ignore[arg-type]
                    ),
                    sensitivity=CLIP * factor,
                )
            made.append(record)
        return made

    return change


def event_of(event: ev.Event) -> Change:
    """State another event everywhere: in the intents, in the plan, in the close."""

    def change(records: Records) -> Records:
        rounds = sum(isinstance(record, RoundIntent) for record in records)
        whole = ev.Repeat(rounds, event)
        records = changed(records, RoundIntent, event=event)
        records = changed(
            records, RunOpen, plan=lambda old: Planned(rounds, {**old.events, "model": whole})
        )
        return changed(records, RunClose, events=lambda old: {**old, "model": whole})

    return change


def view_of(observer: str, event: ev.Event | None) -> Change:
    """State another view for an observer; None: say nothing of it anywhere."""

    def without(old: dict[str, object]) -> dict[str, object]:
        return {who: value for who, value in old.items() if who != observer}

    def change(records: Records) -> Records:
        if event is None:
            records = changed(records, RoundIntent, views=without)
            records = changed(
                records, RunOpen, plan=lambda old: Planned(old.rounds, without(old.events))
            )
            return changed(records, RunClose, events=without, epsilon=without)
        return changed(records, RoundIntent, views=lambda old: {**old, observer: event})

    return change


CONFIGURATION = {
    "training": {"model": "logistic", "seed": 3},
    "data": {"name": "breast-cancer", "normalisation": "public"},
}


FIRST = str(initial_digest("logistic", "breast-cancer", 3))


def modelled() -> Records:
    """Return a log whose rounds name their models and their sums, under a configuration."""
    made: Records = []
    for record in opening(configuration=CONFIGURATION)(weighted(4)):
        if isinstance(record, RoundIntent):
            record = replace(record, model_in=model(record.round - 1))
        elif isinstance(record, RoundRelease):
            record = replace(
                record,
                model_out=model(record.round),
                values=31,
                aggregate=f"a{record.round}",
                sealed={"norms": f"c{record.round}"},
            )
        elif isinstance(record, RunClose):
            record = replace(record, model=model(4))
        made.append(record)
    return made


def paired(records: Records) -> Records:
    """Let two rounds after one another be one, with two intents."""

    def change(record: Any) -> Any:
        number = getattr(record, "round", 0)
        if isinstance(record, RoundIntent):
            phase = "train" if number % 2 == 0 else "count"
            return replace(record, round=(number + 1) // 2, phase=phase)
        if isinstance(record, RoundRelease):
            return replace(record, round=(number + 1) // 2)
        return record

    return [change(record) for record in records]


def model(number: int) -> str:
    return FIRST if number == 0 else f"{number:064x}"


def at(place: int, **fields: object) -> Change:
    """Return a change of one line."""

    def change(records: Records) -> Records:
        return [*records[:place], replace(records[place], **fields), *records[place + 1 :]]  # type: ignore[type-var]

    return change


def lost_last(*, kept: int) -> Change:
    """Lose the last release, and go on with a fifth round from the model of round `kept`."""

    def change(records: Records) -> Records:
        intent, done, close = records[-3:]
        more = [
            RunRecover(0, (), 5, SECURE),
            replace(intent, round=5, model_in=model(kept)),  # type: ignore[type-var]
            replace(
                done,  # type: ignore[type-var]
                round=5,
                intent=len(records),
                streams=(StreamRange("cd" * 16, 0, 1000),),
                model_out=model(5),
                aggregate="a5",
                sealed={"norms": "c5"},
            ),
        ]
        return [*records[:-1], *more, replace(close, rounds=5, model=model(5))]  # type: ignore[type-var]

    return change


# id: a log to start from, a change that plants the fault, and one beside it that is none.
def searched(target: float) -> dict[str, Any]:
    """Return the part of a configuration by which noise is found for a target."""
    privacy = {"epsilon": repr(target), "noise_multiplier": None}
    return {"run": {"system": "uldp-avg"}, "privacy": privacy}
