"""Each rule fires where its fault is planted, and nowhere in a clean log."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Contribution,
    Evaluation,
    Noise,
    Normaliser,
    Planned,
    Population,
    Randomness,
    Reach,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    RunRecover,
    StreamRange,
    Tuning,
    Weights,
)
from privplan.audit.hazards import RULES, Hazard
from privplan.audit.ledger.phases import NORMALISING
from privplan.fl.frame.initial_model import initial_digest

from .ledgers import (
    CLIP,
    FINE,
    SECURE,
    SIGMA,
    Change,
    Records,
    also,
    audited,
    changed,
    closing,
    grouped,
    intents,
    masks,
    naive,
    opening,
    part,
    releases,
    upper,
    weighted,
)

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
    "groups of records": grouped,
    "masked": lambda: weighted(aggregation="masked"),
    "masked, some may be missing": lambda: weighted(aggregation="masked", dropouts=2),
    "masked, two silos": lambda: weighted(aggregation="masked", silos=2, rule="records"),
    "masked, sampled by the server": lambda: weighted(aggregation="masked", rate=0.1),
    "masked, sampled by the silos": lambda: weighted(
        aggregation="masked", rate=0.1, drawn_by="shared-secret", dropouts=1
    ),
    "masked, groups of records": lambda: under_masks(grouped()),
    "private weights": lambda: private(),
    "private weights, sampled by the server": lambda: private(rate=0.3),
    "private weights, oblivious transfer": lambda: private(rate=0.3, drawn_by=TRANSFER),
    "private weights, oblivious transfer, replaced": lambda: private(
        rate=0.3, drawn_by=TRANSFER, neighbours="replace-one", silos=2
    ),
    "private weights, sampled by the silos": lambda: private(rate=0.3, drawn_by="shared-secret"),
}


TRANSFER = "oblivious-transfer"


def private(**options: Any) -> Records:
    return weighted(rule="records", aggregation="private-weighting", **options)


def masked() -> Records:
    return weighted(aggregation="masked")


def transferred() -> Records:
    return private(rate=0.1, drawn_by=TRANSFER)


def under_masks(records: Records) -> Records:
    return opening(aggregation="masked", security=masks(5, 5))(records)


def security(**fields: object) -> Change:
    return opening(security=part(**fields))


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


def found(records: Records) -> dict[str, Hazard]:
    return {hazard.id: hazard for hazard in audited(records).hazards}


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


PLAIN = ev.Gaussian(SIGMA)
CLASSICAL = math.sqrt(2 * math.log(1.25 / 1e-5)) / 2.0


# id: a log to start from, a change that plants the fault, and one beside it that is none.
def searched(target: float) -> dict[str, Any]:
    """Return the part of a configuration by which noise is found for a target."""
    privacy = {"epsilon": repr(target), "noise_multiplier": None}
    return {"run": {"system": "uldp-avg"}, "privacy": privacy}


TABLE: dict[str, tuple[Callable[[], Records], Change, Change]] = {
    "unit-mismatch": (
        lambda: grouped(size=1),
        lambda records: records,
        opening(claim=part(unit="record")),
    ),
    "sampled-unit": (
        sampled,
        intents(sampling=part(of="record")),
        intents(sampling=part(drawn_by="shared-secret")),
    ),
    "neighbour-mismatch": (
        lambda: weighted(neighbours="replace-one"),
        intents(sensitivity=CLIP),
        intents(sensitivity=2.5 * CLIP),
    ),
    "delta-too-large": (
        weighted,
        opening(claim=part(delta=0.02)),
        opening(claim=part(delta=0.0199)),
    ),
    "delta-not-compared": (
        weighted,
        opening(claim=part(unit="record")),
        also(
            opening(claim=part(unit="record")),
            opening(population=Population(50, 5, records=500)),
        ),
    ),
    "shuffled-as-poisson": (
        sampled,
        intents(sampling=part(method="shuffled", batch=5, population=50)),
        intents(sampling=part(batch=5, population=50)),
    ),
    "rate-mismatch": (
        sampled,
        intents(sampling=part(batch=10, population=50)),
        intents(sampling=part(batch=5, population=50)),
    ),
    "known-sample": (
        sampled,
        view_of("server", ev.Poisson(0.1, PLAIN)),
        also(
            intents(sampling=part(drawn_by="shared-secret")),
            view_of("server", ev.Poisson(0.1, PLAIN)),
        ),
    ),
    "missing-protocol": (masked, opening(security=None), lambda _: weighted()),
    "protocol-mismatch": (masked, security(parties=4), security(threshold=2)),
    "noise-in-multiples": (
        private,
        security(noise="multiples"),
        intents(noise=part(grid=FINE / 2.0)),
    ),
    "fewest-below-noise": (
        masked,
        security(fewest=4),
        lambda _: weighted(aggregation="masked", dropouts=1),
    ),
    "weak-key": (private, security(key_bits=1024), security(key_bits=2048)),
    "reach-contradicted": (weighted, seeing("sum"), seeing("each")),
    "reach-of-nobody": (
        weighted,
        intents(reaches={"bystander": Reach("nothing")}),
        seeing("each"),
    ),
    "reach-missing": (weighted, only_first(seeing("each")), seeing("each")),
    "reach-assumed": (lambda: weighted(views=False), seeing("nothing"), seeing("each")),
    "visible-messages": (
        weighted,
        also(
            intents(noise=Noise("randomized-response", 0.0)),
            event_of(ev.Shuffle(50, ev.RandomizedResponse(1.0, 4))),
        ),
        also(
            intents(noise=Noise("randomized-response", 0.0)),
            event_of(ev.RandomizedResponse(1.0, 4)),
        ),
    ),
    "sensitivity-below-facts": (
        weighted,
        intents(sensitivity=0.9 * CLIP),
        intents(sensitivity=1.1 * CLIP),
    ),
    "weights-above-one": (
        weighted,
        intents(weights=Weights("uniform", 2.0)),
        intents(weights=Weights("records", 1.0)),
    ),
    "unweighted-terms": (
        weighted,
        intents(weights=Weights("none", 1.0)),
        also(intents(weights=Weights("none", 5.0), sensitivity=5 * CLIP), event_of(PLAIN)),
    ),
    "private-bound": (
        weighted,
        intents(contribution=part(source="private")),
        intents(contribution=part(source="public")),
    ),
    "adaptive-clip": (weighted, clips("public"), clips("released", draws=2)),
    "clip-not-enforced": (weighted, releases(clip_enforced=False), releases(values=20)),
    "realised-normaliser": (
        weighted,
        releases(normaliser=Normaliser("realised", None)),
        releases(normaliser=Normaliser("constant", 5.0)),
    ),
    "unusable-facts": (
        weighted,
        intents(noise=part(std=0.0)),
        intents(noise=part(std=1.0)),
    ),
    "no-noise": (
        weighted,
        intents(noise=Noise("none", 0.0)),
        intents(noise=part(grid=0.0)),
    ),
    "dropouts": (
        weighted,
        releases(shares=4),
        also(
            releases(shares=4),
            intents(noise=part(tolerated_dropouts=1, share_std=SIGMA * CLIP / 2.0 * (1 + 1e-15))),
        ),
    ),
    "extra-draws": (weighted, releases(draws=2), releases(draws=1)),
    "seeded": (
        weighted,
        opening(randomness=Randomness("seeded")),
        opening(randomness=Randomness("operating-system", "aes")),
    ),
    "reused-randomness": (
        weighted,
        releases(streams=(StreamRange("ab" * 16, 0, 100),)),
        releases(streams=(StreamRange("ab" * 16, 7, 7),)),
    ),
    "unknown-cipher": (
        weighted,
        opening(randomness=Randomness("operating-system", "rot13")),
        opening(randomness=Randomness("operating-system", "chacha20")),
    ),
    "moving-normaliser": (
        weighted,
        at(4, normaliser=Normaliser("constant", 251.0)),
        releases(normaliser=Normaliser("constant", 251.0)),
    ),
    "missing-rounds": (
        modelled,
        lambda records: [*records[:3], *records[5:]],
        lost_last(kept=3),
    ),
    "uneven-rounds": (weighted, also(paired, lambda made: [*made[:5], *made[7:]]), paired),
    "recovery-mismatch": (weighted, cut_off(next_round=22), cut_off()),
    "unknown-evaluation": (
        weighted,
        also(evaluated("declared-public"), lambda records: [*records[:39], *records[41:]]),
        evaluated("declared-public"),
    ),
    "repeated-evaluation": (
        weighted,
        also(evaluated("declared-public"), evaluated("declared-public")),
        evaluated("declared-public"),
    ),
    "missing-moments": (
        modelled,
        opening(configuration={**CONFIGURATION, "data": {"normalisation": "private"}}),
        lambda records: records,
    ),
    "foreign-first-model": (
        modelled,
        opening(configuration={**CONFIGURATION, "training": {"model": "logistic", "seed": 4}}),
        lambda records: records,
    ),
    "foreign-length": (
        modelled,
        releases(values=30),
        releases(values=31),
    ),
    "broken-lineage": (modelled, at(5, model_in=model(1)), lost_last(kept=3)),
    "broken-streams": (
        weighted,
        at(4, streams=(StreamRange("ab" * 16, 1001, 2000),)),
        also(  # behind an intent without a release, which can have drawn them
            lambda records: [*records[:4], *records[5:]],
            lambda records: [
                replace(one, intent=one.intent - 1)
                if isinstance(one, RoundRelease) and one.round > 2
                else one
                for one in records
            ],
        ),
    ),
    "missing-recovery": (
        weighted,
        at(4, streams=(StreamRange("cd" * 16, 0, 1000),)),
        lost_last(kept=20),
    ),
    "repeated-release": (modelled, at(4, aggregate="a1"), lost_last(kept=3)),
    "close-mismatch": (modelled, closing(model=model(3)), lost_last(kept=3)),
    "unrecorded-randomness": (weighted, releases(streams=()), releases(shares=6)),
    "float-noise": (weighted, intents(noise=part(grid=0.0)), intents(noise=part(grid=2.0**-30))),
    "classical-sigma": (
        lambda: weighted(rounds=1),
        also(
            intents(noise=part(std=CLASSICAL * CLIP, share_std=CLASSICAL * CLIP / math.sqrt(5))),
            event_of(ev.Gaussian(CLASSICAL * (1 - 1e-15))),
            opening(claim=part(epsilon=2.0)),
        ),
        also(
            intents(noise=part(std=CLASSICAL * CLIP, share_std=CLASSICAL * CLIP / math.sqrt(5))),
            event_of(ev.Gaussian(CLASSICAL * (1 - 1e-15))),
            opening(claim=part(epsilon=2.1)),
        ),
    ),
    "more-rounds": (weighted, one_more_round, lambda records: records),
    "off-plan": (
        weighted,
        lambda records: [
            records[0],
            replace(records[1], event=ev.Gaussian(4.9)),  # type: ignore[type-var]
            *records[2:],
        ],
        intents(phase="other"),
    ),
    "resumed-without-state": (weighted, cut_off(forgets=True), cut_off()),
    "dangling": (weighted, lambda records: [*records[:-2], records[-1]], lambda records: records),
    "incomplete": (weighted, without_last, lambda records: records),
    "lost-intents": (
        weighted,
        also(opening(fsync="never"), without_last),
        opening(fsync="never"),
    ),
    "stopped-early": (
        weighted,
        lambda records: [*records[:21], replace(records[-1], rounds=10)],  # type: ignore[type-var]
        lambda records: records[:21],
    ),
    "misplaced-records": (
        weighted,
        lambda records: [*records, replace(records[1], round=21)],  # type: ignore[type-var]
        lambda records: records,
    ),
    "unannounced-release": (weighted, releases(intent=1000), lambda records: records),
    "no-guarantee": (
        weighted,
        event_of(ev.NoGuarantee("an experiment")),
        view_of("silo", ev.NoGuarantee("not asked")),
    ),
    "as-published": (weighted, opening(as_published=True), lambda records: records),
    "private-evaluation": (
        weighted,
        evaluated("private"),
        evaluated("private", ev.Gaussian(100.0)),
    ),
    "tuning-unaccounted": (
        weighted,
        opening(tuning=Tuning(10, public_only=False)),
        opening(tuning=Tuning(10, public_only=True)),
    ),
    "close-under-reports": (
        weighted,
        closing(epsilon=lambda old: {**old, "server": 3.0}),
        closing(epsilon=lambda old: {**old, "server": 30.0}),
    ),
    "plan-exceeds-claim": (
        weighted,
        also(opening(claim=part(epsilon=3.0)), lambda records: records[:11]),
        also(opening(claim=part(epsilon=3.9)), lambda records: records[:11]),
    ),
    "undisclosed-observer": (
        lambda: weighted(rule="records"),
        view_of("server", None),
        lambda _: view_of("server", None)(weighted()),  # sees no more than the model
    ),
    "event-mismatch": (weighted, event_of(ev.Gaussian(5.1)), event_of(ev.Gaussian(4.9))),
    "plan-below-target": (
        weighted,
        opening(configuration=searched(20.0)),
        opening(configuration=searched(upper(weighted(), "model"))),
    ),
    "configuration-mismatch": (
        weighted,
        opening(configuration={"run": {"system": "uldp-avg"}}),
        opening(configuration={"run": {"system": "uldp", "rounds": 20}}),
    ),
    "stripped-commitments": (
        weighted,
        opening(sealed={"train": ("residuals",)}),
        also(
            opening(sealed={"train": ("residuals",)}, dataset="d" * 64),
            releases(sealed={"residuals": "e" * 64}),
        ),
    ),
    "no-number": (
        weighted,
        also(evaluated("private", ev.Poisson(0.1, ev.ZCDP(0.1))), without_last),
        also(evaluated("private", ev.ZCDP(0.1)), without_last),
    ),
}


@pytest.mark.parametrize("name", list(CLEAN))
def test_a_clean_log_has_no_hazard(name: str) -> None:
    report = audited(CLEAN[name]())
    assert report.hazards == ()
    assert report.supported is True
    assert report.ok


@pytest.mark.parametrize("name", list(TABLE))
def test_a_rule_fires_where_its_fault_is(name: str) -> None:
    make, fault, _ = TABLE[name]
    hazards = found(fault(make()))
    assert name in hazards
    own = hazards[name]
    assert own.severity in ("error", "warning", "note")
    assert own.what.endswith(".")
    assert own.why.endswith(".")
    assert own.next_step


@pytest.mark.parametrize("name", list(TABLE))
def test_and_not_beside_it(name: str) -> None:
    make, _, harmless = TABLE[name]
    assert name not in found(harmless(make()))


def test_every_rule_is_in_the_table() -> None:
    assert set(TABLE) == set(RULES) - {"engines-disagree"}


@pytest.mark.parametrize("name", [name for name in TABLE if RULES[name].severity == "error"])
def test_an_error_fails_the_audit_and_never_lowers_the_number(name: str) -> None:
    make, fault, _ = TABLE[name]
    before, report = upper(make()), audited(fault(make()))
    assert not report.ok
    other = ("more-rounds", "plan-exceeds-claim", "resumed-without-state", "delta-too-large")
    if name not in other:  # of less, or at another delta
        assert report.total.upper >= before * (1 - 1e-9)


def test_delta_is_compared_with_the_units_of_the_claim() -> None:
    """Records by their number, or by a public bound on those of a user; never by another unit's."""
    bounded = opening(configuration={"uldp": {"group_records": 4}})
    of_records = opening(claim=part(unit="record", delta=0.01))
    assert "delta-too-large" not in found(of_records(weighted()))
    for known in (opening(population=Population(50, 5, records=100)), bounded):
        fired = found(also(of_records, known)(weighted()))
        assert "delta-not-compared" not in fired
        assert fired["delta-too-large"].severity == "error"
    fired = found(also(opening(claim=part(unit="record", delta=0.0049)), bounded)(weighted()))
    assert "delta-too-large" not in fired
    of_silos = opening(claim=part(unit="silo", delta=0.2))
    assert "5 silos" in found(of_silos(weighted()))["delta-too-large"].what


