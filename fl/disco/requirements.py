"""What DISCO's peers require of their setup, with noise that holds and as published."""

from __future__ import annotations

from ...accountant.errors import InvalidInput
from ..frame.requirements import require_all_users, require_public_normalisation
from ..frame.setup import Setup
from .settings import FIXED, DiscoSettings


def require_all_peers(setup: Setup, table: DiscoSettings) -> None:
    """Raise `InvalidInput` for another relation than replace-one, too few peers, or a sample.

    Likewise for features that are normalised by private moments.
    """
    require_all_users(setup)
    require_public_normalisation(setup)
    if setup.privacy.neighbours != "replace-one":
        raise InvalidInput(
            f"{setup.name} is accounted under replace-one, not under {setup.privacy.neighbours}.",
            "Who takes part is public: what is exchanged is what a peer holds.",
            'Give neighbours = "replace-one".',
        )
    if setup.silos < table.min_participants:
        raise InvalidInput(
            f"There are {setup.silos} peers, and a round needs {table.min_participants}.",
            "In a small group the sum says much about each.",
            "Have more silos, or lower `min_participants` to 3 at least.",
        )


def require_unit(setup: Setup, table: DiscoSettings) -> None:
    """Raise `InvalidInput` for another unit than silo or record, and for what it does not go with.

    A record needs a public divisor, and a clip that follows no peer's update.
    """
    unit = setup.privacy.unit
    if unit not in ("silo", "record"):
        raise InvalidInput(
            f"{setup.name} hides silos or records; the unit is {unit!r}.",
            "What is clipped is all that one peer has, or one record of it.",
            'Give unit = "silo", or unit = "record".',
        )
    if unit == "record" and table.clip != FIXED:
        raise InvalidInput(
            f"Records as the unit need a fixed clip; clip is {table.clip!r}.",
            "Such a clip follows the updates of whole peers.",
            'Give clip = "fixed", or unit = "silo".',
        )
    if (unit == "record") != (table.divisor is not None):
        raise InvalidInput(
            "`divisor` goes with records as the unit.",
            "A sum over records is divided by a public number, one over peers by theirs.",
            "Give both or neither.",
        )
