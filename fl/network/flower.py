"""Flower 1.42 carries the messages: the one file that imports it.

At a silo Flower's supernode opens outgoing connections alone, and runs nothing (`--isolation
process`).  `serve` takes the place of Flower's own executor: it fetches tasks, hands the bytes of
each message to the guard, and gives its answer back.  The bundle that comes with a task is never
installed, opened or run: what runs at a silo is what the silo installed.

At the server `FlowerCourier` pushes and pulls messages, with its own polling and its own limits.

These are internal modules of Flower, of which another version may have others: `privplan` asks for
`flwr==1.42.*`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import MissingExtra, ProtocolFault
from .pending_task import Backoff, PendingTask
from .plan import NetworkPlan
from .wire import Reply, opened

try:
    import httpx
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.app.message.message import make_message
    from flwr.common.constant import SubStatus
    from flwr.common.serde import metadata_from_proto
    from flwr.proto.node_pb2 import Node
    from flwr.proto.runtime_pb2 import (
        AcquireTaskRequest,
        PullAppMessagesRequest,
        PullAppMessagesResponse,
        PullTaskInputRequest,
        SendTaskHeartbeatRequest,
    )
    from flwr.serverapp import Grid, ServerApp
    from flwr.supercore.constant import TaskType
    from flwr.supercore.inflatable.inflatable_protobuf_utils import (
        make_confirm_message_received_fn_protobuf,
        make_pull_object_fn_protobuf,
    )
    from flwr.supercore.inflatable.inflatable_utils import (
        ObjectPullError,
        pull_and_inflate_object_from_tree,
    )
    from flwr.supercore.interceptors import (
        RuntimeTokenHttpInterceptor,
        RuntimeVersionHttpInterceptor,
        SuperExecAuthHttpInterceptor,
    )
    from flwr.supercore.retry import make_simple_http_retry_invoker
    from flwr.supercore.runtime import RuntimeHttpClient
    from flwr.supercore.runtime.tracing import RuntimeTracingInterceptor
    from flwr.supercore.superexec.run_superexec import _SUPEREXEC_AUTH_METHODS
    from flwr.supernode.runtime.run_clientapp import push_message, push_task_output
except ImportError:
    raise MissingExtra(
        "Runs over a network need Flower 1.42, which is not installed.",
        "It carries the messages between the server and the silos.",
        'Install the extra: pip install "privplan[fl,flower]"',
    ) from None

PAYLOAD: Final = "privplan"
"""The name under which our bytes stand in a message of Flower."""

_RETRY_SECONDS: Final = 0.5
_TRIES: Final = 2
_HEARTBEAT_SECONDS: Final = 10.0
_RAW: Final = "privplan.bytes"
_LONGEST_OBJECT: Final = 2**20
"""Bytes: each object of a message is a request of its own at every hop."""

Handle = Callable[[bytes], bytes]


def packed(raw: bytes) -> RecordDict:
    """Return bytes as the content of a message of Flower.

    A short one is one object, and a long one an array, which Flower carries in parts.
    """
    if len(raw) <= _LONGEST_OBJECT:
        return RecordDict({PAYLOAD: ConfigRecord({PAYLOAD: raw})})
    array = Array(dtype="uint8", shape=(len(raw),), stype=_RAW, data=raw)
    return RecordDict({PAYLOAD: ArrayRecord({PAYLOAD: array})})


def unpacked(content: RecordDict) -> bytes:
    """Return the bytes in such a content; `ProtocolFault` for any other."""
    record = content.get(PAYLOAD)
    held = record.get(PAYLOAD) if isinstance(record, (ArrayRecord, ConfigRecord)) else None
    raw = held.data if isinstance(held, Array) else held
    if not isinstance(raw, bytes):
        raise ProtocolFault(
            "A message of Flower holds nothing for a guard.",
            "Somebody else sent it.",
            "Start the application that privplan flower init has written.",
        )
    return raw


# --- at a silo ------------------------------------------------------------------------------------


def serve(
    handle: Handle,
    address: str,
    secret: bytes,
    folder: Path,
    stop: threading.Event,
) -> None:
    """Fetch tasks from a supernode at `address`, and answer each by `handle`, until `stop` is set.

    `secret` is that of `--superexec-auth-secret-file`; `folder` keeps a task until it is
    done.  What was fetched before and is not done is finished first.
    """
    executor = _Executor(handle, address, folder)
    executor.finish_pending()
    boss = _client(
        address,
        RuntimeVersionHttpInterceptor(component_name="SuperExec"),
        SuperExecAuthHttpInterceptor(
            master_secret=secret, protected_methods=_SUPEREXEC_AUTH_METHODS
        ),
    )
    wanted = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP], agentapp_fab_hashes=[])
    backoff = Backoff()
    while not stop.is_set():
        try:
            got = boss.AcquireTask(wanted)
        except httpx.HTTPError:  # the supernode is not there, or is being restarted
            stop.wait(_RETRY_SECONDS)
            continue
        if not (got.HasField("task") and got.token):
            stop.wait(backoff.seconds())
            continue
        executor.work(_kept(PendingTask(got.token), folder))
        backoff.restart()
    boss.close()


class _Executor:
    """Does one task after the other; nothing in a task is run."""

    def __init__(self, handle: Handle, address: str, folder: Path) -> None:
        self._handle, self._address, self._folder = handle, address, folder

    def finish_pending(self) -> None:
        """Finish the task that a guard which was killed has left, if its supernode still has it."""
        task = PendingTask.kept_in(self._folder)
        if task is not None:
            self.work(task)

    def work(self, task: PendingTask) -> None:
        """Fetch the message of a task, answer it, and say that the task is done.

        Where the message is lost the token is left to lapse: by that its supernode notices.  A task
        that were done without an answer would have the supernode wait for one without end.
        """
        client = _client(
            self._address,
            RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"),
            RuntimeTokenHttpInterceptor(task.token),
        )
        try:
            with _heartbeats(client):
                got = _fetched(task, client, self._folder)
                if got is not None:
                    asked = _message_of(got)
                    answer = Message(packed(self._handle(got.content)), reply_to=asked)
                    whose = _NodeAndRun(asked.metadata.dst_node_id, asked.metadata.run_id)
                    push_message(client, answer, whose)
                    push_task_output(client, None, SubStatus.COMPLETED, "")
        except (httpx.HTTPError, ObjectPullError):
            pass  # the supernode is gone, or knows the task no more; the server has its own limit
        finally:
            PendingTask.forget(self._folder)
            client.close()


@dataclass(frozen=True)
class _NodeAndRun:
    """Whose message it is: what `push_message` asks of a context."""

    node_id: int
    run_id: int


def _fetched(task: PendingTask, client: RuntimeHttpClient, folder: Path) -> PendingTask | None:
    """Return a task with its message, and keep it; None where the message is lost.

    A supernode says once which message it is, and what is in it until that is confirmed.  Of
    somebody else's message nothing is kept.  The bundle that comes with the task is not looked at.
    """
    if not task.about:
        with contextlib.suppress(httpx.HTTPStatusError):  # a killed guard may have begun the task
            client.PullTaskInput(PullTaskInputRequest())
        pulled = client.PullMessages(PullAppMessagesRequest())
        if not pulled.messages_list:
            return None
        task = _kept(replace(task, about=pulled.SerializeToString()), folder)
    pulled = PullAppMessagesResponse.FromString(task.about)
    about, tree = pulled.messages_list[0].metadata, pulled.message_object_trees[0]
    of_node = Node(node_id=about.dst_node_id), about.run_id
    if not task.content:
        pull = make_pull_object_fn_protobuf(client.PullObject, *of_node)
        message: Message = pull_and_inflate_object_from_tree(tree, pull, lambda _: None)
        with contextlib.suppress(ProtocolFault):
            task = _kept(replace(task, content=unpacked(message.content)), folder)
    make_confirm_message_received_fn_protobuf(client.ConfirmMessageReceived, *of_node)(
        tree.object_id
    )
    return task


def _message_of(task: PendingTask) -> Message:
    """Return the message of a task without what is in it: what an answer refers to."""
    pulled = PullAppMessagesResponse.FromString(task.about)
    about = pulled.messages_list[0].metadata
    about.message_id = pulled.message_object_trees[0].object_id  # which it lacks so far
    return make_message(metadata_from_proto(about), RecordDict())


def _kept(task: PendingTask, folder: Path) -> PendingTask:
    with contextlib.suppress(OSError):  # on a full disk it is not kept, and lapses with the guard
        task.keep(folder)
    return task


@contextmanager
def _heartbeats(client: RuntimeHttpClient) -> Iterator[None]:
    """Keep the token of a task alive for as long as the block takes."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(_HEARTBEAT_SECONDS):
            with contextlib.suppress(httpx.HTTPError):
                client.SendTaskHeartbeat(SendTaskHeartbeatRequest())

    thread = threading.Thread(target=beat, name="heartbeats", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _client(address: str, *interceptors: Any) -> RuntimeHttpClient:
    retries = make_simple_http_retry_invoker()
    retries.max_tries = _TRIES  # as it is, it waits for up to 20 seconds between two tries
    retries.should_giveup = _is_answer  # and interrupts this process where a token has lapsed
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,  # of the same machine: the supernode listens on loopback alone
        root_certificates=None,
        interceptors=[RuntimeTracingInterceptor(), *interceptors],
        retry_invoker=retries,
    )


