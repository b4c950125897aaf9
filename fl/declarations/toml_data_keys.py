"""The keys of `[data]`: which records, dealt to whom, and what is done to them.

Nothing heavy is imported here.
"""

from __future__ import annotations

import re
from typing import Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from .toml_key import Key, at_least, text, word
from .toml_words import DATASETS

MAX_SOURCE_CHARACTERS: Final = 300
"""Most characters of a source."""

_PATH_START: Final = re.compile(r"(?:^|[\s'\"(])(?:~|\.{0,2})[/\\]|\b[A-Za-z]:[\\/](?!/)|\bfile:")
"""What a path begins with; a web address has a colon and two slashes."""


def source(**field: object) -> str:
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


DATA_KEYS: Final[tuple[Key, ...]] = (
    word("name", DATASETS, "the data set: " + ", ".join(DATASETS), "required"),
    Key(
        "path",
        text,
        "file or folder of the data, from the working directory; never in the log",
        "bundled data, where there is any",
    ),
    Key(
        "users",
        validate.count,
        "how many users the records are dealt to; of ratings, how many rows the matrix has",
        "the paper's; for ratings required",
        "The number of users is a public constant of the run.",
    ),
    Key(
        "silos",
        validate.count,
        "how many silos, where the data does not fix it",
        "the paper's",
        "The number of silos is a public constant of the run.",
    ),
    word(
        "allocation",
        ("uniform", "zipf", "classes-1", "classes-2"),
        "how records are dealt; classes-1 and classes-2, for studies: each silo has records of "
        "one class, or of two",
        "zipf",
    ),
    Key(
        "labels_per_user",
        validate.count,
        "deal each user records of exactly so many labels",
        "any",
        "It is a number of labels.",
    ),
    Key(
        "bad_silos",
        validate.probability,
        "for studies: share of the silos that have bad labels, by public draws",
        "none",
        "It is a share from 0 to 1.",
    ),
    Key(
        "bad_labels",
        validate.probability,
        "for studies: share of the training records of such a silo whose labels are drawn anew",
        "none",
        "It is a share from 0 to 1.",
    ),
    word(
        "normalisation",
        ("public", "none", "private"),
        "scale features by public constants (public), by moments of the records that are "
        "released with noise, once, before the training (private), or leave them (none)",
        "public",
        "Statistics of private records are a release of their own, and are paid for.",
    ),
    Key("seed", at_least(0), "seed of the dealing and the split (public)", "0"),
    word(
        "selection",
        ("public",),
        "ratings: say that the lists of users and films are public; users and films with few "
        "ratings are then left out, again and again",
        "none: every user of the file is a row",
        "A filter looks at all rows: nothing could be guaranteed of lists that are private.",
    ),
    Key(
        "selection_source",
        source,
        "who says that these lists are public, and where they are published, for selection = "
        '"public"; it stands in the log',
        "required there",
        "Whoever reads the log must be able to look whether it is so.",
    ),
    Key(
        "columns",
        text,
        "ratings: file of a public list of films, one a line or first in a CSV; other films "
        "are left out; never in the log",
        'required without selection = "public"',
    ),
    Key(
        "fewest_ratings",
        validate.count,
        'ratings of every user and film that is left, for selection = "public"',
        "50",
        "It is a number of ratings.",
    ),
    Key(
        "largest_rating",
        validate.positive,
        "ratings: the public range is above 0 and at most this",
        "5",
        "What is larger would count for more than it may.",
    ),
)
"""In the order of `privplan explain run`."""
