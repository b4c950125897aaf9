"""What a configuration says of ratings: which systems read them, and what the columns are.

A matrix of ratings must not be given its rows and columns by the ratings of one user.
"""

from __future__ import annotations

from typing import Final

from ..declarations.declaration import Complaint, Given, Rule
from ..declarations.registry import with_use_for
from ..declarations.toml_keys import RATING_KEYS, STUDY_KEYS
from ..declarations.toml_words import RATINGS
from .rule_facts import enumerated, system_of

_KEYS_OF_RECORDS: Final = (
    *("allocation", "labels_per_user", *STUDY_KEYS),
    "normalisation",
)
"""Keys of [data] that say how records with labels are dealt and scaled."""


def _systems_for_records(given: Given) -> Complaint | None:
    if not _of_ratings(given) or system_of(given).has_use_for("data", "columns"):
        return None
    readers = enumerated(with_use_for("data", "columns"), "and") or "none that is installed"
    return (
        f'names "{RATINGS}" in [data], and {system_of(given).name} reads records with labels',
        f"Ratings are a matrix without labels.  Systems that read it: {readers}.",
        "Choose another data set, or another system.",
    )


def _keys_of_ratings(given: Given) -> Complaint | None:
    if _of_ratings(given):
        return None
    key = next((key for key in RATING_KEYS if key in given["data"]), None)
    if key is None:
        return None
    return (
        f"gives `{key}` in [data], which has no effect",
        f'It is of name = "{RATINGS}", and this is "{given["data"]["name"]}".',
        f"Leave `{key}` out, or choose the other data set.",
    )


def _keys_of_records(given: Given) -> Complaint | None:
    key = next((key for key in _KEYS_OF_RECORDS if key in given["data"]), None)
    if key is None or not _of_ratings(given):
        return None
    return (
        f'gives `{key}` in [data], which has no effect on "{RATINGS}"',
        "Whole rows are dealt to nodes evenly, and ratings stay as they are.",
        f"Leave `{key}` out.",
    )


def _file_and_rows(given: Given) -> Complaint | None:
    if not _of_ratings(given):
        return None
    if "path" not in given["data"]:
        return (
            f'names "{RATINGS}" in [data], and lacks `path` there',
            "They are read from a file that you have: a CSV file, or MovieLens' `u.data`.",
            'Write path = "u.data", for example.',
        )
    if "users" not in given["data"]:
        return (
            f'names "{RATINGS}" in [data], and lacks `users` there',
            "How many rows the matrix has is a public constant of the run, which the log states.",
            "Write users = 943, for example: how many users the file has, or the filter leaves.",
        )
    return None


def _columns(given: Given) -> Complaint | None:
    """Refuse columns that follow from private ratings, and two ways of saying what they are."""
    if not _of_ratings(given):
        return None
    data = given["data"]
    public = "selection" in data
    if public and "columns" in data:
        return (
            "gives `columns` beside `selection` in [data]",
            "With a selection the columns are the films that are left of it.",
            "Leave one of them out.",
        )
    if public and "selection_source" not in data:
        return (
            'has selection = "public" in [data], and lacks `selection_source` there',
            "That the lists of users and films are public is said by somebody, and stands in the "
            "log.",
            'Write selection_source = "who published the lists, and where" under [data].',
        )
    if public and any(
        str(data.get(key, "\0")) in data["selection_source"] for key in ("path", "columns")
    ):
        return (
            "names its `path` in `selection_source` of [data]",
            "The source stands in the log, which may be published, and a path may name somebody.",
            "Say who published the lists, and where: a title, a DOI or a web address.",
        )
    idle = next((key for key in ("selection_source", "fewest_ratings") if key in data), None)
    if not public and idle is not None:
        return (
            f"gives `{idle}` in [data], which has no effect",
            "Rows and columns are filtered only where their lists are public.",
            'Write selection = "public" beside it, or leave it out.',
        )
    if not public and "columns" not in data:
        return (
            f'names "{RATINGS}" in [data], and says neither `columns` nor `selection` there',
            "Which users and films have enough ratings follows from all rows: the absence of one "
            "user would move others, so nothing could be guaranteed.",
            'Write columns = "films.csv", a public list of films; or, where everybody may know who '
            'rated and what, selection = "public" with `selection_source`.',
        )
    return None


def _of_ratings(given: Given) -> bool:
    return bool(given["data"]["name"] == RATINGS)


RATING_RULES: Final[tuple[Rule, ...]] = (
    _systems_for_records,
    _keys_of_ratings,
    _keys_of_records,
    _file_and_rows,
    _columns,
)
"""In the order in which they are asked."""
