"""What is released beside the sums: of a batch or of all data, moved or not, of which noise."""

from __future__ import annotations

import math
from typing import Final

import dp_accounting as dpa
from dp_accounting import pld

from privplan import account, check
from privplan import events as ev

from ..cases import for_each
from .completion_runs import PLAIN, WITHIN, of, spans, truth


def test_a_count_moves_or_does_not_where_a_record_is_replaced() -> None:
    count = {"what": "records", "noise_multiplier": 1.0}
    facts = {"noise_multiplier": 3.0, "steps": 1, "method": "full", "neighbours": "zero-out"}
    result = of(2.0, **facts, releases=[count])
    assert result.proven is not None
    spans(result, truth(3.0, 1.0, 1), truth((1 / (1 / 9 + 1)) ** 0.5, 1.0, 1))
    still = of(2.0, **facts, releases=[{**count, "moves": False}])
    spans(still, truth(3.0, 1.0, 1), truth(3.0, 1.0, 1))


def test_a_count_moves_where_a_record_comes_or_goes_whatever_is_said() -> None:
    count = {"what": "records", "noise_multiplier": 0.5, "moves": False}
    result = of(0.8, noise_multiplier=4.0, steps=1, method="full", releases=[count])
    both = truth((1 / (1 / 16 + 4)) ** 0.5, 1.0, 1)
    spans(result, both, both)


@for_each(
    ("family", "verdict", "most"),
    [(None, "unverifiable", None), ("laplace", "holds", 2.5), ("gaussian", "false", None)],
)
def test_nobody_knows_the_noise_of_a_release_beside_laplace_sums(
    family: str | None, verdict: str, most: float | None
) -> None:
    """Ten of scale 5 and a count of scale 2: 10/5 + 1/2; Gaussian noise has no finite epsilon."""
    count = {"what": "count", "noise_multiplier": 2.0}
    facts = {"family": "laplace", "noise_multiplier": 5.0, "method": "full", "steps": 10}
    named = {**count, "family": family} if family else count
    result = of(4, **facts, delta=0, releases=[named])
    assert result.verdict.removesuffix("-not-from-these-settings") == verdict
    if most is not None:
        spans(result, most, most)
    doubled = {**facts, "neighbours": "replace-one"}
    replaced = of(4, **doubled, delta=0, releases=[named | {"moves": True}])
    assert replaced.verdict == "false"  # 4 of the sums, and a count that moves by 1 at least


def test_a_release_of_laplace_noise_is_composed_as_one() -> None:
    release = {"what": "count", "noise_multiplier": 2.0, "family": "laplace"}
    facts = {"noise_multiplier": 5.0, "method": "full", "steps": 10}
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-4)
    accountant.compose(dpa.GaussianDpEvent(5.0), 10).compose(dpa.LaplaceDpEvent(2.0))
    known = float(accountant.get_epsilon(1e-5))
    spans(of(4, **facts, releases=[release]), known, known)
    # 10 / (2 x 5^2) and (1/2)^2 / 2: a bound from above, with no end from below of its own.
    rho = {**PLAIN, **facts, "releases": [release]}
    assert check(delta=1e-5, rho=0.3251, **rho).verdict == "holds"
    assert check(delta=1e-5, rho=0.3249, **rho).verdict == "unproven"
    assert check(delta=1e-5, mu=5.0, **rho).verdict in ("unproven", "unverifiable")


JOINTLY: Final = {"noise_multiplier": 2.0, "rate": 0.1, "steps": 20}


def of_all(count: int) -> float:
    """Twenty sums at rate .1, and counts of noise 10 of all data."""
    accountant = pld.PLDAccountant(dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-3)
    accountant.compose(dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(2.0)), 20)
    return float(accountant.compose(dpa.GaussianDpEvent(10.0), count).get_epsilon(1e-5))


def of_batch(times: int) -> float:
    """Twenty sums at rate .1, each with so many counts of noise 10 of its batch."""
    return truth(1.0 / math.sqrt(1 / 4 + times / 100), 0.1, 20)