def _is_answer(error: Exception) -> bool:
    """Whether the supernode has answered, so that the same again would have the same answer."""
    return isinstance(error, httpx.HTTPStatusError)


def supernode(arguments: list[str]) -> None:
    """Be Flower's supernode, which looks for messages the more often the shorter it has waited.

    As it is, it does so every three seconds, which is most of an exchange.
    """
    import sys
    from types import SimpleNamespace

    from flwr.supernode import start_client_internal
    from flwr.supernode.cli.flower_supernode import flower_supernode

    backoff, reasons = Backoff(), [0.0]

    def nap(seconds: float) -> None:
        if seconds != reasons[-1]:  # it waits for a message, or for its answer: not as before
            reasons[:] = [seconds]
            backoff.restart()
        time.sleep(min(seconds, backoff.seconds()))

    clock = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}
    start_client_internal.time = SimpleNamespace(sleep=nap, **clock)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


# --- at the server --------------------------------------------------------------------------------


class FlowerCourier:
    """Carries requests to silos by Flower's messages, and their replies back.

    Which node is which silo, a silo says by signing its replies; Flower's own names decide nothing.
    """

    def __init__(self, grid: Grid, plan: NetworkPlan) -> None:
        self._grid, self._keys = grid, [silo.key for silo in plan.silos]
        self._nodes: dict[int, int] = {}  # by silo

    def carry(self, requests: Mapping[int, bytes], seconds: float) -> Mapping[int, bytes]:
        """Return the replies that came within so many seconds.

        One request for everybody goes to every node, until every silo has replied.
        """
        end = time.monotonic() + seconds
        for_all = len(set(requests.values())) == 1 and not requests.keys() <= self._nodes.keys()
        request = next(iter(requests.values()))
        waiting: dict[str, int] = {}
        asked: set[int] = set()
        if not for_all:
            waiting = self._push({self._nodes[silo]: raw for silo, raw in requests.items()}, end)
        replies: dict[int, bytes] = {}
        backoff = Backoff()
        while len(replies) < len(requests) and time.monotonic() < end:
            if for_all:
                new = set(self._grid.get_node_ids()) - asked
                waiting |= self._push(dict.fromkeys(new, request), end)
                asked |= new
            for message in self._grid.pull_messages(list(waiting)):
                backoff.restart()
                node = waiting.pop(message.metadata.reply_to_message_id, None)
                raw = None if message.has_error() else _payload(message)
                silo = None if raw is None or node is None else self._silo_of(node, raw)
                if raw is not None and silo is not None and node is not None:
                    replies[silo], self._nodes[silo] = raw, node
            if not waiting and not for_all:
                break  # those that are left have failed
            time.sleep(backoff.seconds())
        return replies

    def _push(self, requests: Mapping[int, bytes], end: float) -> dict[str, int]:
        """Push requests to nodes; return the nodes by the names of the messages."""
        if not requests:
            return {}
        life = max(end - time.monotonic(), 1.0)
        messages = [
            Message(packed(raw), dst_node_id=node, message_type="query", ttl=life)
            for node, raw in requests.items()
        ]
        names = list(self._grid.push_messages(messages))
        return dict(zip(names, requests, strict=True))

    def _silo_of(self, node: int, raw: bytes) -> int | None:
        for silo, known in self._nodes.items():
            if known == node:
                return silo
        for silo, key in enumerate(self._keys):
            with contextlib.suppress(ProtocolFault):
                opened(key, Reply, raw)
                return silo
        return None


def _payload(message: Message) -> bytes | None:
    with contextlib.suppress(ProtocolFault):
        return unpacked(message.content)
    return None


def server_app() -> ServerApp:
    """Return the server's application; its configuration names the plan and the folder."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def main(grid: Grid, context: Any) -> None:
        from .hub import Hub

        plan = NetworkPlan.read(Path(str(context.run_config["plan"])))
        folder = Path(str(context.run_config["folder"]))
        hub = Hub(plan, folder, FlowerCourier(grid, plan), tell=_say)
        if hub.closed:
            hub.tell_again()
            _say("The run is closed, and the silos were told so.")
        else:
            hub.run(_measured)

    return app


def _measured(measurement: Any, rounds: int) -> None:
    epsilon = max(measurement.epsilon.values(), default=None)
    spent = "" if epsilon is None else f", epsilon {epsilon:.4g} so far"
    _say(f"Round {measurement.round} of {rounds} is released{spent}.")


def _say(sentence: str) -> None:
    print(sentence, flush=True)
