"""Clients, silos and clipped sums of users, of which a description says a part: no end is wrong.

Each truth is a pair of mixtures that neighbouring data sets show in a step, written down here.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import privplan as pp

from ..cases import for_each
from .completion_runs import WITHIN, check, ends, of, seen_draws, truth
from .whole_runs import NOBODY, Mixture, loss_of

CLIPPED: dict[str, Any] = {"unit": "record", "sampled": "records", "clip_bounds": "unit"}


def covered(result: Any, loss: float) -> None:
    """Check that no end parts the loss from what is proven."""
    lower, upper = ends(result)
    assert upper >= loss * (1.0 - WITHIN), (upper, loss)
    assert lower <= loss * (1.0 + WITHIN), (lower, loss)


def turning(rate: float, others: int) -> tuple[Mixture, Mixture]:
    """Return a record that turns the sum of its user, and one that leaves it as the others do."""
    some = 1.0 - (1.0 - rate) ** others
    nobody, turned = (1.0 - rate) * (1.0 - some), (1.0 - rate) * some
    return ((nobody, 0.0), (turned, -1.0), (rate, 1.0)), ((nobody, 0.0), (turned + rate, -1.0))


@for_each("rate, others", [(0.1, 9), (0.1, 29), (0.5, 1)])
def test_a_replaced_record_turns_the_clipped_sum_of_its_user(rate: float, others: int) -> None:
    facts: dict[str, Any] = {"users": 100, "records_per_user": others + 1, "rate": rate}
    facts |= {"method": "poisson", "neighbours": "replace-one", "unit": "record", "delta": 1e-5}
    loss = loss_of(*turning(rate, others), 2.0, 10)
    for more in ({}, {"clip_bounds": "unit", "sampled": "records"}):
        result = check(claimed=loss * 0.99, noise_multiplier=2.0, steps=10, **facts, **more)
        covered(result, loss)
        assert not result.verdict.startswith("holds")
    apart = {"clip_bounds": "record", "sampled": "records"}
    told = check(claimed=1.0, noise_multiplier=2.0, steps=10, **facts, **apart)
    assert ends(told)[1] <= truth(1.0, rate, 10) * (1.0 + WITHIN)


def twice(law: Mixture) -> Mixture:
    """Return the law of the sum of two independent draws."""
    sums: dict[float, float] = {}
    for (chance, shift), (other, more) in product(law, repeat=2):
        sums[shift + more] = sums.get(shift + more, 0.0) + chance * other
    return tuple((chance, shift) for shift, chance in sums.items())


def test_a_replaced_record_turns_the_sum_of_its_user_in_each_of_several_batches() -> None:
    here, there = (twice(law) for law in turning(0.5, 1))
    facts = {"users": 20, "records": 40, "records_per_user": 2, "rate": 0.5, "steps": 4, **CLIPPED}
    facts |= {"accumulation": 2, "accumulation_of": "own-draws", "neighbours": "replace-one"}
    loss = loss_of(here, there, 3.0, 4)
    result = of(loss, **facts, noise_multiplier=3.0)
    covered(result, loss)


def test_what_leaves_a_fixed_batch_moves_the_sum_of_another_user() -> None:
    """Three of four records; one of user A outweighs its other one, and B's two are unlike."""
    law = ((0.25, -1.0 - 1.0), (0.25, 1.0 - 1.0), (0.25, 1.0 - 0.5), (0.25, 1.0 - 1.0))
    there = ((0.25, -1.0 - 1.0), (0.25, -1.0 - 1.0), (0.25, -1.0 - 0.5), (0.25, -1.0 - 1.0))
    loss = loss_of(law, there, 2.0, 10)
    facts = {**CLIPPED, "method": "fixed-size", "batch": 3, "records": 4, "users": 2}
    result = of(14.5, **facts, records_per_user=2, neighbours="replace-one", noise_multiplier=2.0,
                steps=10)  # fmt: skip
    covered(result, loss)
    assert loss > 14.5
    assert not result.verdict.startswith("holds")