@pytest.mark.parametrize("unit", ["user", "record", "entry"])
def test_half_is_too_large_for_any_unit(unit: str) -> None:
    own = found(opening(claim=part(unit=unit, delta=0.5))(weighted()))
    assert "one half or more" in own["delta-too-large"].what
    assert own["delta-too-large"].severity == "error"


def test_that_a_large_delta_was_accepted_is_said_and_excuses_nothing() -> None:
    large = opening(claim=part(delta=0.02))
    for content, said in (({"accept_delta": True}, True), ({}, False), ("nonsense", False)):
        log = also(large, opening(configuration={"privacy": content}))(weighted())
        own = found(log)["delta-too-large"]
        assert own.severity == "error"
        assert ("accept_delta" in own.what) == said
        assert not audited(log).ok


def test_where_no_number_is_promised_a_large_delta_is_a_warning() -> None:
    own = found(opening(claim=part(delta=0.02, epsilon=None))(weighted()))
    assert own["delta-too-large"].severity == "warning"


def test_engines_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    from privplan.accountant.errors import EnginesDisagree
    from privplan.audit.evidence import epsilon_total

    def disagree(*_: object, **__: object) -> None:
        raise EnginesDisagree("The pld engine shows at least 2, the rdp engine at most 1.")

    monkeypatch.setattr(epsilon_total, "tightest", disagree)
    report = audited(weighted(rounds=2))
    assert "engines-disagree" in {hazard.id for hazard in report.hazards}
    assert math.isinf(report.total.upper)


