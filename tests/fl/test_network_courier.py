"""The courier over Flower's messages, with a grid in memory; in the environment of Flower."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from privplan.fl.crypto.keys import Identity
from privplan.fl.network.plan import NetworkPlan, SiloKey
from privplan.fl.network.wire import Reply, digest_of, signed

from .extras import needs

pytestmark = needs("flwr", "cryptography", "msgpack")

SILOS = [Identity.new() for _ in range(2)]


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the task of a run: Flower's messages say of which."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


def plan() -> NetworkPlan:
    keys = tuple(SiloKey(f"silo {n}", each.public) for n, each in enumerate(SILOS))
    return NetworkPlan("", "", "", {}, Identity.new().public, keys)


class Grid:
    """Nodes that answer a message at once, by a function of their own; or never."""

    def __init__(self, nodes: dict[int, Callable[[bytes], bytes | None]]) -> None:
        self.nodes, self.kept, self.pushed = nodes, {}, []  # type: ignore[var-annotated]

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Any]) -> list[str]:
        from privplan.fl.network.flower import unpacked

        names = []
        for message in messages:
            name = f"message-{len(self.pushed)}"
            node = message.metadata.dst_node_id
            self.pushed.append(node)
            self.kept[name] = self.nodes[node](unpacked(message.content)), node
            names.append(name)
        return names

    def pull_messages(self, names: Iterable[str]) -> list[Any]:
        return [Answer(name, self.kept[name][0]) for name in names if self.kept[name][0]]


class Answer:
    """What Flower hands back for a message."""

    def __init__(self, name: str, raw: bytes) -> None:
        from privplan.fl.network.flower import packed

        self.content = packed(raw)
        self.metadata = type("Metadata", (), {"reply_to_message_id": name})()

    def has_error(self) -> bool:
        return False


def silo(number: int) -> Callable[[bytes], bytes]:
    def answer(raw: bytes) -> bytes:
        return signed(SILOS[number], Reply(digest_of(raw)))

    return answer


def test_a_silo_is_known_by_its_signature_and_not_by_its_node() -> None:
    from privplan.fl.network.flower import FlowerCourier

    grid = Grid({71: silo(1), 5: silo(0), 9: lambda _: b"of nobody"})
    courier = FlowerCourier(grid, plan())  # type: ignore[arg-type]
    came = courier.carry({0: b"hello", 1: b"hello"}, 5)
    assert came == {0: silo(0)(b"hello"), 1: silo(1)(b"hello")}
    assert sorted(grid.pushed) == [5, 9, 71]
    came = courier.carry({1: b"for silo 1"}, 5)
    assert came == {1: silo(1)(b"for silo 1")}
    assert grid.pushed[3:] == [71]


def test_who_does_not_answer_is_missing_when_the_limit_is_over() -> None:
    from privplan.fl.network.flower import FlowerCourier

    grid = Grid({1: silo(0), 2: lambda _: None})
    started = time.monotonic()
    came = FlowerCourier(grid, plan()).carry({0: b"hello", 1: b"hello"}, 1)  # type: ignore[arg-type]
    assert set(came) == {0}
    assert 1.0 <= time.monotonic() - started < 3.0


def test_a_message_of_somebody_else_is_refused() -> None:
    from flwr.app import ConfigRecord, RecordDict

    from privplan.accountant.errors import ProtocolFault
    from privplan.fl.network.flower import packed, unpacked

    assert unpacked(packed(b"bytes")) == b"bytes"
    with pytest.raises(ProtocolFault):
        unpacked(RecordDict({"privplan": ConfigRecord({"b": b"bytes"})}))