@for_each("relation", ["add-remove", "zero-out", "replace-one"])
@for_each("stated", [{}, {"clip_bounds": "unit"}])
def test_a_rate_of_clients_leaves_the_clip_of_their_sums(
    stated: dict[str, str], relation: str
) -> None:
    """Clients that always come are no draw at all."""
    here, there = turning(0.1, 9)
    if relation != "replace-one":
        there = ((0.9**9, 0.0), (1.0 - 0.9**9, -1.0))
    loss = loss_of(here, there, 2.0, 10)
    facts = {"unit": "record", "users": 20, "records": 200, "records_per_user": 10}
    facts |= {"sampled": "records", "clients_rate": 1.0, "rate": 0.1, "noise_multiplier": 2.0}
    result = of(1.3, **facts, **stated, steps=10, neighbours=relation)
    covered(result, loss)
    assert not result.verdict.startswith("holds")


@for_each("drawn", [{"rate": 0.0025}, {"batch": 5}])
def test_other_records_show_that_a_client_was_drawn(drawn: dict[str, float]) -> None:
    facts = {"unit": "record", "users": 40, "records": 2000, "records_per_user": 50, "steps": 10}
    facts |= {"sampled": "users", "clip_bounds": "record", "clients_rate": 0.1}
    result = of(1.0, **facts, **drawn, noise_multiplier=1.0)
    for rate in (0.1, 0.1 * 0.0025):
        covered(result, seen_draws(1.0, rate, 10))


SILO: dict[str, Any] = {"unit": "silo", "noise_multiplier": 2.0, "silos": 10, "steps": 10}


@for_each("stated", [{}, {"sampled": "users"}, {"sampled": "users", "rate": 1.0}])
def test_a_silo_takes_part_with_any_of_its_drawn_users(stated: dict[str, Any]) -> None:
    result = of(4.0, **SILO, users=100, clip_bounds="unit", clients_rate=0.5, **stated)
    covered(result, truth(2.0, 1.0 - 0.5**10, 10))
    assert not result.verdict.startswith("holds")


@for_each("method", ["poisson", "fixed-size", "weighted"])
@for_each("drawn", [{"records": 20, "rate": 0.02}, {"records": 10, "batch": 1}])
def test_a_drawn_silo_may_have_no_drawn_record(method: str, drawn: dict[str, Any]) -> None:
    result = of(2.0, **SILO, **drawn, clients_rate=0.5, method=method)
    assert ends(result)[0] <= truth(2.0, 0.5 * (1.0 - 0.98**20), 10)
    assert result.verdict != "false"


def test_records_inside_of_clients_are_drawn_at_any_rate() -> None:
    """Of five records as many as are drawn move a sum, once the client is drawn."""
    facts = {"unit": "user", "users": 20, "records": 100, "records_per_user": 5, "steps": 1}
    result = of(20.0, **facts, sampled="records", clip_bounds="record", clients_rate=0.5,
                noise_multiplier=1.0)  # fmt: skip
    for inner in (0.25, 0.9, 1.0):
        law = [(0.5 * math.comb(5, k) * inner**k * (1 - inner) ** (5 - k), k) for k in range(6)]
        mixture = ((0.5, 0.0), *((chance, float(k)) for chance, k in law))
        covered(result, loss_of(mixture, NOBODY, 1.0, 1))
    assert result.verdict == "unverifiable"
    assert "sampling.rate" in {each.key for each in result.deciding}


@for_each("relation", ["add-remove", "zero-out", "replace-one"])
def test_a_record_that_is_drawn_again_is_once_in_the_sum_of_its_user(relation: str) -> None:
    facts = {**CLIPPED, "records": 4, "users": 1, "records_per_user": 4, "batch": 4, "steps": 4}
    result = of(9.0, **facts, method="with-replacement", neighbours=relation, noise_multiplier=2.0)
    assert ends(result)[0] <= truth(1.0, 1.0, 4)
    assert result.verdict != "false"


def conventions_of(result: Any) -> set[str]:
    return {each.id for each in result.conventions}