# --- what the log supports all the same ---------------------------------------------------------


def test_a_unit_mismatch_says_what_holds_for_a_record() -> None:
    hazard = found(grouped(size=1))["unit-mismatch"]
    assert hazard.epsilon == pytest.approx(upper(records_only()), rel=1e-6)


def test_shuffled_batches_have_no_amplification() -> None:
    make, fault, _ = TABLE["shuffled-as-poisson"]
    records = fault(make())
    # One user more or less moves the boundaries of batches: another user takes its place.
    assert found(records)["shuffled-as-poisson"].epsilon == pytest.approx(
        upper(weighted(neighbours="replace-one")), rel=1e-9
    )


def test_a_search_costs_its_runs() -> None:
    hazard = found(opening(tuning=Tuning(10, public_only=False))(weighted(rounds=5)))
    assert hazard["tuning-unaccounted"].epsilon == pytest.approx(upper(weighted(50)), rel=1e-9)


def test_an_evaluation_without_noise_leaves_the_rounds() -> None:
    hazard = found(evaluated("private")(weighted()))["private-evaluation"]
    assert hazard.epsilon == pytest.approx(upper(weighted()), rel=1e-9)


def test_missing_shares_leave_less_noise() -> None:
    """Sigma 5 in five shares of which two are missing is noise 5 sqrt(3/5)."""
    import privplan as pp

    hazard = found(releases(shares=3)(weighted(rule="records")))["dropouts"]
    noise = ev.Repeat(20, ev.Gaussian(5.0 * math.sqrt(3 / 5)))
    assert hazard.epsilon == pytest.approx(pp.account(noise, delta=1e-5).epsilon.upper, rel=1e-6)


