"""Logs to attack, made without training, and tools that answer at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from privplan.accountant import events as ev
from privplan.accountant.errors import PrivplanError
from privplan.accountant.records import Record, RoundIntent, RoundRelease, RunOpen, StreamRange
from privplan.audit.attack import AttackRequest
from privplan.audit.attack.tiers import TierFunctions
from privplan.audit.measurement import Measurement
from privplan.fl.aggregation.weighted_sum import weighted_sum
from privplan.fl.frame.initial_model import initial_size
from privplan.fl.log import read
from privplan.fl.settings.toml_file import parse

from . import ledgers, measured

MEMBERSHIP = AttackRequest(tiers=("membership",))

CONFIG = """\
[run]
system = "{system}"
rounds = 20
[data]
name = "{data}"
users = 50
silos = 5
[privacy]
noise_multiplier = 5.0
"""

MEASURED = replace(measured.MEASURED, value=1.25, claimed=3.9, sample={"canaries": 1000}, curves={})


def content(data: str = "breast-cancer", system: str = "uldp-avg") -> bytes:
    """Return a configuration of 20 rounds with noise 5."""
    return CONFIG.format(data=data, system=system).encode()


def configuration(data: str = "breast-cancer") -> dict[str, Any]:
    """Return what a log says of it."""
    found = parse(content(data), "run.toml").to_json()
    return json.loads(json.dumps(found))  # type: ignore[no-any-return]


def run_in(
    folder: Path, *, data: str = "breast-cancer", change: ledgers.Change | None = None
) -> Path:
    """Write the log of such a run, as its own code would, and return its folder."""
    records: Sequence[Record] = ledgers.changed(
        ledgers.weighted(), RunOpen, system="uldp-avg", configuration=configuration(data)
    )
    noise = weighted_sum(5.0, bound=ledgers.CLIP, users=50, silos=5, rule="uniform").noise()
    records = ledgers.changed(records, RoundIntent, noise=noise)
    records = ledgers.sealing(parse(content(data), "run.toml").sealed_items()["train"])(records)
    records = [_of_model(one, data) for one in records]
    return ledgers.written(folder, records if change is None else change(list(records)))


def _of_model(record: Record, data: str) -> Record:
    """Return a release with as many values as the model has, and the bytes that they take."""
    if not isinstance(record, RoundRelease):
        return record
    model = configuration(data)["training"]["model"]
    size = initial_size(model, data) or record.values
    width, last = 16 * size * record.shares, record.round
    streams = (StreamRange("ab" * 16, width * (last - 1), width * last),)
    return replace(record, values=size, streams=streams)


def configured(**tables: Mapping[str, object]) -> ledgers.Change:
    """Return a change of the configuration in a log, key by key; None takes a key out."""

    def merged(old: Mapping[str, Any]) -> dict[str, object]:
        found = {name: dict(table) for name, table in old.items()}
        for name, table in tables.items():
            own = found.setdefault(name, {})
            for key, value in table.items():
                own.pop(key, None)
                if value is not None:
                    own[key] = value
        return dict(found)

    return ledgers.opening(configuration=merged)


class Stand:
    """TierFunctions that remember how they were called, and answer what they were given to."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    @property
    def names(self) -> list[str]:
        """What was called, in its order."""
        return [name for name, _ in self.asked]

    def call(self, name: str) -> dict[str, Any]:
        """Return how a tool was called the last time."""
        return dict(self.asked)[name]

    def tools(self) -> TierFunctions:
        """Return the tools."""
        return TierFunctions(
            rehearse=self._rehearse,
            claim=self._answering("claim", MEASURED),
            robust=self._answering("robust", replace(MEASURED, tier="robust", value=0.5)),
            residual=self._answering(
                "residual", (replace(MEASURED, tier="residual", kind="test"),)
            ),
            membership=self._answering("membership", (replace(MEASURED, tier="membership"),)),
            seal=self._seal,
        )

    def _answering(self, name: str, usual: object) -> Callable[..., Any]:
        def tool(*given: object, **more: Any) -> Any:
            self.asked.append((name, {"given": given, **more}))
            answer = self.answers.get(name, usual)
            if isinstance(answer, PrivplanError):
                raise answer
            return answer

        return tool

    def _rehearse(self, settings: Any, **more: Any) -> Any:
        self.asked.append(("rehearse", {"settings": settings, **more}))
        answer = self.answers.get("rehearse")
        if isinstance(answer, PrivplanError):
            raise answer
        usual = {
            "unit": "user",
            "neighbours": "add-remove",
            "delta": 1e-5,
            "claimed": 3.9,
            "observations": np.zeros((20, 4)),
            "event": ev.Repeat(20, ledgers.weighted(1)[1].event),  # type: ignore[attr-defined]
        }
        changes = answer if isinstance(answer, dict) else {}
        return SimpleNamespace(**{"partial": False, "share": 1.0, **usual, **changes})

    def _seal(self, folder: Path, measurements: Sequence[Measurement]) -> Path:
        self.asked.append(("seal", {"folder": folder, "measurements": tuple(measurements)}))
        place = folder / "sealed-report.json"
        place.write_text("{}")
        return place


def opened_in(folder: Path) -> RunOpen:
    """Return the first record of a log."""
    opened = next(iter(read(folder))).record
    assert isinstance(opened, RunOpen)
    return opened


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of every file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}