@for_each("drawn", [{"rate": 0.1}, {"batch": 5, "records": 1000}])
def test_records_beside_those_of_their_silo_are_alone_by_a_convention(
    drawn: dict[str, Any],
) -> None:
    facts = {**SILO, "unit": "record", **drawn}
    assert "record-clip" in conventions_of(of(1.0, **facts))
    assert "record-clip" not in conventions_of(of(1.0, **facts, sampled="users"))
    clients = {**facts, "silos": None, "clients_rate": 0.5}
    assert "record-clip" in conventions_of(
        of(1.0, **{key: value for key, value in clients.items() if value is not None})
    )


def test_what_a_silo_adds_is_clipped_as_a_whole_by_a_convention() -> None:
    facts = {**SILO, "method": "full", "accumulation": 1, "restarts": 1, "runs": 1}
    facts |= {"neighbours": "add-remove", "delta": 1e-5, "clip_source": "constant"}
    assert "silo-clip" in conventions_of(check(claimed=8.0, **facts))
    strict = pp.check(claimed=8.0, strict=True, records_public=True, **facts)
    assert math.isinf(ends(strict)[1])
    told = check(claimed=8.0, **facts, clip_bounds="unit")
    assert told.verdict == "holds"
    assert "silo-clip" not in conventions_of(told)


def test_clients_are_silos_by_a_convention_until_it_is_said_who_is_drawn() -> None:
    facts = {**SILO, "clients_rate": 0.5}
    told = of(1.0, **facts)
    assert "silo-clients" in conventions_of(told)
    covered(told, truth(2.0, 0.5, 10))
    for more in ({"sampled": "users"}, {"sampled": "records"}, {"users": 100}):
        assert "silo-clients" not in conventions_of(of(1.0, **facts, **more))
    strict = of(1.0, **facts, strict=True)
    assert strict.verdict == "unverifiable"
    assert strict.proven is None or strict.proven.lower == 0.0


def moved(facts: dict[str, Any], more: dict[str, Any]) -> tuple[tuple[float, float], ...]:
    return ends(of(1.0, **facts)), ends(of(1.0, **facts, **more))


@for_each(
    "facts, more",
    [
        ({"unit": "user", "rate": 0.24, "noise_multiplier": 0.8}, {"records": 50}),
        ({"unit": "user", "rate": 0.5, "noise_multiplier": 3.0}, {"records": 2}),
        (
            {"unit": "record", "records": 50, "batch": 25, "users": 10, "neighbours": "zero-out"},
            {"rate": 0.5},
        ),
    ],
)
def test_a_fact_that_decides_nothing_leaves_both_ends(
    facts: dict[str, Any], more: dict[str, Any]
) -> None:
    base = {"method": "poisson", "noise_multiplier": 3.0, "steps": 4, **facts}
    before, after = moved(base, more)
    assert before == after


def test_a_batch_of_more_than_all_silos_counts_records_as_if_that_was_said() -> None:
    facts = {"unit": "silo", "silos": 5, "records": 200, "batch": 50, "steps": 20}
    facts |= {"method": "with-replacement", "noise_multiplier": 2.0}
    before, after = moved(facts, {"sampled": "records"})
    assert before == after
    # One of no more than all silos may count either.
    either = {**facts, "silos": 2, "records": 6, "batch": 2, "steps": 1, "clip_bounds": "unit"}
    before, after = moved(either, {"sampled": "records"})
    assert before[0] <= after[0]


@for_each("more", [{}, {"clip_bounds": "unit"}, {"clip_bounds": "unit", "sampled": "records"}])
def test_full_batches_of_sampled_clients_have_no_user_in_every_step(more: dict[str, Any]) -> None:
    facts = {"unit": "user", "method": "full", "noise_multiplier": 2.0, "steps": 10}
    facts |= {"clients_rate": 0.5, "records_per_user": 2, **more}
    result = of(5.0, **facts)
    covered(result, truth(2.0, 0.5, 10))
    assert result.verdict != "false"


@for_each("more", [{}, {"sampled": "users"}, {"sampled": "records"}])
def test_full_batches_of_sampled_clients_have_no_silo_in_every_step(more: dict[str, Any]) -> None:
    facts = {**SILO, "method": "full", "steps": 1, "clients_rate": 0.1, **more}
    result = of(1.5, **facts)
    covered(result, truth(2.0, 0.1, 1))
    assert result.verdict != "false"


