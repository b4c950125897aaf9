"""What FLAME's users require of their setup, whoever builds it."""

from __future__ import annotations

from ...accountant.errors import InvalidInput
from ..frame.setup import Setup
from .settings import FlameSettings
from .terms import RELATION, SIMPLE, TOPK, FlameTerms, Protocol


def require_users_who_send(setup: Setup) -> None:
    """Raise `InvalidInput` unless users send for themselves, and none is added or removed."""
    if setup.privacy.neighbours != RELATION:
        raise InvalidInput(
            f"{setup.name} is accounted under {RELATION}, not under {setup.privacy.neighbours}.",
            "How many messages travel is seen, and so is how many users send them.",
            f'Give neighbours = "{RELATION}".',
        )
    if setup.silos != 1:
        raise InvalidInput(
            f"There are {setup.silos} silos, and FLAME's users send for themselves.",
            "A silo that sends for its users knows all of their messages.",
            "Give silos = 1.",
        )


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
    if chosen is None or not 1 <= chosen <= dimensions - table.decoys:
        topk = protocol == TOPK
        most = "`chosen` and `decoys`" if topk else "`chosen` in [flame]"
        raise InvalidInput(
            f"{most} must be at most {dimensions:,}{' together' if topk else ''}.",
            "A user sends a coordinate once.",
            f"Give `chosen`, 1 or above, and {'fewer of both' if topk else 'at most that'}.",
        )
    return chosen


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
