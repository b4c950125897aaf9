"""Each cause fires on its case, and none on the clean run."""

from __future__ import annotations

from decimal import Decimal

import pytest

from privplan.audit.check.causes import CAUSE_RULES
from privplan.audit.check.headline import headline
from privplan.audit.check.library_defects import LIBRARY_DEFECTS
from privplan.audit.description.agreement import named_library

from ..cases import for_each
from .described import cause, checked, errors, ids

IDS = {
    "shuffled-loader",
    "mid-epoch-value",
    "other-settings",
    "delta-rule",
    "delta-too-large",
    "restarted-accountant",
    "sampled-twice",
    "neighbour-mismatch",
    "microbatches",
    "accumulation",
    "private-clip",
    "unpaid-clip-count",
    "unequal-weights",
    "realised-normaliser",
    "fewer-replies",
    "classical-gaussian",
    "clt-approximation",
    "not-from-this-number",
    "renewing-budget",
    "weighted-sampler",
    "tuning-not-counted",
    "library-defect",
    "rounded-down",
    "swapped-tuple",
    "contradiction",
}

STEPS_BEFORE_LAST_EPOCH = Decimal("0.9227")

CASES: dict[str, tuple[dict[str, object], str, str]] = {
    "shuffled-loader": ({"sampling.method": "shuffled"}, "false", "error"),
    "fixed-size-loader": ({"sampling.method": "fixed-size"}, "false", "error"),
    "with-replacement": ({"sampling.method": "with-replacement"}, "false", "error"),
    "weighted-sampler": ({"sampling.method": "weighted"}, "unproven", "error"),
    "restarted-accountant": ({"schedule.restarts": 10}, "unverifiable", "warning"),
    "renewing-budget": (
        {"schedule.renews_every_days": 1, "schedule.horizon_days": 30},
        "false",
        "error",
    ),
    "tuning-not-counted": ({"tuning.runs": 40}, "unproven", "warning"),
    "private-clip": ({"noise.clip_source": "median"}, "unproven", "error"),
    "unpaid-clip-count": ({"noise.clip_source": "adaptive"}, "unverifiable", "warning"),
    "unequal-weights": ({"aggregation.weights": "unequal"}, "unproven", "warning"),
    "realised-normaliser": ({"aggregation.normaliser": "realised"}, "unproven", "error"),
    "fewer-replies": (
        {"aggregation.replies": 30, "aggregation.expected_replies": 50},
        "unverifiable",
        "warning",
    ),
    "microbatches": ({"schedule.microbatches": 4}, "unproven", "warning"),
    "accumulation": ({"schedule.accumulation": 8}, "unverifiable", "warning"),
    "delta-too-large": ({"claim.delta": 1e-4}, "holds-not-from-these-settings", "warning"),
    "delta-rule": ({"claim.delta": 1 / 235}, "holds-not-from-these-settings", "warning"),
    "sampled-twice": (
        {"sampling.clients_rate": 0.1, "schedule.steps": 3516, "claim.epsilon": Decimal("0.09")},
        "unproven",
        "warning",
    ),
    "neighbour-mismatch": ({"claim.neighbours": "replace-one"}, "false", "error"),
    "release-without-noise": (
        {"releases": [{"what": "accuracy on the data", "noise_multiplier": 0, "count": 1}]},
        "unproven",
        "error",
    ),
    "other-settings": ({"claim.epsilon": Decimal("0.2917")}, "false", "error"),
    "releases-not-counted": (
        {"releases": [{"what": "a noisy histogram", "noise_multiplier": 0.5, "count": 1}]},
        "false",
        "error",
    ),
}


@for_each("name", sorted(CASES))
def test_a_cause_fires_on_its_case(name: str) -> None:
    facts, verdict, severity = CASES[name]
    result = checked(facts)
    found = cause(result, name)
    assert found is not None, ids(result)
    assert (result.verdict, found.severity) == (verdict, severity), found.says
    assert found.says.strip()
    assert found.next_step.strip()
    assert all(part.strip() for part in found.says.split("  "))


def test_every_listed_cause_has_a_rule() -> None:
    assert set(CAUSE_RULES) >= IDS
    assert not ids(checked())


def test_a_large_claim_covers_what_would_be_a_cause() -> None:
    """Where the claim reaches what the facts prove, they accuse nobody."""
    for name in ("restarted-accountant", "fixed-size-loader", "microbatches", "accumulation"):
        facts, _, _ = CASES[name]
        result = checked({**facts, "claim.epsilon": 60})
        assert result.verdict == "holds", name
        assert not errors(result)
        assert cause(result, name) is None


