"""The table `[data]`: which records, dealt to whom, what is done to them, and who was
dealt at random for a study: no person and no institution stands behind such a unit.

Nothing heavy is imported here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .toml_key import DATASETS, RATINGS, TABLE, at_least, key, text

_DEALT: Final = frozenset(DATASETS) - {TABLE, RATINGS}

_WITH_SILOS: Final = frozenset({"heart-disease", "tcga-brca"})
"""Data sets whose silos are the centres that the records come from."""


MAX_SOURCE_CHARACTERS: Final = 300
"""Most characters of a source."""

_PATH_START: Final = re.compile(r"(?:^|[\s'\"(])(?:~|\.{0,2})[/\\]|\b[A-Za-z]:[\\/](?!/)|\bfile:")
"""What a path begins with; a web address has a colon and two slashes."""


def public_source(**field: object) -> str:
    """Return a short text that names no place in a file system: it stands in the log."""
    ((name, _),) = field.items()
    said = text(**field)
    if len(said) > MAX_SOURCE_CHARACTERS:
        raise InvalidInput(f"`{name}` must have at most {MAX_SOURCE_CHARACTERS} characters.")
    if _PATH_START.search(said):
        raise InvalidInput(
            f"`{name}` must not name a file or a folder.",
            "It stands in the log, which may be published, and a path may name somebody.",
            "Say who published the data, and where: a title, a DOI or a web address.",
        )
    return said


SiloFiles: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""The name of each silo of a table, and its files, or patterns of names."""


def silo_files(**field: object) -> int | SiloFiles:
    """Return a number of silos; or the silos of a table, by name, with the files of each.

    A list of names has no files: a column of one file says of which silo a row is.
    """
    ((name, value),) = field.items()
    if isinstance(value, Mapping):
        pairs = [(silo, (said,) if isinstance(said, str) else said) for silo, said in value.items()]
    elif isinstance(value, (list, tuple)):
        pairs = [(silo, ()) for silo in value]
    else:
        return validate.count(**field)
    fits = all(
        isinstance(silo, str)
        and silo.isprintable()
        and silo.strip()
        and isinstance(files, (list, tuple))
        and all(isinstance(file, str) and file for file in files)
        for silo, files in pairs
    )
    if not fits or not pairs or len({silo for silo, _ in pairs}) < len(pairs):
        raise InvalidInput(
            f"`{name}` must be a number, a list of names that differ, or names with files.",
            next_step=f'Write {name} = {{ north = "north.csv", south = "south/*.csv" }}.',
        )
    return tuple((silo, tuple(files)) for silo, files in pairs)


