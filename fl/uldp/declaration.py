"""The declarations of Uldp-FL's systems."""

from __future__ import annotations

from typing import Final

from ..frame.declaration import Declaration

SYSTEMS: Final = (
    Declaration(name="uldp-naive", make=f"{__package__}.naive:naive"),
    Declaration(name="uldp-group", make=f"{__package__}.group:group"),
    Declaration(name="uldp-avg", make=f"{__package__}.weighted:average"),
    Declaration(name="uldp-sgd", make=f"{__package__}.weighted:gradient"),
)