@for_each("what", ["noisy count of all records", "accuracy count", "loss", "gradient norm"])
@for_each(("count", "times"), [(20, 1), (40, 2), (10, 0)])
def test_a_release_is_of_the_batch_or_of_all_data(what: str, count: int, times: int) -> None:
    release = {"what": what, "noise_multiplier": 10.0, "count": count}
    result = of(1.5, **JOINTLY, releases=[release])
    spans(result, of_batch(times), of_all(count))
    assert result.verdict == "unverifiable"
    assert [row.says.partition(" is of ")[2] for row in result.completions] == [
        "the batch of each step",
        "all data",
    ]
    aside = of(1.5, **JOINTLY, releases=[release | {"of_batch": False}])
    spans(aside, of_all(count), of_all(count))
    batch = of(1.5, **JOINTLY, releases=[release | {"of_batch": True}])
    spans(batch, of_batch(times), of_batch(times) if times else of_all(count))


def test_an_adaptive_clip_follows_its_only_count() -> None:
    facts = {**JOINTLY, "clip_source": "adaptive"}
    clip = {"what": "clip count", "noise_multiplier": 10.0, "count": 20}
    spans(of(1.5, **facts, releases=[clip]), of_batch(1), of_batch(1))
    both = of(1.5, **facts, releases=[clip, clip | {"what": "count of records in the data"}])
    assert both.proven is not None
    assert both.proven.lower <= of_batch(2) * (1 + WITHIN)
    assert both.proven.upper >= of_all(20)


@for_each("of_batch", [None, True])
@for_each("count", [10, 40])
def test_a_release_of_full_batches_moves_by_two_where_a_record_comes_or_goes(
    of_batch: bool | None, count: int
) -> None:
    """Ten of twenty batches of 95 in 100 records, or two of each: another one is in its stead."""
    facts = {"records": 100, "batch": 95, "steps": 20, "noise_multiplier": 50.0}
    loss = {"what": "loss", "noise_multiplier": 1.0, "count": count}
    release = loss if of_batch is None else loss | {"of_batch": of_batch}
    result = of(4.0, **facts, method="fixed-size", releases=[release])
    steps, each = (10, 1.0) if count == 10 else (20, 1.0 / math.sqrt(2.0))
    noise = 1.0 / math.hypot(1.0 / each, 1.0 / 50.0)
    known = account(ev.Repeat(steps, ev.FixedSize(95, 100, ev.Gaussian(noise))), delta=1e-5)
    assert result.proven is not None
    assert result.proven.upper >= known.epsilon.lower
    again = of(4.0, **facts, method="with-replacement", releases=[release])
    assert again.proven is not None
    assert again.proven.upper > known.epsilon.lower


@for_each("claim", [{"epsilon": 0.027}, {"rho": 0.016}, {"mu": 0.18}])
def test_a_count_that_only_a_record_that_comes_moves_makes_no_claim_false(
    claim: dict[str, float],
) -> None:
    """Where a record is set to zero the count does not move: the steps lose less than is said."""
    facts = {"noise_multiplier": 8.25, "rate": 0.05, "steps": 2, "method": "poisson"}
    count = {"what": "count", "noise_multiplier": 30.0, "count": 5, "moves": False}
    facts |= {**claim, "delta": 1e-5, "releases": [count]}
    assert check(**facts, neighbours="zero-out").verdict.startswith("holds")
    assert check(**facts, neighbours="add-remove").verdict == "false"
    assert check(**facts).verdict != "false"


def test_what_nobody_says_of_a_release_is_a_convention() -> None:
    count = {"what": "clip count", "noise_multiplier": 5.0, "count": 10}
    facts = {"noise_multiplier": 3.0, "rate": 0.1, "steps": 10}
    for stated, named in (
        ({}, {"gaussian-releases", "even-releases"}),
        ({"family": "gaussian"}, {"even-releases"}),
        ({"of_batch": False}, {"gaussian-releases"}),
    ):
        result = of(9.0, **facts, releases=[{**count, **stated}])
        assert {each.id for each in result.conventions if each.key == "releases"} == named
    opened = of(9.0, **facts, releases=[count], strict=True)
    alone = of(9.0, **facts)
    assert opened.proven is not None
    assert alone.proven is not None
    assert opened.proven.lower <= alone.proven.lower
    assert math.isinf(opened.proven.upper)
