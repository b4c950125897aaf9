"""Each rule fires where its fault is planted, and nowhere in a clean log."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from privplan.accountant import events as ev
from privplan.accountant.records import (
    Contribution,
    Population,
    RoundIntent,
    RoundRelease,
    RunClose,
    RunOpen,
    StreamRange,
    Tuning,
    Weights,
)
from privplan.audit.hazards import RULES
from privplan.audit.ledger.phases import NORMALISING

from ..cases import for_each
from .fault_table import TABLE
from .faults import (
    CLEAN,
    TRANSFER,
    clips,
    cut_off,
    evaluated,
    event_of,
    first_round_twice,
    found,
    left,
    modelled,
    private,
    records_only,
    sampled,
    searched,
    view_of,
)
from .ledgers import (
    CLIP,
    SIGMA,
    Change,
    also,
    audited,
    changed,
    closing,
    grouped,
    intents,
    naive,
    opening,
    part,
    releases,
    upper,
    weighted,
)


@for_each("name", list(CLEAN))
def test_a_clean_log_has_no_hazard(name: str) -> None:
    report = audited(CLEAN[name]())
    assert report.hazards == ()
    assert report.supported is True
    assert report.ok


@for_each("name", list(TABLE))
def test_a_rule_fires_where_its_fault_is(name: str) -> None:
    make, fault, _ = TABLE[name]
    hazards = found(fault(make()))
    assert name in hazards
    own = hazards[name]
    assert own.severity in ("error", "warning", "note")
    assert own.says.endswith(".")
    assert own.why.endswith(".")
    assert own.next_step


@for_each("name", list(TABLE))
def test_and_not_beside_it(name: str) -> None:
    make, _, harmless = TABLE[name]
    assert name not in found(harmless(make()))


def test_every_rule_is_in_the_table() -> None:
    assert set(TABLE) == set(RULES) - {"engines-disagree"}


@for_each("name", [name for name in TABLE if RULES[name].severity == "error"])
def test_an_error_fails_the_audit_and_never_lowers_the_number(name: str) -> None:
    make, fault, _ = TABLE[name]
    before, report = upper(make()), audited(fault(make()))
    assert not report.ok
    other = ("more-rounds", "plan-exceeds-claim", "resumed-without-state", "delta-too-large")
    if name not in other:  # of less, or at another delta
        assert report.total.upper >= before * (1 - 1e-9)


@for_each(("noise", "fires"), [(0.4627, False), (0.4885, True)])
def test_noise_at_the_edge_of_a_jump_was_searched_for(noise: float, fires: bool) -> None:
    """The bound falls from 8.18 to 7.70 at 0.46270, and with more noise no honest plan is made."""
    dimensions = (60, 31, 6, 40, "coordinate", "oblivious", "refuse")
    planned = ev.Repeat(2, ev.SampledShuffle(*dimensions, ev.Laplace(noise)))
    log = weighted()
    assert isinstance(log[0], RunOpen)
    observer = log[0].claim.observer
    edited = opening(
        configuration=searched(8.0),
        claim=part(neighbours="replace-one", epsilon=8.0, delta=1e-5),
        plan=part(events={observer: planned}),
    )(log)
    assert ("plan-below-target" in found(edited)) == fires


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
    assert "5 silos" in found(of_silos(weighted()))["delta-too-large"].says


@for_each("unit", ["user", "record", "entry"])
def test_half_is_too_large_for_any_unit(unit: str) -> None:
    own = found(opening(claim=part(unit=unit, delta=0.5))(weighted()))
    assert "one half or more" in own["delta-too-large"].says
    assert own["delta-too-large"].severity == "error"


def test_that_a_large_delta_was_accepted_is_said_and_excuses_nothing() -> None:
    large = opening(claim=part(delta=0.02))
    for content, said in (({"accept_delta": True}, True), ({}, False), ("nonsense", False)):
        log = also(large, opening(configuration={"privacy": content}))(weighted())
        own = found(log)["delta-too-large"]
        assert own.severity == "error"
        assert ("accept_delta" in own.says) == said
        assert not audited(log).ok


def test_where_no_number_is_promised_a_large_delta_is_a_warning() -> None:
    own = found(opening(claim=part(delta=0.02, epsilon=None))(weighted()))
    assert own["delta-too-large"].severity == "warning"


def test_engines_that_disagree(monkeypatch: pytest.MonkeyPatch) -> None:
    from privplan.accountant.errors import EnginesDisagree
    from privplan.audit.evidence import epsilon_total

    def disagree(*_: object, **__: object) -> None:
        raise EnginesDisagree("The pld engine shows at least 2, the rdp engine at most 1.")

    monkeypatch.setattr(epsilon_total, "_answered", disagree)
    report = audited(weighted(rounds=2))
    assert "engines-disagree" in {hazard.id for hazard in report.hazards}
    assert math.isinf(report.total.upper)


@for_each(
    ("sizes", "fires"),
    [
        ((261_296, 261_296, 261_296), False),
        ((261_296, 261_264, 261_296), True),  # a single block: as many in every round
        ((326_160, 325_952, 326_352), False),  # 20,000 numbers, as three draws of them were
        ((16_140_816, 16_138_064, 16_143_408), False),  # 1,000,000 numbers
        ((326_160, 322_000, 326_160), True),
        ((16_140_816, 16_140_816, 32_281_632), True),
    ],
)
def test_long_draws_make_up_for_what_was_rejected(sizes: tuple[int, ...], fires: bool) -> None:
    """How many bytes a long draw reads varies with what was rejected in it, by far below 1 %."""
    ends = [0, *itertools.accumulate(sizes)]
    streams = iter(StreamRange("ab" * 16, *pair) for pair in itertools.pairwise(ends))
    records = [
        replace(one, streams=(next(streams),)) if isinstance(one, RoundRelease) else one
        for one in weighted(rounds=3)
    ]
    configured = opening(configuration={"run": {"system": "uldp-avg"}})(records)
    assert ("broken-streams" in found(configured)) == fires


# --- what the log supports all the same ---------------------------------------------------------


def test_a_unit_mismatch_says_what_holds_for_a_record() -> None:
    hazard = found(grouped(size=1))["unit-mismatch"]
    assert left(hazard) == pytest.approx(upper(records_only()), rel=1e-6)


def test_shuffled_batches_have_no_amplification() -> None:
    make, fault, _ = TABLE["shuffled-as-poisson"]
    records = fault(make())
    # One user more or less moves the boundaries of batches: another user takes its place.
    assert left(found(records)["shuffled-as-poisson"]) == pytest.approx(
        upper(weighted(neighbours="replace-one")), rel=1e-9
    )


def test_a_search_costs_its_runs() -> None:
    hazard = found(opening(tuning=Tuning(10, public_only=False))(weighted(rounds=5)))
    assert left(hazard["tuning-unaccounted"]) == pytest.approx(upper(weighted(50)), rel=1e-9)


def test_an_evaluation_without_noise_leaves_the_rounds() -> None:
    hazard = found(evaluated("private")(weighted()))["private-evaluation"]
    assert left(hazard) == pytest.approx(upper(weighted()), rel=1e-9)


def test_missing_shares_leave_less_noise() -> None:
    """Sigma 5 in five shares of which two are missing is noise 5 sqrt(3/5)."""
    import privplan as pp

    hazard = found(releases(shares=3)(weighted(rule="records")))["dropouts"]
    noise = ev.Repeat(20, ev.Gaussian(5.0 * math.sqrt(3 / 5)))
    assert left(hazard) == pytest.approx(pp.account(noise, delta=1e-5).epsilon.upper, rel=1e-6)


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
    assert left(hazard) == pytest.approx(five, rel=1e-6)


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


@for_each("shift", [0, 999])
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
    assert "silo-with-records" in silent["undisclosed-observer"].says
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


@for_each(("phase", "fires"), [("normalise", True), ("norms", False)])
def test_released_moments_account_for_no_clip(phase: str, fires: bool) -> None:
    """Another phase may have released the norms; the one that releases moments has not."""
    moving = clips("released")(weighted())
    first = replace(moving[1], phase=phase)  # type: ignore[type-var]
    norms = replace(moving[2], values=5)  # type: ignore[type-var]
    assert ("adaptive-clip" in found([moving[0], first, norms, *moving[3:]])) == fires


@for_each("source", ["public", "released"])
def test_names_of_phases_account_for_no_clip(source: str) -> None:
    renamed = [
        replace(one, phase=f"train{one.round}") if isinstance(one, RoundIntent) else one
        for one in clips(source)(weighted())
    ]
    hazard = found(renamed)["adaptive-clip"]
    assert len(hazard.lines) == 19
    assert math.isinf(upper(renamed))


@for_each(
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


@for_each("change", [opening(configuration={}), intents(model_in=None)])
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
