"""What a request is refused with: problem details (RFC 9457), and how a body is read.

No answer and no log shows a token, an address of a database, or what a library said of an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from fastapi import Request
from fastapi.responses import JSONResponse

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput, PrivplanError, Unsupported
from .database import StoreFailed
from .large_bodies import LARGE_BYTES, at_once
from .names import Refusal

MAX_BODY_BYTES: Final = 2**20
MAX_NESTING: Final = 64
BODY_SECONDS: Final = 20.0
"""How long a body may take to come."""

Computing: TypeAlias = Callable[..., Awaitable[Any]]
"""Returns what a function returns, computed at once or elsewhere."""

PROBLEM: Final = "application/problem+json"


def answered(error: Exception) -> JSONResponse:
    """Return the problem details of an error."""
    status, word, more = _kind(error)
    if isinstance(error, PrivplanError):
        title, detail = error.what, " ".join(each for each in (error.why, error.next_step) if each)
    else:
        title = "The service stopped on an error of its own."
        detail = "What was asked may or may not have been done: ask again with the same key."
    return problem(status, word, title, detail, more)


def problem(
    status: int, word: str, title: str, detail: str, more: dict[str, Any] | None = None
) -> JSONResponse:
    """Return problem details."""
    content = {
        "type": f"urn:privplan:ledger:{word}",
        "title": title,
        "status": status,
        "detail": detail,
        **(more or {}),
    }
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    if status in (429, 503):
        headers["Retry-After"] = str(content.get("retry_after", 1))
    return JSONResponse(content, status, headers, media_type=PROBLEM)


def _kind(error: Exception) -> tuple[int, str, dict[str, Any]]:
    if isinstance(error, Refusal):
        return error.status, error.word, error.more
    if isinstance(error, StoreFailed):
        return 503, "store", {}
    if isinstance(error, InvalidInput):
        return 422, "invalid", {}
    if isinstance(error, Unsupported):
        return 422, "unsupported", {}
    return 500, "error", {}


async def body_of(request: Request, when_large: Callable[[], Computing]) -> dict[str, Any]:
    """Return the JSON object of a request's body.

    `when_large` is called as soon as there is more of it than is parsed at once, and says where it
    is parsed.
    Raises `Refusal` (413) above 1 MB, and `InvalidInput` for what is no object, or nested deeper
    than 64 levels.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            data, compute = await _limited(request, when_large)
    except TimeoutError:
        raise Refusal(408, "slow", f"The body did not come within {BODY_SECONDS:g} s.") from None
    return await compute(_parsed, data) if data else {}


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        source = parsed_json(data)
    except InvalidInput:
        raise
    except ValueError:
        source = None
    if not isinstance(source, dict):
        raise InvalidInput("The body is no JSON object.", next_step="Send one as application/json.")
    _require_flat(source)
    return source


async def _limited(
    request: Request, when_large: Callable[[], Computing]
) -> tuple[bytes, Computing]:
    data = bytearray()
    compute: Computing = at_once
    async for part in request.stream():
        data += part
        if len(data) > LARGE_BYTES and compute is at_once:
            compute = when_large()
        if len(data) > MAX_BODY_BYTES:
            raise Refusal(
                413,
                "too-large",
                f"The body has more than {MAX_BODY_BYTES:,} bytes.",
                "One request must not keep the ledger from the others.",
                "Write what repeats as `repeat`.",
            )
    return bytes(data), compute


def _require_flat(source: object) -> None:
    level: list[object] = [source]
    for _ in range(MAX_NESTING):
        level = [
            inner
            for part in level
            if isinstance(part, (dict, list))
            for inner in (part.values() if isinstance(part, dict) else part)
        ]
        if not level:
            return
    raise InvalidInput(
        f"The body is nested deeper than {MAX_NESTING} levels.",
        next_step="Send a body of fewer levels.",
    )