def test_weights_above_one_are_an_error_only_where_they_are_ignored() -> None:
    ignored = found(intents(weights=Weights("records", 2.0))(weighted()))
    assert ignored["weights-above-one"].severity == "error"
    counted = also(
        intents(weights=Weights("records", 2.0), sensitivity=2 * CLIP),
        event_of(ev.Gaussian(2.5)),
    )
    assert found(counted(weighted()))["weights-above-one"].severity == "warning"


def test_terms_that_nobody_weights_cost_as_many_times_the_clip() -> None:
    """The published audit of Uldp without weights: five silos, five clips."""
    import privplan as pp

    hazard = found(intents(weights=Weights("none", 1.0))(weighted()))["unweighted-terms"]
    five = pp.account(ev.Repeat(20, ev.Gaussian(SIGMA / 5)), delta=1e-5).epsilon.upper
    assert hazard.epsilon == pytest.approx(five, rel=1e-6)


def test_the_classical_formula_is_an_error_where_it_proves_too_little() -> None:
    """At epsilon 10 it is unsound; at epsilon 2 it merely has no proof."""
    noise = math.sqrt(2 * math.log(1.25 / 1e-5)) / 20.0
    change = also(
        intents(noise=part(std=noise * CLIP, share_std=noise * CLIP / math.sqrt(5))),
        event_of(ev.Gaussian(noise * (1 - 1e-15))),
        opening(claim=part(epsilon=20.0)),
    )
    assert found(change(weighted(1)))["classical-sigma"].severity == "error"
    make, fault, _ = TABLE["classical-sigma"]
    assert found(fault(make()))["classical-sigma"].severity == "warning"


