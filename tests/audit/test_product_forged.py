"""Logs of released products, edited and chained anew: what does not fit the facts is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from privplan.accountant.records import Product
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify

from ..cases import for_each
from .forging import Line, each, forged, in_part
from .ledgers import Records, assert_honest, written
from .products import noisy, product_log, utility_log

ENTRIES = {"unit": "entry", "largest_change": 0.7}


def entries() -> Records:
    return product_log(noisy("replace-one", **ENTRIES), "replace-one", rounds=1)


def silos() -> Records:
    return product_log(noisy(unit="silo", rows=9), rounds=1)


def plain() -> Records:
    return product_log(noisy(), rounds=1)


HONEST: dict[str, Callable[[], Records]] = {
    "plain": plain,
    "three rounds": lambda: product_log(noisy(), rounds=3),
    "masked silos": lambda: product_log(
        noisy(unit="silo", rows=9), aggregation="masked", colluders=1
    ),
    "entries": entries,
    "replaced": lambda: product_log(noisy("replace-one"), "replace-one"),
    "a record of a silo": lambda: product_log(noisy(unit="silo", rows=2), unit="silo"),
    "the noise of one stays": lambda: utility_log(noisy(), colluders=1),
    "not closed": lambda: plain()[:-1],
    "not released": lambda: plain()[:2],
}


@for_each("name", list(HONEST))
def test_an_honest_log_has_no_contradiction(tmp_path: Path, name: str) -> None:
    assert_honest(written(tmp_path / "run", HONEST[name]()))


def in_product(**changes: Any) -> Callable[[Line], object]:
    return lambda line: line["contribution"]["product"].update(changes)


Edited = tuple[Callable[[], Records], str, Callable[[Line], object]]

EDITS: dict[str, Edited] = {
    "dimension: fewer": (plain, "round.intent", in_product(dimension=5)),
    "dimension: more": (plain, "round.intent", in_product(dimension=7)),
    "rank: fewer": (plain, "round.intent", in_product(rank=2)),
    "rank: more": (plain, "round.intent", in_product(rank=4)),
    "row_norm: shorter": (plain, "round.intent", in_product(row_norm="1.0")),
    "row_norm: longer": (plain, "round.intent", in_product(row_norm="2.000001")),
    "divisor: larger": (plain, "round.intent", in_product(divisor="20.0")),
    "divisor: smaller": (plain, "round.intent", in_product(divisor="9.99")),
    "rows: fewer": (silos, "round.intent", in_product(rows=8)),
    "rows: more": (silos, "round.intent", in_product(rows=10)),
    "largest_change: less": (entries, "round.intent", in_product(largest_change="0.5")),
    "largest_change: more": (entries, "round.intent", in_product(largest_change="0.8")),
    "row_bits: fewer": (plain, "round.intent", in_product(row_bits=8)),
    "row_bits: more": (plain, "round.intent", in_product(row_bits=13)),
    "basis_bits: fewer": (plain, "round.intent", in_product(basis_bits=8)),
    "basis_bits: more": (plain, "round.intent", in_product(basis_bits=11)),
    "a smaller bound": (plain, "round.intent", in_part("contribution", bound="0.2")),
    "a larger bound": (plain, "round.intent", in_part("contribution", bound="0.8")),
    "a smaller sensitivity": (plain, "round.intent", lambda line: line.update(sensitivity="0.2")),
    "a larger sensitivity": (plain, "round.intent", lambda line: line.update(sensitivity="0.8")),
    "a finer grid": (plain, "round.intent", in_part("noise", grid="1e-15")),
    "a coarser grid": (plain, "round.intent", in_part("noise", grid="0.0001")),
    "no grid": (plain, "round.intent", in_part("noise", grid="0.0")),
    "a smaller weight": (plain, "round.intent", in_part("weights", largest_sum="0.5")),
    "another divisor in the end": (plain, "round.release", in_part("normaliser", value="5.0")),
    "fewer values": (plain, "round.release", lambda line: line.update(values=17)),
    "more values": (plain, "round.release", lambda line: line.update(values=36)),
}
"""Single facts, of which others say something else."""


def test_every_fact_of_a_product_is_edited() -> None:
    assert {field.name for field in fields(Product)} <= {name.split(":")[0] for name in EDITS}


@for_each("name", list(EDITS))
def test_a_single_fact_that_was_changed_is_found(tmp_path: Path, name: str) -> None:
    make, kind, change = EDITS[name]
    honest = written(tmp_path / "run", make())
    assert edits_of(honest) == ()
    folder = forged(honest, tmp_path / "forged", each(kind, change))
    assert verify(folder).ok  # the chain is whole
    assert "product-mismatch" in {contradiction.id for contradiction in edits_of(folder)}
    report = audit_budget(folder)
    assert not report.ok
    assert report.supported is False


@for_each(
    "change",
    [
        *(edit[2] for name, edit in EDITS.items() if edit[0] is plain and ":" in name),
        # All that follows from these two stays as it is.
        in_product(row_norm="4.0", divisor="40.0"),
    ],
)
def test_facts_that_change_within_a_phase_are_found(
    tmp_path: Path, change: Callable[[Line], object]
) -> None:
    honest = written(tmp_path / "run", product_log(noisy(), rounds=3))

    def of_the_last(line: Line) -> None:
        if line["round"] == 3:
            change(line)

    folder = forged(honest, tmp_path / "forged", each("round.intent", of_the_last))
    assert "uneven-product" in {contradiction.id for contradiction in edits_of(folder)}
    assert audit_budget(folder).total.upper == float("inf")


@for_each(
    "change",
    [
        in_part("contribution", product=None),
        in_part("contribution", terms="unit"),
        in_part("contribution", terms="silo-delta"),
        in_part("contribution", terms="whole"),
        in_part("contribution", unit="user"),
        in_product(rows=3),
        in_product(largest_change="0.1"),
        in_product(rank=7),
    ],
)
def test_facts_that_cannot_be_so_support_nothing(
    tmp_path: Path, change: Callable[[Line], object]
) -> None:
    folder = written(tmp_path / "run", plain())
    report = audit_budget(forged(folder, tmp_path / "forged", each("round.intent", change)))
    assert not report.ok
    assert report.total.upper == float("inf")


@for_each("bound", ["inf", "-inf", "nan", "1e308", "5e-324", "0.0"])
def test_a_bound_that_is_no_bound_is_reported(tmp_path: Path, bound: str) -> None:
    """An audit of a hostile log ends in a report, whatever numbers stand there."""
    folder = written(tmp_path / "run", plain())
    changed = each("round.intent", in_part("contribution", bound=bound))
    report = audit_budget(forged(folder, tmp_path / "forged", changed))
    assert not report.ok
    assert report.supported is not True


def test_facts_that_all_fit_are_a_log_of_another_release(tmp_path: Path) -> None:
    """A careful forger changes all of them: only the configuration can tell (or the rows)."""
    folder = written(tmp_path / "run", plain())
    changed = forged(
        folder,
        tmp_path / "forged",
        each("round.intent", in_product(row_norm="4.0", divisor="40.0")),
        each("round.release", in_part("normaliser", value="40.0")),
    )
    assert edits_of(changed) == ()
    assert audit_budget(changed).total.upper == audit_budget(folder).total.upper
