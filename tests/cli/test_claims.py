"""`privplan claims`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from privplan.accountant.claims import table as tables
from privplan.accountant.claims.table import VERDICTS, Claim
from privplan.audit import demos
from privplan.cli.cache import computed_claims, measured_rows, store
from privplan.cli.cache.measured_rows import MeasuredRow
from privplan.cli.reports import claims as claims_report
from privplan.cli.reports.claims import noise_text
from privplan.fl.declarations import packages

from .conftest import Refused, Run

CONTRACT = [
    *("system", "setting", "unit", "neighbours", "observer"),
    *("claimed", "proven", "lower", "verdict"),
]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the cache of these tests to themselves."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "privplan"


def example(**other: object) -> Claim:
    """Return a row of DISCO."""
    given: dict[str, object] = {
        "system": "disco",
        "setting": "a setting with a name that is too long to stand on one line of a table",
        "unit": "user",
        "neighbours": "replace-one",
        "observer": "peer",
        "claimed": 1.23456,
        "delta": 1e-5,
        "proven": 2.00001,
        "lower": 1.99999,
        "why": "It is so.",
        "source": "A program",
    }
    return Claim(**{**given, **other})  # type: ignore[arg-type]


class FakeTable:
    """Stands in for the rows of every system; counts how often they are computed."""

    def __init__(self) -> None:
        self.computed = 0
        self.claims = [example(), example(setting="another", proven=None, lower=None)]

    def rows(self, system: str) -> list[object]:
        """Return the rows, each of which counts."""
        assert system in tables.SYSTEMS

        def row(claim: Claim) -> Claim:
            self.computed += 1
            return claim

        return [lambda claim=claim: row(claim) for claim in self.claims]


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTable]:
    """Put a table that costs nothing in the place of the real one."""
    stand_in = FakeTable()
    monkeypatch.setattr(tables, "rows", stand_in.rows)
    monkeypatch.setattr(tables, "NOISE_MODULES", {})
    return stand_in  # type: ignore[return-value]


def test_the_json_of_a_system(run: Run) -> None:
    outcome = run("claims", "disco", "--json")
    assert outcome.code == 0
    envelope = outcome.json
    assert envelope["schema"] == "privplan/1"
    assert envelope["ok"] is True
    rows = envelope["result"]["rows"]
    assert len(rows) == len(tables.rows("disco"))
    for row in rows:
        assert list(row)[: len(CONTRACT)] == CONTRACT
        assert row["system"] == "disco"
        assert row["verdict"] in VERDICTS
        assert isinstance(row["claimed"], float)
        assert row["proven"] is None or row["proven"] == "inf" or row["proven"] > 0.0
        more = {"delta", "quantity", "printed", "why", "source", "measured", "measured_by"}
        assert set(row) - set(CONTRACT) == more
        assert row["measured"] is row["measured_by"] is None  # nothing was run here
    assert rows[0]["proven"] == pytest.approx(10.39388, abs=1e-4)
    assert rows[-1]["proven"] == "inf"
    assert sum(envelope["result"]["verdicts"].values()) == len(rows)


def test_noise_stands_beside_its_unit(run: Run, cache: Path) -> None:
    lines = run("claims", "disco", "--json").json["result"]["noise"]
    assert len(lines) == len(tables.noise("disco"))
    for line, noise in zip(lines, tables.noise("disco"), strict=True):
        assert line["deviation"] == noise.deviation
        assert line["proven"] == ("inf" if math.isinf(noise.proven) else noise.proven)
        assert line["in"] == noise.length[0]
        assert line["length"] == noise.length
        assert set(line) >= {"system", "setting", "way", "unit", "neighbours", "observer"}
    text = run("claims", "disco").out  # from the cache, as it was
    assert {path.name.split("-")[0] for path in cache.glob("*.json")} == {"claims", "noise"}
    for way, deviation, proven in (
        ("as published, radii as coded", "21.71 r", "infinite"),
        ("as published, were radii public", "21.71 r", "4.424"),
        ("least, a public radius a tensor", "10.96 r", "10.000"),
        ("least, one flat clip C = sqrt(6) r", "10.96 r", "10.000"),
        ("the same noise, in C", "4.472 C", "10.000"),
        ("as published, were radii public", "21.71 r", "16.06"),
        ("least, a public radius a tensor", "31.62 r", "10.000"),
        ("as published, were radii public", "114.3 r", "1.679"),
        ("least, a public radius a tensor", "24.49 r", "10.000"),
    ):
        numbers = rf"{re.escape(deviation)} +{re.escape(proven)}"
        assert re.search(rf"^  {re.escape(way)} +{numbers}$", text, re.M)
    assert "r: the radius of a tensor; C: the flat clip of the whole update." in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_damaged_cache_of_noise_is_computed_again(run: Run, cache: Path) -> None:
    expected = run("claims", "disco", "--json").out
    (path,) = cache.glob("noise-*")
    path.write_text(path.read_text().replace("21.7", "11.7"))
    assert run("claims", "disco", "--json").out == expected
    assert "11.7" not in path.read_text()


@pytest.mark.parametrize("width", [80, 91, 100])
def test_the_noise_fits_the_terminal(width: int) -> None:
    lines = noise_text(tables.noise("disco"), width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].split() == ["Noise", "on", "each", "number", "deviation", "proves"]


@pytest.mark.usefixtures("fake")
def test_a_system_without_noise_of_its_kind_shows_none(run: Run) -> None:
    assert run("claims", "disco", "--json").json["result"]["noise"] == []
    assert "Noise on each number" not in run("claims", "disco").out


def test_the_table_for_a_person(run: Run) -> None:
    text = run("claims", "disco").out
    lines = text.splitlines()
    assert lines[0].split() == ["DISCO", "claimed", "proven", "at", "least", "verdict"]
    assert max(map(len, lines)) <= 80
    assert text.isascii()
    assert re.search(r"^1 round, 1 tensor, public radii +10 +10\.40 +10\.39 +false$", text, re.M)
    assert "user, replace-one, against the peer; delta 1e-05" in text
    assert "privplan explain disco" in text


@pytest.mark.usefixtures("fake")
def test_all_systems_in_one_table(run: Run) -> None:
    outcome = run("claims")
    assert outcome.code == 0
    assert "DISCO" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "10 claims" in outcome.out
    assert "privplan claims SYSTEM" in outcome.out
    assert "It is so." not in outcome.out
    assert "It is so." in run("claims", "disco").out


@pytest.mark.parametrize("width", [80, 91, 100])
def test_the_table_fits_the_terminal(width: int) -> None:
    claims = [example(), example(setting="short", claimed=123456.0, proven=None)]
    for detailed in (False, True):
        lines = claims_report.text(claims, width, detailed=detailed).splitlines()
        assert max(map(len, lines)) <= width
        assert lines[0].endswith("verdict")


def test_numbers_are_rounded_outwards() -> None:
    text = claims_report.text([example()], 100, detailed=False)
    assert " 1.235 " in text  # what is claimed: to the nearest
    assert " 2.001 " in text
    assert " 1.999 " in text
    assert " 0.24 " in claims_report.text([example(printed="0.24")], 100, detailed=False)


@pytest.mark.usefixtures("fake")
def test_quiet_counts_what_does_not_hold(run: Run) -> None:
    assert run("claims", "disco", "-q").out == "1\n"
    assert run("claims", "-q").out == "5\n"


@pytest.mark.parametrize(
    ("typed", "meant"), [("flam", "flame"), ("FedPower", "fedpower"), ("uldp", "uldp-fl")]
)
def test_an_unknown_system_suggests_the_nearest(typed: str, meant: str, refused: Refused) -> None:
    assert f"next: privplan claims {meant}" in refused("claims", typed)


def test_a_word_like_nothing_leads_to_the_list(refused: Refused) -> None:
    assert refused("claims", "xyzzy").endswith("next: privplan claims\n")


# --- the cache ----------------------------------------------------------------------------------


def test_a_table_is_computed_once(run: Run, fake: FakeTable, cache: Path) -> None:
    first = run("claims", "disco", "--json")
    assert fake.computed == 2
    assert [path.name.split("-")[:2] for path in cache.glob("*.json")] == [["claims", "disco"]]
    second = run("claims", "disco", "--json")
    assert fake.computed == 2
    assert first.out == second.out
    assert run("claims", "disco").out == claims_report.text(fake.claims, 80, detailed=True) + "\n"


def test_another_version_of_the_code_computes_again(
    run: Run, fake: FakeTable, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("claims", "disco")
    monkeypatch.setattr(computed_claims, "LIBRARIES", ("numpy",))
    run("claims", "disco")
    assert fake.computed == 4
    assert len(list(cache.glob("*.json"))) == 1  # what the other version left is gone


def test_code_that_changes_while_it_computes_is_not_kept(
    run: Run, fake: FakeTable, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(["before", "after", "after", "after"])
    monkeypatch.setattr(computed_claims, "current", lambda: next(versions))
    run("claims", "disco")
    assert not cache.exists()
    run("claims", "disco")
    assert [path.name for path in cache.glob("*.json")] == ["claims-disco-after.json"]
    assert fake.computed == 4


def test_a_version_that_cannot_be_told_is_not_kept(
    run: Run, fake: FakeTable, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(computed_claims, "LIBRARIES", ("no-such-library",))
    assert run("claims", "disco").out == run("claims", "disco").out
    assert not cache.exists()
    assert fake.computed == 4


def test_the_version_follows_every_source_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan import accountant

    (tmp_path / "sub").mkdir()
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "sub" / "one.py").write_text("x = 1\n")
    monkeypatch.setattr(accountant, "__file__", str(tmp_path / "__init__.py"))
    versions = [computed_claims.current()]
    (tmp_path / "sub" / "one.py").write_text("x = 2\n")
    versions.append(computed_claims.current())
    (tmp_path / "sub" / "one.py").rename(tmp_path / "sub" / "two.py")
    versions.append(computed_claims.current())
    assert len(set(versions)) == 3


@pytest.mark.parametrize(
    "damage",
    [
        lambda _: "not JSON",
        lambda _: "",
        lambda held: json.dumps({**held, "digest": "0" * 64}),
        lambda held: json.dumps({**held, "claims": held["claims"][:1]}),
        lambda held: json.dumps([held]),
        lambda held: json.dumps(held).replace("2.00001", "1.00001"),
    ],
)
def test_a_damaged_cache_is_computed_again(
    damage: object, run: Run, fake: FakeTable, cache: Path
) -> None:
    expected = run("claims", "disco", "--json").out
    (path,) = cache.glob("*.json")
    path.write_text(damage(json.loads(path.read_text())))  # type: ignore[operator]
    assert run("claims", "disco", "--json").out == expected
    assert fake.computed == 4
    assert run("claims", "disco", "--json").out == expected
    assert fake.computed == 4  # and it was mended


def test_rows_that_contradict_themselves_are_not_recalled(fake: FakeTable, cache: Path) -> None:
    computed_claims.kept("claims", "disco", Claim, lambda: fake.claims)
    (path,) = cache.glob("*.json")
    held = json.loads(path.read_text())
    held["claims"][0]["lower"] = 99.0  # above what is proven
    held["digest"] = store.digest_of(held["claims"], path.name, store.known_key(cache))
    path.write_text(json.dumps(held))
    assert computed_claims.kept("claims", "disco", Claim, tuple) == ()


def test_a_cache_that_cannot_be_written_changes_nothing(
    run: Run, fake: FakeTable, cache: Path
) -> None:
    cache.parent.mkdir()
    cache.write_text("a file where the folder should be")
    outcome = run("claims", "disco")
    assert outcome.code == 0
    assert outcome.err == ""
    assert run("claims", "disco").out == outcome.out
    assert fake.computed == 4


@pytest.mark.parametrize("given", ["", "relative", "./here"])
def test_a_cache_folder_that_is_no_full_path_is_ignored(
    given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every working directory would get a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    folder = store.folder()
    assert folder.is_absolute()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert folder == store.folder()


def test_infinite_and_unknown_numbers_survive_the_cache() -> None:
    rows = (
        example(proven=float("inf"), lower=float("inf")),
        example(proven=None, lower=None, printed="0.24", quantity="delta"),
    )
    assert computed_claims.kept("claims", "disco", Claim, lambda: rows) == rows
    assert computed_claims.kept("claims", "disco", Claim, tuple) == rows


# --- what was measured --------------------------------------------------------------------------


def measured(**other: object) -> MeasuredRow:
    """Return what a demonstration says of a row of the example."""
    given: dict[str, object] = {
        "demo": "disco-radius",
        "system": "disco",
        "setting": "another",
        "value": 13.20399,
        "kind": "lower-bound",
        "confidence": 0.95,
        "contradicted": True,
        "assumes": ("a law", "a seed"),
    }
    return MeasuredRow(**{**given, **other})  # type: ignore[arg-type]


def keep(*rows: MeasuredRow, name: str = "disco-radius") -> None:
    measured_rows.keep(name, rows, measured_rows.current())


@pytest.mark.usefixtures("fake")
def test_a_measured_value_stands_in_its_row(run: Run) -> None:
    before = run("claims", "disco").out
    assert " measured" not in before.splitlines()[0]
    keep(measured())
    first, second = run("claims", "disco", "--json").json["result"]["rows"]
    assert first["measured"] is None
    assert second["measured"] == 13.20399
    assert second["measured_by"] == {
        "demo": "disco-radius",
        "kind": "lower-bound",
        "confidence": 0.95,
        "contradicted": True,
        "assumes": ["a law", "a seed"],
    }
    text = run("claims", "disco").out
    lines = text.splitlines()
    assert lines[0].split()[1:] == ["claimed", "proven", "at", "least", "measured", "verdict"]
    assert max(map(len, lines)) <= 80
    assert re.search(r"^another +1\.235 +- +- +13\.20  unproven$", text, re.M)
    assert "Measured: at least 13.20 at 95 % confidence, against the claim" in text
    plain = " ".join(text.split())
    assert "(privplan audit demo disco-radius). Rests on: a law; a seed." in plain
    assert "Measured: bounds from below at 95 % confidence, each by itself" in plain
    assert "Infinite there" not in plain


@pytest.mark.usefixtures("fake")
def test_an_infinite_measured_value_says_on_what_it_rests(run: Run) -> None:
    """A count alone shows no infinite epsilon."""
    keep(measured(value=float("inf")))
    plain = " ".join(run("claims", "disco").out.split())
    assert (
        "Measured: infinite, seen at 95 % confidence and impossible on the neighbouring data, "
        "against the claim (privplan audit demo disco-radius). Rests on: a law; a seed."
    ) in plain
    assert "at least infinite" not in plain
    assert "Infinite there: seen, and impossible on the neighbouring data" in plain
    assert "Infinite there" in " ".join(run("claims").out.split())


@pytest.mark.usefixtures("fake")
def test_a_measured_value_is_of_one_system_and_changes_no_verdict(run: Run) -> None:
    without = run("claims", "--json").json["result"]
    keep(measured(value=float("inf")))
    result = run("claims", "--json").json["result"]
    assert result["verdicts"] == without["verdicts"]
    # The stand-in gives every system the rows of DISCO.
    assert {row["system"] for row in result["rows"] if row["measured"] is not None} == {"disco"}
    assert {row["measured"] for row in result["rows"]} == {None, "inf"}
    assert run("claims", "-q").out == "5\n"


def test_an_estimate_is_marked() -> None:
    rows = {("disco", "another"): measured(kind="estimate", contradicted=False)}
    claim = example(setting="another")
    text = claims_report.text([claim], 80, detailed=True, measured=rows)
    assert " ~13.20 " in text
    assert "Measured: about 13.20 (privplan audit demo disco-radius)." in " ".join(text.split())


@pytest.mark.usefixtures("fake")
def test_of_two_measurements_of_a_row_the_first_stands(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not the larger: the best of two bounds is not as sure as each."""
    monkeypatch.setattr(demos, "MEASURES", {"disco-radius": "disco", "disco-shares": "disco"})
    keep(measured(demo="disco-shares", value=20.0), name="disco-shares")
    keep(measured(value=13.0))
    rows = run("claims", "disco", "--json").json["result"]["rows"]
    assert rows[1]["measured"] == 13.0