@for_each("more", [{"rate": 0.001}, {}, {"batch": 1}])
def test_records_that_are_drawn_inside_of_clients_hide_a_silo_of_one(more: dict[str, Any]) -> None:
    facts = {**SILO, "clients_rate": 0.5, "sampled": "records", "records": 1000, **more}
    result = of(0.345, **facts)
    covered(result, truth(2.0, 0.5 * (1.0 - 0.999**10), 10))
    assert result.verdict != "false"


@for_each("unit", ["user", "silo"])
def test_phases_inside_of_sampled_clients_may_draw_at_both_rates(unit: str) -> None:
    phases = [[2.0, 0.9, 5], [2.0, 0.8, 5]]
    result = of(0.73, unit=unit, method="poisson", phases=phases, clients_rate=0.1)
    both = pp.account(
        pp.events.Compose(
            tuple(
                pp.events.Repeat(5, pp.events.Poisson(0.1 * rate, pp.events.Gaussian(2.0)))
                for rate in (0.9, 0.8)
            )
        ),
        delta=1e-5,
    )
    covered(result, both.epsilon.upper)
    assert result.verdict != "false"
    assert "silo-clients" not in conventions_of(result)


def test_accumulated_parts_of_all_records_are_full_batches() -> None:
    facts = {"unit": "record", "method": "full", "records": 100, "noise_multiplier": 2.0}
    result = of(1.0, **facts, batch=50, accumulation=2, steps=10)
    assert "contradiction" not in {each.id for each in result.causes}
    covered(result, truth(2.0, 1.0, 10))


@for_each("drawn", [{}, {"accumulation_of": "own-draws"}])
def test_a_client_may_be_drawn_once_for_several_draws_of_its_records(drawn: dict[str, Any]) -> None:
    facts = {"clients_rate": 0.05, "noise_multiplier": 1.5, "steps": 4, "accumulation": 3, **drawn}
    inside = tuple((math.comb(3, k) / 8.0, float(k)) for k in range(4))
    mixture = ((0.95, 0.0), *((0.05 * chance, shift) for chance, shift in inside))
    result = of(2.0, unit="user", method="poisson", rate=0.5, **facts)
    covered(result, loss_of(mixture, NOBODY, 1.5, 4))
    whole = ((0.95, 0.0), (0.05, 3.0))
    for unit in ({"unit": "user"}, {"unit": "silo", "silos": 10}):
        covered(of(2.0, method="poisson", **facts, **unit), loss_of(whole, NOBODY, 1.5, 4))


@for_each(
    "facts",
    [
        {"method": "poisson", "rate": 0.01, "batch": 300, "records": 60000},
        {"method": "full", "batch": 500, "records": 1000},
    ],
)
def test_a_batch_may_be_that_of_clients_and_of_records_together(facts: dict[str, Any]) -> None:
    result = of(1.0, unit="record", clients_rate=0.5, noise_multiplier=2.0, steps=10, **facts)
    assert "contradiction" not in {each.id for each in result.causes}


@for_each("more", [{"rate": 0.9}, {"rate": 0.9, "sampled": "users"}, {"rate": 0.05}])
def test_a_user_joins_no_more_steps_than_its_client(more: dict[str, Any]) -> None:
    facts = {"unit": "user", "method": "poisson", "noise_multiplier": 2.0, "steps": 10}
    result = of(1.0, clients_rate=0.1, **facts, **more)
    covered(result, truth(2.0, 0.1 * float(more["rate"]), 10))
    assert ends(result)[1] <= truth(2.0, 0.1, 10) * (1.0 + WITHIN)


def test_where_silos_are_counted_they_may_be_the_clients_around_draws_of_users() -> None:
    facts = {"unit": "user", "users": 1000, "silos": 10, "rate": 0.5, "clients_rate": 0.1}
    facts |= {"noise_multiplier": 2.0, "steps": 10, "sampled": "users"}
    _, upper = ends(of(0.8, **facts))
    # A silo that is seen to take part in every round hides nothing of who is drawn inside.
    assert upper >= truth(2.0, 0.5, 10) * (1.0 - WITHIN)
    _, told = ends(of(0.8, **{key: facts[key] for key in facts if key != "silos"}))
    assert told < upper
