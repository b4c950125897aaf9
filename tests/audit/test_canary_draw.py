"""Examples that are drawn to be inserted: what is in the files, and that nothing tells a coin."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import privplan as pp
from privplan.accountant.errors import InvalidInput, Unsupported
from privplan.audit.adapters.canary_files import CanaryCoins
from privplan.audit.model_audits.canary_draw import DrawnCanaries
from privplan.audit.model_audits.canary_folder import units_of

from ..cases import for_each

WHO = "made for a test"


def arrays(records: int = 300) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 17, (records, 8, 8)).astype(np.uint8)
    return {"x": x, "y": rng.integers(0, 10, records)}


def text_file(folder: Path, records: int = 120) -> Path:
    rng = np.random.default_rng(1)
    rows = ["patient,age,sex,marker,outcome"]
    for index in range(records):
        age, sex, marker = rng.integers(18, 90), rng.choice(["f", "m"]), rng.random() * 8.0
        rows.append(f"{7 * index},{age},{sex},{marker:.2f},{'yes' if index % 3 else 'no'}")
    path = folder / "d.csv"
    path.write_text("\n".join(rows) + "\n")
    return path


SCHEMA = """
[label]
kind = "binary"
values = ["no", "yes"]
[columns.patient]
kind = "ignored"
[columns.age]
kind = "number"
range = [18, 90]
[columns.sex]
kind = "category"
values = ["f", "m"]
[columns.marker]
kind = "number"
range = [0, 8]
"""


def schema_file(folder: Path) -> Path:
    path = folder / "schema.toml"
    path.write_text(SCHEMA)
    return path


def coins_of(drawn: DrawnCanaries) -> Any:
    return CanaryCoins.read(drawn.folder).into


# --- what is in the files -------------------------------------------------------------------------


@for_each("kind", ["out-of-distribution", "wrong-label", "users"])
def test_the_file_to_insert_holds_those_that_are_in_and_no_other(kind: str, tmp_path: Path) -> None:
    drawn = pp.draw_canaries(arrays(), 80, tmp_path / "c", kind=kind, public=WHO)
    score, insert, coins = drawn.to_score, drawn.insert, coins_of(drawn)
    each = 5 if kind == "users" else 1
    assert len(score["canary"]) == 80 * each
    assert len(set(score["canary"].tolist())) == 80 * each
    into = coins[units_of(score)]
    assert list(insert) == [*(["canary_user"] if each > 1 else []), "x", "y"]
    for name, values in insert.items():
        assert name == "canary_user" or values.dtype == arrays()[name].dtype
        np.testing.assert_array_equal(values, score[name][into])
    assert 0 < coins.sum() < 80
    assert (np.bincount(units_of(score)) == each).all()


def test_a_text_file_keeps_its_columns_and_users_are_new(tmp_path: Path) -> None:
    data = text_file(tmp_path)
    drawn = pp.draw_canaries(
        data, 60, tmp_path / "c", public=WHO, label="outcome", user="patient", kind="users",
        records_each=3,
    )  # fmt: skip
    lines = (drawn.folder / "insert.csv").read_text().splitlines()
    assert lines[0] == data.read_text().splitlines()[0]
    held = drawn.to_score
    assert set(held["patient"].tolist()).isdisjoint(str(7 * index) for index in range(120))
    np.testing.assert_array_equal(held["patient"], held["canary_user"])
    for owner in set(held["patient"].tolist()):
        of_owner = held["patient"] == owner
        assert of_owner.sum() == 3
        assert len(set(held["outcome"][of_owner].tolist())) == 1
    ages = held["age"].astype(int)
    assert ages.min() >= 18
    assert ages.max() <= 89
    assert set(held["sex"].tolist()) == {"f", "m"}


def test_wrong_labels_are_wrong_and_their_originals_are_listed(tmp_path: Path) -> None:
    data = arrays()
    drawn = pp.draw_canaries(data, 100, tmp_path / "c", kind="wrong-label", public=WHO)
    score, removed = drawn.to_score, drawn.removed
    assert len(removed) == len(set(removed.tolist())) == 100
    assert (np.diff(removed) > 0).all()
    originals = {data["x"][row].tobytes(): int(data["y"][row]) for row in removed}
    for values, label in zip(score["x"], score["y"].tolist(), strict=True):
        assert originals.pop(values.tobytes()) != label
    assert originals == {}
    assert any("originals of all 100 canaries" in said for said in drawn.effects)


def test_a_label_that_is_missing_is_no_class(tmp_path: Path) -> None:
    lines = text_file(tmp_path).read_text().splitlines()
    lines[1:40] = [line.rsplit(",", 1)[0] + "," for line in lines[1:40]]
    path = tmp_path / "g.csv"
    path.write_text("\n".join(lines) + "\n")
    drawn = pp.draw_canaries(
        path, 80, tmp_path / "c", kind="wrong-label", public=WHO, label="outcome"
    )
    assert set(drawn.to_score["outcome"].tolist()) == {"no", "yes"}
    assert drawn.removed.min() >= 39
    data = {"x": np.array([[np.nan, 1.0], [np.nan, 3.0]] * 30), "y": np.array([0.0, np.nan] * 30)}
    held = pp.draw_canaries(data, 50, tmp_path / "n", public=WHO).to_score
    assert set(held["y"].tolist()) == {0.0}
    assert set(held["x"][:, 0].tolist()) == {0.0}
    assert 1.0 <= held["x"][:, 1].min() <= held["x"][:, 1].max() <= 3.0


def test_by_a_schema_no_record_is_read(tmp_path: Path) -> None:
    """A file of a header and of no records gives the same columns as one with people in it."""
    schema = schema_file(tmp_path)
    header = tmp_path / "h.csv"
    header.write_text(text_file(tmp_path).read_text().splitlines()[0] + '\n"never closed\n')
    drawn = pp.draw_canaries(header, 50, tmp_path / "c", schema=schema, label="outcome")
    held = drawn.to_score
    assert list(held) == ["canary", "patient", "age", "sex", "marker", "outcome"]
    assert set(held["outcome"].tolist()) == {"no", "yes"}
    assert 0.0 <= held["marker"].astype(float).min() <= held["marker"].astype(float).max() <= 8.0
    bare = pp.draw_canaries(None, 50, tmp_path / "b", schema=schema, label="outcome")
    assert list(bare.insert) == ["patient", "age", "sex", "marker", "outcome"]


def test_columns_of_a_frame_may_hold_texts(tmp_path: Path) -> None:
    data = {"sex": np.array(["f", "m"] * 30, object), "y": np.array(["no", "yes"] * 30, object)}
    held = pp.draw_canaries(data, 50, tmp_path / "c", public=WHO).to_score
    assert set(held["sex"].tolist()) == {"f", "m"}
    assert set(held["y"].tolist()) == {"no", "yes"}


def test_only_the_owner_reads_the_folder(tmp_path: Path) -> None:
    drawn = pp.draw_canaries(arrays(), 40, tmp_path / "c", kind="wrong-label", public=WHO)
    assert stat.S_IMODE(drawn.folder.stat().st_mode) == 0o700
    names = {path.name for path in drawn.folder.iterdir()}
    assert names == set(drawn.files.values())
    for path in drawn.folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path.name
    assert "canaries)" in repr(CanaryCoins.read(drawn.folder))


def test_the_manifest_commits_to_coins_and_says_none(tmp_path: Path) -> None:
    drawn = pp.draw_canaries(arrays(), 64, tmp_path / "c", public=WHO, guesses=30)
    line = json.loads((drawn.folder / "manifest.jsonl").read_text())
    assert line["commitment"] == CanaryCoins.read(drawn.folder).commitment
    assert (line["guesses"], line["made_from"]) == (30, {"public": WHO})
    secret = json.loads((drawn.folder / "canaries.json").read_text())
    shown = (drawn.folder / "manifest.jsonl").read_text() + repr(drawn)
    assert not any(str(value) in shown for value in secret.values())
    changed = CanaryCoins(~coins_of(drawn), b"", secret["blind"])
    assert changed.commitment != line["commitment"]


# --- nothing tells a coin -------------------------------------------------------------------------


def strongest(features: Any, coins: Any) -> float:
    """Return the largest |z| of a rank test between those in and those out, over all features."""
    largest = 0.0
    for column in np.asarray(features, float).T:
        if len(np.unique(column)) > 1:
            p = float(stats.mannwhitneyu(column[coins], column[~coins]).pvalue)
            largest = max(largest, float(stats.norm.isf(p / 2.0)))
    return largest


def test_neither_order_nor_ids_nor_values_nor_files_tell_a_coin(tmp_path: Path) -> None:
    """Over 30 draws of 200; each of some fifty z is above 5.5 with probability 4e-8."""
    rows, coins, files = [], [], []
    for index in range(30):
        drawn = pp.draw_canaries(
            text_file(tmp_path), 200, tmp_path / f"c{index}", public=WHO, label="outcome"
        )
        held, into = drawn.to_score, coins_of(drawn)
        ids = [[int(digit, 16) for digit in each] for each in held["canary"].tolist()]
        own = [
            held["age"].astype(float),
            held["marker"].astype(float),
            held["sex"] == "f",
            held["outcome"] == "yes",
            [len(text) for text in held["marker"]],
        ]
        position = np.arange(200)
        both = np.column_stack([position, position % 2, position % 8, *own, ids])
        neighbour = np.roll(both, 1, axis=0)
        rows.append(np.hstack([both, both - neighbour]))
        coins.append(into)
        names = ("canaries.json", "score.csv", "manifest.jsonl")
        states = [(drawn.folder / name).stat() for name in names]
        files.append(
            [int(into.sum()), *(each.st_size for each in states),
             *(states[1].st_mtime_ns - each.st_mtime_ns for each in states)]
        )  # fmt: skip
    features, all_coins = np.vstack(rows), np.concatenate(coins)
    assert strongest(features, all_coins) < 5.5
    # A coin's neighbours are no likelier to agree with it.
    agree = int((all_coins[1:] == all_coins[:-1]).sum())
    assert abs(agree - 2999.5) < 5.5 * 38.8
    assert abs(int(all_coins.sum()) - 3000) < 5.5 * 38.8
    table = np.array(files, float)
    for column in table[:, 1:].T:
        if len(np.unique(column)) > 1:
            assert stats.spearmanr(table[:, 0], column).pvalue > 1e-6
    # The test sees an order that coins decide, and a digit of an id that does.
    sorted_rows = np.concatenate([np.argsort(np.argsort(each, kind="stable")) for each in coins])
    assert strongest(sorted_rows[:, None], all_coins) > 5.5
    telling = features[:, [8]] + 2 * all_coins[:, None]
    assert strongest(telling, all_coins) > 5.5


def test_a_classifier_learns_no_coin(tmp_path: Path) -> None:
    """Trees that see everything but the file to insert are right as often as a coin is."""
    pytest.importorskip("sklearn")
    from sklearn.ensemble import RandomForestClassifier

    drawn = pp.draw_canaries(arrays(), 2000, tmp_path / "c", public=WHO)
    held, coins = drawn.to_score, coins_of(drawn)
    digits = np.array([[int(digit, 16) for digit in each] for each in held["canary"].tolist()])
    features = np.hstack(
        [np.arange(2000)[:, None], digits, held["y"][:, None], held["x"].reshape(2000, -1)]
    )
    forest = RandomForestClassifier(30, min_samples_leaf=5, random_state=0)
    right = forest.fit(features[:1000], coins[:1000]).predict(features[1000:]) == coins[1000:]
    assert stats.binomtest(int(right.sum()), 1000, 0.5).pvalue > 1e-7


# --- refusals -------------------------------------------------------------------------------------


def asked(**more: Any) -> Callable[[Path], Any]:
    def draw(folder: Path) -> Any:
        given = {"data": arrays(), "canaries": 50, "public": WHO, **more}
        return pp.draw_canaries(folder=folder / "c", **given)

    return draw


@for_each(
    "draw, words",
    [
        (asked(public=None), "Either `public` says who"),
        (asked(schema="s.toml"), "Either `public` says who"),
        (asked(public="/home/me/d.npz"), "must not name a file"),
        (asked(canaries=39), "must be from 40"),
        (asked(canaries=301, kind="wrong-label"), "need as many public records"),
        (asked(guesses=51), "`guesses` must be at most 50"),
        (asked(kind="strange"), "`kind` must be one of"),
        (asked(label="z"), "no column 'z' of the label"),
        (asked(user="z"), "no column 'z' of the user"),
        (asked(data={"x": np.zeros((9, 2)), "y": np.zeros(8, int)}), "as many in each"),
        (asked(data={"x": np.array([{}] * 50), "y": np.zeros(50, int)}), "numbers or texts"),
        (asked(data={"x": np.zeros((50, 2)), "y": np.zeros((50, 3))}), "one label for each"),
        (asked(data={"canary": np.zeros(50), "y": np.zeros(50)}), "which canaries need"),
        (asked(data=[1, 2]), "must be a file, or arrays by column"),
        (asked(data="d.json"), "are read from .csv and .npz"),
    ],
)
def test_what_is_not_public_or_fits_nothing_is_refused(
    draw: Callable[[Path], Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInput, match=words):
        draw(tmp_path)
    assert not (tmp_path / "c").exists()


def test_one_class_has_no_wrong_label(tmp_path: Path) -> None:
    data = {"x": np.zeros((60, 2)), "y": np.zeros(60, int)}
    with pytest.raises(Unsupported, match="no classes"):
        pp.draw_canaries(data, 40, tmp_path / "c", kind="wrong-label", public=WHO)


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    pp.draw_canaries(arrays(), 40, tmp_path / "c", public=WHO)
    before = {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
    with pytest.raises(InvalidInput, match="not empty"):
        pp.draw_canaries(arrays(), 40, tmp_path / "c", public=WHO)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "c").iterdir()}
