"""Logs of released Gram matrices, edited and chained anew: what does not fit the facts is found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import privplan as pp
from privplan.accountant import events as ev
from privplan.accountant.records import Sampling, Security
from privplan.audit.budget import audit_budget
from privplan.audit.edits import edits_of
from privplan.audit.verify import verify
from privplan.fl.log import append_post_processing

from ..cases import for_each
from .forging import Line, each, forged, in_part
from .grams import gram, gram_log, noisy
from .ledgers import (
    also,
    assert_honest,
    audited,
    intents,
    masks,
    opening,
    upper,
    weighing,
    written,
)
from .reaching import drawn_of, strange_reach

HONEST: dict[str, Callable[[], Any]] = {
    "plain": lambda: gram_log(noisy()),
    "three rounds": lambda: gram_log(noisy(), rounds=3),
    "masked users": lambda: gram_log(noisy(unit="user", rows=3), aggregation="masked", colluders=1),
    "Laplace": lambda: gram_log(noisy(family="laplace", bits=14)),
    "Laplace, no labels": lambda: gram_log(noisy(family="laplace", bits=14, classes=0)),
    "Laplace, light labels": lambda: gram_log(
        noisy(family="laplace", bits=14, classes=1, label_weight=0.5)
    ),
    "no labels": lambda: gram_log(noisy(classes=0)),
    "each class": lambda: gram_log(noisy(by_class=True, label_weight=0.3)),
    "replaced": lambda: gram_log(noisy("replace-one"), "replace-one"),
    "not closed": lambda: gram_log(noisy())[:-1],
    "not released": lambda: gram_log(noisy())[:2],
}


@for_each("name", list(HONEST))
def test_an_honest_log_has_no_contradiction(tmp_path: Path, name: str) -> None:
    assert_honest(written(tmp_path / "run", HONEST[name]()))


def in_gram(**fields: Any) -> Callable[[Line], object]:
    return lambda line: line["contribution"]["gram"].update(fields)


EDITS: dict[str, tuple[str, Callable[[Line], object]]] = {
    "fewer columns": ("round.intent", in_gram(dimension=5)),
    "more columns": ("round.intent", in_gram(dimension=7)),
    "fewer classes": ("round.intent", in_gram(classes=2)),
    "labels as numbers": ("round.intent", in_gram(classes=1)),
    "no labels": ("round.intent", in_gram(classes=0)),
    "lighter labels": ("round.intent", in_gram(label_weight="0.5")),
    "heavier labels": ("round.intent", in_gram(label_weight="1.5")),
    "more rows": ("round.intent", in_gram(rows=2)),
    "shorter rows": ("round.intent", in_gram(trace="0.5")),
    "longer rows": ("round.intent", in_gram(trace="2.0")),
    "a matrix for each class": ("round.intent", in_gram(by_class=True)),
    "fewer bits": ("round.intent", in_gram(bits=12)),
    "more bits": ("round.intent", in_gram(bits=20)),
    "a smaller bound": ("round.intent", in_part("contribution", bound="1.0")),
    "a larger bound": ("round.intent", in_part("contribution", bound="2.0")),
    "a finer grid": ("round.intent", in_part("noise", grid="1e-12")),
    "a coarser grid": ("round.intent", in_part("noise", grid="0.001")),
    "no grid": ("round.intent", in_part("noise", grid="0.0")),
    "a smaller weight": ("round.intent", in_part("weights", largest_sum="0.5")),
    "fewer values": ("round.release", lambda line: line.update(values=21)),
    "more values": ("round.release", lambda line: line.update(values=40)),
}
"""Single facts, of which others say something else."""


@for_each("name", list(EDITS))
def test_a_single_fact_that_was_changed_is_found(tmp_path: Path, name: str) -> None:
    honest = written(tmp_path / "run", gram_log(noisy()))
    kind, change = EDITS[name]
    folder = forged(honest, tmp_path / "forged", each(kind, change))
    assert verify(folder).ok  # the chain is whole
    assert "gram-mismatch" in {contradiction.id for contradiction in edits_of(folder)}
    report = audit_budget(folder)
    assert not report.ok
    assert report.supported is False


@for_each("change", [in_gram(bits=12), in_gram(label_weight="0.5"), in_gram(row_norm="3.0")])
def test_facts_that_change_within_a_phase_are_found(
    tmp_path: Path, change: Callable[[Line], object]
) -> None:
    honest = written(tmp_path / "run", gram_log(noisy(), rounds=3))

    def of_the_last(line: Line) -> None:
        if line["round"] == 3:
            change(line)

    folder = forged(honest, tmp_path / "forged", each("round.intent", of_the_last))
    assert "uneven-gram" in {contradiction.id for contradiction in edits_of(folder)}
    assert audit_budget(folder).total.upper == float("inf")


def test_facts_that_all_fit_have_the_number_of_these_facts(tmp_path: Path) -> None:
    """A careful forger changes all of them: then it is a log of another release, and sound."""
    other = noisy(label_weight=0.5)
    honest = gram_log(noisy())
    careful = [
        *honest[:1],
        *(
            type(record)(**{**vars(record), "contribution": other.contribution})
            if hasattr(record, "contribution")
            else record
            for record in honest[1:]
        ),
    ]
    folder = written(tmp_path / "run", careful)
    assert "gram-mismatch" in {contradiction.id for contradiction in edits_of(folder)}  # the grid

    def fitting(line: Line) -> None:
        line["noise"]["grid"] = repr(other.grid)

    folder = forged(folder, tmp_path / "forged", each("round.intent", fitting))
    assert edits_of(folder) == ()
    share = noisy().std / gram(label_weight=0.5).l2("add-remove")
    number = audit_budget(folder).total.upper
    # What is stated is weaker than these facts allow, and the weaker counts.
    assert number >= pp.account(ev.Gaussian(share), delta=1e-5).epsilon.upper


def test_an_edit_is_found_behind_what_was_computed_later(tmp_path: Path) -> None:
    honest = written(tmp_path / "run", gram_log(noisy()))
    append_post_processing(honest, 2, "ridge", {"ridge": "0.5"}, "a" * 64)
    assert edits_of(honest) == ()
    folder = forged(honest, tmp_path / "forged", each("round.intent", in_gram(rows=2)))
    assert "gram-mismatch" in {contradiction.id for contradiction in edits_of(folder)}
    report = audit_budget(folder)
    assert report.derived == 1
    assert not report.ok


@for_each("seed", range(40))
def test_strange_protocols_and_reaches_never_raise_and_never_gain(seed: int) -> None:
    """Aggregation, protocol, sample and reaches at random: the model's number does not fall."""
    rng = np.random.default_rng(seed)
    records = gram_log(noisy(unit="user", rows=2))
    honest = upper(records)

    drawn = partial(drawn_of, rng)
    named = ("model", "server", "silo", "silo-with-records", "peer", "analyzer", "server+2")
    changes = also(
        opening(
            aggregation=drawn("plain", "masked", "private-weighting", "shares", "shuffle"),
            security=drawn(
                None,
                masks(5, 4, 1),
                weighing(5),
                Security("additive-shares", 5, 5, ring_bits=64),
                Security("shuffler", 100, 100, key_bits=256),
            ),
        ),
        intents(
            reaches=drawn(None, {name: strange_reach(rng) for name in named if rng.random() < 0.5}),
            sampling=drawn(
                Sampling(), Sampling("poisson", "user", 0.1, "server"), Sampling("shuffled", "user")
            ),
        ),
    )
    assert audited(changes(records)).total.upper >= honest * (1 - 1e-12)
