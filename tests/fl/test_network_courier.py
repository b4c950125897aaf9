"""The courier: who is which silo, who is asked again, and limits that hold whatever hangs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import pytest

from privplan.fl.crypto.keys import Identity
from privplan.fl.network import courier
from privplan.fl.network.courier import Courier, NotCarried
from privplan.fl.network.plan import NetworkPlan, SiloKey
from privplan.fl.network.wire import Reply, digest_of, signed

from .extras import needs

pytestmark = needs("cryptography", "msgpack")

SILOS = [Identity.new() for _ in range(2)]
Node = Callable[[bytes], bytes | None]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(courier, "_PAUSE_SECONDS", 0.05)


def plan() -> NetworkPlan:
    keys = tuple(SiloKey(f"silo {n}", each.public) for n, each in enumerate(SILOS))
    return NetworkPlan("", "", "", {}, Identity.new().public, keys)


class Network:
    """Nodes that answer a message at once, by a function of their own; or never."""

    def __init__(self, nodes: dict[int, Node]) -> None:
        self.nodes, self.pushed = nodes, list[tuple[int, bytes]]()
        self.kept: dict[str, bytes | None] = {}
        self.woken: list[int] = []

    def there(self) -> set[int]:
        return set(self.nodes)

    def push(self, requests: Mapping[int, bytes], life: float) -> Mapping[str, int]:
        assert life > 0
        names = {}
        for node, request in requests.items():
            name = f"message-{len(self.pushed)}"
            self.pushed.append((node, request))
            answer = self.nodes[node](request)
            if answer != b"never":
                self.kept[name] = answer
            names[name] = node
        return names

    def wake(self, nodes: Collection[int], life: float) -> Mapping[str, int]:
        assert life > 0
        named = {f"woken-{len(self.woken) + n}": node for n, node in enumerate(sorted(nodes))}
        self.woken += sorted(nodes)
        self.kept |= dict.fromkeys(named, b"nothing")
        return named

    def pull(self, names: Sequence[str]) -> Sequence[tuple[str, bytes | None]]:
        return [(name, self.kept[name]) for name in names if name in self.kept]


def silo(number: int) -> Node:
    return lambda raw: signed(SILOS[number], Reply(digest_of(raw)))


def never(_: bytes) -> bytes:
    return b"never"


def failing(times: int, then: Node) -> Node:
    left = iter(range(times))
    return lambda raw: None if next(left, None) is not None else then(raw)


HELLO = {0: b"hello", 1: b"hello"}


def test_a_silo_is_known_by_its_signature_and_not_by_its_node() -> None:
    network = Network({71: silo(1), 5: silo(0), 9: lambda _: b"of nobody"})
    carrier = Courier(network, plan())
    came = carrier.carry(HELLO, 5)
    assert came == {0: silo(0)(b"hello"), 1: silo(1)(b"hello")}
    assert {node for node, _ in network.pushed} == {5, 9, 71}
    network.pushed.clear()
    assert carrier.carry({1: b"for silo 1"}, 5) == {1: silo(1)(b"for silo 1")}
    assert network.pushed == [(71, b"for silo 1")]


def test_who_does_not_answer_is_missing_when_the_limit_is_over() -> None:
    network = Network({1: silo(0), 2: never})
    started = time.monotonic()
    assert set(Courier(network, plan()).carry(HELLO, 1)) == {0}
    assert 1.0 <= time.monotonic() - started < 1.5
    assert len(network.pushed) == 2  # nobody is asked again who may still answer


def test_a_node_that_failed_is_asked_again_and_so_is_one_that_was_away() -> None:
    network = Network({1: silo(0), 2: failing(2, silo(1))})
    assert set(Courier(network, plan()).carry(HELLO, 5)) == {0, 1}
    away = Network({1: silo(0), 2: never})
    carrier = Courier(away, plan())
    steps: list[Callable[[], object]] = [
        lambda: away.nodes.pop(2),
        lambda: away.nodes.update({2: silo(1)}),
    ]
    timers = [threading.Timer(0.3 + 0.3 * n, step) for n, step in enumerate(steps)]
    for timer in timers:
        timer.start()
    assert set(carrier.carry(HELLO, 5)) == {0, 1}
    assert [node for node, _ in away.pushed] in ([1, 2, 2], [2, 1, 2])


def test_a_silo_that_comes_back_as_another_node_is_found() -> None:
    network = Network({1: silo(0), 2: silo(1)})
    carrier = Courier(network, plan())
    carrier.carry(HELLO, 5)
    network.pushed.clear()
    network.nodes |= {2: never, 77: silo(1)}  # that the other is gone is not known yet
    requests = {0: b"for silo 0", 1: b"for silo 1"}
    assert set(carrier.carry(requests, 5)) == {0, 1}
    assert (77, b"for silo 1") in network.pushed
    assert (77, b"for silo 0") not in network.pushed
    network.pushed.clear()
    network.nodes = {88: silo(0), 99: silo(1)}  # which of them is whose is not known: none is asked
    assert carrier.carry(requests, 0.3) == {}
    assert network.pushed == []


def test_what_was_kept_back_or_is_of_another_silo_is_as_if_it_had_not_come() -> None:
    def old(_: bytes) -> bytes:
        return silo(1)(b"an earlier request")

    network = Network({1: silo(0), 2: old, 3: silo(0), 4: lambda raw: silo(1)(raw)[:-1]})
    assert set(Courier(network, plan()).carry(HELLO, 0.5)) == {0}
    network.nodes[5] = silo(1)
    assert set(Courier(network, plan()).carry(HELLO, 5)) == {0, 1}


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize("call", ["there", "push", "pull"])
def test_a_limit_holds_where_whoever_carries_messages_hangs(
    call: str, released: threading.Event
) -> None:
    network = Network({1: silo(0), 2: silo(1)})
    setattr(network, call, lambda *_: released.wait(30))
    started = time.monotonic()
    assert Courier(network, plan()).carry(HELLO, 0.5) == {}
    assert 0.5 <= time.monotonic() - started < 1.0


def test_an_exchange_goes_on_when_whoever_carries_messages_is_back() -> None:
    network = Network({1: silo(0), 2: silo(1)})
    calls = {name: getattr(network, name) for name in ("there", "push", "pull")}
    for name, call in calls.items():
        left = iter(range(2))

        def flaky(*given: object, call=call, left=left):  # type: ignore[no-untyped-def]
            if next(left, None) is not None:
                raise NotCarried
            return call(*given)

        setattr(network, name, flaky)
    assert set(Courier(network, plan()).carry(HELLO, 5)) == {0, 1}


def test_what_else_is_raised_is_not_swallowed() -> None:
    network = Network({1: silo(0), 2: silo(1)})

    def interrupted() -> set[int]:
        raise KeyboardInterrupt

    network.there = interrupted  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        Courier(network, plan()).carry(HELLO, 5)


class Sleepers(Network):
    """Nodes that fetch one message after the other, and look for its answer only after a while."""

    SECONDS = 0.1

    def __init__(self, nodes: dict[int, Node]) -> None:
        super().__init__(nodes)
        self.since: dict[str, float] = {}
        self.fetched: set[str] = set()

    def push(self, requests: Mapping[int, bytes], life: float) -> Mapping[str, int]:
        names = super().push(requests, life)
        self.since |= dict.fromkeys(names, time.monotonic() + self.SECONDS)
        return names

    def wake(self, nodes: Collection[int], life: float) -> Mapping[str, int]:
        names = super().wake(nodes, life)
        self.since |= dict.fromkeys(names, time.monotonic() + 2 * self.SECONDS)
        return names

    def pull(self, names: Sequence[str]) -> Sequence[tuple[str, bytes | None]]:
        there = [name for name in names if self.since[name] <= time.monotonic()]
        self.fetched.update(there)
        return super().pull(there)


def test_a_node_that_sleeps_has_something_to_fetch_until_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(courier, "_QUICK_SECONDS", 0.0)
    monkeypatch.setattr(courier, "_WAKE_SECONDS", 0.1)
    network = Sleepers({1: silo(0), 2: silo(1)})
    carrier = Courier(network, plan())
    assert set(carrier.carry(HELLO, 5)) == {0, 1}
    assert network.woken == [1, 2]  # one behind each request, and no more where all is done at once
    fetched = network.fetched
    network.nodes[2] = never
    assert set(carrier.carry({0: b"for silo 0", 1: b"for silo 1"}, 2.0)) == {0}
    assert {"woken-0", "woken-1"} <= fetched  # of the exchange before, which nobody is to keep
    assert 4 <= network.woken.count(1) - 1 <= 20  # it waits for the other, and does not sleep
    network.woken.clear()
    monkeypatch.setattr(courier, "_AWAKE_SECONDS", 0.5)
    carrier.carry({0: b"again for silo 0", 1: b"again for silo 1"}, 2.0)
    assert 1 <= network.woken.count(1) <= 5  # but in a long exchange


def test_a_node_that_does_not_sleep_is_left_alone() -> None:
    network = Network({1: silo(0), 2: silo(1)})
    carrier = Courier(network, plan())
    carrier.carry(HELLO, 5)
    network.woken.clear()
    carrier.carry({0: b"for silo 0", 1: b"for silo 1"}, 5)
    assert network.woken == []
