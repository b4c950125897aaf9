"""What an address is: its method and path, who may ask, what it does, and an example of a body."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi.concurrency import run_in_threadpool

from .claims import Actor
from .service import LedgerService
from .tokens import ROLES

EVERYBODY: Final = ROLES
OWNERS: Final = ("owner",)
CLAIMANTS: Final = ("owner", "analyst")
AUDITORS: Final = ("owner", "auditor")

Handler = Callable[["AuthorisedRequest"], Awaitable[Any]]


@dataclass(frozen=True)
class AuthorisedRequest:
    """A request of somebody who may make it.

    `compute` returns what a function returns that takes longer for a larger body.
    """

    service: LedgerService
    actor: Actor
    body: Mapping[str, Any]
    path: Mapping[str, str]
    query: Mapping[str, str]
    key: str | None
    compute: Callable[..., Awaitable[Any]]


@dataclass(frozen=True)
class Address:
    """One address: its method, who may ask, what it does, and an example of a body."""

    method: str
    path: str
    roles: tuple[str, ...]
    handler: Handler
    says: str
    example: Mapping[str, Any] | None = None
    status: int = 200


async def durable(future: Any) -> Any:
    """Return the answer of an operation when it is on the disk.

    Whoever goes away meanwhile takes nothing back: what is submitted is written.
    """
    return await asyncio.shield(asyncio.wrap_future(future))


async def blocking(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what a function returns that waits for the database or for a price."""
    return await run_in_threadpool(function, *arguments)
