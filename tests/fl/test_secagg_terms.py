"""Terms of masked sums: what is assumed, which graph follows, and how likely it is to fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction

import pytest
from scipy.stats import hypergeom

from privplan.accountant.errors import InvalidInput
from privplan.fl.secagg import risk
from privplan.fl.secagg.group import Graph
from privplan.fl.secagg.terms import Terms, choose

from ..cases import for_each

CURIOUS = "honest-but-curious"


@for_each(("parties", "degree"), [(7, 4), (8, 2), (30, 12), (31, 12), (5, 4), (2, 1)])
def test_every_party_has_its_number_of_neighbours_and_they_have_it(
    parties: int, degree: int
) -> None:
    names = [f"p{i}" for i in range(parties)]
    graph = Graph(names, degree, b"seed")
    for name in names:
        found = graph.neighbours(name)
        assert len(found) == len(set(found)) == degree
        assert name not in found
        assert all(name in graph.neighbours(other) for other in found)


def test_graphs_are_of_their_seed_and_neighbours_uniform_over_seeds() -> None:
    names = [f"p{i}" for i in range(40)]
    one, same, other = (Graph(names, 8, seed) for seed in (b"a", b"a", b"b"))
    assert [one.neighbours(n) for n in names] == [same.neighbours(n) for n in names]
    assert {n: set(one.neighbours(n)) for n in names} != {
        n: set(other.neighbours(n)) for n in names
    }
    # How often p0 is next to each other party, in 2,000 graphs: within 5 standard deviations.
    names = [f"p{i}" for i in range(11)]
    seen = dict.fromkeys(names[1:], 0)
    for seed in range(2000):
        for name in Graph(names, 4, seed.to_bytes(4, "little")).neighbours("p0"):
            seen[name] += 1
    assert all(abs(count - 800) < 5 * (2000 * 0.4 * 0.6) ** 0.5 for count in seen.values())


@for_each(("parties", "marked", "degree"), [(100, 20, 32), (51, 25, 50), (9, 8, 4)])
def test_tails_are_those_of_the_hypergeometric_distribution(
    parties: int, marked: int, degree: int
) -> None:
    for threshold in range(1, degree + 1):
        ours = float(risk.exposed(parties, marked, degree, threshold))
        theirs = parties * hypergeom(parties - 1, marked, degree).sf(threshold - 1)
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-300)


def _circles(parties: int, marked: int) -> Iterator[tuple[bool, ...]]:
    for places in itertools.combinations(range(parties), marked):
        yield tuple(place in places for place in range(parties))


def _near(place: int, parties: int, degree: int) -> list[int]:
    return [(place + s) % parties for s in range(-(degree // 2), degree // 2 + 1) if s]


def _parts(alive: set[int], parties: int, degree: int) -> list[set[int]]:
    """Return the connected parts of a circle on which some are left."""
    rest, parts = set(alive), []
    while rest:
        part, edge = set(), {min(rest)}
        while edge:
            part |= edge
            edge = {n for one in edge for n in _near(one, parties, degree)} & alive - part
        parts.append(part)
        rest -= part
    return parts


@for_each(("parties", "bad", "degree"), [(10, 4, 4), (10, 6, 4), (11, 7, 6), (9, 4, 2)])
def test_the_chance_of_a_split_is_at_most_the_bound(parties: int, bad: int, degree: int) -> None:
    every = list(_circles(parties, bad))
    cut = sum(
        len(_parts({p for p in range(parties) if not marks[p]}, parties, degree)) > 1
        for marks in every
    )
    exact, bound = Fraction(cut, len(every)), risk.split(parties, bad, 0, degree)
    assert exact <= bound
    assert exact > 0  # so the bound has something to bound
    assert risk.split(parties, degree - 1, 0, degree) == 0


@for_each(("gone", "degree", "threshold"), [(3, 4, 3), (2, 4, 4), (4, 6, 4), (1, 4, 4)])
def test_the_chance_of_a_loss_is_at_most_the_bound(gone: int, degree: int, threshold: int) -> None:
    parties = 10
    every = list(_circles(parties, gone))
    failing = 0
    for marks in every:
        failing += any(
            (not marks[p]) + sum(not marks[n] for n in _near(p, parties, degree)) < threshold
            for p in range(parties)
        )
    exact = Fraction(failing, len(every))
    bound = risk.lost(parties, gone, degree, threshold)
    assert exact <= bound <= parties * exact


@for_each(("threshold", "safe"), [(6, True), (5, False)])
def test_a_server_that_lies_cannot_cut_the_circle(threshold: int, safe: bool) -> None:
    """Ten places, six neighbours, colluders with at most one on any three places in a row.

    Whatever survivors the server names, a group of honest ones whose own masks can all be restored
    is all of them, if the threshold is above k/2 + 1 + (colluders on one side); one below, not.
    """
    parties, degree = 10, 6
    half = degree // 2
    cut = False
    for marks in _circles(parties, 2):
        windows = [sum(marks[(p + s) % parties] for s in range(half)) for p in range(parties)]
        if max(windows) > 1:
            continue
        honest = [p for p in range(parties) if not marks[p]]
        for size in range(1, len(honest) + 1):
            for alive in map(set, itertools.combinations(honest, size)):
                parts = _parts(alive, parties, degree)
                for part in parts if len(parts) > 1 else []:
                    cut |= all(
                        1 + sum(n in alive or marks[n] for n in _near(p, parties, degree))
                        >= threshold
                        for p in part
                    )
    assert cut is not safe


@for_each(("marked", "degree", "threshold"), [(3, 6, 6), (4, 6, 7), (4, 8, 8)])
def test_the_chance_of_many_colluders_in_a_row_is_at_most_the_bound(
    marked: int, degree: int, threshold: int
) -> None:
    parties, half = 11, degree // 2
    every = list(_circles(parties, marked))
    crowded = sum(
        any(
            sum(marks[(p + s) % parties] for s in range(half)) >= threshold - half - 1
            for p in range(parties)
        )
        for marks in every
    )
    bound = risk.one_sided(parties, marked, degree, threshold)
    assert 0 < Fraction(crowded, len(every)) <= bound


@for_each(
    ("parties", "colluders", "dropouts", "published", "ours"),
    [
        *((100, 20, 10, (32, 21), (30, 21)), (1000, 200, 100, (68, 44), (66, 43))),
        *((10_000, 2000, 1000, (80, 51), (76, 49)), (100, 33, 33, (68, 34), (66, 34))),
        *((1000, 330, 330, (286, 150), (280, 147)), (10_000, 3300, 3300, (422, 221), (412, 216))),
    ],
)
def test_degrees_are_those_of_bell_et_al_or_a_little_less(
    parties: int,
    colluders: int,
    dropouts: int,
    published: tuple[int, int],
    ours: tuple[int, int],
) -> None:
    """Degree and threshold as computed by the formulas of google-parfait/federated-compute.

    Ours are lower for three reasons: a survivor holds a share of its own secrets, a party is not
    counted among those its neighbours are drawn from, and the two ways to give something away
    share 2^-40 instead of having half of it each.
    """
    terms = choose(parties, length=1, dropouts=dropouts, colluders=colluders, server=CURIOUS)
    assert (terms.degree, terms.threshold) == ours
    assert published[0] - 10 <= terms.degree <= published[0]
    limit = Fraction(1, 2**40)
    given_away = risk.split(parties, colluders, dropouts, terms.degree) + risk.exposed(
        parties, colluders, *ours
    )
    assert given_away <= limit
    assert risk.lost(parties, dropouts, *ours) <= Fraction(1, 2**20)
    one_less = risk.exposed(parties, colluders, ours[0], ours[1] - 1)
    assert given_away - risk.exposed(parties, colluders, *ours) + one_less > limit


@for_each(("parties", "colluders", "dropouts"), [(100, 20, 10), (1000, 200, 100)])
def test_a_malicious_server_is_allowed_to_try_many_graphs(
    parties: int, colluders: int, dropouts: int
) -> None:
    terms = choose(parties, length=1, dropouts=dropouts, colluders=colluders)
    assert not terms.complete
    chance = risk.one_sided(parties, colluders, terms.degree, terms.threshold)
    assert chance * 2**64 <= Fraction(1, 2**40)
    curious = choose(parties, length=1, dropouts=dropouts, colluders=colluders, server=CURIOUS)
    assert curious.degree < terms.degree


def test_no_smaller_degree_would_do() -> None:
    """Degrees are found by halving; here all smaller ones are tried."""
    for parties, colluders, dropouts in [(60, 5, 5), (100, 20, 10), (200, 20, 40)]:
        terms = choose(parties, length=1, dropouts=dropouts, colluders=colluders, server=CURIOUS)
        for degree in range(2, terms.degree, 2):
            for threshold in range(2, degree + 1):
                with pytest.raises(InvalidInput):
                    Terms(parties, dropouts, colluders, degree, threshold, 1, server=CURIOUS)
    good = choose(100, length=1, dropouts=10, colluders=20, server=CURIOUS)
    Terms(100, 10, 20, good.degree + 4, good.threshold + 2, 1, server=CURIOUS)
    for degree, threshold in [(20, 15), (good.degree, 20), (good.degree, 25)]:
        with pytest.raises(InvalidInput, match="is not right"):
            Terms(100, 10, 20, degree, threshold, 1, server=CURIOUS)


@for_each("server", ["malicious", CURIOUS])
def test_complete_graphs_meet_what_was_proven_for_them(server: str) -> None:
    for n, d, c in itertools.product(range(2, 14), range(6), range(6)):
        possible = n - d >= c + 2 and (server == CURIOUS or 2 * (n - d) > n + c)
        if not possible:
            with pytest.raises(InvalidInput):
                choose(n, length=1, dropouts=d, colluders=c, server=server)  # type: ignore[arg-type]
            continue
        terms = choose(n, length=1, dropouts=d, colluders=c, server=server)  # type: ignore[arg-type]
        assert terms.complete
        assert max(2, c + 1) <= terms.threshold <= n - d == terms.fewest
        if server == "malicious":
            assert 2 * terms.threshold > n + c


@for_each(
    "wrong",
    [
        *({"parties": 1}, {"parties": 65_536}, {"parties": 5, "dropouts": -1}),
        *({"parties": 5, "colluders": 4}, {"parties": 5, "dropouts": 3, "colluders": 1}),
        *({"parties": 4, "dropouts": 2}, {"parties": 5, "length": 0}),
        *({"parties": 5, "ring_bits": 48}, {"parties": 5, "server": "honest"}),
    ],
)
def test_combinations_that_cannot_be_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInput):
        choose(**{"length": 4, **wrong})  # type: ignore[arg-type]


@for_each(
    ("degree", "threshold"),
    [(4, 1), (4, 5), (4, 3), (3, 4), (5, 4), (2, 2), (0, 2)],
)
def test_terms_that_do_not_follow_are_refused(degree: int, threshold: int) -> None:
    assert Terms(5, 1, 1, 4, 4, 10).fewest == 4
    with pytest.raises(InvalidInput):
        Terms(5, 1, 1, degree, threshold, 10)


def test_every_term_is_in_the_digest() -> None:
    several = [
        *(choose(9, length=5), choose(9, length=6), choose(9, length=5, ring_bits=32)),
        *(choose(9, length=5, dropouts=1), choose(9, length=5, colluders=1)),
        *(choose(9, length=5, server=CURIOUS), choose(10, length=5)),
    ]
    assert len({one.digest for one in several}) == len(several)
