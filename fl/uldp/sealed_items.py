"""What rounds of ULDP-AVG and ULDP-SGD seal, for declarations of what is made of them.

A declaration is light, so their terms are loaded when a configuration is asked about.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..declarations.declaration import Read


def of_weighted(read: Read) -> Mapping[str, tuple[str, ...]]:
    """Return what ULDP-AVG and ULDP-SGD seal under a configuration, by phase."""
    from .expected_log import WEIGHTED

    assert WEIGHTED.sealed is not None
    return WEIGHTED.sealed(read)