@pytest.mark.usefixtures("fake")
def test_measuring_runs_what_is_missing_of_the_system(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.accountant.errors import MissingExtra
    from privplan.audit.demos.demo import Demo, Weakness, shown

    ran: list[str] = []

    def demo(name: str, system: str) -> Demo:
        def attack(_: object) -> Weakness:
            ran.append(name)
            if name == "needs-more":
                raise MissingExtra("It needs a package.", "So it is.", "Install it.")
            measurement = shown(
                "epsilon",
                3.0,
                1.23456,
                proves="It is so.",
                observer="peer",
                unit="user",
                neighbours="replace-one",
            )
            return Weakness((measurement,), (None,), ("A.", "B."))

        return Demo(name, system, "A title.", "A claim.", ("another",), attack)

    known = {
        name: demo(name, system)
        for name, system in (("one", "disco"), ("two", "flame"), ("needs-more", "disco"))
    }
    monkeypatch.setattr(demos, "NAMES", tuple(known))
    monkeypatch.setattr(demos, "MEASURES", {name: demo.system for name, demo in known.items()})
    monkeypatch.setattr(demos, "DEMOS", known)
    monkeypatch.setattr(packages, "built_in", dict)  # example runs: test_claims_runs
    assert "--measure" in run("claims", "disco").out
    outcome = run("claims", "disco", "--measure", "--json")
    assert outcome.code == 0
    assert ran == ["one", "needs-more"]
    assert outcome.json["result"]["rows"][1]["measured"] == 3.0
    assert outcome.json["warnings"] == [
        "needs-more was not measured: It needs a package. Install it."
    ]
    run("claims", "disco", "--measure")
    assert ran == ["one", "needs-more", "needs-more"]  # what was measured is kept
    run("claims", "--measure")
    assert ran[3:] == ["two", "needs-more"]
    assert "--measure" not in run("claims", "flame").out  # nothing is missing


@pytest.mark.usefixtures("fake")
def test_a_measurement_by_other_code_is_not_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(measured())
    monkeypatch.setattr(measured_rows, "LIBRARIES", ("numpy",))
    rows = run("claims", "disco", "--json").json["result"]["rows"]
    assert [row["measured"] for row in rows] == [None, None]
