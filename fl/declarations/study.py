"""Who was dealt at random for a study: no person and no institution stands behind such a unit."""

from __future__ import annotations

from typing import Final

from .toml_words import DATASETS, RATINGS, TABLE

_DEALT: Final = frozenset(DATASETS) - {TABLE, RATINGS}
_WITH_SILOS: Final = frozenset({"heart-disease", "tcga-brca"})
"""Data sets whose silos are the centres that the records come from."""


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