def test_accumulation_as_it_was_published() -> None:
    """100 draws of 8 batches of 10 in 1,000 records: .718 was said, and 5.613 or 6.748 is true."""
    facts = {
        "claim.epsilon": Decimal("0.718"),
        "noise.noise_multiplier": 1.0,
        "data.records": 1000,
        "sampling.batch": 10,
        "schedule.steps": 100,
        "schedule.accumulation": 8,
        "claim.library": "jax_privacy 2.1",
    }
    result = checked(facts, without=("schedule.epochs",))
    assert result.proven is not None
    assert result.proven.lower == pytest.approx(0.718, abs=1e-3)
    # Eight separate Poisson batches may all have the record: more than one of eightfold rate.
    assert result.proven.upper == pytest.approx(6.7483, abs=1e-3)
    assert {"accumulation", "library-defect"} <= ids(result)
    # Eight epochs in 100 steps: the rate is that of one batch, so the claim is false.
    told = checked({**facts, "schedule.epochs": 8})
    assert (told.verdict, "accumulation" in errors(told)) == ("false", True)
    # One epoch in 100 steps: the rate counts all that is accumulated, and nothing is doubled.
    one = {"schedule.epochs": 1, "schedule.accumulation_of": "one-sample"}
    right = checked({**facts, **one, "claim.epsilon": Decimal("0.719")})
    assert right.verdict.startswith("holds")
    assert not errors(right)


def test_flower_under_replace_one() -> None:
    result = checked(
        {
            "claim.epsilon": Decimal("3.576"),
            "claim.neighbours": "replace-one",
            "claim.library": "flower 1.42",
            "noise.noise_multiplier": 1.0,
            "data.records": 100000,
            "sampling.method": "fixed-size",
            "sampling.batch": 1000,
            "schedule.steps": 1000,
            "claim.delta": 1e-6,
        },
        without=("schedule.epochs",),
    )
    assert result.verdict == "false"
    assert "library-defect" in ids(result)


def test_adaptive_clip_whose_count_is_paid() -> None:
    """Noise 1 and a count of noise 1 (sigma_b .5): 4.48, where 1.829 was said."""
    count = {"what": "clip count", "noise_multiplier": 1.0, "count": 1000}
    facts = {
        "noise.clip_source": "adaptive",
        "noise.noise_multiplier": 1.0,
        "sampling.batch": 600,
        "schedule.steps": 1000,
        "releases": [count],
    }
    short = checked({**facts, "claim.epsilon": Decimal("1.829")}, without=("schedule.epochs",))
    assert (short.verdict, errors(short)) == ("false", {"unpaid-clip-count"})
    assert short.proven is not None
    assert short.proven.upper == pytest.approx(4.4809, abs=1e-3)
    paid = checked({**facts, "claim.epsilon": Decimal("4.49")}, without=("schedule.epochs",))
    assert paid.verdict.startswith("holds")
    assert not errors(paid)


def test_restarts_that_may_be_of_other_records_never_make_a_claim_false() -> None:
    """Starts in as many silos, and steps that follow from epochs, may be the whole run."""
    silos = {"schedule.restarts": 10, "schedule.steps": 3516, "data.silos": 10}
    for facts in (silos, {"schedule.restarts": 10}):
        result = checked(facts)
        assert (result.verdict, errors(result)) == ("unverifiable", set())
        assert cause(result, "restarted-accountant") is not None


def test_silent_facts_are_asked_for() -> None:
    keys = (
        "sampling.method",
        "noise.clip_source",
        "claim.neighbours",
        "claim.unit",
        "schedule.accumulation",
        "schedule.microbatches",
        "schedule.restarts",
        "aggregation.normaliser",
        "tuning.runs",
    )
    for key in keys:
        assert key in {each.key for each in checked(without=(key,)).missing}
    federated = checked({"data.users": 500})
    asked = {each.key for each in federated.missing}
    assert {"aggregation.weights", "aggregation.expected_replies"} <= asked
    assert all(each.asks.endswith("?") for each in federated.missing)


def test_contradictions_are_errors_and_nothing_is_verified() -> None:
    result = checked({"schedule.epochs": 85})
    assert (result.verdict, "contradiction" in errors(result)) == ("unverifiable", True)


