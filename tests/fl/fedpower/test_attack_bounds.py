"""Attacks on the bounds of power iterations: neighbours that move products farther than is said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.accountant.mechanisms.product_rows import basis_steps
from privplan.fl.data.federation import Federation
from privplan.fl.fedpower.expected_log import ORIGINAL_LOG
from privplan.fl.fedpower.iterate import exact_steps
from privplan.fl.fedpower.settings import FedPowerSettings
from privplan.fl.settings.toml_file import parse

from ...cases import for_each
from .matrices import rated
from .published_small import SIGMA, SYSTEMS, built, mechanism_of, settings

PUBLISHED = {"as_published": True, "largest_element": 3.0}
ROWS = 9


def nodes_of(first: list[list[float]], second: list[list[float]]) -> Federation:
    """Return two nodes with these rows."""
    rows = np.array(first + second, np.float32)
    return Federation(
        name="tiny",
        task="binary",
        classes=2,
        users=1,
        silos=2,
        features=rows,
        labels=np.zeros(len(rows), np.int64),
        user=np.zeros(len(rows), np.int64),
        silo=np.repeat([0, 1], [len(first), len(second)]),
        test_features=rows[:1],
        test_labels=np.zeros(1, np.int64),
    )


def neighbours() -> tuple[Federation, Federation]:
    """Return two federations with one row that differs, and lies in the other node.

    The first node has b and nine a, or nine a; the second has nine b, or a beside them.
    """
    a, b = [2.0, 0.0, 0.0], [0.0, 2.0, 0.0]
    return nodes_of([b] + [a] * ROWS, [b] * ROWS), nodes_of([a] * ROWS, [b] * ROWS + [a])


@for_each("algorithm", SYSTEMS)
def test_a_row_that_changes_its_node_moves_means_by_almost_twice_the_bound(algorithm: str) -> None:
    """Means of the nodes move by 2 s / (s + 1) sqrt(2) R^2 / s together: 1.8 times, for s = 9."""
    totals = []
    for federation in neighbours():
        system = built(algorithm, federation, divide_by_rows=True, divisor=float(ROWS), **PUBLISHED)
        mechanism = mechanism_of(system)
        basis = basis_steps(np.eye(3)[:, :2], mechanism.grid_bits.basis_bits)
        totals.append(sum(node.total(basis) for node in system.nodes) * mechanism.grid)
    moved = float(np.linalg.norm(totals[0] - totals[1]))
    assert moved / (math.sqrt(2.0) * 4.0 / ROWS) == pytest.approx(1.8, rel=1e-2)


@for_each("relation", ["add-remove", "replace-one", "zero-out"])
@for_each("algorithm", SYSTEMS)
def test_so_no_row_is_promised_anything_where_nodes_divide(algorithm: str, relation: str) -> None:
    with pytest.raises(InvalidInput, match="divide_by_rows"):
        built(
            algorithm,
            neighbours()[0],
            privacy={"neighbours": relation},
            divide_by_rows=True,
            divisor=float(ROWS),
        )


@for_each("algorithm", SYSTEMS)
def test_rows_that_stay_and_other_units_may_be_divided(algorithm: str) -> None:
    one = neighbours()[0]
    replaced = {"neighbours": "replace-one"}
    silo = {"unit": "silo"}
    entry = {"unit": "entry", **replaced}
    assert built(algorithm, one, privacy=silo, divide_by_rows=True, silo_rows=ROWS)
    assert built(algorithm, one, privacy=entry, divide_by_rows=True, largest_change=1.0)
    ratings: Any = rated([(0, 0, 3.0), (1, 2, 4.0)], users=4, silos=2, columns=3)
    assert built(algorithm, ratings, privacy=replaced, divide_by_rows=True)
    with pytest.raises(InvalidInput, match="divide_by_rows"):
        built(algorithm, ratings, divide_by_rows=True)


@for_each("algorithm", SYSTEMS)
def test_steps_of_a_node_by_itself_are_promised_nothing(algorithm: str) -> None:
    """Settings that are made by hand are held to what configurations are held to."""
    with pytest.raises(InvalidInput, match="synchronise_every"):
        built(algorithm, neighbours()[0], synchronise_every=2)
    assert built(algorithm, neighbours()[0], synchronise_every=2, **PUBLISHED)


@for_each("algorithm", [one for one in SYSTEMS if one != "private"])
def test_after_a_step_by_itself_one_row_moves_a_product_by_far_more(algorithm: str) -> None:
    """100 rows of b, which Z hardly sees, and one a: the second product is 100 b, or that of a."""
    rows = np.zeros((100, 3))
    rows[:, 1] = 2.0
    basis = np.array([[0.9999], [0.003], [0.0]])
    products = []
    for first in ([0.0, 0.0, 0.0], [2.0, 0.0, 0.0]):
        federation = nodes_of([first, *rows.tolist()], [[0.0, 0.0, 1.0]])
        system = built(algorithm, federation, rank=1, synchronise_every=2, **PUBLISHED)
        mechanism = mechanism_of(system)
        steps = basis_steps(basis, mechanism.grid_bits.basis_bits)
        last = exact_steps(mechanism, system.nodes, steps, 2)
        products.append(last.totals[0] * mechanism.grid)
    assert np.linalg.norm(products[0] - products[1]) > 50.0 * mechanism.sensitivity("add-remove")


UNBOUNDED: dict[str, dict[str, Any]] = {
    "steps": {"synchronise_every": 2},
    "divided": {"divide_by_rows": True},
}


@for_each("case", UNBOUNDED)
@for_each("algorithm", SYSTEMS)
def test_intents_say_that_nothing_is_bounded(
    algorithm: str, case: str, tiny: Any, run: Any
) -> None:
    """An audit of a run that was cut off in its first round has no release to read it from."""
    system = built(algorithm, tiny(features=7), rounds=1, **PUBLISHED, **UNBOUNDED[case])
    _, log = run(system)
    assert [intent.contribution.source for intent in log.intents] == ["private"]
    assert not any(release.clip_enforced for release in log.releases)
    with pytest.raises(Unsupported, match="private data"):
        mechanism_of(system).event("add-remove")
    bounded = built(algorithm, tiny(features=7), rounds=1, **PUBLISHED)
    assert mechanism_of(bounded).contribution.source == "public"


@for_each("key", ["divide_by_rows", "synchronise_every"])
def test_an_audit_refuses_a_log_whose_configuration_says_so(key: str, run: Any) -> None:
    """Such a log can be written by anybody; what its rounds state follows from no configuration."""
    given_settings = settings("original", neighbours()[0])
    system = built("original", neighbours()[0], privacy={"noise_multiplier": SIGMA}, rounds=1)
    _, log = run(system)
    changed = replace(
        given_settings.of(FedPowerSettings), **{key: {"divide_by_rows": True}.get(key, 3)}
    )

    def read(table: str, name: str) -> Any:
        known = {
            "fedpower": changed,
            "privacy": given_settings.privacy,
            "security": given_settings.security,
        }
        given = {"name": "tiny", "silos": 2}[name] if table == "data" else None
        return given or getattr(known.get(table), name)

    with pytest.raises(InvalidInput, match=key):
        ORIGINAL_LOG.phase(read, log.intents[0], None)
    changed = given_settings.of(FedPowerSettings)
    assert ORIGINAL_LOG.phase(read, log.intents[0], None).noise == log.intents[0].noise


def configuration(relation: str, data: str) -> bytes:
    """Return a configuration of Algorithm 1 in which every node divides by its rows."""
    return f"""
