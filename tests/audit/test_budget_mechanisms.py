"""What the audit derives from facts is what the mechanisms state, for every one of them."""

from __future__ import annotations

import pytest

from privplan.accountant import events as ev
from privplan.accountant.errors import PrivplanError
from privplan.accountant.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    RandomizedResponse,
    RoundDescription,
)
from privplan.accountant.mechanisms.base import Mechanism
from privplan.accountant.records import RoundRelease, Sampling, StreamRange, Weights
from privplan.audit.derivation.event_order import compared
from privplan.audit.derivation.round_facts import RoundFacts
from privplan.audit.derivation.run_setting import RunSetting
from privplan.audit.derivation.supported_event import MODEL, supported
from privplan.audit.ledger.entries import SpentIntent

from ..cases import for_each

RELATIONS = ("add-remove", "replace-one", "zero-out")

SAMPLES = (
    Sampling(),
    Sampling("poisson", "user", 0.3, "shared-secret"),
    Sampling("fixed-size", "user", 0.1, "server", 5, 50),
    Sampling("truncated-poisson", "user", 0.1, "server", 9, 50),
)

MECHANISMS: tuple[tuple[Mechanism, int], ...] = (
    (Gaussian(bound=0.1, std=0.5), 7),
    (Gaussian(bound=0.3, std=0.7, shares=5, weights=Weights("records", 1.0)), 7),
    (Gaussian(bound=0.3, std=0.7, shares=5, weights=Weights("uniform"), tolerated_dropouts=2), 7),
    (Gaussian(bound=0.1, std=0.5, weights=Weights("uniform", 0.75)), 7),
    (Laplace(bound=0.3, scale=0.7, dimensions=9), 9),
    (Laplace(bound=0.3, scale=0.7), 1),
    (DiscreteGaussian(bound=3, scale=15.0), 1),
    (DiscreteGaussian(bound=3, scale=15.0, dimensions=9), 9),
    (DiscreteGaussian(bound=3, scale=150.0, dimensions=9), 9),
    (DiscreteLaplace(bound=3, scale=15.0), 1),
    (DiscreteLaplace(bound=3, scale=15.0, dimensions=9), 9),
    (RandomizedResponse(epsilon=1.0, categories=4), 1),
    (Exponential(epsilon=0.5, score_bound=1.0, relation="add-remove"), 1),
)


def derived(
    mechanism: Mechanism, values: int, relation: str, sampling: Sampling
) -> tuple[str, ev.Event]:
    """Return the verdict on the event that a mechanism states, and what its facts support."""
    intent = mechanism.intent(RoundDescription(1, "train", sampling, draws=2), relation)
    streams = (StreamRange("ab" * 16, 0, 100),)
    release = RoundRelease(1, 1, streams, intent.noise.shares, 2, values)
    facts = RoundFacts.of(SpentIntent(2, 1, intent, ((3, release),)), single=values == 1)
    setting = RunSetting("user", relation, 1, 5, "plain", False)  # type: ignore[arg-type]
    event = supported(facts, setting, MODEL)
    return compared(intent.event, event), event


@for_each("sampling", SAMPLES, ids=lambda one: one.method)
@for_each("relation", RELATIONS)
@for_each("case", range(len(MECHANISMS)))
def test_statement_and_derivation_agree(case: int, relation: str, sampling: Sampling) -> None:
    mechanism, values = MECHANISMS[case]
    try:
        verdict, event = derived(mechanism, values, relation, sampling)
    except PrivplanError:
        pytest.skip("the mechanism refuses this combination")
    assert verdict == "same", event


@for_each("relation", RELATIONS)
def test_whole_silos_agree_without_sampling(relation: str) -> None:
    mechanism = Gaussian(bound=0.1, std=0.5, shares=5, terms="silo-delta")
    verdict, event = derived(mechanism, 7, relation, Sampling())
    assert verdict == "same", event
