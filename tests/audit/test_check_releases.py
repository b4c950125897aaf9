"""What is proven where a run releases more than its sums, in every reading of these releases.

The truths are those of certain data sets, computed from events or by quadrature in the test.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from scipy.stats import norm

from privplan.accountant import events as ev

from ..cases import for_each
from .small_runs import at_least, at_most, lower, proof, run, upper

LOSS: Mapping[str, object] = {"what": "batch loss", "noise_multiplier": 5.0, "count": 1000}
CLIP_COUNT: Mapping[str, object] = {"what": "clip count", "noise_multiplier": 10.0, "count": 100}
ADAPTIVE: Mapping[str, object] = {"noise.clip_source": "adaptive", "releases": [CLIP_COUNT]}
SAMPLED = ("sampling.rate",)


@for_each("what", ["batch loss", "training loss"])
def test_a_release_of_each_step_may_be_that_of_its_batch(what: str) -> None:
    """Sums and losses of one Poisson sample: one vector, whose Gaussian noise is that of both."""
    facts = {
        "releases": [{**LOSS, "what": what}],
        "schedule.steps": 1000,
        "data.records": 60000,
        "claim.epsilon": 6.0,
    }
    together = ev.Gaussian(1.0 / math.hypot(1.0, 1.0 / 5.0))
    sampled = ev.Repeat(1000, ev.Poisson(0.01, together))
    sums = ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0)))
    aside = ev.Compose((sums, ev.Repeat(1000, ev.Gaussian(5.0))))
    result = run(facts)
    assert result.verdict == "unverifiable"
    assert 0.99 * at_least(sampled) <= lower(result) <= at_most(sampled)
    assert upper(result) >= at_least(aside)


def test_a_loss_of_some_batches_is_left_out_of_the_lower_end() -> None:
    facts = {"releases": [{**LOSS, "count": 50}], "schedule.steps": 1000}
    without = at_most(ev.Repeat(1000, ev.Poisson(0.01, ev.Gaussian(1.0))))
    sampled = ev.Repeat(50, ev.Poisson(0.01, ev.Gaussian(1.0 / math.hypot(1.0, 0.2))))
    rest = ev.Repeat(950, ev.Poisson(0.01, ev.Gaussian(1.0)))
    assert 0.9 * without <= lower(proof(facts)) <= at_most(ev.Compose((sampled, rest)))


def test_a_count_moves_by_half_as_much_as_sums_where_a_record_is_replaced() -> None:
    """A bit for each record, one count with noise 1, beside sums with next to no influence."""
    count = {"what": "a noisy count", "noise_multiplier": 1.0, "count": 1, "moves": True}
    facts = {
        "claim.neighbours": "replace-one",
        "noise.noise_multiplier": 50.0,
        "releases": [count],
        "claim.epsilon": 6.0,
    }
    result = run(facts)
    sums = ev.Repeat(100, ev.Poisson(0.01, ev.Gaussian(25.0)))
    assert result.verdict == "unproven"
    assert 0.999 * at_least(ev.Gaussian(1.0)) <= lower(result)
    assert lower(result) <= at_most(ev.Compose((ev.Gaussian(1.0), sums)))
    assert upper(result) >= at_least(ev.Gaussian(0.5))


def test_a_count_beside_full_batches_moves_by_half_as_much() -> None:
    facts = {
        **ADAPTIVE,
        "releases": [{**CLIP_COUNT, "noise_multiplier": 2.0, "count": 1, "moves": True}],
        "claim.neighbours": "replace-one",
        "sampling.method": "full",
        "schedule.steps": 1,
    }
    result = run(facts, SAMPLED)
    both = ev.Gaussian(1.0 / math.hypot(2.0, 0.5))
    assert lower(result) == pytest.approx(at_most(both), rel=1e-3)
    assert lower(result) <= at_most(both)


def test_a_count_of_a_sampled_batch_where_a_record_is_replaced() -> None:
    """One step at rate 1/2, by quadrature over both: sums from 1 to -1, a bit from 1 to 0."""
    noise, of_count, rate, epsilon = 2.0, 1.0, 0.5, 1.0
    grid = np.linspace(-14.0, 14.0, 2801)
    step = grid[1] - grid[0]

    def density(total: float, bit: float) -> np.ndarray:
        return np.multiply.outer(norm.pdf(grid, total, noise), norm.pdf(grid, bit, of_count))

    absent = density(0.0, 0.0)
    first = (1 - rate) * absent + rate * density(1.0, 1.0)
    second = (1 - rate) * absent + rate * density(-1.0, 0.0)
    exact = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum() * step**2)
    facts = {
        **ADAPTIVE,
        "releases": [{**CLIP_COUNT, "noise_multiplier": of_count, "count": 1}],
        "claim.neighbours": "replace-one",
        "claim.delta": exact,
        "noise.noise_multiplier": noise,
        "sampling.rate": rate,
        "schedule.steps": 1,
    }
    result = run(facts)
    assert 0.0 < lower(result) <= epsilon + 1e-3
    assert upper(result) >= epsilon - 1e-3


@for_each(
    ("method", "relation"),
    [
        ("shuffled", "add-remove"),
        ("shuffled", "replace-one"),
        ("fixed-size", "replace-one"),
        ("with-replacement", "add-remove"),
    ],
)
def test_an_adaptive_clip_has_both_ends_however_batches_are_drawn(
    method: str, relation: str
) -> None:
    """The sums alone are a lower end; a clip count with noise 10 adds little to the upper one."""
    drawn = {"sampling.method": method, "claim.neighbours": relation}
    result, sums = run({**ADAPTIVE, **drawn}), run(drawn)
    assert lower(result) == pytest.approx(lower(sums), rel=1e-6)
    together = run({**drawn, "noise.noise_multiplier": 1.0 / math.hypot(1.0, 0.1)})
    assert upper(result) == pytest.approx(upper(together), rel=1e-6)
    assert upper(result) >= upper(together)
    assert "engine" not in " ".join(result.conditions)


@for_each("relation", ["add-remove", "zero-out", "replace-one"])
def test_a_user_of_several_records_shows_a_record_at_least(relation: str) -> None:
    facts = {
        "sampling.method": "shuffled",
        "claim.unit": "user",
        "claim.neighbours": relation,
        "noise.clip_bounds": "record",
        "sampling.sampled": "records",
        "data.records_per_user": 3,
        "sampling.batch": 100,
    }
    result = run(facts, SAMPLED)
    # One of the three records, in a step that draws from all records of the user alike.
    assert lower(result) >= 0.9 * at_least(ev.Poisson(0.01 / 3.0, ev.Gaussian(1.0)))
    # Whoever knows the order sees three releases at most, or a single one of all three.
    assert lower(result) <= at_most(ev.Gaussian(1.0 / 6.0 if relation != "zero-out" else 1.0 / 3.0))


@for_each("relation", ["add-remove", "replace-one"])
def test_a_rate_of_a_dropping_loader_is_above_that_of_its_fixed_batches(relation: str) -> None:
    """Batches of 26 of 100 records whose rate is printed as 1/3: one over whole batches."""
    facts = {
        "claim.neighbours": relation,
        "sampling.method": "fixed-size",
        "sampling.rate": 1 / 3,
        "sampling.batch": 26,
        "data.records": 100,
        "schedule.steps": 10,
    }
    truth = ev.Repeat(10, ev.FixedSize(26, 100, ev.Gaussian(1.0)))
    assert 0.95 * at_least(truth, relation) <= lower(proof(facts)) <= at_most(truth, relation)


def test_noise_that_no_engine_joins_is_refused_in_plain_words() -> None:
    facts = {
        **ADAPTIVE,
        "releases": [{**CLIP_COUNT, "family": "gaussian"}],
        "sampling.method": "fixed-size",
        "noise.family": "laplace",
        "claim.epsilon": 9,
    }
    result = run(facts)
    assert result.verdict == "unproven"
    assert lower(result) > 0.0
    assert math.isinf(upper(result))
    assert "engine" not in " ".join(result.conditions)
    assert any("describe the run without" in sentence for sentence in result.conditions)


def test_noise_of_two_families_on_one_batch_of_a_known_order_is_joined() -> None:
    """Laplace noise 1 for sums, Gaussian noise 10 for a count that a record moves by half."""
    facts = {
        **ADAPTIVE,
        "sampling.method": "shuffled",
        "noise.family": "laplace",
        "claim.epsilon": 9,
    }
    result = run(facts)
    # The order counts as known: in one batch, one record takes the place of another.
    replaced = ev.Compose((ev.Laplace(0.5), ev.Gaussian(10.0)))
    assert result.verdict == "holds"
    assert at_least(replaced) <= upper(result) < 9.0
