"""Flower 1.42 carries the messages: the one file that imports it.

At a silo Flower's supernode opens outgoing connections alone, and runs nothing (`--isolation
process`).  `serve` takes the place of Flower's own executor: it fetches tasks, hands the bytes of
each message to the guard, and gives its answer back.  The bundle that comes with a task is never
installed, opened or run: what runs at a silo is what the silo installed.

At the server `FlowerNodes` pushes and pulls messages, for `courier` with its polling and limits.

These are internal modules of Flower, of which another version may have others: `privplan` asks for
`flwr==1.42.*`.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from ...accountant.errors import MissingExtra, ProtocolFault
from .courier import failing_as_not_carried
from .flower_app import run_server
from .pending_task import NOTHING, Backoff, LimitedPull, NodeAndRun, PendingTask

try:
    import httpx
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.app.error import Error
    from flwr.app.message.message import make_message
    from flwr.common.constant import ErrorCode, SubStatus
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
        pull_and_inflate_object_from_tree,
        pull_objects,
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
_HEARTBEAT_SECONDS: Final = 10.0
_PULL_SECONDS: Final = 60.0
_FIRST_LOOK_SECONDS: Final = 0.02
"""After how long a part of a message is looked for again: it comes just behind the message."""
_ROOM_OF_FLOWER: Final = 2**20  # bytes of a message besides those of the request in it
_RAW: Final = "privplan.bytes"
_LONGEST_OBJECT: Final = 2**20
"""Bytes: each object of a message is a request of its own at every hop."""
_LEFT_BEHIND: Final = (
    "A task of the guard that was killed cannot be finished; if the supernode takes nothing more, "
    "start it again."
)

Handle = Callable[[bytes], bytes]
Note = Callable[[str], None]


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
    note: Note = print,
    most: int = 2**33,
) -> None:
    """Fetch tasks from a supernode at `address`, and answer each by `handle`, until `stop` is set.

    `secret` is that of `--superexec-auth-secret-file`; `folder` keeps a task until it is done.
    What was fetched before and is not done is finished first.  `note` is told in a sentence what
    the network did not carry; a request has at most `most` bytes.
    """
    executor = _Executor(handle, address, folder, note, most)
    executor.finish_pending()
    boss = _client(
        address,
        RuntimeVersionHttpInterceptor(component_name="SuperExec"),
        SuperExecAuthHttpInterceptor(
            master_secret=secret, protected_methods=_SUPEREXEC_AUTH_METHODS
        ),
    )
    wanted = AcquireTaskRequest(supported_task_types=[TaskType.CLIENT_APP], agentapp_fab_hashes=[])
    backoff, trouble = Backoff(), ""
    while not stop.is_set():
        try:
            got = boss.AcquireTask(wanted)
            trouble = ""
        except Exception as error:  # it is not there, is being restarted, or answers nonsense
            before, trouble = trouble, _no_task(error)
            if trouble != before:  # said once, however long it lasts
                note(trouble)
            stop.wait(_RETRY_SECONDS)
            continue
        if not (got.HasField("task") and got.token):
            stop.wait(backoff.seconds())
            continue
        executor.work(PendingTask(got.token))
        backoff.restart()
    boss.close()


def _no_task(error: Exception) -> str:
    why = type(error).__name__
    if isinstance(error, httpx.HTTPStatusError) and error.response.status_code in (401, 403):
        why = "it has another secret than --secret"
    return f"The supernode gives no task: {why}."


class _Executor:
    """Does one task after the other; nothing in a task is run."""

    def __init__(
        self, handle: Handle, address: str, folder: Path, note: Note, most: int = 2**33
    ) -> None:
        self._handle, self._address, self._folder = handle, address, folder
        self._note, self._most = note, most

    def finish_pending(self) -> None:
        """Finish the task that a guard which was killed has left, if its supernode still has it."""
        task = PendingTask.kept_in(self._folder)
        if task is not None and not self.work(task):
            self._note(_LEFT_BEHIND)
        PendingTask.forget(self._folder)

    def work(self, task: PendingTask) -> bool:
        """Fetch the message of a task, answer it, and say that the task is done.

        Returns whether there was a message.  Where it is lost the token is left to lapse: by that
        its supernode notices.  A task that were done without an answer would have the supernode
        wait for one without end.
        """
        task.keep(self._folder)
        client = _client(
            self._address,
            RuntimeVersionHttpInterceptor(component_name="flwr-clientapp"),
            RuntimeTokenHttpInterceptor(task.token),
        )
        try:
            with _heartbeats(client):
                return self._exchange(task, client)
        finally:
            PendingTask.forget(self._folder)
            client.close()

    def _exchange(self, task: PendingTask, client: RuntimeHttpClient) -> bool:
        """Fetch a message and answer it; whatever the network brings, the guard goes on.

        Where nothing can be fetched or given, the server waits no longer than its limit.
        """
        try:
            message = _message_of(task, client, self._folder, self._most)
        except Exception as error:
            self._note(f"A task brought no message ({type(error).__name__}).")
            return False
        if message is None:
            self._note("A task brought no message: it was fetched before.")
            return False
        answer, about = self._answered(message), message.metadata
        try:
            push_message(client, answer, NodeAndRun(about.dst_node_id, about.run_id))
            push_task_output(client, None, SubStatus.COMPLETED, "")
        except Exception as error:
            self._note(f"An answer did not reach the supernode ({type(error).__name__}).")
        return True

    def _answered(self, message: Message) -> Message:
        try:
            request = _request_in(message)
        except ProtocolFault as error:  # of somebody else than our server
            self._note(error.what)
            reason = Error(code=ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason=error.what)
            return Message(reason, reply_to=message)
        answer = NOTHING if request == NOTHING else self._handle(request)
        return Message(packed(answer), reply_to=message)


def _message_of(
    task: PendingTask, client: RuntimeHttpClient, folder: Path, most: int = 2**33
) -> Message | None:
    """Return the message of a task, and keep it; None where it is lost.

    A supernode says once which message it is, and what is in it until that is confirmed.  Of
    somebody else's message nothing is kept.  The bundle that comes with the task is not looked at.
    """
    if not task.about:
        with contextlib.suppress(httpx.HTTPStatusError):  # a killed guard may have begun the task
            client.PullTaskInput(PullTaskInputRequest())
        pulled = client.PullMessages(PullAppMessagesRequest())
        if not pulled.messages_list:
            return None
        task = replace(task, about=pulled.SerializeToString()).keep(folder)
    pulled = PullAppMessagesResponse.FromString(task.about)
    about, name = pulled.messages_list[0].metadata, pulled.message_object_trees[0].object_id
    of_node = Node(node_id=about.dst_node_id), about.run_id
    if task.content:
        message = make_message(metadata_from_proto(about), packed(task.content))
    else:
        pull = make_pull_object_fn_protobuf(client.PullObject, *of_node)
        pull = LimitedPull(pull, most + _ROOM_OF_FLOWER, _PULL_SECONDS)
        tree = pulled.message_object_trees[0]
        message = pull_and_inflate_object_from_tree(
            tree, pull, lambda _: None, return_type=Message, initial_backoff=_FIRST_LOOK_SECONDS
        )
        with contextlib.suppress(ProtocolFault):
            replace(task, content=_request_in(message)).keep(folder)
    make_confirm_message_received_fn_protobuf(client.ConfirmMessageReceived, *of_node)(name)
    # The name of a message is that of its objects, which its metadata lack so far.
    message.metadata.__dict__["_message_id"] = name
    return message


def _request_in(message: Message) -> bytes:
    return unpacked(message.content if message.has_content() else RecordDict())


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
    retries.max_tries = 2  # as it is, it waits for up to 20 seconds between two tries
    # As it is, the answer 401 to a token that has lapsed would end this process by a signal.
    retries.should_giveup = lambda error: isinstance(error, httpx.HTTPStatusError)
    return RuntimeHttpClient.from_server_address(
        server_address=address,
        insecure=True,  # of the same machine: the supernode listens on loopback alone
        root_certificates=None,
        interceptors=[RuntimeTracingInterceptor(), *interceptors],
        retry_invoker=retries,
    )


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

    _look_soon()
    clock = {name: getattr(time, name) for name in ("time", "monotonic", "perf_counter")}
    start_client_internal.time = SimpleNamespace(sleep=nap, **clock)
    sys.argv = ["flower-supernode", *arguments]
    flower_supernode()


def _look_soon() -> None:
    """Have Flower look soon for parts that are not there yet; as it is, it waits for a second."""
    cast(Any, pull_objects).__kwdefaults__["initial_backoff"] = _FIRST_LOOK_SECONDS


# --- at the server --------------------------------------------------------------------------------


class FlowerNodes:
    """The supernodes of a run, as its grid shows them (`courier.Nodes`)."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        _look_soon()

    def there(self) -> set[int]:
        """Return the supernodes that are connected."""
        with failing_as_not_carried():
            return set(self._grid.get_node_ids())

    def push(self, requests: Mapping[int, bytes], life: float) -> Mapping[str, int]:
        """Push requests to supernodes; return the supernodes by the names of the messages."""
        messages = [
            Message(packed(raw), dst_node_id=node, message_type="query", ttl=life)
            for node, raw in requests.items()
        ]
        with failing_as_not_carried():
            names = list(self._grid.push_messages(messages))
        return {name: node for name, node in zip(names, requests, strict=False) if name}

    def wake(self, nodes: Collection[int], life: float) -> Mapping[str, int]:
        """Push messages of nothing."""
        return self.push(dict.fromkeys(nodes, NOTHING), life)

    def pull(self, names: Sequence[str]) -> Sequence[tuple[str, bytes | None]]:
        """Return what came; None for a supernode that failed, or sent something else."""
        with failing_as_not_carried():
            messages = list(self._grid.pull_messages(names))
        return [
            (
                message.metadata.reply_to_message_id,
                None if message.has_error() else _payload(message),
            )
            for message in messages
        ]


def _payload(message: Message) -> bytes | None:
    with contextlib.suppress(ProtocolFault):
        return unpacked(message.content)
    return None


def server_app() -> ServerApp:
    """Return the server's application; its configuration names the plan and the folder."""
    app = ServerApp()

    @app.main()  # type: ignore[untyped-decorator,unused-ignore]
    def main(grid: Grid, context: Any) -> None:
        given = context.run_config
        run_server(Path(str(given["plan"])), Path(str(given["folder"])), FlowerNodes(grid))

    return app
