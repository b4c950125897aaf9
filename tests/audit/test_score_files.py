"""Scores in files of our own and of other tools."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.model_audits import score_archives, score_lines
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
    chances = 1.0 / (1.0 + np.exp(-PHI.T))
    meter = archive(tmp_path / "m.npz", signals=chances, memberships=INSIDE, target=0)
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


def test_probabilities_of_other_tools_are_made_phi(tmp_path: Path) -> None:
    """ml_privacy_meter and the RMIA of PrivacyGuard take probabilities of the label."""
    chances = 1.0 / (1.0 + np.exp(-PHI))
    frame = {"score_orig": chances[0], "member": INSIDE[0].astype(int)}
    for k in range(5):
        frame |= {f"score_ref_{k}": chances[k + 1], f"member_ref_{k}": INSIDE[k + 1].astype(int)}
    guard = read_scores(rows(tmp_path / "g.csv", frame))
    assert guard.layout == "PrivacyGuard, probabilities"
    assert guard.tables.evidence.shadows == pytest.approx(PHI[1:])
    told = {"signals": PHI.T, "memberships": INSIDE, "target": 0}
    with pytest.raises(InvalidInput, match="probabilities"):
        read_scores(archive(tmp_path / "m.npz", **told))


def test_the_partner_of_a_target_of_ml_privacy_meter_is_no_shadow(tmp_path: Path) -> None:
    chances = 1.0 / (1.0 + np.exp(-PHI.T))
    paired = INSIDE.copy()
    paired[1::2] = ~paired[::2]
    path = archive(
        tmp_path / "m.npz",
        signals=chances,
        memberships=paired,
        target=2,
        population_signals=chances,
    )
    tables = read_scores(path).tables
    assert (tables.evidence.design.shadows == paired[[0, 1, 4, 5]]).all()
    assert (tables.evidence.design.targets == paired[[2]]).all()
    assert tables.evidence.shadows_population == pytest.approx(PHI[[0, 1, 4, 5]])


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


def packed(path: Path, **entries: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in entries.items():
            file.writestr(f"{name}.npy", content)
    return path


def stored(array: Any) -> bytes:
    held = io.BytesIO()
    np.save(held, array)
    return held.getvalue()


def declaring(text: str) -> bytes:
    """Return an array whose header declares something else than there is."""
    padded = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded + bytes(64)


HOSTILE: dict[str, bytes] = {
    "terabytes": declaring("{'descr':'<f8','fortran_order':False,'shape':(6,200000000000)}"),
    "beyond integers": declaring(
        "{'descr':'<f8','fortran_order':False,'shape':(6,200000000000000000000)}"
    ),
    "wide texts": declaring("{'descr':'|S2000000000','fortran_order':False,'shape':(6,120)}"),
    "open brackets": declaring("(((((("),
    "records": stored(np.zeros((6, 120), [("a", "f8"), ("b", "f8")])),
    "complex": stored(PHI + 0j),
    "no array": b"hello",
}  # fmt: skip


@for_each("name", list(HOSTILE))
def test_arrays_that_declare_what_they_do_not_hold_are_refused(tmp_path: Path, name: str) -> None:
    path = packed(
        tmp_path / "s.npz", phi=HOSTILE[name], membership=stored(INSIDE), target=stored(0)
    )
    with pytest.raises(InvalidInput, match="`phi` is an array"):
        read_scores(path)


@for_each("damage", ["cut", "bytes", "lock", "pickle"])
def test_a_damaged_or_locked_archive_is_refused(tmp_path: Path, damage: str) -> None:
    path = archive(tmp_path / "s.npz", phi=PHI, membership=INSIDE, target=0)
    content = bytearray(path.read_bytes())
    if damage == "cut":
        del content[2000:]
    elif damage == "bytes":
        content[700:800] = bytes(100)
    elif damage == "lock":
        content[content.index(b"PK\x01\x02") + 8] |= 1
    else:
        content[:] = b"\x80\x04K\x01."
    path.write_bytes(content)
    with pytest.raises(InvalidInput):
        read_scores(path)


def test_memory_is_counted_as_numbers_of_eight_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_archives, "MOST_BYTES", 8 * INSIDE.size + 6 * PHI.size)
    path = archive(tmp_path / "s.npz", phi=PHI.astype(np.float16), membership=INSIDE, target=0)
    with pytest.raises(InvalidInput, match="in memory"):
        read_scores(path)


def test_arrays_that_no_layout_names_are_not_read(tmp_path: Path) -> None:
    path = archive(
        tmp_path / "s.npz", phi=PHI, membership=INSIDE, target=0, notes=np.array([{}], object)
    )
    assert read_scores(path).layout == "privplan"


def test_lines_are_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_lines, "LINES_AT_ONCE", 7)
    table = {"id": range(120), "user": range(120), "member": INSIDE[0], "score": PHI[0]}
    file = read_scores(rows(tmp_path / "s.csv", table))
    assert (file.tables.evidence.targets == PHI[:1]).all()
    assert (file.tables.evidence.in_target == INSIDE[:1]).all()
    table["score"] = [*PHI[0][:99], "none", *PHI[0][100:]]
    with pytest.raises(InvalidInput, match="line 101"):
        read_scores(rows(tmp_path / "s.csv", table))


@for_each(
    "text",
    [
        "id,member,score\n1,1,0.5\n1,0,0.1\n",
        "id,member,score\n1,1,high\n2,0,0.1\n",
        "id,member,score\n1,maybe,0.5\n2,0,0.1\n",
        "id,member,score\n1,1\n",
        "id,score\n1,0.5\n",
        "id,member,score\n1,1,1_0\n2,0,0.1\n",
        "id,member,score\n1,1,inf\n2,0,0.1\n",
        "id,member,score\na,1,0.5\na ,0,0.1\n",
        "id,user,member,score\n1,,1,0.5\n2,,1,0.1\n3,u,0,0.2\n",
        "id,member,score\n1,1,0.5,7\n2,0,0.1\n",
        "id,member,score,score\n1,1,0.5,0.5\n",
        "",
        "\0",
    ],
)
def test_lines_that_do_not_fit_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.csv").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput):
        read_scores(tmp_path / "s.csv")