def test_clt_values_are_no_bounds() -> None:
    """Noise .5, rate .001, 10,000 steps at 1e-6: 3.44 by the limit, 6.35 in truth."""
    result = checked(
        {
            "claim.epsilon": Decimal("3.44"),
            "claim.delta": 1e-6,
            "noise.noise_multiplier": 0.5,
            "data.records": 100000,
            "sampling.batch": 100,
            "schedule.steps": 10000,
        },
        without=("schedule.epochs",),
    )
    assert (result.verdict, "clt-approximation" in errors(result)) == ("false", True)


def test_the_textbook_formula_above_one() -> None:
    """sqrt(2 ln(1.25 / delta)) / noise, 24.22 at noise .2 and delta 1e-5."""
    result = checked(
        {
            "claim.epsilon": Decimal("24.22"),
            "noise.noise_multiplier": 0.2,
            "sampling.method": "full",
            "schedule.steps": 1,
        },
        without=("schedule.epochs", "sampling.batch"),
    )
    assert "classical-gaussian" in ids(result)
    assert result.verdict == "false"


def test_swapped_tuples() -> None:
    swapped = {"schedule.phases": [[0.01, 0.9, 1000]]}
    left_out = ("schedule.epochs", "sampling.batch", "noise.noise_multiplier")
    assert "swapped-tuple" in ids(checked(swapped, without=left_out))


def test_libraries_are_read_from_free_text() -> None:
    assert named_library("opacus==1.4.0") == ("opacus", (1, 4, 0))
    assert named_library("dp-accounting 0.4") == ("dp_accounting", (0, 4))
    assert named_library("Flower 1.42") == ("flower", (1, 42))
    assert named_library(None) == ("", None)
    assert all(defect.source and defect.next_step for defect in LIBRARY_DEFECTS)
    old = checked({"claim.library": "opacus 1.3", "claim.accountant": "gdp"})
    new = checked({"claim.library": "opacus 1.6", "claim.accountant": "rdp"})
    assert cause(old, "library-defect") is not None
    assert cause(new, "library-defect") is None


@for_each("claim", ["0.10", "0.2917", "0.50", "0.70", "0.81", "0.85"])
@for_each("method", ["poisson", "fixed-size", "shuffled"])
def test_a_false_claim_has_a_grave_cause(claim: str, method: str) -> None:
    result = checked({"claim.epsilon": Decimal(claim), "sampling.method": method})
    assert result.verdict == "false"
    assert errors(result)


def test_a_claim_that_holds_has_no_error() -> None:
    """A delta that publishes a record makes a true claim weak, and not false."""
    result = checked({"claim.delta": 0.001, "claim.epsilon": Decimal("5.17")})
    assert result.verdict.startswith("holds")
    assert cause(result, "delta-too-large") is not None
    assert not errors(result)
    assert "at a delta that allows to publish one" in headline(result)
    low = checked({"claim.delta": 0.001, "claim.epsilon": Decimal("0.1")})
    assert "delta-too-large" in errors(low)


def test_under_replace_one_only_the_relation_is_an_error() -> None:
    """Noise 1.1 gives 1.2794 for removing a record, at the last step as well."""
    facts = {
        "claim.neighbours": "replace-one",
        "claim.epsilon": Decimal("1.28"),
        "noise.noise_multiplier": 1.1,
    }
    result = checked(facts)
    assert (result.verdict, errors(result)) == ("false", {"neighbour-mismatch"})
    assert cause(result, "mid-epoch-value") is None


def test_every_cause_has_a_meaning() -> None:
    whys = [rule.why for rule in CAUSE_RULES.values()]
    assert all(why[0].isupper() and why.endswith(".") for why in whys)


def test_a_noised_release_that_is_no_count_pays_for_no_clip() -> None:
    """A test accuracy with noise is no count that a clipping norm could follow."""
    other = {"what": "test accuracy", "noise_multiplier": 500.0, "count": 1}
    result = checked({"noise.clip_source": "adaptive", "releases": [other]})
    assert "unpaid-clip-count" in ids(result)
    assert "its noise is not stated" in next(
        cause.says for cause in result.causes if cause.id == "unpaid-clip-count"
    )


def test_nothing_is_proven_of_facts_that_contradict_each_other() -> None:
    result = checked({"schedule.steps": 1000, "schedule.epochs": 15})
    assert (result.verdict, result.proven, result.alternatives) == ("unverifiable", None, None)
    assert errors(result) == {"contradiction"}
