"""The settings of a rehearsal: the number of silos, and the training alone with the run's noise."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Protocol, cast

import numpy as np

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ..data.held_out import HeldOutRows
from ..declarations.registry import declaration_or_none
from ..frame.system import build
from ..settings.schema import EvaluationSettings, Settings
from ..tables.record_shape import has_number_label, required_shape
from .federation import Coins, canary_federation
from .harness import training_noise, training_phase
from .local import CanaryLocalTraining

USUAL_ROW_CANARIES: Final = 1_000
"""Canaries of a system without training whose declaration names no number."""


class Work(Protocol):
    """The function that estimates a round's work; a declaration names it as `canary_work`."""

    def __call__(self, settings: Settings, silos: int, canaries: int, /) -> int:
        """Return about how many steps of half a microsecond a round takes."""


def mask_pairs(settings: Settings, silos: int) -> int:
    """Return how many pairs of silos share a mask in a round; in the clear, how many silos send."""
    return silos if settings.security.aggregation == "plain" else silos**2


def usual_work(settings: Settings, silos: int, canaries: int) -> int:
    """Return the work of a round in which all canaries go through together."""
    # A pair of silos costs about as much as a thousand canaries in one silo.
    return 1_000 * mask_pairs(settings, silos) + canaries * silos


def work_of(settings: Settings) -> Work:
    """Return the function that estimates a round's work under these settings."""
    declaration = declaration_or_none(settings.run.system)
    if declaration is None or declaration.canary_work is None:
        return usual_work
    return cast("Work", declaration.load(declaration.canary_work))


def usual_canaries(settings: Settings) -> int | None:
    """Return how many canaries suit a system where one costs more than usual; None elsewhere."""
    declaration = declaration_or_none(settings.run.system)
    usual = None if declaration is None else declaration.canaries
    if declaration is not None and usual is None and not declaration.trains:
        return USUAL_ROW_CANARIES
    if usual is None or isinstance(usual, int):
        return usual
    return usual.get(settings.security.aggregation)


PUBLIC_DATASETS: Final = (
    *("digits", "breast-cancer", "low-rank"),
    *("digits-32", "synthetic-digits"),
)
"""Data sets whose records are public."""


def silos_of(settings: Settings, silos: int | None = None) -> int:
    """Return how many silos the run has, without reading its records.

    Raises `InvalidInput` where `silos` contradicts the settings, or a data set with its own.
    """
    known = settings.data.silos
    if known is None:
        known = _silos_of_dataset(settings.data.name)
    if silos is not None and validate.count(silos=silos) != known:
        raise InvalidInput(
            f"`silos` is {silos}; the settings have {known}.",
            "Another number of silos is another run.",
            "Leave `silos` out.",
        )
    return known


def rehearsal_settings(settings: Settings, silos: int) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of the rehearsal, and notes on what is left out.

    The private release of feature moments, and the votes of users who are held out, are left out,
    as canaries have no features; the noise of the training stays that of the run's plan, in which
    these are paid for.  Where parts of epsilon give noise (`Declaration.noise_given`), they go on
    doing so: what is rehearsed there has a part of its own.  Transcripts are not kept.
    """
    rehearsed = replace(settings, security=replace(settings.security, keep_transcripts=False))
    moments = rehearsed.data.normalisation == "private"
    votes = rehearsed.evaluation.held_out_noise is not None
    if not moments and not votes:
        return rehearsed, ()
    left_out = " and ".join(
        ["the release of private moments"] * moments + ["the votes of who is held out"] * votes
    )
    are = "are" if votes else "is"
    note = f"{left_out} {are} not rehearsed; the claim is that of the training alone"
    if settings.system.noise_given is not None:
        return replace(rehearsed, evaluation=EvaluationSettings(test="none")), (note,)
    noise, rounds = _training_of(rehearsed, silos)
    return replace(
        rehearsed,
        run=replace(rehearsed.run, rounds=rounds),
        data=replace(rehearsed.data, normalisation="public") if moments else rehearsed.data,
        privacy=replace(
            rehearsed.privacy, epsilon=None, noise_multiplier=noise, normalisation_noise=None
        ),
        evaluation=EvaluationSettings(test="none") if votes else rehearsed.evaluation,
    ), (note,)


def model_size(settings: Settings) -> int:
    """Return how many parameters the model of these settings has."""
    from ..training.chosen_model import chosen_model

    features, classes = required_shape(settings.data)
    return chosen_model(
        settings, (features,), classes, numbers=has_number_label(settings.data)
    ).parameters


def _training_of(settings: Settings, silos: int) -> tuple[float, int]:
    """Return noise multiplier and rounds of the training in the plan of the run."""
    from ...accountant.randomness import Streams
    from ..datasets.registry import scaling_of

    # Few canaries suffice, as noise and rounds of a plan depend on no record; each cohort has one.
    few = max(2, settings.privacy.cohorts or 0)
    # Messages of users hide among those of all of them, in the coordinates of their model.
    sent_by_users = settings.security.aggregation == "shuffle"
    if sent_by_users:
        few = settings.data.users
    scaled = settings.data.normalisation == "private"
    features = int(np.size(scaling_of(settings.data.name).lower)) if scaled else 1
    present = np.ones((few, silos), np.int64)
    none = np.zeros(0, np.int64)
    nobody = HeldOutRows(np.zeros((0, features), np.float32), none, none, none, 0, silos, none)
    federation = replace(canary_federation(present, features=features), held_out=nobody)
    coins = Coins(np.ones(few, bool), np.ones(few), np.arange(few))
    local = CanaryLocalTraining(coins, federation, clip=settings.training.clip)
    if sent_by_users:
        local.width = model_size(settings)
    plan = build(settings, federation, local, Streams.secure()).plan()
    return training_noise(plan), training_phase(plan).rounds


def _silos_of_dataset(name: str) -> int:
    """Return the number of silos of a data set: its own, or the default."""
    if name == "heart-disease":
        from ..datasets.heart_disease import CENTRES

        return len(CENTRES)
    if name == "tcga-brca":
        from ..datasets.tcga_brca import REGIONS

        return len(REGIONS)
    from ..datasets.federate import DEFAULT_SILOS

    return DEFAULT_SILOS
