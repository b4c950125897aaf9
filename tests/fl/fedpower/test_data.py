"""Ratings in a configuration: what is refused, what the log says, and what a run is given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from privplan.accountant.errors import InvalidInput
from privplan.fl.data.rating_federation import RatingFederation
from privplan.fl.declarations import registry
from privplan.fl.declarations.checking import require_sound
from privplan.fl.declarations.toml_keys import RATING_KEYS
from privplan.fl.fedpower.data import federation
from privplan.fl.fedpower.rows import all_rows
from privplan.fl.running.configuration import Configuration
from privplan.fl.running.run_data import federation_of, usual_data
from privplan.fl.settings.schema import Settings
from privplan.fl.settings.toml_file import parse

from .matrices import READER, csv_file, with_reader

PUBLIC = 'selection = "public"\nselection_source = "Example Films, doi 10.1234/5678"'
LISTED = 'columns = "films.csv"'
BASE = '[run]\nsystem = "{}"\n[data]\nname = "{}"\n{}\n[privacy]\nnoise_multiplier = 5.0\n{}\n'


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "built_in", with_reader)


def of(
    *lines: str, system: str = "matrix-reader", name: str = "ratings", rest: str = ""
) -> Settings:
    return parse(BASE.format(system, name, "\n".join(lines), rest).encode(), "run.toml")


def test_the_reader_of_these_tests_is_sound() -> None:
    require_sound(READER)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (('path = "u.data"', "users = 9"), "says neither `columns` nor `selection`"),
        (('path = "u.data"', LISTED), "lacks `users`"),
        (("users = 9", LISTED), "lacks `path`"),
        (('path = "u.data"', "users = 9", 'selection = "public"'), "lacks `selection_source`"),
        (('path = "u.data"', "users = 9", PUBLIC, LISTED), "`columns` with `selection`"),
        (
            ('path = "u.data"', "users = 9", LISTED, 'selection_source = "me"'),
            "`selection_source` in [data], which has no effect",
        ),
        (
            ('path = "u.data"', "users = 9", LISTED, "fewest_ratings = 5"),
            "`fewest_ratings` in [data], which has no effect",
        ),
        (
            ('path = "Example"', "users = 9", PUBLIC),
            "names its `path` in `selection_source`",
        ),
        (('path = "u.data"', "users = 9", PUBLIC, 'allocation = "zipf"'), "`allocation`"),
        (('path = "u.data"', "users = 9", PUBLIC, 'normalisation = "none"'), "`normalisation`"),
        (('path = "u.data"', "users = 9", PUBLIC, "labels_per_user = 2"), "`labels_per_user`"),
        (('path = "u.data"', "users = 9", 'selection = "private"'), "`selection` must be"),
        (('path = "u.data"', "users = 9", 'selection = "public"', 'selection_source = "/home/a"'),
         "must not name a file"),
        (('path = "u.data"', "users = 9", PUBLIC, "fewest_ratings = 0"), "`fewest_ratings`"),
        (('path = "u.data"', "users = 9", PUBLIC, "largest_rating = 0"), "`largest_rating`"),
        (('path = "u.data"', "users = 9", PUBLIC, "largest_rating = inf"), "`largest_rating`"),
    ],
)  # fmt: skip
def test_what_says_too_little_or_contradicts_itself_is_refused(
    lines: tuple[str, ...], what: str
) -> None:
    with pytest.raises(InvalidInput, match=r"run\.toml") as caught:
        of(*lines)
    assert what in caught.value.what
    assert caught.value.next_step


def test_the_refusal_of_a_filter_says_why_and_what_to_write() -> None:
    with pytest.raises(InvalidInput) as caught:
        of('path = "u.data"', "users = 9")
    assert "absence of one user would move others" in str(caught.value.why)
    assert 'columns = "films.csv"' in str(caught.value.next_step)
    assert 'selection = "public"' in str(caught.value.next_step)


@pytest.mark.parametrize("system", ["uldp-avg", "statistics"])
def test_systems_that_need_labels_refuse_ratings_and_name_one_that_does_not(system: str) -> None:
    with pytest.raises(InvalidInput, match="reads records with labels") as caught:
        of('path = "u.data"', "users = 9", system=system, rest="[statistics]\nrow_norm = 1.0"
           if system == "statistics" else "")  # fmt: skip
    assert "matrix-reader" in str(caught.value.why)


@pytest.mark.parametrize(
    "line", [*PUBLIC.splitlines(), LISTED, "fewest_ratings = 5", "largest_rating = 9.0"]
)
def test_keys_of_ratings_are_refused_with_other_data_and_by_other_systems(line: str) -> None:
    with pytest.raises(InvalidInput, match="which has no effect"):
        of(line, name="digits")
    with pytest.raises(InvalidInput, match="has no use for it"):
        of(line, name="digits", system="uldp-avg")


def test_a_log_says_the_source_and_no_path_and_nothing_in_other_systems() -> None:
    said = of('path = "u.data"', "users = 9", PUBLIC, "largest_rating = 10").to_json()["data"]
    assert said["selection"] == "public"
    assert said["selection_source"] == "Example Films, doi 10.1234/5678"
    assert said["largest_rating"] == "10.0"
    assert "fewest_ratings" not in said
    listed = of('path = "u.data"', "users = 9", LISTED)
    assert listed.data.columns == Path("films.csv")
    assert "films" not in str(listed.to_json())
    other = of(name="digits", system="uldp-avg").to_json()["data"]
    assert not set(RATING_KEYS) & set(other)


@pytest.mark.parametrize("how", [(PUBLIC, "fewest_ratings = 3"), (LISTED, "largest_rating = 4.5")])
def test_settings_can_be_written_as_a_file_again(how: tuple[str, ...]) -> None:
    settings = of('path = "u.data"', "users = 9", "silos = 3", *how)
    assert Configuration.of(settings).settings == settings
    assert (settings.data.allocation, settings.data.normalisation) == ("uniform", "none")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rng = np.random.default_rng(2)
    lines = [f"{user},{film},{rng.integers(1, 11) / 2}" for user in range(6) for film in range(4)]
    return csv_file(tmp_path / "ratings.csv", [*lines, "9,1,3"])


def test_a_run_reads_ratings_with_public_lists(file: Path) -> None:
    settings = of(f'path = "{file}"', "users = 6", "silos = 3", PUBLIC, "fewest_ratings = 4")
    made, digests = federation_of(settings)
    assert isinstance(made, RatingFederation)
    assert (made.users, made.silos, made.columns, made.records) == (6, 3, 4, 24)
    assert set(digests) == {"records", "federation"}
    assert federation_of(settings)[1] == digests
    moved = replace(settings, data=replace(settings.data, seed=1))
    assert federation_of(moved)[1]["federation"] != digests["federation"]
    assert sorted(map(tuple, all_rows(made).toarray())) == sorted(
        map(tuple, all_rows(federation(moved)[0]).toarray())
    )
    usual = replace(settings, data=replace(settings.data, fewest_ratings=None))
    with pytest.raises(InvalidInput, match="50 ratings of one another"):
        federation(usual)


def test_a_run_reads_ratings_with_a_public_list_of_films(file: Path) -> None:
    films = file.with_name("films.csv")
    films.write_text("movieId,title\n3,C\n1,A\n")
    settings = of(f'path = "{file}"', "users = 7", "silos = 7", f'columns = "{films}"')
    made, _ = federation_of(settings)
    assert (made.users, made.columns, made.records) == (7, 2, 13)
    small = replace(settings, data=replace(settings.data, largest_rating=2.0))
    with pytest.raises(InvalidInput, match="at most 2"):
        federation(small)


def test_settings_made_by_hand_keep_to_the_same_rules(file: Path) -> None:
    settings = of(f'path = "{file}"', "users = 6", "silos = 3", PUBLIC)
    for change in (
        {"selection": None},
        {"selection": None, "selection_source": None},
        {"selection_source": None},
        {"columns": file},
        {"path": None},
        {"silos": None},
    ):
        with pytest.raises(InvalidInput):
            federation(replace(settings, data=replace(settings.data, **change)))


def test_other_data_are_what_they_are_everywhere() -> None:
    settings = of("users = 10", "silos = 2", name="low-rank")
    made, digests = federation(settings)
    usual, same = usual_data(settings)
    assert digests == same
    assert (made.features == usual.features).all()
    assert (made.user == usual.user).all()
    assert made.features.shape == (1_000, 50)
