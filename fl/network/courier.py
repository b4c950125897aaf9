"""Which node is which silo, when a silo is asked again, and when the server waits no longer.

Nodes come and go: one that was away is asked again when it is back, and a silo may be back as
another node.  The same request again is answered by the same bytes (`guard`), so nothing is spent
by asking twice.  Whoever carries messages may hang, fail or lose them: a limit is a limit all the
same.

A node that finds nothing to fetch sleeps for seconds, Flower's for three, which is most of a short
exchange.  So behind each request lies a message of nothing, which it fetches next: by the time that
one is answered, the next request is usually there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from ...accountant.errors import ProtocolFault
from .pending_task import Backoff
from .plan import NetworkPlan
from .wire import Reply, digest_of, opened

T = TypeVar("T")

_LOOK_SECONDS: Final = 0.5
"""How often the server looks which nodes are there."""

_PAUSE_SECONDS: Final = 1.0
"""How long a node that failed is left alone before it is asked again."""


_WAKE_SECONDS: Final = 0.1
"""How long after an answer a node that is asked for nothing new is given a message of nothing."""

_AWAKE_SECONDS: Final = 10.0
"""How long nodes are kept awake in one exchange: of a longer one their sleep is a small part."""

_QUICK_SECONDS: Final = 0.45
"""A node that answers within so many does not sleep: Flower's looks for answers each half second.
"""


class NotCarried(Exception):
    """Whoever carries messages failed, for now."""


@contextlib.contextmanager
def failing_as_not_carried() -> Iterator[None]:
    """Have whatever is raised say that nothing was carried: the limit of a phase decides."""
    try:
        yield
    except Exception as error:
        raise NotCarried from error


class Nodes(Protocol):
    """The nodes that a network shows; each call may hang, or raise `NotCarried`."""

    def there(self) -> set[int]:
        """Return the nodes that are connected."""

    def push(self, requests: Mapping[int, bytes], life: float) -> Mapping[str, int]:
        """Send requests to nodes, for so many seconds; return the nodes by names of messages."""

    def wake(self, nodes: Collection[int], life: float) -> Mapping[str, int]:
        """Send nodes a message of nothing, which is answered by nothing; return as `push` does."""

    def pull(self, names: Sequence[str]) -> Sequence[tuple[str, bytes | None]]:
        """Return the replies that came, by names of messages; None where a node failed."""


class Courier:
    """Carries requests to silos by nodes, and their replies back (`hub.Courier`).

    Which node is which silo, a silo says by signing its replies; names of nodes decide nothing.
    """

    def __init__(self, nodes: Nodes, plan: NetworkPlan) -> None:
        self._network, self._keys = nodes, [silo.key for silo in plan.silos]
        self._node_of: dict[int, int] = {}  # by silo
        self._strangers: set[int] = set()  # who was asked, and was no silo
        self._quick: set[int] = set()  # who was seen not to sleep
        self._left_behind: set[str] = set()  # messages of nothing of exchanges that are over

    def carry(self, requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        """Return the replies that came within so many seconds."""
        exchange = _Exchange(dict(requests), time.monotonic() + seconds)
        while exchange.left and time.monotonic() < exchange.end:
            with contextlib.suppress(NotCarried):
                self._ask(exchange)
                self._hear(exchange)
                self._keep_awake(exchange)
            time.sleep(exchange.backoff.seconds())
        self._strangers |= exchange.tried - set(self._node_of.values())
        self._left_behind = set(exchange.woken)
        return exchange.replies

    def _ask(self, exchange: _Exchange) -> None:
        """Send what is to be sent to the nodes that are there and were not asked yet."""
        now = time.monotonic()
        if now >= exchange.look:
            exchange.there = within(exchange.end, self._network.there)
            exchange.asked &= exchange.there  # who went away is asked again when it is back
            exchange.look = now + _LOOK_SECONDS
        wanted = {
            node: request
            for node in exchange.there - exchange.asked
            if now >= exchange.pause.get(node, 0.0)
            and (request := self._request_for(node, exchange)) is not None
        }
        if wanted:
            life = max(exchange.end - now, 1.0)
            exchange.waiting |= within(exchange.end, lambda: self._network.push(wanted, life))
            exchange.asked |= wanted.keys()
            exchange.tried |= wanted.keys()
            exchange.since |= dict.fromkeys(wanted, now)
            exchange.wake |= dict.fromkeys(wanted, now)

    def _request_for(self, node: int, exchange: _Exchange) -> bytes | None:
        """Return what a node is to be asked: what its silo is, and else what all that are left are.

        A node that nobody knows may be the silo that is left, which was started again; another silo
        refuses what is not its next step.
        """
        for silo, known in self._node_of.items():
            if known == node:
                return exchange.left.get(silo)
        different = set(exchange.left.values())
        known_to_none = len(different) == 1 and node not in self._strangers
        return different.pop() if known_to_none else None

    def _hear(self, exchange: _Exchange) -> None:
        """Take in the replies that came."""
        if not exchange.waiting:
            return
        names = [*exchange.waiting, *exchange.woken, *self._left_behind]
        for name, raw in within(exchange.end, lambda: self._network.pull(names)):
            now = time.monotonic()
            self._left_behind.discard(name)  # fetched, so that nobody has to keep it
            woken = exchange.woken.pop(name, None)
            if woken is not None:
                exchange.wake[woken] = now + _WAKE_SECONDS
                continue
            exchange.backoff.restart()
            node = exchange.waiting.pop(name, None)
            if node is None:
                continue
            exchange.wake[node] = now + _WAKE_SECONDS
            if now - exchange.since.get(node, 0.0) < _QUICK_SECONDS:
                self._quick.add(node)
            silo = None if raw is None else self._silo_of(raw, exchange)
            if raw is None or silo is None:
                exchange.asked.discard(node)
                exchange.pause[node] = time.monotonic() + _PAUSE_SECONDS
            else:
                self._node_of[silo] = node
                exchange.replies[silo] = raw
                del exchange.left[silo]

    def _keep_awake(self, exchange: _Exchange) -> None:
        """Give nodes something to fetch, in place of sleep, while others are waited for."""
        now = time.monotonic()
        due = {node for node, when in exchange.wake.items() if when <= now}
        for node in due:
            del exchange.wake[node]
        sleepers = due & exchange.there - self._quick
        if sleepers and exchange.left and now < exchange.begun + _AWAKE_SECONDS:
            life = min(max(exchange.end - now, 1.0), 3 * _AWAKE_SECONDS)
            wake = within(exchange.end, lambda: self._network.wake(sleepers, life))
            exchange.woken |= wake

    def _silo_of(self, raw: bytes, exchange: _Exchange) -> int | None:
        """Return whose reply it is, among those who are asked; None where it is to nothing of this.

        What was kept back, doubled or made up by whoever carries it is as if it had not come.
        """
        for silo, request in exchange.left.items():
            with contextlib.suppress(ProtocolFault):
                if opened(self._keys[silo], Reply, raw).request == digest_of(request):
                    return silo
        return None


@dataclass
class _Exchange:
    """One exchange: what is `left` to be answered, who was asked, and what came.

    `asked` are nodes that may still answer, `tried` all that were asked; `pause` is until when a
    node is left alone, `since` when each was asked, `wake` when it is to be kept awake, and `woken`
    are the messages of nothing that are under way.
    """

    left: dict[int, bytes]
    end: float
    look: float = 0.0
    there: set[int] = field(default_factory=set)
    asked: set[int] = field(default_factory=set)
    tried: set[int] = field(default_factory=set)
    pause: dict[int, float] = field(default_factory=dict)
    waiting: dict[str, int] = field(default_factory=dict)
    replies: dict[int, bytes] = field(default_factory=dict)
    since: dict[int, float] = field(default_factory=dict)
    wake: dict[int, float] = field(default_factory=dict)
    woken: dict[str, int] = field(default_factory=dict)
    begun: float = field(default_factory=time.monotonic)
    backoff: Backoff = field(default_factory=Backoff)


def within(end: float, call: Callable[[], T]) -> T:
    """Return what a call returns, or raises; `NotCarried` where it does not end by then.

    A call that hangs is left behind in a thread that keeps no process alive.
    """
    came: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            came.append(call())
        except BaseException as error:  # raised again where it was called
            failed.append(error)

    thread = threading.Thread(target=work, name="carrying", daemon=True)
    thread.start()
    thread.join(max(end - time.monotonic(), 0.0))
    if failed:
        raise failed[0]
    if not came:
        raise NotCarried
    return came[0]
