"""Which users are held out: by each id alone, in every silo alike."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.fl.data.held_out import held_out
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.run_data import federation_of
from privplan.fl.tables.user_names import user_name

from ..extras import needs
from .hospitals import configuration, write

pytestmark = needs("torch", "pyarrow")

VOTES = {"test": "held-out", "held_out": 0.4, "held_out_noise": 1.5}


def names_of(count: int) -> Any:
    return np.array([user_name(f"p{number}", 0) for number in range(count)])


def test_who_is_held_out_follows_from_each_id_by_itself() -> None:
    names = names_of(200)
    chosen = held_out(names, 0.3, 0)
    for number, name in enumerate(names):
        assert held_out(np.array([name]), 0.3, 0)[0] == chosen[number]
    assert np.array_equal(held_out(names[::-1], 0.3, 0), chosen[::-1])


def test_a_share_of_the_ids_is_held_out_and_a_larger_share_holds_out_more_of_the_same() -> None:
    names = names_of(20_000)
    few, many = held_out(names, 0.2, 0), held_out(names, 0.6, 0)
    for share, chosen in ((0.2, few), (0.6, many)):
        assert abs(chosen.mean() - share) < 5 * math.sqrt(share * (1 - share) / len(names))
    assert (many | ~few).all()
    # Another seed holds out others, and names that are neighbours have nothing in common.
    assert 0.2 < (few & held_out(names, 0.2, 1)).sum() / (0.2 * 0.2 * len(names)) < 2.0
    assert abs(held_out(np.arange(20_000), 0.2, 0).mean() - 0.2) < 0.015
    assert abs(held_out(names[names % 2 == 0], 0.2, 0).mean() - 0.2) < 0.02  # cohorts are mixed


def federation(folder: Path, edited: Any = None, **data: Any) -> Any:
    write(folder, edited)
    tables = configuration(evaluation=VOTES, data=data)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        return federation_of(Configuration.of(tables).settings)[0]


def test_the_rows_of_a_user_are_all_on_one_side_in_every_silo(tmp_path: Path) -> None:
    from privplan.fl.tables.federated_table import table_of

    both = federation(tmp_path)
    write(tmp_path)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(tmp_path)
        table = table_of(Configuration.of(configuration()).settings.data)
    out = held_out(table.user, 0.4, 0)
    assert 0 < out.sum() < len(out)
    assert both.records == (~out).sum()
    assert len(both.held_out.labels) == out.sum()
    assert set(both.names) == set(table.user[~out])
    assert both.held_out.users == len(set(table.user[out]))
    assert len(set(both.held_out.silo)) == both.silos == both.held_out.silos


def test_removing_a_user_moves_nobody_to_the_other_side(tmp_path: Path) -> None:
    whole = federation(tmp_path)
    for patient in ("p1,", "p2,", "p3,", "p7,", "p11,"):
        less = federation(
            tmp_path, lambda lines, out=patient: [row for row in lines if not row.startswith(out)]
        )
        gone = set(whole.names) - set(less.names)
        fewer = whole.held_out.users - less.held_out.users
        assert set(less.names) <= set(whole.names)
        assert len(gone) + fewer == 1


def test_rows_of_nobody_are_held_out_by_what_they_hold(tmp_path: Path) -> None:
    from privplan.fl.tables.federated_table import parted
    from privplan.fl.tables.schema_file import schema_of
    from privplan.fl.tables.table import TableColumns, read_table

    from .hospitals import SCHEMA, SILOS

    plain = {**SCHEMA, "columns": {**SCHEMA["columns"], "patient": {"kind": "ignored"}}}

    def contents(features: Any, labels: Any) -> set[bytes]:
        return {row.tobytes() + bytes([label]) for row, label in zip(features, labels, strict=True)}

    def sides(edited: Any) -> tuple[set[bytes], set[bytes]]:
        write(tmp_path, edited)
        table = read_table(
            {silo: [tmp_path / f"{silo}.csv"] for silo in SILOS},
            schema_of(plain),
            TableColumns(label="outcome"),
        )
        kept, out = parted(table, share=0.4, seed=0, named=False)
        return contents(kept.features, kept.labels), contents(out.features, out.labels)

    kept, out = sides(None)
    assert kept
    assert out
    assert not kept & out  # what holds the same is on one side
    fewer_kept, fewer_out = sides(lambda lines: lines[5:])
    assert fewer_kept <= kept
    assert fewer_out <= out
