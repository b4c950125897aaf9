"""Logs of small federated runs, made record by record, to be audited and to be spoilt."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import (
    Claim,
    Contribution,
    Noise,
    Normaliser,
    Planned,
    Population,
    Randomness,
    Record,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    Sampling,
    Security,
    StreamRange,
    Weights,
)
from privplan.accountant.sensitivity import uldp
from privplan.audit.budget import (
    BudgetReport,
    Entry,
    Evidence,
    Ledger,
    audit_budget,
    audit_ledger,
)
from privplan.audit.budget.report import Chain
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.edits import edits_of
from privplan.audit.findings import Finding
from privplan.audit.hazards import RULES, facts_of
from privplan.fl.log.hash_chain import LOG, START, chained

SIGMA, CLIP, DELTA, USERS = 5.0, 0.1, 1e-5, 50
LIMIT = 41
FINE = math.nextafter(2.0**-18 / math.lcm(*range(1, LIMIT + 1)), 1.0)
"""The grid of private weighting: digits of 16 bits, divided by lcm(1..LIMIT)."""

SECURE = Randomness("operating-system")

Records = list[Record]
Change = Callable[[Records], Records]
R = TypeVar("R", bound=Record)


def weighted(
    rounds: int = 20,
    *,
    silos: int = 5,
    rule: str = "uniform",
    rate: float = 1.0,
    neighbours: str = "add-remove",
    drawn_by: str = "server",
    views: bool = True,
    aggregation: str = "plain",
    dropouts: int = 0,
    colluders: int = 0,
) -> Records:
    """Return the log of a run of ULDP-AVG with noise 5, as its own code would write it.

    With another aggregation than `plain` it has a protocol that fits it: masks, of which `dropouts`
    parties may be missing and `colluders` tell the server what they know, or private weighting with
    counts up to 41.
    """
    apart, private = aggregation == "plain", aggregation == "private-weighting"
    even = apart and rule == "uniform"
    table = np.full((1, silos), 1.0 / silos) if even else uldp.worst_weights(silos)
    given: dict[str, Any] = {"rounds": 1, "neighbours": neighbours}
    model = uldp.weighted_release(SIGMA, weights=uldp.worst_weights(silos), rate=rate, **given)
    server = uldp.weighted_release(
        SIGMA,
        weights=table,
        together=not apart,
        rate=rate,
        knows_sample=drawn_by == "server",
        **given,
    )
    seen = {"model": model.event}
    if views:
        seen["server"] = server.event
    if views and silos > 1:
        inside: dict[str, Any] = {"silos": silos, "weighting": rule, "tolerated_dropouts": dropouts}
        silo = uldp.insider_release(SIGMA, holds_user=False, **inside, **given).event
        seen["silo"] = silo
        if rule == "records":
            holds = uldp.insider_release(SIGMA, hidden_weights=private, **inside, **given)
            seen["silo-with-records"] = holds.event
        if private and rate < 1.0 and drawn_by != "shared-secret":
            seen["silo"] = ev.Poisson(rate, silo)
        for some in (False, True) if colluders or private else ():
            name = f"server+{max(colluders, 1)}" + "-with-records" * some
            seen[name] = uldp.PRIVATE_COALITION
            if not private:
                seen[name] = uldp.coalition_release(
                    SIGMA,
                    colluders=colluders,
                    holds_user=some,
                    together=not apart,
                    **inside,
                    **given,
                ).event
    reach = 2 if neighbours == "replace-one" else 1
    share = math.nextafter(SIGMA * CLIP / math.sqrt(silos - dropouts), 1.0)
    sampling = Sampling()
    if rate < 1.0:
        sampling = Sampling("poisson", "user", rate, drawn_by)  # type: ignore[arg-type]
    intent = RoundIntent(
        1,
        "train",
        model.event,
        Contribution(CLIP, "l2", "user"),
        Noise("gaussian", SIGMA * CLIP, silos, share, dropouts, 1, FINE if private else 2.0**-24),
        reach * CLIP,
        Weights(rule),  # type: ignore[arg-type]
        sampling,
        {who: event for who, event in seen.items() if who != "model"},
    )
    records = run_of(intent, seen, rounds, silos=silos, neighbours=neighbours)
    if apart:
        return records
    transfer = (10, round(10 * rate)) if drawn_by == "oblivious-transfer" else (0, 0)
    security = masks(silos, silos - dropouts, colluders)
    if private:
        security = weighing(silos, *transfer)
    return changed(records, RunOpen, aggregation=aggregation, security=security)


def masks(parties: int, fewest: int, colluders: int = 0) -> Security:
    """Return the facts of masked sums in a complete graph."""
    return Security("pairwise-masks", parties, fewest, fewest, parties - 1, 64, colluders=colluders)


def weighing(parties: int, slots: int = 0, chosen: int = 0) -> Security:
    """Return the facts of private weighting with counts up to 41."""
    return Security(
        "private-weighting",
        parties,
        parties,
        key_bits=3072,
        count_limit=LIMIT,
        count_cap=(LIMIT - 1) // parties,
        records_per_count=1,
        slots=slots,
        chosen=chosen,
    )


def naive(rounds: int = 100, *, neighbours: str = "add-remove", silos: int = 5) -> Records:
    """Return the log of a run of ULDP-NAIVE as it was published: noise 5, and C for 2C."""
    share = SIGMA * CLIP * math.sqrt(silos)
    nothing = ev.NoGuarantee("as published")
    intent = RoundIntent(
        1,
        "train",
        nothing,
        Contribution(CLIP, "l2", "user", "silo-delta"),
        Noise("gaussian", SIGMA * CLIP * silos, silos, math.nextafter(share, 9.0), 0, 1, 2.0**-24),
        2 * CLIP * silos,
    )
    records = run_of(
        intent, {"model": nothing}, rounds, silos=silos, neighbours=neighbours, claimed=10.73
    )
    return changed(records, RunOpen, as_published=True)


def grouped(
    rounds: int = 3,
    *,
    size: int = 8,
    steps: int = 50,
    rate: float = 0.05,
    chosen_by: str | None = "each-silo",
) -> Records:
    """Return the log of a run of ULDP-GROUP: each silo runs DP-SGD on records."""
    step: ev.Event = ev.Repeat(steps, ev.Poisson(rate, ev.Gaussian(SIGMA)))
    intent = RoundIntent(
        1,
        "train",
        step,
        Contribution(CLIP, "l2", "record"),
        Noise("gaussian", SIGMA * CLIP, 1, SIGMA * CLIP, 0, steps, 2.0**-24),
        CLIP,
        sampling=Sampling(
            "poisson",
            "record",
            rate,
            "silos",
            chosen_by=chosen_by,  # type: ignore[arg-type]
        ),
    )
    others = ["server", "silo", *(["silo-with-records"] if chosen_by == "each-silo" else [])]
    intent = replace(intent, views=dict.fromkeys(others, step))
    seen = dict.fromkeys(["model", *others], step)
    return run_of(intent, seen, rounds, silos=5, group=size)


def run_of(
    intent: RoundIntent,
    seen: dict[str, ev.Event],
    rounds: int,
    *,
    silos: int,
    neighbours: str = "add-remove",
    group: int = 1,
    claimed: float | None = None,
) -> Records:
    """Return a whole run of equal rounds that promises what `account` proves of it."""
    events = {who: ev.Repeat(rounds, event) for who, event in seen.items()}
    planned: dict[str, ev.Event] = {
        who: ev.Group(group, event) if group > 1 else event for who, event in events.items()
    }
    proven = {who: epsilon(event, neighbours) for who, event in planned.items()}
    promised = proven["model"] if claimed is None else claimed
    opened = RunOpen(
        "run-1",
        "uldp",
        Claim("user", neighbours, DELTA, promised, "model", group),  # type: ignore[arg-type]
        Planned(rounds, planned),
        Population(USERS, silos),
        SECURE,
    )
    records: Records = [opened]
    for number in range(1, rounds + 1):
        records.append(replace(intent, round=number))
        records.append(release(number, len(records) - 1, intent.noise))
    records.append(RunClose(rounds, "finished", planned, proven, DELTA, "gdp"))
    return records


def release(number: int, intent: int, noise: Noise) -> RoundRelease:
    """Return the release of a round, with randomness of its own."""
    streams = (StreamRange("ab" * 16, 1000 * number - 1000, 1000 * number),)
    return RoundRelease(
        number, intent, streams, noise.shares, noise.draws, 14, True, Normaliser("constant", 250.0)
    )


# --- changes ------------------------------------------------------------------------------------


def changed(records: Sequence[Record], kind: type[Record], **fields: Any) -> Records:
    """Return the records with fields of one kind replaced; a function makes a value of the old."""

    def one(record: Any) -> Any:
        new = {
            name: value(getattr(record, name)) if callable(value) else value
            for name, value in fields.items()
        }
        return replace(record, **new)

    return [one(record) if isinstance(record, kind) else record for record in records]


def intents(**fields: Any) -> Change:
    """Return a change of all intents."""
    return lambda records: changed(records, RoundIntent, **fields)


def releases(**fields: Any) -> Change:
    """Return a change of all releases."""
    return lambda records: changed(records, RoundRelease, **fields)


def sealing(names: Sequence[str]) -> Change:
    """Say in the first line that rounds seal items of these names, and commit to them."""

    def change(records: Records) -> Records:
        numbers = itertools.count()
        sealed = [
            replace(one, sealed={name: f"{next(numbers):064x}" for name in names})
            if isinstance(one, RoundRelease)
            else one
            for one in records
        ]
        return opening(sealed={"train": tuple(names)}, dataset="d" * 64)(sealed)

    return change


def opening(**fields: Any) -> Change:
    """Return a change of the opening."""
    return lambda records: changed(records, RunOpen, **fields)


def closing(**fields: Any) -> Change:
    """Return a change of the close."""
    return lambda records: changed(records, RunClose, **fields)


def part(**fields: Any) -> Callable[[Any], Any]:
    """Return a function that replaces fields of a part of a record."""
    return lambda old: replace(old, **fields)


def also(*changes: Change) -> Change:
    """Return one change that makes several."""

    def all_of(records: Records) -> Records:
        for change in changes:
            records = change(records)
        return records

    return all_of


# --- auditing -----------------------------------------------------------------------------------


def entries(records: Sequence[Record]) -> list[Entry]:
    """Return records as the lines of a log."""
    return [Entry(seq + 1, seq, record) for seq, record in enumerate(records)]


def evidence(records: Sequence[Record]) -> Evidence:
    """Return what the records support."""
    return Evidence.of(Ledger.of(entries(records)))


def audited(records: Sequence[Record], **options: Any) -> BudgetReport:
    """Return the audit of the records."""
    chain = Chain(len(records), "f" * 64)
    return audit_ledger(Ledger.of(entries(records)), chain, **options)


def raised(records: Sequence[Record], names: Collection[str]) -> set[str]:
    """Return which of these rules find something, without the numbers that an audit computes."""
    facts = facts_of(evidence(records))
    return {
        name
        for name in names
        if any(isinstance(found, Finding) for found in RULES[name].apply(facts))
    }


def upper(records: Sequence[Record], observer: str = "model") -> float:
    """Return the derived epsilon before an observer."""
    return evidence(records).spent_total(observer).upper


def written(folder: Path, records: Sequence[Record]) -> Path:
    """Write the records as a chained log, and return its folder."""
    folder.mkdir()
    prev, lines = START, []
    for seq, record in enumerate(records):
        line, prev = chained(record.to_json(), seq, prev)
        lines.append(line + "\n")
    (folder / LOG).write_text("".join(lines))
    return folder


def assert_honest(folder: Path) -> None:
    """Nothing contradicts itself in a folder, and no hazard is an error."""
    assert edits_of(folder) == ()
    report = audit_budget(folder)
    assert {hazard.id for hazard in report.hazards if hazard.severity == "error"} == set()


def setting_of(records: Records, **changes: Any) -> RunSetting:
    """Return the setting of a log, with changes."""
    opened = next(record for record in records if isinstance(record, RunOpen))
    return replace(RunSetting.of(opened), **changes)


SHARES_OF_FIVE_SILOS = [
    # aggregation, observer, in how many of five shares of the noise the unit is hidden
    ("plain", "model", 5),
    ("plain", "server", 1),
    ("plain", "server+2", 1),
    ("plain", "silo", 4),
    ("plain", "silo-with-records", 4),
    ("masked", "server", 5),
    ("masked", "silo-with-records", 4),
    ("masked", "server+1", 4),
    ("masked", "server+2", 3),
    ("masked", "server+3", 1),  # the masks are made for two
]


@functools.cache
def epsilon(event: ev.Event, neighbours: str = "add-remove") -> float:
    """Return the epsilon of an event at `DELTA`."""
    return pp.account(event, delta=DELTA, neighbours=neighbours).epsilon.upper
