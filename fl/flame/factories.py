"""FLAME's systems from settings: in a form that holds, or as published."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..frame.setup import Setup, setup
from .published import PublishedFlame
from .settings import DOUBLE, SIMPLE, TOPK, FlameSettings, Protocol
from .system import Flame

if TYPE_CHECKING:
    from ...accountant.randomness import Streams
    from ..data.federation import Federation
    from ..settings.schema import Settings
    from ..training.local_training import LocalTraining


def simple(settings: Settings, federation: Federation, local: LocalTraining, _: Streams) -> Flame:
    """Return the system `flame-simple`."""
    return _flame(setup(settings, federation, local), settings.of(FlameSettings), SIMPLE)


def double(settings: Settings, federation: Federation, local: LocalTraining, _: Streams) -> Flame:
    """Return the system `flame-double`."""
    return _flame(setup(settings, federation, local), settings.of(FlameSettings), DOUBLE)


def topk(settings: Settings, federation: Federation, local: LocalTraining, _: Streams) -> Flame:
    """Return the system `flame-topk`."""
    return _flame(setup(settings, federation, local), settings.of(FlameSettings), TOPK)


def _flame(setup: Setup, table: FlameSettings, protocol: Protocol) -> Flame:
    """Return the system, in a form that holds or as published."""
    return (PublishedFlame if table.as_published else Flame)(setup, table, protocol)
