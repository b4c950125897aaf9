"""The executor of a guard, and what Flower's messages hold; in the environment of Flower."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from privplan.accountant.errors import ProtocolFault
from privplan.fl.network.pending_task import NOTHING, TASK_FILE, PendingTask

from .extras import needs

pytestmark = needs("flwr", "cryptography", "msgpack")


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be the task of a run: Flower's messages say of which."""
    from flwr.supercore.task_identity import TaskIdentity

    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)


class Supernode:
    """Hands out tasks, and answers everything else by one status."""

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        tasks: int = 3,
        refusing: tuple[int, bytes] | None = None,
    ) -> None:
        from flwr.proto.runtime_pb2 import AcquireTaskResponse
        from flwr.proto.task_pb2 import Task

        supernode = self
        self.asked: list[str] = []
        self.left = tasks

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                name = self.path.rpartition("/")[2]
                supernode.asked.append(name)
                answer, code = body, status
                if name == "acquire-task" and refusing is not None:
                    code, answer = refusing
                    supernode.left -= 1
                elif name == "acquire-task":
                    code = 200
                    supernode.left -= 1
                    there = supernode.left >= 0
                    task = AcquireTaskResponse(task=Task(task_id=1), token="token")
                    answer = task.SerializeToString() if there else b""
                self.send_response(code)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (401, b""),  # to a token that has lapsed Flower's own client ends its process by a signal
        (403, b""),
        (404, b""),
        (200, b"\xff\xff no message of Flower"),
        (200, b""),
    ],
)
def test_a_guard_goes_on_whatever_a_supernode_answers(
    status: int, body: bytes, tmp_path: Path, stop: threading.Event
) -> None:
    from privplan.fl.network.flower import serve

    PendingTask("a token of long ago").keep(tmp_path)
    supernode, notes = Supernode(status, body), list[str]()
    asked: list[bytes] = []

    def handle(raw: bytes) -> bytes:
        asked.append(raw)
        return raw

    guard = threading.Thread(
        target=serve, args=(handle, supernode.address, b"secret", tmp_path, stop, notes.append)
    )
    started = time.monotonic()
    guard.start()
    while supernode.left >= 0 and time.monotonic() < started + 20:
        time.sleep(0.01)
    assert guard.is_alive()
    stop.set()
    guard.join(10)
    supernode.close()
    assert supernode.left < 0  # all tasks were taken, and the next was asked for
    assert len(notes) == 5  # two of long ago, and three more
    assert "start it again" in notes[1]
    assert asked == []
    assert not (tmp_path / TASK_FILE).exists()


@pytest.mark.parametrize(
    ("refusing", "why"),
    [
        ((401, b""), "another secret"),
        ((500, b""), "HTTPStatusError"),
        ((200, b"\xff\xff no message of Flower"), "ValueError"),
    ],
)
def test_a_supernode_that_gives_no_task_is_asked_again_and_it_is_said_once(
    refusing: tuple[int, bytes], why: str, tmp_path: Path, stop: threading.Event
) -> None:
    from privplan.fl.network.flower import serve

    supernode, notes = Supernode(200, refusing=refusing), list[str]()
    guard = threading.Thread(
        target=serve, args=(bytes, supernode.address, b"secret", tmp_path, stop, notes.append)
    )
    guard.start()
    end = time.monotonic() + 20
    while supernode.left >= 0 and time.monotonic() < end:
        time.sleep(0.01)
    alive = guard.is_alive()
    stop.set()
    guard.join(10)
    supernode.close()
    assert alive
    assert supernode.left < 0
    assert len(notes) == 1
    assert why in notes[0]


def test_a_message_that_is_longer_than_the_plan_has_room_for_is_not_fetched(tmp_path: Path) -> None:
    from privplan.fl.network.flower import _message_of

    supernode, task = Handing(bytes(2**20)), PendingTask("token")
    with pytest.raises(ProtocolFault, match="longer than any of the plan"):
        _message_of(task, supernode, tmp_path, -(2**20) + 100)  # type: ignore[arg-type]


