"""What a configuration says of ratings: which systems read them, and what the columns are.

A matrix of ratings must not be given its rows and columns by the ratings of one user.
"""

from __future__ import annotations

import re
from typing import Final

from ...accountant.errors import enumerated
from ..declarations.declaration import Complaint, Rule
from ..declarations.given_settings import GivenSettings
from ..declarations.registry import with_use_for
from ..declarations.toml_key import RATINGS
from ..declarations.toml_keys import RATING_KEYS, STUDY_KEYS

_KEYS_OF_RECORDS: Final = (
    *("allocation", "labels_per_user", *STUDY_KEYS),
    "normalisation",
)
"""Keys of [data] that say how records with labels are dealt and scaled."""


def _systems_for_records(given: GivenSettings) -> Complaint | None:
    if not given.of_ratings or given.system.has_use_for("data", "columns"):
        return None
    readers = enumerated(with_use_for("data", "columns"), "and") or "none that is installed"
    return (
        f'names "{RATINGS}" in [data], and {given.system.name} reads records with labels',
        f"Ratings are a matrix without labels.  Systems that read it: {readers}.",
        "Choose another data set, or another system.",
    )


def _keys_of_ratings(given: GivenSettings) -> Complaint | None:
    if given.of_ratings:
        return None
    key = next((key for key in RATING_KEYS if given.states("data", key)), None)
    if key is None:
        return None
    return of_other_data(given, key, RATINGS)


def of_other_data(given: GivenSettings, key: str, name: str) -> Complaint:
    """Return what is wrong with a key of [data] that is of another data set."""
    return _idle(
        key,
        f'It is of name = "{name}", and this is "{given.dataset}".',
        f"Leave `{key}` out, or choose the other data set.",
    )


def _idle(key: str, why: str, step: str) -> Complaint:
    return f"gives `{key}` in [data], which has no effect", why, step


def idle_on(given: GivenSettings, key: str, why: str, step: str = "") -> Complaint:
    """Return what is wrong with a key of [data] that says nothing of its data set."""
    what = f'gives `{key}` in [data], which has no effect on "{given.dataset}"'
    return what, why, step or f"Leave `{key}` out."


def _keys_of_records(given: GivenSettings) -> Complaint | None:
    key = next((key for key in _KEYS_OF_RECORDS if given.states("data", key)), None)
    if key is None or not given.of_ratings:
        return None
    return idle_on(
        given, key, "Whole rows are dealt to nodes evenly, and ratings stay as they are."
    )


def _file_and_rows(given: GivenSettings) -> Complaint | None:
    if not given.of_ratings:
        return None
    if not given.states("data", "path"):
        return (
            f'names "{RATINGS}" in [data], and lacks `path` there',
            "They are read from a file that you have: a CSV file, or MovieLens' `u.data`.",
            'Write path = "u.data", for example.',
        )
    if not given.states("data", "users"):
        return (
            f'names "{RATINGS}" in [data], and lacks `users` there',
            "How many rows the matrix has is a public constant of the run, which the log states.",
            "Write users = 943, for example: how many users the file has, or the filter leaves.",
        )
    return None


def _columns(given: GivenSettings) -> Complaint | None:
    """Refuse columns that follow from private ratings, and two ways of saying what they are."""
    if not given.of_ratings:
        return None
    data = given.data
    public = data.selection is not None
    if public and data.columns is not None:
        return (
            "gives `columns` with `selection` in [data]",
            "With a selection the columns are the films that are left of it.",
            "Leave one of them out.",
        )
    if public and data.selection_source is None:
        return (
            'has selection = "public" in [data], and lacks `selection_source` there',
            "That the lists of users and films are public is said by somebody, and stands in the "
            "log.",
            'Write selection_source = "who published the lists, and where" under [data].',
        )
    if public:
        return path_complaint(
            given, data.selection_source, "in `selection_source` of [data]", "lists"
        )
    idle = next(
        (key for key in ("selection_source", "fewest_ratings") if given.states("data", key)), None
    )
    if idle is not None:
        return _idle(
            idle,
            "Rows and columns are filtered only where their lists are public.",
            'Write selection = "public" with it, or leave it out.',
        )
    if data.columns is None:
        return (
            f'names "{RATINGS}" in [data], and says neither `columns` nor `selection` there',
            "Which users and films have enough ratings follows from all rows: the absence of one "
            "user would move others, so nothing could be guaranteed.",
            'Write columns = "films.csv", a public list of films; or, where everybody may know who '
            'rated and what, selection = "public" with `selection_source`.',
        )
    return None


def path_complaint(
    given: GivenSettings, source: str | None, where: str, published: str
) -> Complaint | None:
    """Refuse a source that names a file which is read; `where` it stands, of what is published."""
    paths = [given.stated("data", key) for key in ("path", "columns", "users_list")]
    if source is None or not any(_names(source, str(path)) for path in paths if path is not None):
        return None
    return (
        f"names its `path` {where}",
        "The source stands in the log, which may be published, and a path may name somebody.",
        f"Say who published the {published}, and where: a title, a DOI or a web address.",
    )


def _names(source: str, path: str) -> bool:
    """Return whether a path stands in a source as a word; "." and ".." name no file."""
    if not any(letter.isalnum() for letter in path):
        return False
    return re.search(rf"(?<!\w){re.escape(path)}(?!\w)", source) is not None


RATING_RULES: Final[tuple[Rule, ...]] = (
    _systems_for_records,
    _keys_of_ratings,
    _keys_of_records,
    _file_and_rows,
    _columns,
)
"""In the order in which they are asked."""
