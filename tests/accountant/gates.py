"""A gate with a recorder, an odometer and streams that note what happens."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant import records
from privplan.accountant.mechanisms import Gate, Gaussian, RoundDescription
from privplan.accountant.odometer import Odometer
from privplan.accountant.randomness import Stream, Streams

MECHANISM = Gaussian(bound=1.0, std=4.0)
TOTAL = np.zeros(5, dtype=np.int64)


class FullDisk(OSError):
    """What a recorder raises when it can write no more."""


class FakeRecorder:
    """Keeps records in memory, notes their order, and fails where it is told to."""

    def __init__(self, order: list[str], failing: str = "", error: BaseException | None = None):
        self.order = order
        self.failing = failing
        self.error = error or FullDisk("no space left")
        self.lines: list[records.Record] = []
        self.sealed: list[Mapping[str, object]] = []

    def append(self, record: records.Record) -> int:
        self.order.append(record.type)
        if record.type == self.failing:
            raise self.error
        self.lines.append(record)
        return len(self.lines) - 1

    def seal(self, items: Mapping[str, object]) -> dict[str, str]:
        self.order.append("seal")
        if self.failing == "seal":
            raise self.error
        self.sealed.append(items)
        return dict.fromkeys(items, "c0")

    @property
    def types(self) -> list[str]:
        return [line.type for line in self.lines]


class FakeOdometer(Odometer):
    """A real odometer that notes when it is asked."""

    order: list[str]

    def spend(self, event: ev.Event, **given: object) -> None:
        self.order.append("spend")
        super().spend(event, **given)  # type: ignore[arg-type]


class NotingStreams(Streams):
    """Streams that note when one is asked for."""

    order: list[str]

    def stream(self, name: str) -> Stream:
        self.order.append("stream")
        return super().stream(name)


class Scene:
    """A gate with everything around it, and the order in which things happened."""

    def __init__(self, failing: str = "", error: BaseException | None = None, **given: object):
        self.order: list[str] = []
        self.odometer = FakeOdometer(10.0, 1e-5, unit="user", **given)  # type: ignore[arg-type]
        self.odometer.order = self.order
        self.recorder = FakeRecorder(self.order, failing, error)
        seeded = Streams.seeded(1)
        self.streams = NotingStreams.__new__(NotingStreams)
        for slot in Streams.__slots__:
            setattr(self.streams, slot, getattr(seeded, slot))
        self.streams.order = self.order
        self.gate = Gate(self.odometer, self.recorder, self.streams)

    @property
    def share(self) -> float:
        return self.odometer.reading().share

    @property
    def cost(self) -> float:
        fresh = Odometer(10.0, 1e-5, unit="user")
        fresh.spend(ev.Gaussian(4.0))
        return fresh.reading().share


def about(number: int = 1, **given: object) -> RoundDescription:
    return RoundDescription(number, "train", **given)  # type: ignore[arg-type]


def intent(mechanism: Gaussian = MECHANISM, **given: object) -> records.RoundIntent:
    return mechanism.intent(about(**given), "add-remove")


def _positions(scene: Scene) -> list[int]:
    return [one.position for one in scene.streams._streams.values()]
