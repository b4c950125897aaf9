"""A connection to a budget ledger: JSON over HTTP, retried where that is safe.

Every request may be sent again: a claim carries a key, and each step of its life is taken once.
The token is in a header, and in no address, message or representation.
"""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from ...accountant.errors import BudgetExceeded, InvalidInput, ServiceFault
from ..log.hash_chain import is_hash
from .receipts import is_signed
from .remembered_keys import key_file, remember, remembered_key

TIMEOUT_SECONDS: Final = 30.0
ATTEMPTS: Final = 5
_PAUSES_SECONDS: Final = (0.2, 0.5, 1.0, 2.0)
_AGAIN: Final = (429, 502, 503, 504)
MAX_ANSWER_BYTES: Final = 2**26
_LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


class LedgerUnreachable(ServiceFault):
    """The ledger does not answer, so nothing is claimed, and no noise may be drawn."""


class LedgerRefused(ServiceFault):
    """The ledger refuses: `status` is that of HTTP, `answer` the problem details."""

    def __init__(self, status: int, answer: Mapping[str, Any]) -> None:
        super().__init__(
            f"The ledger refuses ({status}): {_text(answer.get('title'))}",
            _text(answer.get("detail")),
            "privplan explain ledger",
        )
        self.status, self.answer = status, dict(answer)


class ClaimRefused(LedgerRefused, BudgetExceeded):
    """A claim does not fit; `answer["fits"]` says what would."""


class Connection:
    """A ledger at an address, the token that opens it, and the public key that signs its receipts.

    `key` is None where the one is believed that was seen first (`remembered_keys`).
    Raises `InvalidInput` for an address that is none, that has a name or a token in it, or that
    would send the token over a network without TLS, and for what is no key.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        key: str | None = None,
        timeout: float = TIMEOUT_SECONDS,
        attempts: int = ATTEMPTS,
    ) -> None:
        parts = urlsplit(url if isinstance(url, str) else "")
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise InvalidInput(
                "`url` must be the address of a ledger, such as https://ledger.example.",
                next_step="Give the address that `privplan serve` prints.",
            )
        if parts.username or parts.password:
            raise InvalidInput(
                "`url` has a name or a password in it.",
                "Addresses stand in logs, and a token must not.",
                "Give the token by itself.",
            )
        if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise InvalidInput(
                "`url` is without TLS, and not on this machine.",
                "Whoever listens to the network would read the token.",
                "Give an address that begins with https://.",
            )
        if not isinstance(token, str) or not token.strip() or not token.isascii():
            raise InvalidInput(
                "`token` must be the token of a ledger.",
                next_step="Give it by the variable PRIVPLAN_LEDGER_TOKEN.",
            )
        given = None if key is None else str(key).strip().lower()
        if given is not None and not is_hash(given):
            raise InvalidInput(
                "`key` is no public key of a ledger.",
                "It has 64 hexadecimal digits, as `privplan serve` prints it.",
                "Give it as it was received from the owner of the ledger.",
            )
        self.url, self.key = url.rstrip("/"), given
        self._token, self._timeout, self._attempts = token.strip(), timeout, attempts

    def __repr__(self) -> str:
        return f"<ledger at {self.url}>"

    def require_signed(self, statement: Mapping[str, Any]) -> None:
        """Raise `LedgerUnreachable` unless the key of the ledger signed a head or a receipt.

        Without a key that was given, the one of the first receipt is believed and kept.
        """
        if not is_signed(statement):
            raise no_ledger("Its receipt is not signed by the key that it names.")
        signed_by = str(statement["key"])
        known = self.key or remembered_key(self.url) or remember(self.url, signed_by)
        if signed_by != known:
            kept = "" if self.key is not None else f" (kept in {key_file(self.url)})"
            raise LedgerUnreachable(
                f"The receipt is signed by the key {signed_by[:16]}..., and the ledger at "
                f"{self.url} has {known[:16]}...{kept}.",
                "Somebody else may answer in its place, or its owner has changed the key; nothing "
                "may be drawn under such a claim.",
                "Ask the owner of the ledger for its key, and give it (`key=`, in [ledger] "
                "`public_key`), or remove the file.",
            )

    def get(self, path: str) -> dict[str, Any]:
        """Return the JSON object at a path."""
        return _object(self._sent("GET", path, None, None))

    def text(self, path: str) -> str:
        """Return the text at a path."""
        return self._sent("GET", path, None, None).decode("ascii", "replace")

    def post(self, path: str, body: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Return the answer to a body; with a key, sending it again charges nothing twice."""
        return _object(self._sent("POST", path, json.dumps(body).encode("utf-8"), key))

    def _sent(self, method: str, path: str, body: bytes | None, key: str | None) -> bytes:
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if key is not None:
            headers["Idempotency-Key"] = key
        request = urllib.request.Request(self.url + path, body, headers, method=method)
        # A proxy of the surroundings passes TLS on unread; it must not see a token in the clear.
        opener = _proxied if self.url.startswith("https:") else _direct
        reason = "it did not answer"
        for attempt in range(self._attempts):
            if attempt:
                time.sleep(_PAUSES_SECONDS[min(attempt, len(_PAUSES_SECONDS)) - 1])
            try:
                with opener.open(request, timeout=self._timeout) as answer:
                    return _whole(answer)
            except urllib.error.HTTPError as error:
                with error:
                    try:
                        problem = _problem(_whole(error))
                    except (OSError, http.client.HTTPException):
                        reason = "its answer was cut off"
                        continue
                kind = str(problem.get("type", ""))
                if error.code not in _AGAIN or kind.endswith(":daily-limit"):
                    refusal = ClaimRefused if kind.endswith(":budget") else LedgerRefused
                    raise refusal(error.code, problem) from None
                reason = f"it answered {error.code}, {_text(problem.get('title'))}".rstrip(", .")
            except (OSError, http.client.HTTPException) as error:
                reason = f"it did not answer ({type(error).__name__})"
        raise LedgerUnreachable(
            f"The ledger at {self.url} cannot be reached: {reason}.",
            "Nothing is released whose claim was not acknowledged.",
            "Look whether the service runs, and ask again.",
        )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could carry the token to another machine."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_direct = urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({}))
_proxied = urllib.request.build_opener(_NoRedirect)


def _whole(answer: Any) -> bytes:
    """Return the body of an answer; `ConnectionError` where the connection ended before it did."""
    data = bytes(answer.read(MAX_ANSWER_BYTES))
    length = answer.headers.get("Content-Length")
    # A read of at most so many bytes says nothing of an end that came too early.
    if length is not None and length.isdigit() and len(data) < min(int(length), MAX_ANSWER_BYTES):
        raise ConnectionError("the answer was cut off")
    return data


def _object(data: bytes) -> dict[str, Any]:
    try:
        source = json.loads(data)
    except (ValueError, RecursionError):
        source = None
    if not isinstance(source, dict):
        raise no_ledger("Its answer is no JSON object.")
    return source


def no_ledger(why: str) -> LedgerUnreachable:
    """Return the error of an answer that no ledger gives: nothing is claimed by it."""
    return LedgerUnreachable(
        "What answers is no ledger.", why, "Check the address, and what lies between."
    )


def _problem(data: bytes) -> dict[str, Any]:
    try:
        source = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return source if isinstance(source, dict) else {}


def _text(value: object) -> str:
    return value[:500] if isinstance(value, str) else ""
