"""What a configuration of FedPower fixes of a run's log: by its terms (`run_terms`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from ..datasets.ratings import RATINGS
from ..declarations.sealed_items import RELEASE
from ..frame.expected_log import ExpectedLog, NotStated
from ..frame.terms import by_terms, typed
from ..statistics.run_terms import RunTerms as GramTerms
from ..tables.record_shape import shape_read
from .iterate import first_basis
from .planner import ONE_SHOT as ONE_SHOT_DESIGN
from .planner import chosen_design
from .published_noise import (
    ORIGINAL,
    PRIVATE,
    UTILITY,
    Algorithm,
    PublishedTerms,
    with_removal,
)
from .run_terms import RunTerms, gram_terms
from .settings import TABLE, FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.arrays import FloatArray
    from ...accountant.records import RoundIntent
    from ..declarations.stated_settings import StatedSettings


def _dimension(given: StatedSettings, intent: RoundIntent | None) -> int:
    """Return how many columns the data have: as is known, or as the log says where it is not."""
    shape = shape_read(given.read)
    if shape is not None:
        return shape[0]
    contribution = None if intent is None else intent.contribution
    facts = None if contribution is None else contribution.gram or contribution.product
    if facts is None:
        raise NotStated("[data] name")
    return facts.dimension


def _table(given: StatedSettings) -> FedPowerSettings:
    table: FedPowerSettings = given.complete(TABLE)
    return table


def _power(
    given: StatedSettings, intent: RoundIntent | None = None, _: int | None = None
) -> RunTerms:
    return RunTerms.of(given, _table(given), _dimension(given, intent))


def _one_shot(
    given: StatedSettings, intent: RoundIntent | None = None, _: int | None = None
) -> GramTerms:
    return gram_terms(_table(given), given, _dimension(given, intent))


def _planned(
    given: StatedSettings, intent: RoundIntent | None = None, _: int | None = None
) -> RunTerms | GramTerms:
    """Return the terms of the design that is chosen, by the configuration and by the columns."""
    unit, dimension = str(given.privacy.unit), _dimension(given, intent)
    design = chosen_design(_table(given), unit=unit, dimension=dimension)
    return (_one_shot if design.name == ONE_SHOT_DESIGN else _power)(given, intent)


def _published(
    algorithm: Algorithm, given: StatedSettings, intent: RoundIntent, _: int | None
) -> PublishedTerms:
    ratings = given.data.name == RATINGS
    dimension = _dimension(given, intent)
    return PublishedTerms.of(given, _table(given), dimension, algorithm=algorithm, ratings=ratings)


def _first_iterate(given: StatedSettings) -> FloatArray:
    dimension, columns = _power(given).parts["iterate"]
    return first_basis(dimension, columns, given.data.seed).reshape(-1)


def _first_clipped(given: StatedSettings) -> FloatArray:
    largest = _table(given).entry_clip
    return np.asarray(np.clip(_first_iterate(given), -largest, largest))


def _first_planned(given: StatedSettings) -> FloatArray:
    terms = _planned(given)
    return np.zeros(terms.gram.values) if isinstance(terms, GramTerms) else _first_iterate(given)


def _sealed(_: StatedSettings) -> Mapping[str, tuple[str, ...]]:
    return {RELEASE: RunTerms.sealed}


PLANNER: Final = ExpectedLog(by_terms(_planned), first=typed(_first_planned), sealed=typed(_sealed))
"""Of the design that is chosen."""

POWER: Final = replace(PLANNER, phase=by_terms(_power), first=typed(_first_iterate))
"""Of a power iteration."""

ONE_SHOT: Final = replace(
    PLANNER,
    phase=by_terms(_one_shot),
    first=typed(lambda given: np.zeros(_one_shot(given).gram.values)),
)
"""Of one Gram release."""

ORIGINAL_LOG: Final = replace(POWER, phase=by_terms(partial(_published, ORIGINAL)))
UTILITY_LOG: Final = replace(
    POWER,
    phase=by_terms(partial(_published, UTILITY)),
    masks=typed(lambda given, masks: with_removal(masks, given.security.key_bits)),
)
PRIVATE_LOG: Final = replace(
    POWER, phase=by_terms(partial(_published, PRIVATE)), first=typed(_first_clipped)
)
"""Of Algorithms 1, 2 and 3."""
