"""Which aggregator sums the integers of silos, by `[security]` of a run, and with what packages."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from ...accountant.errors import InvalidInput, MissingExtra
from .sums import Aggregator, NoAggregator, PlainAggregator

if TYPE_CHECKING:
    from ..settings.schema import SecuritySettings

MASKS: Final = ("cryptography", "nacl", "msgpack")
"""What sums under masks need, by the names that are imported."""

WEIGHTING: Final = (*MASKS, "phe", "gmpy2")
"""What private weighting needs."""

_CALLED: Final = {"nacl": "pynacl"}


def aggregator(
    security: SecuritySettings,
    silos: int,
    *,
    whole_ring: bool = False,
    fewest: int | None = None,
) -> Aggregator:
    """Return what adds up the updates of so many silos.

    With `whole_ring` every integer of 64 bits is summed, modulo 2^64: for what may wrap around.
    `fewest` is the smallest group that sums as shares; None: all silos, in every round.

    Raises `InvalidInput` where more silos may be missing, or collude, than leave two to hide among,
    and for settings that the aggregation cannot bear.
    """
    if security.aggregation == "shuffle":
        return NoAggregator()
    if security.aggregation not in ("masked", "shares"):
        return PlainAggregator()
    if security.aggregation == "shares":
        from ..secagg.peers import require_peers

        require_peers(
            silos, colluders=security.colluders, dropouts=security.dropouts, fewest=fewest
        )
        require_packages(MASKS)
        from .share_sums import ShareAggregator

        return ShareAggregator(
            silos,
            colluders=security.colluders,
            keep=security.keep_transcripts,
            whole_ring=whole_ring,
            fewest=fewest,
        )
    if silos - security.dropouts < 2:
        raise InvalidInput(
            f"Masks need two silos that stay; of {silos}, {security.dropouts} may be missing.",
            "A sum of one silo's update is that update.",
            'Lower `dropouts` in [security], or write aggregation = "plain".',
        )
    if silos - security.dropouts - security.colluders < 2:
        raise InvalidInput(
            f"Masks need two silos that stay and tell nothing; of {silos}, "
            f"{security.dropouts} may be missing and {security.colluders} may collude with "
            "the server.",
            "Who knows all updates but one learns that one from the sum.",
            'Lower `colluders` or `dropouts` in [security], or write aggregation = "plain".',
        )
    require_packages(MASKS)
    from .masked_sums import MaskedAggregator

    return MaskedAggregator(
        silos,
        dropouts=security.dropouts,
        colluders=security.colluders,
        keep=security.keep_transcripts,
    )


def require_packages(names: tuple[str, ...]) -> None:
    """Raise `MissingExtra`, which names all of these packages that are not installed."""
    missing = [_CALLED.get(name, name) for name in names if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"The protocol needs {', '.join(missing)}, not installed.",
            "Its keys, ciphertexts and messages are theirs.",
            'Install the extra: pip install "privplan[fl]".',
        )