def test_a_mismatch_that_is_explained_is_not_repeated() -> None:
    assert "event-mismatch" not in found(intents(sensitivity=0.9 * CLIP)(weighted()))
    assert "event-mismatch" not in found(TABLE["shuffled-as-poisson"][1](sampled()))


@pytest.mark.parametrize("shift", [0, 999])
def test_overlap_by_one_byte_is_reuse(shift: int) -> None:
    def shifted(old: tuple[StreamRange, ...]) -> tuple[StreamRange, ...]:
        own = old[0]
        return (own, StreamRange(own.stream, own.first + shift, own.last + shift))

    records = weighted(rounds=3)
    records[2] = changed([records[2]], RoundRelease, streams=shifted)[0]
    lines = found(records)["reused-randomness"].lines
    assert 3 in lines
    assert (5 in lines) == (shift == 999)


def test_the_published_naive_is_marked_and_its_claim_fails() -> None:
    report = audited(naive())
    assert {hazard.id for hazard in report.hazards} == {"as-published"}
    assert report.supported is False
    assert not report.ok


def test_silos_that_hold_some_of_the_user_are_named_where_others_have_a_sample() -> None:
    log = private(rate=0.1, drawn_by=TRANSFER)
    silent = found(view_of("silo-with-records", None)(log))
    assert "silo-with-records" in silent["undisclosed-observer"].what
    assert "undisclosed-observer" not in found(log)
    assert "undisclosed-observer" not in found(weighted(rule="records"))


