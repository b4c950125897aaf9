"""Tokens: 256 random bits that are shown once, and of which the database has the SHA-256.

A role says what its holder may do: an owner everything, an analyst claim, an auditor read the
whole history and close claims with a verdict; read-only sees balances.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import Any, Final

import sqlalchemy as sa

from ...accountant import validate
from .claims import Actor
from .names import Refusal, name_of
from .tables import tokens

ROLES: Final = ("owner", "analyst", "auditor", "read-only")

MAX_DAYS: Final = 3660
_PREFIX: Final = "plt_"
_DAY_SECONDS: Final = 86400.0


def issue(
    connection: sa.Connection,
    holder: str,
    role: str,
    days: float,
    issued_by: str | None,
    *,
    now: float | None = None,
) -> dict[str, object]:
    """Issue a token for a holder, and return it; it is never shown again.

    A holder has one role, and whoever first named a holder stays its issuer.  `issued_by` is None
    for tokens that the operator of the service issues.
    """
    name_of(holder=holder)
    validate.choice(ROLES, role=role)
    days = validate.positive(days=days)
    first = connection.execute(sa.select(tokens).where(tokens.c.holder == holder)).first()
    if first is not None and (first.role != role or first.issued_by != issued_by):
        raise Refusal(
            409,
            "holder-taken",
            f"{holder} is the holder of a token of another role or issuer.",
            "Four eyes are those of two people: a name stands for one.",
            "Give another name.",
        )
    secret, number = _PREFIX + secrets.token_urlsafe(32), secrets.token_hex(8)
    expires = (time.time() if now is None else now) + min(days, MAX_DAYS) * _DAY_SECONDS
    connection.execute(
        tokens.insert(),
        {
            "id": number,
            "digest": _digest(secret),
            "holder": holder,
            "role": role,
            "expires": expires,
            "revoked": 0,
            "issued_by": issued_by,
        },
    )
    return {"id": number, "holder": holder, "role": role, "expires": expires, "token": secret}


def revoke(connection: sa.Connection, number: str) -> dict[str, object]:
    """Revoke a token, for good."""
    changed = connection.execute(tokens.update().where(tokens.c.id == number).values(revoked=1))
    if changed.rowcount != 1:
        raise Refusal(404, "no-token", "There is no such token.")
    return {"id": number, "revoked": True}


def listed(connection: sa.Connection) -> list[dict[str, object]]:
    """Return every token without its secret."""
    rows = connection.execute(sa.select(tokens).order_by(tokens.c.holder, tokens.c.id))
    return [
        {
            "id": row.id,
            "holder": row.holder,
            "role": row.role,
            "expires": row.expires,
            "revoked": bool(row.revoked),
            "issued_by": row.issued_by,
        }
        for row in rows
    ]


def actor_of(connection: sa.Connection, secret: str, now: float | None = None) -> Actor:
    """Return whose token this is; `Refusal` (401) for one that is unknown, expired or revoked."""
    # The digest is looked up: how long that takes says nothing of a secret of 256 bits.
    row = connection.execute(sa.select(tokens).where(tokens.c.digest == _digest(secret))).first()
    if row is None or row.revoked or row.expires < (time.time() if now is None else now):
        raise unauthorised()
    return Actor(row.holder, row.role)


def unauthorised() -> Refusal:
    """Return the refusal of whoever gives no token that is valid."""
    return Refusal(
        401,
        "token",
        "A valid token is needed.",
        "It is missing, unknown, expired or revoked.",
        "Give it as: Authorization: Bearer TOKEN",
    )


def same_person(connection: sa.Connection, first: str, second: str) -> bool:
    """Return whether two holders are one, or have their tokens from one, by any number of hands.

    Whoever may issue tokens could otherwise be both of two owners, or behind both.
    """
    return not _issuers(connection, first).isdisjoint(_issuers(connection, second))


def _issuers(connection: sa.Connection, holder: str) -> set[str]:
    """Return a holder, and all whose tokens led to its own."""
    seen: set[str] = set()
    current: Any = holder
    while current is not None and current not in seen:
        seen.add(current)
        asked = sa.select(tokens.c.issued_by).where(tokens.c.holder == current)
        current = connection.execute(asked).scalar()
    return seen


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
