"""Which runs go over a network, and what is missing for the others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...accountant.errors import Unsupported
from ..declarations.own_code import is_own
from ..declarations.toml_key import TABLE
from ..settings.schema import Settings

SYSTEMS: Final = (
    *("fedavg", "uldp-avg", "uldp-sgd", "uldp-naive"),
    *("statistics", "fedpower-one-shot", "fedpower-power", "delm-linear"),
)
"""Systems whose parties talk only through one sum of the silos' vectors in each round."""


def require_supported(settings: Settings) -> None:
    """Raise `Unsupported` for a run that does not go over a network, and say what is missing."""
    missing = next(_missing(settings), None)
    if missing is not None:
        raise Unsupported(
            f"This run does not go over a network: {missing}.",
            f"Over a network run {', '.join(SYSTEMS)}, with every user in every round and uniform "
            "weights, in the clear or masked.",
            "Change the configuration, or run it in one process: privplan run",
        )


def _missing(settings: Settings) -> Iterator[str]:
    system, data, security = settings.run.system, settings.data, settings.security
    if system not in SYSTEMS:
        yield f"{system} has messages between its parties that no guard carries yet"
    if settings.as_published:
        yield "a method as published promises nothing that a guard could hold it to"
    if security.aggregation not in ("plain", "masked"):
        yield f'aggregation = "{security.aggregation}" has messages that no guard carries yet'
    if settings.privacy.sampling_rate != 1.0:
        yield "silos have no common secret to draw the same users from"
    if settings.system.has_use_for("training", "weighting") and (
        settings.training.weighting != "uniform"
    ):
        yield "weights by records need how many records each user has in all silos together"
    if settings.privacy.normalisation_noise is not None:
        yield "private moments are a release of their own before the first round"
    if getattr(settings.table, "noise", None) == "banded" or settings.privacy.noise == "banded":
        yield "correlated noise needs sums of earlier rounds, which a guard forgets at a restart"
    if settings.evaluation.held_out is not None:
        yield "votes of users who are held out are a release of their own after the last round"
    if settings.evaluation.test_file is not None:
        yield "a test file would have to be at every silo"
    if data.name == TABLE and (data.rows is not None or data.users_public is not None):
        yield "rows of a program, and lists of users, are in no file of one silo"
    if data.name == TABLE and (data.path is not None or data.silo is not None):
        yield "one file has the rows of all silos; give each silo a file of its own"
    if is_own(settings.training.model) or is_own(settings.training.loss):
        yield "a model of your own is code, which no plan holds"
    if security.keep_transcripts:
        yield "transcripts of all parties are in no single place"
    if settings.log.sign_key is not None:
        yield "logs of parties are signed by their own keys, and `sign_key` names one"
