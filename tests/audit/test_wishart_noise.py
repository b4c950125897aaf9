"""Logs of matrices with Wishart noise: no event is supported, whatever they say."""

from __future__ import annotations

from typing import Any

import pytest

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import RoundDescription, WishartGram
from privplan.accountant.records import Noise, Reach, RoundIntent
from privplan.accountant.sensitivity.gram import GramBound
from privplan.accountant.sensitivity.wishart import failure
from privplan.audit.derivation.matrix_views import MATRIX_VIEWS
from privplan.audit.derivation.noise import published_delta
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import NoProof, RunSetting
from privplan.audit.derivation.supported_event import supported
from privplan.audit.ledger.entries import SpentIntent

from ..cases import for_each
from .faults import event_of
from .grams import gram_log, noisy
from .ledgers import also, audited, evidence, intents, opening, part

D = 6
MECHANISM = WishartGram.as_published(0.6, gram=GramBound(dimension=D), bits=17, shares=5)


def wishart_log(event: ev.Event | None = None) -> Any:
    """Return a log of a Gaussian matrix whose noise is called Wishart, and whose event is given."""
    stated = MECHANISM.intent(RoundDescription(1, "release"), "add-remove")
    change = intents(noise=stated.noise, contribution=stated.contribution)
    log = change(gram_log(noisy(classes=0)))
    return log if event is None else event_of(event)(log)


def facts_of(**changes: Any) -> RoundFacts:
    stated = MECHANISM.intent(RoundDescription(1, "release"), "add-remove")
    return RoundFacts.of(SpentIntent(2, 1, RoundIntent(**{**vars(stated), **changes})))


@for_each("event", [ev.Gaussian(50.0), ev.Pure(0.6), ev.Laplace(3.0), ev.Approximate(1.0, 0.5)])
def test_a_log_that_claims_an_event_for_it_is_not_supported(event: ev.Event) -> None:
    report = audited(wishart_log(event))
    assert not report.ok
    assert not report.supported
    assert report.total.upper == float("inf")
    fired = {one.id: one for one in report.hazards}
    assert f"{failure(0.6):.3f}" in fired["wishart-noise"].says
    assert fired["wishart-noise"].severity == "error"
    assert "unusable-facts" not in fired


@for_each("observer", ["model", "server", "silo", "server+1", "bystander"])
def test_before_nobody_do_its_facts_support_anything(observer: str) -> None:
    case = evidence(wishart_log())
    (kind,) = case.kinds
    event = supported(kind.facts, case.setting, observer)
    assert isinstance(event, ev.NoGuarantee)
    assert "negative eigenvalue" in event.reason


@for_each("sees", list(MATRIX_VIEWS))
def test_no_formula_of_other_noise_is_used_of_it(sees: str) -> None:
    """Not even where whoever calls it forgot to ask what takes guarantees away."""
    setting: RunSetting = evidence(wishart_log()).setting
    with pytest.raises(NoProof, match="negative eigenvalue"):
        MATRIX_VIEWS[sees](facts_of(), setting, Reach(sees))  # type: ignore[arg-type]


def test_a_matrix_without_its_name_has_no_way_around() -> None:
    """Called a sum, or a message, it is no more than before."""
    for terms in ("unit", "whole", "silo-delta", "message", "product"):
        log = also(intents(contribution=part(terms=terms, gram=None)))(wishart_log())
        report = audited(log)
        assert report.total.upper == float("inf")
        assert "wishart-noise" in {one.id for one in report.hazards}


@for_each("epsilon", [0.1, 0.6, 3.0])
def test_the_delta_is_the_exact_one(epsilon: float) -> None:
    mechanism = WishartGram.as_published(epsilon, gram=GramBound(dimension=D), bits=17)
    delta = published_delta(mechanism.contribution, mechanism.noise())
    assert delta == pytest.approx(failure(epsilon), rel=1e-12)


def test_of_other_degrees_of_freedom_no_delta_is_named() -> None:
    noise = Noise("wishart", 0.9, 5, 0.9, grid=2.0**-34, freedom=D + 2)
    assert published_delta(MECHANISM.contribution, noise) is None
    report = audited(intents(noise=noise)(wishart_log()))
    hazard = next(one for one in report.hazards if one.id == "wishart-noise")
    assert "delta" not in hazard.says


@for_each(
    ("changes", "says"),
    [
        ({"noise": Noise("wishart", 0.9, 5, 0.9)}, "not stated"),
        ({"noise": Noise("wishart", 0.9, 5, 0.9, freedom=0)}, "not stated"),
        ({"noise": Noise("wishart", 0.8, 5, 0.9, freedom=7)}, "differ"),
        ({"noise": Noise("gaussian", 0.9, 5, 0.9, freedom=7)}, "says nothing"),
        ({"noise": Noise("wishart", 0.0, 5, 0.0, freedom=7)}, "no noise"),
    ],
)
def test_facts_that_cannot_be_are_named(changes: dict[str, Any], says: str) -> None:
    assert any(says in reason for reason in facts_of(**changes).unusable)


def test_labels_have_no_wishart_noise() -> None:
    gram = records.Gram(D, 3, 1.0, 1, 1.0, False, 1.0, 17)
    contribution = records.Contribution(1.0, "l2", "record", "gram", "public", gram)
    assert any("label" in reason for reason in facts_of(contribution=contribution).unusable)


def test_as_published_the_log_says_what_is_true() -> None:
    """A log that promises nothing of it has the hazard, and no disputed event."""
    nothing = ev.NoGuarantee("as published")
    views = {"server": nothing, "silo": nothing}
    log = also(
        opening(as_published=True, claim=part(epsilon=1.0)), intents(event=nothing, views=views)
    )(wishart_log())
    fired = {one.id for one in audited(log).hazards}
    assert "wishart-noise" in fired
    assert "event-stronger" not in fired
