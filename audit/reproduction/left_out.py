"""What a run has that common accountants are not told of."""

from __future__ import annotations

from ...accountant.errors import counted
from ..description.run_settings import RunSettings

KNOWN_SAMPLERS = ("poisson", "full", "unknown")
"""Samplers for which accountants compute what they are told."""


def left_out(settings: RunSettings) -> tuple[str, ...]:
    """Return what accountants take to be otherwise in a run, as ends of "for these settings, ...".

    >>> left_out(RunSettings(method="shuffled", microbatches=8))
    ('as if batches were Poisson samples', 'as if each record were clipped by itself')
    """
    says = []
    if settings.method not in KNOWN_SAMPLERS:
        says.append("as if batches were Poisson samples")
    if settings.microbatches > 1:
        says.append("as if each record were clipped by itself")
    if settings.accumulation > 1:
        says.append("as if each batch had its own draw of noise")
    if settings.releases:
        count = sum(release.count for release in settings.releases)
        says.append(f"without {counted(count, 'other release')}")
    if settings.restarts > 1:
        says.append(f"without the other {counted(settings.restarts - 1, 'start')}")
    return tuple(says)
