"""Charts as pictures in files, and in characters: what they hold, and what is refused."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from privplan.accountant.errors import InvalidInput
from privplan.audit.plots import chart as charts
from privplan.audit.plots import picture, text_chart
from privplan.audit.plots.chart import Axis, Band, Chart, Intervals, Level, Points, stairs

from ..cases import for_each
from .test_plots import run_folder

SMALL = Chart(
    "Two points <&>",
    "unit: record",
    Axis("rounds", whole=True),
    Axis("epsilon (nats)"),
    (
        replace(stairs([1.0, 2.0, 3.0], [0.5, 0.9, 1.1], [1.0, 1.5, 2.0]), label="proven"),
        Points("measured $x$", (2.0,), (0.7,)),
    ),
    ("A note.",),
)


def test_a_picture_has_title_and_description_and_always_the_same_bytes(tmp_path: Path) -> None:
    path = tmp_path / "plot.svg"
    size = picture.save(SMALL, path)
    text = path.read_text()
    assert len(text.encode()) == size
    assert re.search(r'<svg[^>]* role="img" aria-labelledby="title description">\n<title', text)
    assert '<title id="title">Two points &lt;&amp;&gt;</title>' in text
    assert "epsilon (nats) against rounds. proven: at 1 from 0.5 to 1.5, at 3 from" in text
    assert "the upper end is the guarantee. measured $x$: 0.7 at 2. A note.</desc>" in text
    assert "<dc:date>" not in text
    picture.save(SMALL, path)  # over an earlier plot
    assert path.read_text() == text
    raster = tmp_path / "plot.PNG"
    picture.save(SMALL, raster)
    assert raster.read_bytes() == picture.rendered(SMALL, ".png")
    assert raster.read_bytes().startswith(b"\x89PNG")
    assert b"Two points" in raster.read_bytes()


def test_what_is_no_plot_is_not_written_over(tmp_path: Path) -> None:
    def why(name: str) -> str:
        with pytest.raises(InvalidInput) as refused:
            picture.save(SMALL, tmp_path / name)
        return refused.value.what

    assert "ends with .svg or .png" in why("plot.pdf")
    assert "its folder does not exist" in why("none/plot.svg")
    (tmp_path / "notes.svg").write_text("my notes")
    assert "is there, and is no plot" in why("notes.svg")
    (tmp_path / "link.png").symlink_to(tmp_path / "notes.svg")
    assert "is there, and is no plot" in why("link.png")
    run_folder(tmp_path / "run")
    picture.save(SMALL, tmp_path / "run" / "plot.svg")
    assert "is there, and is no plot" in why("run/plot.svg")
    assert (tmp_path / "notes.svg").read_text() == "my notes"


@for_each("columns", [40, 61, 80, 100, 300])
def test_a_chart_of_characters_keeps_to_the_width(columns: int) -> None:
    rows = Chart(
        "Claims",
        "unit: record; neighbours: add-remove; delta: 1e-05; observer: model, server or silo",
        Axis("epsilon (nats)", "log", (0.1, 100.0)),
        Axis("claim", rows=("a name that is much longer than there is room for it", "b")),
        (Intervals("proven", (0.0, 1.0), (0.5, 2.0), (1.0, math.inf)),),
    )
    for chart in (SMALL, rows):
        text = text_chart.text_chart(chart, columns)
        assert max(map(len, text.splitlines())) <= min(columns, 100)
        assert "proven" in text
        plain = text_chart.text_chart(chart, columns, unicode=False)
        assert plain.isascii()
        assert len(plain.splitlines()) == len(text.splitlines())


def test_a_guarantee_in_characters_is_never_rounded_down() -> None:
    band = Band("proven", (0.0, 1.0), (0.0, 0.0), (0.34, 0.34))
    chart = Chart("", "", Axis("x"), Axis("y", limits=(0.0, 1.0)), (band,))
    canvas = text_chart.text_chart(chart, 40).splitlines()[2:16]
    # Of 14 rows the one at 5 / 13 = .385 is the first that is not below .34 (at 4 / 13 = .31).
    assert [13 - row for row, text in enumerate(canvas) if "●" in text] == [5]
    falling = replace(band, certified="lower", lower=(0.34, 0.34), upper=(0.9, 0.9))
    canvas = text_chart.text_chart(replace(chart, marks=(falling,)), 40).splitlines()[2:16]
    assert [13 - row for row, text in enumerate(canvas) if "●" in text] == [4]


def test_what_is_within_a_budget_is_not_drawn_above_it() -> None:
    for proven in (0.34, 0.339, 0.3):
        band = Band("proven", (0.0, 1.0), (0.0, 0.0), (proven, proven))
        marks = (Level("budget", 0.34), band)
        chart = Chart("", "", Axis("x"), Axis("y", limits=(0.0, 1.0)), marks)
        rows = text_chart.text_chart(chart, 40).splitlines()[2:16]
        certified = next(row for row, text in enumerate(rows) if "●" in text)
        assert "●" in rows[8] or "─" in rows[8]  # the first row that is not below .34
        assert certified >= 8


def test_the_signs_of_a_chart_are_in_its_legend() -> None:
    text = text_chart.text_chart(SMALL, 60)
    assert text.splitlines()[:2] == ["Two points <&>", "unit: record"]
    assert text.endswith("● proven\n▲ measured $x$\n░ between both ends\nA note.")
    assert "▲" in text.split("└")[0]


def test_a_strangers_name_is_shown_on_one_line_without_controls() -> None:
    assert charts.shown("a\nb\x1b[31m\u202e") == "a b\ufffd[31m\ufffd"
    assert len(charts.shown("x" * 500)) == charts.MAX_SHOWN_CHARACTERS
