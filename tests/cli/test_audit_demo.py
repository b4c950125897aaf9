"""`privplan audit demo`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.claims.table import SYSTEMS
from privplan.accountant.errors import InvalidInput, MissingExtra
from privplan.audit import demos
from privplan.audit.demos.demo import Demo, Weakness, shown
from privplan.audit.measurement import NOT_PROOF, Measurement
from privplan.cli.cache import measured_rows

from .conftest import Refused, Run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the cache of these tests to themselves."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "privplan"


def example(value: float = 2.00019, **other: object) -> Measurement:
    """Return a measurement of DISCO, where 1.5 is claimed."""
    given: dict[str, object] = {
        "proves": "Epsilon is at least the value.",
        "observer": "peer",
        "unit": "user",
        "neighbours": "replace-one",
        "delta": 1e-5,
        "assumes": ("a seed",),
        "sample": {"runs": 10},
    }
    return shown("epsilon of a thing", value, 1.5, **{**given, **other})  # type: ignore[arg-type]


def fake_demo(
    name: str = "fake-one", run: Callable[[np.random.Generator], Weakness] | None = None
) -> Demo:
    """Return a demonstration of DISCO that measures one row and one thing beside."""

    def default(rng: np.random.Generator) -> Weakness:
        value = 2.0 + float(rng.random()) / 1000.0
        return Weakness(
            (example(value), example(1.0)),
            (float("inf"), None),
            ("It was done so.", "It was seen so."),
        )

    return Demo(
        name=name,
        system="disco",
        title="Something shows.",
        claim="Nothing shows.",
        rows=("another",),
        run=run or default,
    )


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> dict[str, Demo]:
    """Put two demonstrations that cost nothing in the place of the real ones."""
    known = {name: fake_demo(name) for name in ("fake-one", "fake-two")}
    monkeypatch.setattr(demos, "NAMES", tuple(known))
    monkeypatch.setattr(demos, "DEMOS", known)
    return known


def test_without_a_name_they_are_listed(run: Run) -> None:
    outcome = run("audit", "demo")
    assert outcome.code == 0
    for name in demos.NAMES:
        assert f"\n{name} " in f"\n{outcome.out}"
        assert demos.DEMOS[name].title.split()[0] in outcome.out
    assert outcome.out.isascii()
    listed = run("audit", "demo", "--json").json["result"]["demos"]
    assert [row["name"] for row in listed] == list(demos.NAMES)
    assert set(listed[0]) == {"name", "system", "title", "claim", "rows"}
    assert run("audit", "demo", "-q").out == f"{len(demos.NAMES)}\n"


def test_every_demonstration_is_described() -> None:
    assert len(demos.DEMOS) == len(set(demos.NAMES)) == 10
    for name, demo in demos.DEMOS.items():
        assert demo.name == name
        assert demo.system in SYSTEMS
        assert demo.title.endswith(".")
        assert demo.claim.endswith(".")
        assert len(demo.title) <= 100
    assert {name: demo.system for name, demo in demos.DEMOS.items() if demo.rows} == demos.MEASURES


def test_a_real_one(run: Run) -> None:
    outcome = run("audit", "demo", "wishart-support", "--json")
    assert outcome.code == 0
    (demo,) = outcome.json["result"]["demos"]
    assert demo["contradicted"] is True
    assert outcome.json["result"]["contradicted"] == 1
    assert demo["seed"] == 0
    delta, epsilon, _ = demo["measurements"]
    assert 0.43 < delta["value"] < delta["exact"] < 0.452
    assert delta["quantity"] == "delta"
    assert epsilon["exact"] == "inf"
    assert epsilon["contradicted"] is True
    assert epsilon["confidence"] == 0.95
    assert epsilon["tier"] == "weakness"
    assert epsilon["note"] == NOT_PROOF
    assert 2 <= len(demo["story"]) <= 5


@pytest.mark.usefixtures("fake")
def test_the_text_for_a_person(run: Run) -> None:
    outcome = run("audit", "demo", "fake-one", "--seed", "1")
    assert outcome.code == 0
    assert outcome.err == ""
    lines = outcome.out.splitlines()
    assert lines[0] == "fake-one: Something shows."
    assert "DISCO claims: Nothing shows." in lines
    (heading,) = (index for index, line in enumerate(lines) if "exact" in line)
    assert lines[heading].split() == ["claimed", "exact", "measured"]
    assert lines[heading + 1].split()[:4] == ["1.5", "infinite", ">=", "2.000"]
    assert lines[heading + 1].endswith("epsilon of a thing at delta 1e-05: contradicted")
    assert lines[heading + 2].split()[:4] == ["1.5", "-", ">=", "1.000"]
    assert lines[heading + 2].endswith("not contradicted")
    assert "It was done so. It was seen so." in lines
    assert lines.count("  - Epsilon is at least the value.") == 1
    assert max(map(len, lines)) <= 88


def test_tests_and_estimates_say_what_they_are(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    estimate = replace(example(1.0), kind="estimate")
    test = replace(example(3e-7), kind="test", contradicted=True)
    demo = fake_demo(run=lambda _: Weakness((estimate, test), (None, None), ("A.", "B.")))
    monkeypatch.setattr(demos, "NAMES", ("fake-one",))
    monkeypatch.setattr(demos, "DEMOS", {"fake-one": demo})
    text = run("audit", "demo", "fake-one").out
    assert "~ 1.000" in text
    assert "p = 3.000e-07" in text


def test_how_sure_it_is_and_what_it_rests_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number alone says neither, and an infinite one rests on more than a count."""
    weak = Weakness(
        (
            example(math.inf, assumes=("all", "impossible")),
            example(1.0, assumes=("all",)),
            example(2.0, assumes=("all", "impossible", "third")),
        ),
        (math.inf, None, 3.0),
        ("A.", "B."),
    )
    monkeypatch.setattr(demos, "NAMES", ("fake-one",))
    monkeypatch.setattr(demos, "DEMOS", {"fake-one": fake_demo(run=lambda _: weak)})
    outcome = run("audit", "demo", "fake-one").out
    text = " ".join(outcome.split())
    assert ">= infinite" not in text
    assert "bounds from below at 95 % confidence, each by itself." in text
    assert "Infinite: seen, and impossible on the neighbouring data; the latter is no count" in text
    assert "Exact: what theory gives for this very test; the mechanism may lose more." in text
    assert outcome.splitlines()[-4:] == [
        "What that rests on:",
        "  - all",
        "  - lines 1, 3: impossible",
        "  - line 3: third",
    ]


