"""What FLAME's users require of their setup, whoever builds it."""

from __future__ import annotations

from ...accountant.errors import InvalidInput
from ..frame.setup import Setup
from .settings import FlameSettings
from .terms import SIMPLE, TOPK, FlameTerms, Protocol


def coordinates_sent(protocol: Protocol, table: FlameSettings, dimensions: int) -> int:
    """Return k, how many coordinates of its update a user sends, of `dimensions` d.

    With m decoys k + m <= d.  In the paper's terms a user sends l = (k + m) / k coordinates for
    each of its largest, and nu = d / (k l), which must be between 1 and d / k: 0 <= m <= d - k.
    Raises `InvalidInput`, also for decoys of a protocol that has none.

    Source: Liu et al. 2021, arXiv 2009.08063v4, Proposition 2 (nu-index privacy).
    """
    chosen = dimensions if protocol == SIMPLE else table.chosen
    if table.decoys < 0 or (table.decoys and protocol != TOPK):
        raise InvalidInput(
            f"`decoys` is {table.decoys:,}.",
            "They are further coordinates that a user sends so that nobody sees which are its "
            "largest: of flame-topk alone, and 0 or more.",
            "Leave `decoys` out.",
        )
    if not table.decoys and not 1 <= (chosen or 0) <= dimensions:
        raise InvalidInput(
            f"`chosen` is {'missing' if chosen is None else f'{chosen:,}'}; the model has "
            f"{dimensions:,} coordinates.",
            "A user sends a coordinate once.",
            f"Give `chosen`, from 1 to {dimensions:,}, under [flame].",
        )
    if chosen is None or not 1 <= chosen <= dimensions - table.decoys:
        raise InvalidInput(
            f"`chosen` and `decoys` must be at most {dimensions:,} together.",
            "A user sends a coordinate once.",
            "Give `chosen`, 1 or above, and fewer of both.",
        )
    return chosen


def require_no_target_without_proof(setup: Setup, terms: FlameTerms) -> None:
    """Raise `InvalidInput` for an epsilon to reach where nothing is proven before the analyzer.

    Which coordinates are largest depends on data, so that whole tuples, or less room than there are
    users, show it (`FlameTerms.unsound`).
    """
    privacy = setup.privacy
    if terms.unsound is None:
        return
    if privacy.noise_multiplier is not None and privacy.epsilon is None:
        return
    without = "noise_multiplier alone in place of epsilon runs it without a guarantee."
    if terms.table.granularity == "tuple":
        raise InvalidInput(
            f'granularity = "tuple" keeps together what a user of {setup.name} sends.',
            "Which coordinates those are depends on its data, so no noise reaches an epsilon: "
            "nothing is proven.",
            f'Write granularity = "coordinate", or leave it out; {without}',
        )
    raise InvalidInput(
        f"padded_to = {terms.padded_to:,} is below users = {terms.users:,}.",
        "Which coordinates are largest depends on the data, so more users may send one than there "
        "is room for, and nothing is proven: no noise reaches an epsilon.",
        f"Write padded_to = {terms.users}, or leave it out; {without}",
    )


def require_free_places(terms: FlameTerms) -> None:
    """Raise `InvalidInput` where those who tell what they sent may fill a whole coordinate.

    A client that takes part knows its own messages besides, so c + 1 of n_p places are known.
    """
    colluders, padded_to = terms.colluders, terms.padded_to
    if terms.mixed is None or padded_to is None or colluders + 1 < padded_to:
        return
    raise InvalidInput(
        f"`padded_to` in [flame] is {padded_to:,}, and `colluders` in [security] is "
        f"{colluders:,}: no place of a coordinate is left to hide in.",
        "Each who colludes may fill one place, and a client that takes part knows its own.",
        f"Give `padded_to` = {colluders + 2:,} or more, or lower `colluders`.",
    )
