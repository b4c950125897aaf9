"""Connections whose requests do not come, or whose answers are not read: they are closed.

uvicorn limits how many connections there are, and not how long one takes to send the head of a
request, or to read an answer.  Here both have some seconds; and where connections become many, the
one that has waited longest, or kept the service waiting, makes room for a new one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS: Final = 10.0
"""How long the head of a request may take to come."""

ANSWER_SECONDS: Final = 30.0
"""How long a client may read nothing of an answer that is sent."""

RESERVED: Final = 20
"""So many connections below the limit, one that waits is closed for each new one."""


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 for clients that send what they have to say."""

    _timer: asyncio.TimerHandle | None = None
    _unread: asyncio.TimerHandle | None = None
    _since = 0.0

    @property
    def is_answered(self) -> bool:
        """Whether a request came whole, head at least, and its answer is not sent yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for a head, and close who waited longest where there are too many."""
        super().connection_made(transport)
        self._since = self.loop.time()
        self._await_head()
        if self.limit_concurrency is None:
            return
        if len(self.connections) > max(1, self.limit_concurrency - RESERVED):
            waiting = [
                each
                for each in self.connections
                if isinstance(each, ImpatientProtocol)
                and each is not self
                and (not each.is_answered or each._unread is not None)
            ]
            if waiting:
                oldest = min(waiting, key=lambda each: each._since)
                # Whoever comes in the same moment must not choose it again.
                self.connections.discard(oldest)
                oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what came; a head that is still not whole goes on to be waited for."""
        super().data_received(data)
        if self.is_answered:
            self._stop()
        else:
            self._await_head()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not read."""
        super().pause_writing()
        if self._unread is None:
            self._unread = self.loop.call_later(ANSWER_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """End that wait: it has read."""
        self._stop_unread()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Begin to be idle, which the limit of uvicorn ends."""
        self._since = self.loop.time()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """End every wait."""
        self._stop()
        self._stop_unread()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _give_up(self) -> None:
        self._timer = None
        if not self.is_answered:
            self.transport.abort()

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


__all__ = ["ImpatientProtocol"]
