"""Scores in files of our own and of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.model_audits.score_files import read_scores

from ..cases import for_each
from .test_score_audit import simulated

PHI, INSIDE = simulated(models=6, records=120)


def archive(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def rows(path: Path, table: dict[str, Any]) -> Path:
    lines = [
        ",".join(table),
        *(",".join(map(str, row)) for row in zip(*table.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_models_of_an_archive_are_targets_and_shadows(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "s.npz",
        phi=PHI, membership=INSIDE, target=[2, 4], coins="independent",
        population_phi=PHI[:, :10], user=np.arange(120),
    )  # fmt: skip
    file = read_scores(path)
    assert (file.tables.evidence.targets == PHI[[2, 4]]).all()
    assert (file.tables.evidence.shadows == PHI[[0, 1, 3, 5]]).all()
    assert (file.coins, file.tables.level) == ("independent", "user")
    assert file.tables.has_population


def test_files_of_other_tools_are_the_same_tables(tmp_path: Path) -> None:
    loss = np.logaddexp(0.0, -PHI[0])
    inside = INSIDE[0]
    tf = archive(tmp_path / "tf.npz", loss_train=loss[inside], loss_test=loss[~inside])
    meter = archive(tmp_path / "m.npz", signals=PHI.T, memberships=INSIDE, target=0)
    frame = {"user_id": range(120), "score_orig": PHI[0], "member": inside.astype(int)}
    for k in range(5):
        frame |= {f"score_ref_{k}": PHI[k + 1], f"member_ref_{k}": INSIDE[k + 1].astype(int)}
    guard = rows(tmp_path / "g.csv", frame)
    single = rows(
        tmp_path / "s.csv", {"id": range(120), "member": inside.astype(int), "score": PHI[0]}
    )
    layouts = {path: read_scores(path) for path in (tf, meter, guard, single)}
    for path, file in layouts.items():
        scores, members = file.tables.evidence.targets[0], file.tables.evidence.in_target[0]
        assert np.sort(scores[members]) == pytest.approx(np.sort(PHI[0][inside])), path
    assert layouts[guard].tables.evidence.shadows == pytest.approx(PHI[1:])
    assert layouts[guard].tables.level == "user"


BAD: dict[str, Any] = {
    "both kinds": {"phi": PHI, "loss": PHI, "membership": INSIDE, "target": 0},
    "no target": {"phi": PHI, "membership": INSIDE},
    "a row twice": {"phi": PHI, "membership": INSIDE, "target": [0, 0]},
    "a row beyond": {"phi": PHI, "membership": INSIDE, "target": 6},
    "objects": {"phi": PHI.astype(object), "membership": INSIDE, "target": 0},
    "another word for coins": {"phi": PHI, "membership": INSIDE, "target": 0, "coins": "fair"},
    "nothing": {},
}


@for_each("name", list(BAD))
def test_an_archive_that_does_not_fit_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput):
        read_scores(archive(tmp_path / "s.npz", **BAD[name]))


@for_each(
    "text",
    [
        "id,member,score\n1,1,0.5\n1,0,0.1\n",
        "id,member,score\n1,1,high\n2,0,0.1\n",
        "id,member,score\n1,maybe,0.5\n2,0,0.1\n",
        "id,member,score\n1,1\n",
        "id,score\n1,0.5\n",
        "id,member,score,score\n1,1,0.5,0.5\n",
        "",
        "\0",
    ],
)
def test_lines_that_do_not_fit_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput):
        read_scores(tmp_path / "s.csv")
