"""Test data are never assumed to be public, and who says that they are stands in the log."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.accountant.records import Evaluation, RunOpen
from privplan.audit.budget import audit_budget
from privplan.audit.configuration.logged_settings import settings_in
from privplan.audit.verify import verify
from privplan.fl.datasets.registry import load
from privplan.fl.declarations.dataset_defaults import DATASETS_WITH_DEFAULTS
from privplan.fl.log import read
from privplan.fl.settings import public_test_data
from privplan.fl.settings.public_test_data import (
    BUNDLED_SOURCES,
    DECLARED_BY_EARLIER_VERSION,
    evaluation_data,
)
from privplan.fl.settings.schema import EvaluationSettings, Settings
from privplan.fl.settings.toml_file import parse

from ..cases import for_each
from ..cli.runs import NOISY_TRAINING
from .extras import needs
from .small_runs import Stop, resumed, started
from .test_datasets import tiny_cards

BASE = (
    """\
[run]
system = "uldp-avg"
rounds = 2
{run}
[data]
name = "{name}"
{data}
users = 5
silos = 2
"""
    + NOISY_TRAINING
    + """\
model = "logistic"
{more}
"""
)

PUBLIC = '[evaluation]\ntest = "public"\nsource = "Example Bank, doi 10.1234/5678"'
NONE = '[evaluation]\ntest = "none"'
NAMED = {"data": 'path = "private-cards"', "more": PUBLIC.replace("Bank", "private-cards")}

needs_fl = needs("torch", "sklearn", "cryptography")


def of(name: str = "breast-cancer", *, run: str = "", data: str = "", more: str = "") -> Settings:
    return parse(BASE.format(run=run, name=name, data=data, more=more).encode(), "run.toml")


@pytest.fixture
def cards(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    """Return the maker of settings for data from a path."""
    request.getfixturevalue("stand_ins")
    tiny_cards(tmp_path)

    def made(**more: str) -> Settings:
        return of("creditcard", data=f'path = "{tmp_path}"', **more)

    return made


# --- what is declared -----------------------------------------------------------------------------


@for_each("name", DATASETS_WITH_DEFAULTS)
def test_bundled_data_are_public_and_no_others(name: str) -> None:
    found = evaluation_data(of(name))
    assert found.public == (name in BUNDLED_SOURCES)
    assert found.source == BUNDLED_SOURCES.get(name)
    assert found.why


@for_each("name", BUNDLED_SOURCES)
def test_bundled_data_need_no_path_and_are_published_where_they_say(name: str) -> None:
    pytest.importorskip("sklearn")
    cited = load(name).citation.rsplit("doi ", 1)
    assert cited[-1] in BUNDLED_SOURCES[name]
    assert len(cited) == 2 or cited[0].startswith("generated")


def test_a_declaration_with_a_source_counts_and_none_is_none(cards: Any) -> None:
    found = evaluation_data(cards(more=PUBLIC))
    assert (found.public, found.source) == (True, "Example Bank, doi 10.1234/5678")
    assert evaluation_data(of(more=PUBLIC)).source == found.source
    for settings in (of(more=NONE), cards(more=NONE), of(run="evaluate_every = 0")):
        assert not evaluation_data(settings).public
    assert "evaluate_every = 0" in evaluation_data(of(run="evaluate_every = 0")).why
    # Settings that were made without a file, and have no source, assume nothing either.
    claimed = replace(cards(), evaluation=EvaluationSettings(test="public"))
    assert not evaluation_data(claimed).public


@for_each(
    ("name", "changes", "what"),
    [
        ("creditcard", {"more": '[evaluation]\ntest = "public"'}, "lacks `source`"),
        ("creditcard", {"more": '[evaluation]\nsource = "me"'}, "which has no effect"),
        ("digits", {"more": f'{NONE}\nsource = "me"'}, "which has no effect"),
        ("digits", {"more": PUBLIC, "run": "evaluate_every = 0"}, "evaluate_every = 0"),
        ("digits", {"more": NONE, "run": "evaluate_every = 5"}, "evaluate_every = 5"),
        ("digits", {"more": '[evaluation]\ntest = "publik"'}, "`test` must be"),
        ("digits", {"run": "evaluate_every = -1"}, "`evaluate_every`"),
        ("creditcard", NAMED, "names its `path`"),
    ],
)
def test_what_contradicts_itself_is_refused(name: str, changes: dict[str, str], what: str) -> None:
    with pytest.raises(InvalidInput, match=r"run\.toml") as caught:
        of(name, **changes)
    assert what in caught.value.what
    assert caught.value.next_step


@for_each(
    "source",
    [
        "/home/anna/cards.csv", "see /home/anna", "~/cards", "./cards", "../cards", r"C:\\cards",
        "D:/cards", "file:///home/anna", "'/srv/data'", "a" * 301, "",
    ],
)  # fmt: skip
def test_a_source_that_is_a_path_is_refused(source: str) -> None:
    """It stands in the log, and who publishes that should not publish a path."""
    with pytest.raises(InvalidInput, match="`source`"):
        of(more=f'[evaluation]\ntest = "public"\nsource = "{source}"')


@for_each("source", ["https://a.edu/dataset/45/heart+disease", "UCI, doi 10.24432/C5", "CC/BY"])
def test_a_source_may_be_an_address_or_a_title(source: str) -> None:
    found = of(more=f'[evaluation]\ntest = "public"\nsource = "{source}"')
    assert evaluation_data(found).source == source


# --- runs -----------------------------------------------------------------------------------------


def evaluations(folder: Path) -> list[Evaluation]:
    return [line.record for line in read(folder) if isinstance(line.record, Evaluation)]


@needs_fl
@pytest.mark.parametrize("how", [{}, {"more": NONE}, {"run": "evaluate_every = 0"}])
def test_data_from_a_path_are_not_looked_at(
    how: dict[str, str], cards: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked(*_: Any) -> None:
        raise AssertionError("the model was measured")

    monkeypatch.setattr("privplan.fl.training.metrics.evaluate", looked)
    folder = tmp_path / "run"
    told: list[int] = []
    settings = cards(**how)
    result = started(settings, folder, report=lambda one, _: told.append(one.round))
    assert not result.test.public
    assert not evaluations(folder)
    assert [dict(one.metrics) for one in result.measured] == [{}] * len(result.measured)
    assert told == ([2] if how.get("run") else [1, 2])  # how far it is can still be told
    left = json.loads((folder / "metrics.json").read_text())
    assert left["test"] == {"public": False, "source": None, "why": result.test.why}
    assert "There are no metrics" in left["note"]
    assert all(one["metrics"] == {} for one in left["rounds"])
    assert left["rounds"][-1]["epsilon_so_far"]
    report = audit_budget(folder)
    assert report.ok
    assert not any("test data" in one for one in report.assumptions)


@needs_fl
def test_the_source_stands_in_the_log_and_the_audit_names_it(cards: Any, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    result = started(cards(more=PUBLIC), folder)
    assert result.measured[-1].metrics["accuracy"] >= 0.0
    assert {one.source for one in evaluations(folder)} == {"Example Bank, doi 10.1234/5678"}
    assert str(tmp_path) not in (folder / "log.jsonl").read_text()
    said = "The test data are public: declared public, source: Example Bank, doi 10.1234/5678."
    assert said in audit_budget(folder).assumptions
    left = json.loads((folder / "metrics.json").read_text())
    assert "Example Bank" in left["note"]
    (opened,) = [one.record for one in read(folder) if isinstance(one.record, RunOpen)]
    assert settings_in(opened).evaluation == cards(more=PUBLIC).evaluation


def cut(settings: Settings, folder: Path) -> None:
    """Begin a run, and cut it off after its first round."""

    def stop(*_: Any) -> None:
        raise Stop

    with pytest.raises(Stop):
        started(settings, folder, report=stop)


@needs_fl
@pytest.mark.parametrize("more", ["", PUBLIC, NONE])
def test_a_run_goes_on_as_it_was_declared(more: str, cards: Any, tmp_path: Path) -> None:
    folder, settings = tmp_path / "run", cards(more=more)
    cut(settings, folder)
    result = resumed(settings, folder)
    assert verify(folder).complete
    assert result.test == evaluation_data(settings)
    assert bool(evaluations(folder)) == (more == PUBLIC)


@needs_fl
def test_a_run_of_an_earlier_version_goes_on_as_it_began(
    cards: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its configuration has no such table, and its test data were taken to be public."""
    folder, settings, to_json = tmp_path / "run", cards(), Settings.to_json

    def before(self: Settings) -> dict[str, dict[str, object]]:
        return {name: table for name, table in to_json(self).items() if name != "evaluation"}

    with monkeypatch.context() as patch:
        patch.setattr(Settings, "to_json", before)
        patch.setattr(
            "privplan.fl.running.preparation.evaluation_data", lambda _: DECLARED_BY_EARLIER_VERSION
        )
        cut(settings, folder)
    for declared in (PUBLIC, NONE):
        with pytest.raises(InvalidInput, match=r"\[evaluation\] test"):
            resumed(cards(more=declared), folder)
    result = resumed(settings, folder)
    assert result.test == DECLARED_BY_EARLIER_VERSION
    assert {one.round for one in evaluations(folder)} == {1, 2}
    assert {one.source for one in evaluations(folder)} == {None}
    said = "The test data are public: declared public, source not stated."
    assert said in audit_budget(folder).assumptions
    assert "source is not stated" in json.loads((folder / "metrics.json").read_text())["note"]


def test_the_module_says_nothing_of_data_sets_that_do_not_exist() -> None:
    assert set(public_test_data.BUNDLED_SOURCES) <= set(DATASETS_WITH_DEFAULTS)
    assert np.all([0 < len(one) <= 300 for one in BUNDLED_SOURCES.values()])
