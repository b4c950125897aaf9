"""The system `fedpower`: one Gram release or a power iteration, chosen by public facts alone.

    d (d + 1) / 2 numbers are few enough   ->   one-shot
    too many, or the unit is an entry      ->   power, of as many rounds as are guessed to be best

One release with all of the budget beat every plan of several rounds that was tried; what speaks
against it is that every number of it has noise drawn in every silo.  A power iteration shares the
budget, so more rounds are not better: the number is chosen by its predicted error
(`predicted_error`), where the noise is found for a target.  Where the noise is given, a round more
costs no noise, and the configured number is made.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ...accountant import events as ev
from ...accountant.calibrate import calibrate
from ...accountant.neighbours import as_neighbours
from ...accountant.sensitivity.gram import MAX_DIMENSION
from ...accountant.sensitivity.product import sensitivity
from ...accountant.sensitivity.release import sensitivity_multiplier
from ..frame.opening import Design
from ..frame.setup import Setup, setup
from . import rows as data_rows
from .one_shot import OneShot
from .power import PowerIteration
from .predicted_error import PublicFacts, chosen_rounds
from .run_terms import RunTerms
from .settings import FedPowerSettings

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining

ONE_SHOT: Final = "one-shot"
POWER: Final = "power"


def chosen_design(table: FedPowerSettings, *, unit: str, dimension: int) -> Design:
    """Return the design of a run whose data have `dimension` columns, and why.

    >>> table = FedPowerSettings(rank=5, row_norm=1.0)
    >>> chosen_design(table, unit="record", dimension=64).name
    'one-shot'
    >>> chosen_design(table, unit="record", dimension=7000).name
    'power'
    """
    values = dimension * (dimension + 1) // 2
    if table.design != "auto":
        return Design(table.design, (f'design = "{table.design}" in [fedpower]',))
    if unit == "entry":
        return Design(POWER, ("a Gram release has no bound for entries",))
    if values > table.most_values:
        reason = f"a Gram matrix has {values:,} numbers, more than {table.most_values:,}"
        return Design(POWER, (reason,))
    if dimension > MAX_DIMENSION:
        return Design(POWER, (f"a Gram matrix has at most {MAX_DIMENSION:,} columns",))
    reason = f"a Gram matrix has {values:,} numbers, not more than {table.most_values:,}"
    return Design(ONE_SHOT, (reason,))


def planned_rounds(setup: Setup, terms: RunTerms) -> int:
    """Return how many rounds of a power iteration are planned, at most `setup.rounds`.

    Rows are counted by `most_rows` or the cap of silos where these are given, and by users
    otherwise; all are public.  A claim before an observer who sees no noise is refused later.
    """
    privacy = setup.privacy
    if privacy.noise_multiplier is not None or privacy.epsilon is None:
        return setup.rounds
    seen = terms.views(1.0).get(privacy.observer)
    if not isinstance(seen, ev.Gaussian):
        return setup.rounds
    neighbours = as_neighbours(privacy.neighbours)
    calibrated = calibrate(
        ev.Gaussian, epsilon=privacy.epsilon, delta=privacy.delta, neighbours=neighbours
    )
    # T rounds with multipliers sqrt(T) m are together one with m, exactly.
    multiplier = calibrated.value / seen.noise_multiplier
    moved = sensitivity(terms.product, neighbours).l2 / sensitivity_multiplier(neighbours)
    table = terms.settings
    unit_square = table.row_norm**2 / table.divisor
    facts = PublicFacts(
        dimension=terms.dimension,
        rank=table.rank,
        columns=table.columns,
        rows=_rows(setup, terms),
        signal=table.signal,
        single_round_std=float(multiplier * moved / unit_square),
    )
    return chosen_rounds(facts, setup.rounds)


def _rows(setup: Setup, terms: RunTerms) -> int:
    if terms.settings.most_rows is None and terms.unit != "silo":
        return setup.users
    return terms.most_rows


def planner(
    settings: Settings, federation: Federation, local: LocalTraining, _: Streams
) -> OneShot | PowerIteration:
    """Return the system `fedpower`, with the design that suits."""
    parts = setup(settings, federation, local, whole_ring=True)
    table = settings.of(FedPowerSettings)
    dimension = data_rows.dimension(federation)
    design = chosen_design(table, unit=parts.privacy.unit, dimension=dimension)
    system: OneShot | PowerIteration
    if design.name == ONE_SHOT:
        system = OneShot(replace(parts, rounds=1), table)
    else:
        rounds = planned_rounds(parts, RunTerms.of(parts, table, dimension))
        if rounds < parts.rounds:
            guess = f"{rounds:,} of at most {parts.rounds:,} rounds, by a guess that uses no data"
            design = replace(design, reasons=(*design.reasons, guess))
        system = PowerIteration(replace(parts, rounds=rounds), table, settings.data.seed)
    system.design = design
    return system