@dataclass(frozen=True, kw_only=True)
class DataSettings:
    """`[data]`: which data set, and how it is dealt to users and silos.  `seed` is public.

    Of a table of one's own nothing is dealt: `silo_files` are the files of each silo, or one file,
    `path`, has a column `silo`.  `schema` is what is public of its columns, as a JSON text; `users`
    are `users_at_most`.  Or `users_public` tells who says that the list of users is public, whose
    file is `users_list`; then `users` are on it.  `handed_over` is a table that a program has, for
    `rows = "program"`.

    For studies, a share `bad_labels` of the training records of a share `bad_silos` of the silos
    have labels at random; None for none.

    Of ratings: `columns` is the file of a public list of films.  Or `selection` says that the lists
    of users and films are public, as `selection_source` tells; then each that is left has
    `fewest_ratings`.  `largest_rating` bounds a rating.  None stands for what is usual.
    """

    name: str = key("the data set: " + ", ".join(DATASETS), words=DATASETS)
    path: Path | None = key(
        "file or folder of the data, from the working directory; never in the log",
        text,
        default=None,
        shown="bundled data, where there is any",
    )
    users: int = key(
        "how many users the records are dealt to; of ratings, how many rows the matrix has; of a "
        "table with `users_public`, how many are on the list",
        validate.count,
        shown="the paper's; for ratings required",
        why="The number of users is a public constant of the run.",
    )
    silos: int | None = key(
        "how many silos, where the data does not fix it; of a table, the files of each by its "
        "name, or the names of all silos, where a column says of which a row is",
        silo_files,
        default=None,
        shown="the paper's",
        why="The number of silos is a public constant of the run.",
    )
    allocation: Literal["uniform", "zipf", "classes-1", "classes-2"] = key(
        "how records are dealt; classes-1 and classes-2, for studies: each silo has records of "
        "one class, or of two",
        default="zipf",
    )
    labels_per_user: int | None = key(
        "deal each user records of exactly so many labels",
        validate.count,
        default=None,
        shown="any",
        why="It is a number of labels.",
    )
    bad_silos: float | None = key(
        "for studies: share of the silos that have bad labels, by public draws",
        validate.probability,
        default=None,
        shown="none",
        why="It is a share from 0 to 1.",
    )
    bad_labels: float | None = key(
        "for studies: share of the training records of such a silo whose labels are drawn anew",
        validate.probability,
        default=None,
        shown="none",
        why="It is a share from 0 to 1.",
    )
    normalisation: Literal["public", "none", "private"] = key(
        "scale features by public constants (public), by moments of the records that are released "
        "with noise, once, before the training (private), or leave them (none)",
        default="public",
        why="Statistics of private records are a release of their own, and are paid for.",
    )
    seed: int = key("seed of the dealing and the split (public)", at_least(0), default=0)
    selection: Literal["public"] | None = key(
        "ratings: say that the lists of users and films are public; users and films with few "
        "ratings are then left out, again and again",
        default=None,
        shown="none: every user of the file is a row",
        why="A filter looks at all rows: nothing could be guaranteed of lists that are private.",
    )
    selection_source: str | None = key(
        "who says that these lists are public, and where they are published, for selection = "
        '"public"; it stands in the log',
        public_source,
        default=None,
        shown="required there",
        why="Whoever reads the log must be able to look whether it is so.",
    )
    columns: Path | None = key(
        "ratings: file of a public list of films, one a line or first in a CSV; other films are "
        "left out; never in the log",
        text,
        default=None,
        shown='required without selection = "public"',
    )
    fewest_ratings: int | None = key(
        'ratings of every user and film that is left, for selection = "public"',
        validate.count,
        default=None,
        shown="50",
        why="It is a number of ratings.",
    )
    user: str | None = key(
        "table: the column that says whose record a row is; without it, a row is one person's",
        text,
        default=None,
        shown="none",
    )
    label: str | None = key(
        "table: the column of what is learnt",
        text,
        default=None,
        shown="required of a system that learns from labels",
    )
    silo: str | None = key(
        "table: the column that says of which silo a row is, where all are in one file, `path`",
        text,
        default=None,
        shown="none",
    )
    schema: str | None = key(
        "table: file of its schema, from the working directory; or [data.columns], [data.label] "
        "and [data.format] say it here",
        text,
        default=None,
        shown="required",
    )
    users_at_most: int | None = key(
        "table: how many users there are at most, as is public; it scales what is released, and "
        "drops nobody",
        validate.count,
        default=None,
        shown="required without `users_public`",
        why="How many users have a row is private.",
    )
    users_public: str | None = key(
        "table: who says that the list of users is public, and where it is published, for systems "
        "with messages of each user; it stands in the log",
        public_source,
        default=None,
        shown="none: who has a row is private",
        why="Whoever reads the log must be able to look whether it is so.",
    )
    users_list: Path | None = key(
        "table: file of that list, with the column of the ids; rows of others are left out, and "
        "who has no row takes part without; never in the log",
        text,
        default=None,
        shown="required with `users_public`",
    )
    rows: Literal["program"] | None = key(
        'table: "program" where no file has the rows, and a program hands them over: '
        "pp.run(..., data=table)",
        default=None,
        shown="files",
    )
    largest_rating: float | None = key(
        "ratings: the public range is above 0 and at most this",
        validate.positive,
        default=None,
        shown="5",
        why="What is larger would count for more than it may.",
    )
    silo_files: SiloFiles | None = None
    handed_over: object | None = field(default=None, compare=False, repr=False)


def study_words(data: object, unit: str | None) -> str:
    """Return that units were dealt at random for a study, as a sentence; nothing where none were.

    `data` is the name of a data set, and `unit` what a run protects.

    >>> study_words("digits", "user")
    'users are dealt at random from the records of digits, for study; none is a real person'
    >>> study_words("table", "user"), study_words("digits", "record")
    ('', '')
    """
    if data not in _DEALT or unit not in ("user", "silo"):
        return ""
    if unit == "silo" and data in _WITH_SILOS:
        return ""
    real = "a real person" if unit == "user" else "a real institution"
    return f"{unit}s are dealt at random from the records of {data}, for study; none is {real}"
