"""`privplan claims`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from privplan.accountant.claims import table as tables
from privplan.accountant.claims.claim import VERDICTS, Claim
from privplan.cli import claims_cache, claims_command, rounding
from privplan.cli.system_pages import SYSTEM_PAGES

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
    return stand_in  # type: ignore[return-value]


def test_the_json_of_a_system(run: Run) -> None:
    outcome = run("claims", "disco", "--json")
    assert outcome.code == 0
    envelope = outcome.json
    assert envelope["schema"] == "privplan/1"
    assert envelope["ok"] is True
    found = envelope["result"]["rows"]
    assert len(found) == len(tables.rows("disco"))
    for row in found:
        assert list(row)[: len(CONTRACT)] == CONTRACT
        assert row["system"] == "disco"
        assert row["verdict"] in VERDICTS
        assert isinstance(row["claimed"], float)
        assert row["proven"] is None or row["proven"] == "inf" or row["proven"] > 0.0
        assert set(row) - set(CONTRACT) == {"delta", "quantity", "printed", "why", "source"}
    assert found[0]["proven"] == pytest.approx(10.39388, abs=1e-4)
    assert found[-1]["proven"] == "inf"
    assert sum(envelope["result"]["verdicts"].values()) == len(found)


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
    found = [example(), example(setting="short", claimed=123456.0, proven=None)]
    for detailed in (False, True):
        lines = claims_command.text(found, width, detailed=detailed).splitlines()
        assert max(map(len, lines)) <= width
        assert lines[0].endswith("verdict")


def test_numbers_are_rounded_outwards() -> None:
    text = claims_command.text([example()], 100, detailed=False)
    assert " 1.235 " in text  # what is claimed: to the nearest
    assert " 2.001 " in text
    assert " 1.999 " in text
    assert " 0.24 " in claims_command.text([example(printed="0.24")], 100, detailed=False)


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
    assert [path.name.split("-")[:2] for path in cache.iterdir()] == [["claims", "disco"]]
    second = run("claims", "disco", "--json")
    assert fake.computed == 2
    assert first.out == second.out
    assert run("claims", "disco").out == claims_command.text(fake.claims, 80, detailed=True) + "\n"


def test_another_version_of_the_code_computes_again(
    run: Run, fake: FakeTable, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("claims", "disco")
    monkeypatch.setattr(claims_cache, "LIBRARIES", ("numpy",))
    run("claims", "disco")
    assert fake.computed == 4
    assert len(list(cache.iterdir())) == 1  # what the other version left is gone


def test_code_that_changes_while_it_computes_is_not_kept(
    run: Run, fake: FakeTable, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = iter(["before", "after", "after", "after"])
    monkeypatch.setattr(claims_cache, "current", lambda: next(versions))
    run("claims", "disco")
    assert not cache.exists()
    run("claims", "disco")
    assert [path.name for path in cache.iterdir()] == ["claims-disco-after.json"]
    assert fake.computed == 4


def test_a_version_that_cannot_be_told_is_not_kept(
    run: Run, fake: FakeTable, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims_cache, "LIBRARIES", ("no-such-library",))
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
    versions = [claims_cache.current()]
    (tmp_path / "sub" / "one.py").write_text("x = 2\n")
    versions.append(claims_cache.current())
    (tmp_path / "sub" / "one.py").rename(tmp_path / "sub" / "two.py")
    versions.append(claims_cache.current())
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
    (path,) = cache.iterdir()
    path.write_text(damage(json.loads(path.read_text())))  # type: ignore[operator]
    assert run("claims", "disco", "--json").out == expected
    assert fake.computed == 4
    assert run("claims", "disco", "--json").out == expected
    assert fake.computed == 4  # and it was mended


def test_rows_that_contradict_themselves_are_not_recalled(fake: FakeTable, cache: Path) -> None:
    claims_cache.keep("disco", fake.claims, claims_cache.current())
    (path,) = cache.iterdir()
    held = json.loads(path.read_text())
    held["claims"][0]["lower"] = 99.0  # above what is proven
    held["digest"] = claims_cache._digest_of(held["claims"])
    path.write_text(json.dumps(held))
    assert claims_cache.recall("disco", claims_cache.current()) is None


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
    folder = claims_cache.folder()
    assert folder.is_absolute()
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert folder == claims_cache.folder()


def test_infinite_and_unknown_numbers_survive_the_cache() -> None:
    kept = (
        example(proven=float("inf"), lower=float("inf")),
        example(proven=None, lower=None, printed="0.24", quantity="delta"),
    )
    version = claims_cache.current()
    claims_cache.keep("disco", kept, version)
    assert claims_cache.recall("disco", version) == kept


# --- the pages ----------------------------------------------------------------------------------

SETTINGS = {
    # What a page says of its setting, and is no row of the table.
    "uldp-fl": ("1e-5",),
    "flame": ("0.01", "1.1", "1,000", "7,850"),
    "disco": ("1e-5",),
    "fedpower": ("1e-5", "9.2e-4"),
    "delm": ("1e-5", "0.6", "1.2"),
}


def shown(claim: Claim) -> set[str]:
    """Return every way in which the pages may write the numbers of a row."""
    texts = {claim.printed, *(str(part) for part in re.findall(r"[\d.]+", claim.setting))}
    for digits in (2, 3, 4, 5):
        texts.add(f"{claim.claimed:.{digits}g}")
        texts.add(f"{float(f'{claim.claimed:.{digits}g}'):,.0f}")
        if claim.proven is not None:
            texts.add(rounding.up(claim.proven, digits))
        if claim.lower is not None:
            texts.add(rounding.down(claim.lower, digits))
    texts |= set(re.findall(r"\d[\d,.]*\d", claim.why))
    return texts


@pytest.mark.slow
@pytest.mark.parametrize("system", tables.SYSTEMS)
def test_every_number_of_a_page_is_in_the_table(system: str) -> None:
    about, text = SYSTEM_PAGES[system]
    assert about
    known = set(SETTINGS[system])
    for claim in tables.table(system):
        known |= shown(claim)
    body = re.sub(r"arXiv [\d.]+", "", text)
    numbers = re.findall(
        r"(?<![\w.,])(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+\.\d+(?:e[+-]?\d+)?|\d+e[+-]?\d+)", body
    )
    assert numbers
    assert [number for number in numbers if number not in known] == []


@pytest.mark.parametrize("system", tables.SYSTEMS)
def test_a_page_is_a_page(system: str) -> None:
    _, text = SYSTEM_PAGES[system]
    lines = text.splitlines()
    assert lines[0].startswith(system.upper())
    assert max(map(len, lines)) <= 96
    assert text.isascii()
    assert "Source" in text
    assert "What to do instead" in text
    assert f"privplan claims {system}" in text