def test_one_finite_number_that_assumes_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    demo = fake_demo(run=lambda _: Weakness((example(assumes=()),), (None,), ("A.", "B.")))
    monkeypatch.setattr(demos, "NAMES", ("fake-one",))
    monkeypatch.setattr(demos, "DEMOS", {"fake-one": demo})
    text = run("audit", "demo", "fake-one").out
    assert "\n\nMeasured: bounds from below at 95 % confidence.\n\n" in text
    assert "rests on" not in text


@pytest.mark.usefixtures("fake")
def test_all_of_them(run: Run) -> None:
    result = run("audit", "demo", "--all", "--json").json["result"]
    assert [row["name"] for row in result["demos"]] == ["fake-one", "fake-two"]
    assert result["contradicted"] == 2
    assert run("audit", "demo", "--all", "-q").out == "2\n"
    assert run("audit", "demo", "--all").out.count("What it proves:") == 2


def test_one_that_needs_more_packages(run: Run, fake: dict[str, Demo], refused: Refused) -> None:
    def needs(_: np.random.Generator) -> Weakness:
        raise MissingExtra("It needs a package.", "So it is.", "Install it.")

    fake["fake-two"] = fake_demo("fake-two", needs)
    assert "It needs a package." in refused("audit", "demo", "fake-two", code=4)
    outcome = run("audit", "demo", "--all", "--json")
    assert outcome.code == 0
    assert [row["name"] for row in outcome.json["result"]["demos"]] == ["fake-one"]
    assert outcome.json["warnings"] == ["fake-two was not run: It needs a package. Install it."]


@pytest.mark.usefixtures("fake")
def test_the_same_seed_gives_the_same(run: Run) -> None:
    default, zero, seed_1, again = (
        run("audit", "demo", "fake-one", *words, "--json").out
        for words in ((), ("--seed", "0"), ("--seed", "1"), ("--seed", "1"))
    )
    assert default == zero
    assert seed_1 == again
    assert seed_1 != zero