[run]
system = "fedpower-original"
[data]
{data}
[privacy]
unit = "record"
neighbours = "{relation}"
noise_multiplier = 5.0
delta = 1e-5
[fedpower]
rank = 2
row_norm = 1.0
divide_by_rows = true
""".encode()


@for_each("relation", ["add-remove", "replace-one"])
def test_configurations_that_divide_for_rows_are_refused(relation: str) -> None:
    with pytest.raises(InvalidInput, match="divide_by_rows"):
        parse(configuration(relation, 'name = "digits"\nusers = 4\nsilos = 2'), "run.toml")


def test_configurations_that_divide_ratings_which_are_replaced_are_read() -> None:
    data = 'name = "ratings"\npath = "none.csv"\nusers = 4\nsilos = 2\ncolumns = "films.txt"'
    assert parse(configuration("replace-one", data), "run.toml").data.silos == 2
    with pytest.raises(InvalidInput, match="divide_by_rows"):
        parse(configuration("add-remove", data), "run.toml")


@for_each("system", ["fedpower", "fedpower-power", "fedpower-original"])
@for_each(
    ("lists", "change", "refused"),
    [
        ('columns = "films.txt"', 4.0, True),
        ('columns = "films.txt"', 5.0, False),
        ('columns = "films.txt"\nlargest_rating = 4.0', 4.0, False),
        ('selection = "public"\nselection_source = "who published it"', 4.0, False),
    ],
)
def test_an_entry_changes_by_a_whole_rating_where_it_may_come_or_go(
    system: str, lists: str, change: float, refused: bool
) -> None:
    """A rating of 5 that is not there is 0: a promise for changes by 4 would not cover it."""
    content = f"""
[run]
system = "{system}"
[data]
name = "ratings"
path = "none.csv"
users = 4
silos = 2
{lists}
[privacy]
unit = "entry"
neighbours = "replace-one"
noise_multiplier = 5.0
delta = 1e-5
[fedpower]
rank = 2
row_norm = 5.0
largest_change = {change}
""".encode()
    if refused:
        with pytest.raises(InvalidInput, match="largest_change = 4"):
            parse(content, "run.toml")
    else:
        assert parse(content, "run.toml").data.silos == 2