def test_a_message_of_somebody_else_is_refused() -> None:
    from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.app.error import Error

    from privplan.fl.network.flower import _Executor, packed, unpacked

    assert unpacked(packed(b"bytes")) == b"bytes"
    notes: list[str] = []
    executor = _Executor(lambda raw: raw, "127.0.0.1:1", Path(), notes.append)
    array = ArrayRecord({"other": Array(dtype="uint8", shape=(1,), stype="pickle", data=b"x")})
    for content in (
        RecordDict({"privplan": ConfigRecord({"b": b"bytes"})}),
        RecordDict({"privplan": array}),
        RecordDict(),
    ):
        with pytest.raises(ProtocolFault):
            unpacked(content)
        answer = executor._answered(Message(content, dst_node_id=1, message_type="query"))
        assert answer.has_error()
    asked = Message(RecordDict(), dst_node_id=1, message_type="query")
    failed = Message(Error(1, "x"), reply_to=asked)
    assert executor._answered(failed).has_error()
    assert len(notes) == 4
    nothing = Message(packed(NOTHING), dst_node_id=1, message_type="query")
    executor = _Executor(pytest.fail, "127.0.0.1:1", Path(), notes.append)  # the guard is not asked
    assert unpacked(executor._answered(nothing).content) == NOTHING


class Handing:
    """A supernode that hands out a message of one object, each thing once as Flower does."""

    def __init__(self, content: bytes) -> None:
        from flwr.app import Message
        from flwr.common.serde import message_to_proto
        from flwr.proto.runtime_pb2 import PullAppMessagesResponse
        from flwr.supercore.inflatable.inflatable_object import (
            get_all_nested_objects,
            get_object_tree,
        )

        from privplan.fl.network.flower import packed

        self.message = Message(packed(content), dst_node_id=5, message_type="query")
        self.objects = get_all_nested_objects(self.message)
        self.pulled = PullAppMessagesResponse(
            messages_list=[message_to_proto(self.message)],
            message_object_trees=[get_object_tree(self.message)],
        )
        self.confirmed = 0

    def PullTaskInput(self, _: Any) -> None:  # noqa: N802
        pass

    def PullMessages(self, _: Any) -> Any:  # noqa: N802
        from flwr.proto.runtime_pb2 import PullAppMessagesResponse

        handed, self.pulled = self.pulled, PullAppMessagesResponse()
        return handed

    def PullObject(self, asked: Any) -> Any:  # noqa: N802
        from flwr.proto.message_pb2 import PullObjectResponse

        content = self.objects[asked.object_id].deflate()
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def ConfirmMessageReceived(self, _: Any) -> None:  # noqa: N802
        self.confirmed += 1
        self.objects.clear()


def test_a_guard_that_was_killed_has_kept_the_message_of_its_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from privplan.fl.network.flower import _message_of, unpacked

    supernode, task = Handing(b"a request"), PendingTask("token")

    def killed(_: Any) -> None:
        raise KeyboardInterrupt

    for name in ("PullObject", "ConfirmMessageReceived"):
        monkeypatch.setattr(supernode, name, killed)
        with pytest.raises(KeyboardInterrupt):
            _message_of(task, supernode, tmp_path)  # type: ignore[arg-type]
        monkeypatch.undo()
        kept = PendingTask.kept_in(tmp_path)
        assert kept is not None
        task = kept
    for _ in range(2):  # and where it was killed before it had answered
        message = _message_of(task, supernode, tmp_path)  # type: ignore[arg-type]
        assert message is not None
        assert unpacked(message.content) == b"a request"
        assert message.metadata.message_id == supernode.message.object_id
        assert message.metadata.dst_node_id == 5
    assert _message_of(PendingTask("other"), supernode, tmp_path) is None  # type: ignore[arg-type]