def test_nothing_contradicted_is_no_failure(run: Run, fake: dict[str, Demo]) -> None:
    fake["fake-one"] = fake_demo(run=lambda _: Weakness((example(1.0),), (None,), ("A.", "B.")))
    outcome = run("audit", "demo", "fake-one", "--json")
    assert outcome.code == 0
    assert outcome.json["result"]["contradicted"] == 0


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("wishart", "wishart-support"), ("flame-tuple", "flame-tuples"), ("Naive", "naive-factor")],
)
def test_an_unknown_name_suggests_the_nearest(typed: str, meant: str, refused: Refused) -> None:
    said = refused("audit", "demo", typed)
    assert f"next: privplan audit demo {meant}" in said


def test_a_word_like_nothing_leads_to_the_list(refused: Refused) -> None:
    assert refused("audit", "demo", "xyzzy").endswith("next: privplan audit demo\n")


def test_a_name_and_all_of_them(refused: Refused) -> None:
    assert "exclude each other" in refused("audit", "demo", "wishart-support", "--all")


@pytest.mark.parametrize("words", [(), ("wishart-support",), ("--all",)])
def test_a_seed_below_0(words: tuple[str, ...], refused: Refused) -> None:
    assert "`seed`" in refused("audit", "demo", *words, "--seed", "-1")


# --- what is kept for the table of claims -------------------------------------------------------


def test_only_the_default_seed_is_kept(run: Run, fake: dict[str, Demo], cache: Path) -> None:
    """Of many seeds one would be lucky."""
    run("audit", "demo", "fake-one", "--seed", "3")
    assert not cache.exists()
    run("audit", "demo", "fake-one")
    assert [path.name.startswith("demo-fake-one-") for path in cache.glob("*.json")] == [True]
    (kept,) = measured_rows.recall("fake-one", measured_rows.current()) or ()
    assert (kept.system, kept.setting) == ("disco", fake["fake-one"].rows[0])
    assert kept.value == demos.run_demo("fake-one").measurements[0].value
    assert measured_rows.recall("fake-two", measured_rows.current()) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [("value", -1.0), ("value", float("nan")), ("confidence", 1.0), ("demo", 3), ("extra", 1)],
)
@pytest.mark.usefixtures("fake")
def test_what_makes_no_sense_is_not_recalled(
    field: str, value: object, run: Run, cache: Path
) -> None:
    from privplan.cli.cache import store

    run("audit", "demo", "fake-one")
    (path,) = cache.glob("*.json")
    rows = json.loads(path.read_text())["measured"]
    rows[0][field] = value
    digest = store.digest_of(rows, path.name, store.known_key(cache))
    path.write_text(json.dumps({"digest": digest, "measured": rows}))
    assert measured_rows.recall("fake-one", measured_rows.current()) is None


def test_a_p_value_is_no_number_of_a_row() -> None:
    test = replace(example(3e-7), kind="test", contradicted=True)
    weakness = Weakness((test,), (None,), ("A.", "B."))
    assert measured_rows.rows_of(fake_demo(), weakness) == ()


def test_any_source_file_makes_it_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan import accountant, audit, fl

    known = [measured_rows.current()]
    for package in (accountant, audit, fl):
        folder = tmp_path / package.__name__
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        monkeypatch.setattr(package, "__file__", str(folder / "__init__.py"))
        known.append(measured_rows.current())
        (folder / "other.py").write_text("x = 1\n")
        known.append(measured_rows.current())
    assert len(set(known)) == len(known)


# --- what a demonstration may say ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("measurements", "exact", "story"),
    [
        ((), (), ("A.", "B.")),
        ((example(),), (), ("A.", "B.")),
        ((example(),), (1.0, 2.0), ("A.", "B.")),
        ((example(),), (1.0,), ("A.",)),
        ((example(),), (1.0,), ("A.",) * 6),
        ((replace(example(), tier="robust"),), (1.0,), ("A.", "B.")),
    ],
)
def test_a_weakness_that_does_not_fit_is_refused(
    measurements: tuple[Measurement, ...], exact: tuple[float, ...], story: tuple[str, ...]
) -> None:
    with pytest.raises(InvalidInput):
        Weakness(measurements, exact, story)


def test_a_claim_is_contradicted_only_where_it_is_exceeded() -> None:
    assert example(1.6).contradicted
    assert not example(1.5).contradicted
