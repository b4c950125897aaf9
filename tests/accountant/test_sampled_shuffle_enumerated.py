"""Sampled shuffles of a few users against all that can happen."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import privplan as pp
from privplan.accountant.amplification.shuffling.double import (
    oblivious_bound,
    profile_among_dummies,
)

from ..cases import for_each
from .sampled_rounds import BIT, TRUE, hockey_stick, ones, sampled


def round_law(
    sets: list[tuple[int, ...]], values: list[list[float]], dimensions: int, padded_to: int
) -> np.ndarray:
    """Law of the counts of 1 in every dimension, when user i sends values[i][j] in j of sets[i].

    A value is the chance of a 1; dummies are fair coins.  Beyond `padded_to` messages, random ones
    are dropped.
    """
    law = np.ones(())
    for j in range(dimensions):
        real = [value[j] for chosen, value in zip(sets, values, strict=True) if j in chosen]
        if len(real) <= padded_to:
            counts = ones([*real, *[0.5] * (padded_to - len(real))])
        else:
            kept = list(itertools.combinations(real, padded_to))
            counts = sum(ones(list(messages)) for messages in kept) / len(kept)
        law = np.multiply.outer(law, counts)
    return law


def oblivious_law(
    values: list[list[float]], dimensions: int, chosen: int, padded_to: int
) -> np.ndarray:
    """The mean of `round_law` over all choices of all users, when a cap drops random messages."""
    subsets = list(itertools.combinations(range(dimensions), chosen))
    choices = list(itertools.product(subsets, repeat=len(values)))
    return sum(round_law(list(sets), values, dimensions, padded_to) for sets in choices) / len(
        choices
    )


@for_each(
    ("users", "dimensions", "chosen", "padded_to"),
    [
        (1, 3, 1, 1),
        (1, 4, 2, 1),
        (1, 3, 3, 1),
        (1, 3, 1, 2),
        (1, 4, 2, 2),
        (1, 5, 2, 2),
        (2, 3, 1, 3),
        (2, 4, 2, 3),
        (3, 3, 1, 2),
        (2, 2, 2, 2),
    ],
)
def test_oblivious_rounds_lie_between_the_ends(
    users: int, dimensions: int, chosen: int, padded_to: int
) -> None:
    """Every round enumerated; the user holds 1 everywhere or 0 everywhere, the others 0."""
    overflow = "refuse" if padded_to >= users else "cap"
    event = sampled(users, dimensions, chosen, padded_to, overflow=overflow)
    others = [[1.0 - TRUE] * dimensions for _ in range(users - 1)]
    law_p, law_q = (
        oblivious_law([[value] * dimensions, *others], dimensions, chosen, padded_to)
        for value in (TRUE, 1.0 - TRUE)
    )
    for epsilon in (0.0, 0.4):
        truth = max(hockey_stick(law_p, law_q, epsilon), hockey_stick(law_q, law_p, epsilon))
        result = pp.account(event, epsilon=epsilon, neighbours="replace-one").delta
        assert result.lower <= truth * (1 + 1e-9)
        assert truth <= result.upper


@for_each("relation", ["replace-one", "add-remove", "zero-out"])
def test_any_values_and_relations_stay_below(relation: str) -> None:
    """Mixed values in different dimensions; absent users leave dummies, zeros are fair coins."""
    event = sampled(2, 3, 1, 2, event=BIT)
    bounds = {e: pp.account(event, epsilon=e, neighbours=relation).delta.upper for e in (0.0, 0.3)}
    for mine in itertools.product((TRUE, 1.0 - TRUE), repeat=3):
        for friend in (TRUE, 1.0 - TRUE):
            changed = [1.0 - value for value in mine] if relation == "replace-one" else [0.5] * 3
            law_p, law_q = (
                oblivious_law([list(values), [friend] * 3], 3, 1, 2) for values in (mine, changed)
            )
            for epsilon, bound in bounds.items():
                assert hockey_stick(law_p, law_q, epsilon) <= bound
                assert hockey_stick(law_q, law_p, epsilon) <= bound


@for_each(("blocks", "slots"), [(1, 4), (3, 2), (6, 1)])
def test_one_of_t_dimensions_is_one_shuffle(blocks: int, slots: int) -> None:
    """The theorem's first half is an identity: t dimensions of D slots are one shuffle of t D."""
    law = oblivious_law([[TRUE] * blocks], blocks, 1, slots)
    law_q = oblivious_law([[1.0 - TRUE] * blocks], blocks, 1, slots)
    single = [ones([value, *[0.5] * (blocks * slots - 1)]) for value in (TRUE, 1.0 - TRUE)]
    profile = profile_among_dummies(BIT, blocks * slots)
    for epsilon in (0.0, 0.15, 0.5, 1.0):
        exact = hockey_stick(law, law_q, epsilon)
        assert exact == pytest.approx(hockey_stick(*single, epsilon), rel=1e-12)
        assert exact <= math.exp(profile.log_delta(epsilon)) <= exact * (1 + 2e-3) + 1e-12


@for_each(("users", "dimensions", "padded_to"), [(3, 3, 4), (4, 2, 6), (3, 4, 3)])
def test_what_other_users_hide_is_sound_too(users: int, dimensions: int, padded_to: int) -> None:
    """One coordinate each, so that one copy is the whole bound; failures are added."""
    event = sampled(users, dimensions, 1, padded_to)
    for failure in (1e-12, 0.05):
        bound = oblivious_bound(event, "replace-one", failure)
        assert bound.failure <= failure
        for friend in (TRUE, 1.0 - TRUE):
            laws = [
                oblivious_law(
                    [[value] * dimensions, *[[friend] * dimensions] * (users - 1)],
                    dimensions,
                    1,
                    padded_to,
                )
                for value in (TRUE, 1.0 - TRUE)
            ]
            for epsilon in (0.0, 0.3, 0.8):
                delta = math.exp(bound.profile.log_delta(epsilon))
                assert hockey_stick(*laws, epsilon) <= delta + bound.failure
