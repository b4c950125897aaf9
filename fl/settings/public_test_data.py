"""Whether test data are public, and who says so.  They are never assumed to be.

A metric of private records is a release that nothing here pays for.  So a model is measured only on
test data that somebody declares to be public, with a source; data that come with scikit-learn are
published with it.  What was read from a path is nobody's word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .schema import Settings

BUNDLED_SOURCES: Final[Mapping[str, str]] = {
    "digits": "published with scikit-learn; UCI Machine Learning Repository, doi 10.24432/C50P49",
    "breast-cancer": (
        "published with scikit-learn; UCI Machine Learning Repository, doi 10.24432/C5DW2B"
    ),
}
"""By data set that needs no path, where its records are published."""


@dataclass(frozen=True)
class EvaluationData:
    """Whether a model is measured on test data, who says that they are public, and why so.

    `source` is None where none is stated, which only runs of earlier versions may do.
    """

    public: bool
    source: str | None
    why: str


DECLARED_BY_EARLIER_VERSION: Final = EvaluationData(
    True, None, "declared public by an earlier version, source not stated"
)
"""Of a run that was begun before test data had to be declared: it goes on as it began."""


def source_of(name: str, test: str | None, source: str | None, evaluate_every: int) -> str | None:
    """Return who says that the test data of a run are public; None where it measures nothing.

    `name` is that of the data set; the others are keys of a configuration, None where not given.
    """
    if test == "none" or evaluate_every == 0:
        return None
    bundled = BUNDLED_SOURCES.get(name)
    return source or bundled if test == "public" or bundled is not None else None


def evaluation_data(settings: Settings) -> EvaluationData:
    """Return what the settings say of the test data, or what follows where they say nothing."""
    evaluation, name, every = settings.evaluation, settings.data.name, settings.run.evaluate_every
    source = source_of(name, evaluation.test, evaluation.source, every)
    if source is not None:
        said = 'test = "public" in [evaluation]'
        return EvaluationData(
            True, source, said if evaluation.test else f"{name} is published with scikit-learn"
        )
    if evaluation.test == "none":
        return EvaluationData(False, None, 'test = "none" in [evaluation]')
    if every == 0:
        return EvaluationData(False, None, "evaluate_every = 0 in [run]")
    return EvaluationData(
        False,
        None,
        "data from a path are not taken to be public unless [evaluation] says so, with a source",
    )
