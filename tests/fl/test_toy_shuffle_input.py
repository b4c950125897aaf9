"""What a system of messages may not say of itself, and what a configuration may not ask of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sklearn")
pytest.importorskip("cryptography")

from privplan.accountant.errors import InvalidInput, PrivplanError
from privplan.accountant.records import Reach
from privplan.fl.declarations.checking import require_sound
from privplan.fl.declarations.registry import declaration_of
from privplan.fl.running import run
from privplan.fl.running.preparation import prepare
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from ..packages import shuffled
from ..packages.toys import for_each_test

toy = for_each_test("toy_shuffle")


def toy_class() -> Any:
    declaration_of("toy-shuffle").load("toy_shuffle.system:make")
    return sys.modules["toy_shuffle.system"].ToyShuffle  # type: ignore[attr-defined]


def said(error: PrivplanError) -> str:
    return f"{error.what} {error.why} {error.next_step}"


@for_each(
    ("stated", "words"),
    [
        ({"analyser": Reach("sum")}, ("'analyser'", "`reaches`", "'analyzer'")),
        ({"auditor": Reach("each")}, ("'auditor'", "`reaches`")),
        ({"analyzer": Reach("shuffled")}, ("`reaches.analyzer.users`",)),
        (
            {"analyzer": Reach("shuffled", users=20, dimensions=12)},
            ("`reaches.analyzer.chosen`",),
        ),
        ({"analyzer": {"sees": "everything"}}, ("`reaches.analyzer`",)),
        ([Reach("sum")], ("`reaches`",)),
    ],
)
def test_a_reach_that_cannot_be_is_refused_before_anything_is_written(
    stated: Any, words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_class(), "reaches", lambda _: stated)
    with pytest.raises(InvalidInput) as refused:
        run(shuffled.settings(), tmp_path / "out")
    for word in ("'toy-shuffle'", "package 'toy-shuffle'", *words):
        assert word in said(refused.value)
    assert not list((tmp_path / "out").glob("log*"))


@for_each(
    ("given", "words"),
    [
        ({"users": 1}, ("two users", "there is 1")),
        ({"users": 4, "colluders": 3}, ("two users", "`colluders` is 3")),
    ],
)
def test_a_shuffle_needs_users_to_hide_among(given: Any, words: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as refused:
        prepare(shuffled.settings(**given))
    for word in words:
        assert word in said(refused.value)


def test_coordinates_and_observers_that_are_not_there_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`chosen` must be at most `dimensions`"):
        prepare(shuffled.settings(chosen=13))
    with pytest.raises(InvalidInput, match="no observer 'server' of its own"):
        prepare(shuffled.settings(observer="server"))


@for_each(
    ("field", "value"),
    [
        *(("aggregations", ("mixnet",)), ("aggregations", ()), ("observers", ("auditor",))),
        *(("observers", ()), ("observers", "analyzer")),
    ],
)
def test_a_declaration_that_the_frame_does_not_know_names_package_and_field(
    field: str, value: Any
) -> None:
    with pytest.raises(InvalidInput) as refused:
        require_sound(replace(declaration_of("toy-shuffle"), **{field: value}))
    assert "Package toy-shuffle" in refused.value.what
    assert f"`{field}`" in refused.value.what


def test_what_is_left_out_comes_from_the_declaration() -> None:
    left_out = shuffled.text().replace('[security]\naggregation = "shuffle"\ncolluders = 0', "")
    made = parse(left_out.encode(), "run.toml")
    assert made.security.aggregation == "shuffle"
    assert made.privacy.observers == ("model", "analyzer", "shuffler")
    assert made == shuffled.settings()
    named = left_out.replace('observer = "analyzer"', 'observers = ["analyzer"]')
    assert parse(named.encode(), "run.toml").privacy.observers == ("analyzer",)


def test_what_other_systems_leave_out_is_what_it_was_and_they_have_no_use_for_a_shuffle() -> None:
    text = '[run]\nsystem = "uldp-avg"\n[data]\nname = "breast-cancer"\n[privacy]\nepsilon = 8.0\n'
    made = parse(text.encode(), "run.toml")
    assert made.security.aggregation == "plain"
    assert made.privacy.observers == ("model", "server", "silo")
    text = (
        '[run]\nsystem = "uldp-avg"\n[data]\nname = "breast-cancer"\n[privacy]\nepsilon = 8.0\n'
        '[security]\naggregation = "shuffle"\n'
    )
    with pytest.raises(InvalidInput) as refused:
        parse(text.encode(), "run.toml")
    assert "toy-shuffle" in said(refused.value)


@for_each(
    ("before", "after", "word"),
    [
        ('aggregation = "shuffle"', 'aggregation = "plain"', 'aggregation = "shuffle"'),
        ('neighbours = "replace-one"', "", "replace-one"),
        ('observer = "analyzer"', 'observer = "analyser"', '"analyzer"'),
        ('observer = "analyzer"', "sampling_rate = 0.5", "sampling_rate"),
        ("padded_to = 20", "padded_to = 0", "padded_to"),
    ],
)
def test_a_configuration_that_does_not_fit_is_refused(before: str, after: str, word: str) -> None:
    with pytest.raises(PrivplanError) as refused:
        parse(shuffled.text().replace(before, after).encode(), "run.toml")
    assert word in said(refused.value)
