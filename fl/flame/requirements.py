"""What FLAME's users require of their setup, whoever builds it."""

from __future__ import annotations

from ...accountant.errors import InvalidInput
from ..frame.setup import Setup
from .settings import FlameSettings
from .terms import RELATION, SIMPLE, TOPK, Protocol


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
        raise InvalidInput(
            f"`chosen` and `decoys` must be at most {dimensions:,} together.",
            "A user sends a coordinate once.",
            "Give `chosen`, 1 or above, and fewer of both.",
        )
    return chosen