def test_a_resumed_run_that_knows_its_state_is_clean_but_for_a_note() -> None:
    hazards = found(cut_off()(weighted()))
    assert set(hazards) == {"dangling"}
    assert hazards["dangling"].severity == "note"
    back = found(cut_off(next_round=3)(weighted()))
    assert "resumed-without-state" in back


def test_repeated_rounds_are_found_and_counted() -> None:
    records = first_round_twice(weighted())
    assert "resumed-without-state" in found(records)
    assert upper(records) > upper(weighted())


def test_the_size_of_a_private_list_is_no_secret_where_it_stands_in_the_log() -> None:
    records = records_only()
    public = intents(sampling=part(population=1000, batch=50))(records)
    assert "neighbour-mismatch" not in found(public)
    private = changed(public, RunOpen, population=Population(50, 1))
    assert found(private)["neighbour-mismatch"].severity == "warning"


def test_a_contribution_by_record_in_another_norm_supports_no_laplace() -> None:
    change = intents(noise=part(family="laplace"))
    assert math.isinf(upper(change(weighted())))
    right = intents(noise=part(family="laplace"), contribution=Contribution(CLIP, "l1", "user"))
    assert math.isfinite(upper(right(weighted())))


@pytest.mark.parametrize(("phase", "fires"), [("normalise", True), ("norms", False)])
def test_released_moments_account_for_no_clip(phase: str, fires: bool) -> None:
    """Another phase may have released the norms; the one that releases moments has not."""
    moving = clips("released")(weighted())
    first = replace(moving[1], phase=phase)  # type: ignore[type-var]
    norms = replace(moving[2], values=5)  # type: ignore[type-var]
    assert ("adaptive-clip" in found([moving[0], first, norms, *moving[3:]])) == fires


@pytest.mark.parametrize("source", ["public", "released"])
def test_names_of_phases_account_for_no_clip(source: str) -> None:
    renamed = [
        replace(one, phase=f"train{one.round}") if isinstance(one, RoundIntent) else one
        for one in clips(source)(weighted())
    ]
    hazard = found(renamed)["adaptive-clip"]
    assert len(hazard.lines) == 19
    assert math.isinf(upper(renamed))


@pytest.mark.parametrize(
    ("change", "fires"),
    [
        (closing(rounds=5), True),
        (closing(events={}), True),
        (closing(model=None), False),
        (releases(model_out=None), True),
        (intents(model_in=None), True),
    ],
)
def test_what_the_last_line_and_the_models_leave_out(change: Change, fires: bool) -> None:
    report = audited(change(modelled()))
    assert report.ok != fires
    assert report.not_stated or fires


@pytest.mark.parametrize("change", [opening(configuration={}), intents(model_in=None)])
def test_what_an_older_log_does_not_say_is_neither_good_nor_bad(change: Change) -> None:
    """No models at all, or no configuration: that is no fault, and is said."""
    records = changed(modelled(), RoundRelease, model_out=None)
    report = audited(changed(change(intents(model_in=None)(records)), RunClose, model=None))
    assert report.ok
    assert any("starts from" in one for one in report.not_stated)
    assert report.to_json()["not_stated"] == list(report.not_stated)


def test_the_phase_that_releases_moments_has_one_name() -> None:
    """The audit works without the systems, so it says the name again."""
    assert NORMALISING == pytest.importorskip("privplan.fl.frame.private_normalisation").NORMALISE
