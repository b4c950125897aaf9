"""`pp.Ledger`: a budget ledger, and an odometer that claims from it before each release."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ...accountant import events as ev
from . import TOKEN_VARIABLE
from .claimed_events import event_of
from .connection import Connection, no_ledger
from .receipts import content_of, request_of

_STATED: Final = {"unit", "neighbours", "observer", "records_per_unit"}


class Ledger:
    """A budget ledger at an address, opened by a token.

    Without `token`, the variable PRIVPLAN_LEDGER_TOKEN holds it.  `key` is the public key that
    `privplan serve` prints, 64 hexadecimal digits; without, the key of the first receipt is
    believed, kept in a file for this address, and no other one after it.  A claim is acknowledged
    by a receipt that this key signed, of what was claimed; anything else is refused.
    Raises `InvalidInput` for an address that is none, or that would send the token over a network
    without TLS.

    >>> Ledger("https://ledger.example", "a token")
    <ledger at https://ledger.example>
    """

    def __init__(self, url: str, token: str | None = None, *, key: str | None = None) -> None:
        given = os.environ.get(TOKEN_VARIABLE, "") if token is None else token
        self.connection = Connection(url, given, key=key)

    def __repr__(self) -> str:
        return repr(self.connection)

    def data_set(self, name: str) -> dict[str, Any]:
        """Return what is spent and left of a data set, by block."""
        return self.connection.get(f"/v1/data-sets/{_path(name)}")

    def head(self, name: str) -> dict[str, Any]:
        """Return the signed head of a data set's history; keep it where the ledger cannot write."""
        head = self.connection.get(f"/v1/data-sets/{_path(name)}/head")
        self.connection.require_signed(head)
        return head

    def odometer(
        self,
        data_set: str,
        *,
        project: str,
        blocks: Sequence[str] | None = None,
        unit: str | None = None,
        neighbours: str | None = None,
        observer: str | None = None,
        records_per_unit: int | None = None,
    ) -> LedgerOdometer:
        """Return an odometer that spends from a data set, for a project.

        `blocks` are those whose units may be touched (None: all).  `unit`, `neighbours` and
        `observer` say for whom events are stated, where not as the data set is: they are converted,
        or refused; for an event about records, a user has `records_per_unit` at most.
        """
        stated = {
            "unit": unit,
            "neighbours": neighbours,
            "observer": observer,
            "records_per_unit": records_per_unit,
        }
        said = {name: value for name, value in stated.items() if value is not None}
        named = "all" if blocks is None else list(blocks)
        body = {"data_set": data_set, "blocks": named, "project": project, **said}
        return LedgerOdometer(self.connection, body)


@dataclass(frozen=True)
class LedgerOdometer:
    """An odometer whose budget is that of a data set, which others spend from as well.

    Every claim is acknowledged, on the ledger's disk, before the method returns.
    """

    _connection: Connection
    _body: Mapping[str, Any]

    def claim(
        self, source: object, *, method: str | None = None, key: str | None = None
    ) -> LedgerClaim:
        """Return a claim of what `source` describes (`event_of`), which is not begun yet.

        The same `key` with the same content is the same claim; without one, a retry after an
        answer was lost is one all the same.
        Raises `BudgetExceeded` where it does not fit (its `answer["fits"]` says what would), and
        `PrivplanError` where the ledger refuses or cannot be reached.
        """
        return self._claimed(event_of(source, method=method), key, begin=False)

    def spend(
        self, source: object, *, method: str | None = None, key: str | None = None
    ) -> LedgerClaim:
        """Return a claim that is begun: call it before noise is drawn, as `Odometer.spend`.

        What was begun stays spent, whatever becomes of it.  A `key` is for one release: whoever
        runs again gives a new one, and the key of a claim that ended is refused.  Raises as
        `claim`.
        """
        return self._claimed(event_of(source, method=method), key, begin=True)

    def reading(self) -> dict[str, Any]:
        """Return what is spent and left of the data set, by block."""
        return self._connection.get(f"/v1/data-sets/{_path(self._body['data_set'])}")

    def _claimed(self, event: ev.Event, key: str | None, *, begin: bool) -> LedgerClaim:
        chosen = secrets.token_hex(16) if key is None else key
        source = event.to_json()
        body = {**self._body, "event": source, "begin": begin}
        answer = self._connection.post("/v1/claims", body, chosen)
        blocks, stated = self._body["blocks"], {k: self._body[k] for k in _STATED & {*self._body}}
        content = content_of(
            self._body["data_set"],
            None if blocks == "all" else blocks,
            self._body["project"],
            source,
            begin,
            stated or None,
        )
        request = request_of(content, chosen)
        # No noise may be drawn under a claim that waits, or that was released or given up.
        _require_claim(self._connection, answer, state="begun" if begin else None, request=request)
        return LedgerClaim(self._connection, answer, request)


@dataclass
class LedgerClaim:
    """A claim; `answer` is the last answer of the ledger, and `receipt` its signed receipt."""

    _connection: Connection
    answer: Mapping[str, Any]
    _request: str | None = None
    receipt: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        _require_claim(self._connection, self.answer, request=self._request)
        self.receipt = self.answer["receipt"]

    @property
    def id(self) -> str:
        """The id of the claim."""
        return str(self.answer["id"])

    @property
    def state(self) -> str:
        """How far it is: claimed, begun, released, audited, cancelled or abandoned."""
        return str(self.answer["state"])

    def begin(self) -> None:
        """Have it begun: when this returns it is spent, and noise may be drawn."""
        self._step("begin", {}, "begun")

    def cancel(self) -> None:
        """Take it back, as long as it was not begun."""
        self._step("cancel", {}, "cancelled")

    def release(self, head: str | None = None) -> None:
        """Close it with the head of the log that says what was released, where there is one."""
        self._step("release", {} if head is None else {"head": head}, "released")

    def abandon(self) -> None:
        """Close it without a release; it stays spent."""
        self._step("abandon", {}, "abandoned")

    def audit(
        self, verdict: str, event: ev.Event | None = None, **stated: object
    ) -> Mapping[str, Any]:
        """Close it, released, with an auditor's verdict: `holds` or `above`; return the answer.

        `event` is what the log supports, and `stated` says for whom, as in `Ledger.odometer`.  What
        it costs above the claim is charged; without an event, `above` freezes the data set.
        """
        lost = {} if event is None else {"event": event.to_json(), **stated}
        self._step("audit", {"verdict": verdict, **lost}, "audited")
        return self.answer

    def _step(self, step: str, body: Mapping[str, Any], state: str) -> None:
        answer = self._connection.post(f"/v1/claims/{_path(self.id)}/{step}", body)
        _require_claim(self._connection, answer, self.id, state, self._request)
        self.answer = answer


def claim_of(connection: Connection, number: str) -> LedgerClaim:
    """Return a claim that was made before, by its id."""
    return LedgerClaim(connection, connection.get(f"/v1/claims/{_path(number)}"))


def _require_claim(
    connection: Connection,
    answer: Mapping[str, Any],
    number: str | None = None,
    state: str | None = None,
    request: str | None = None,
) -> None:
    """Raise `LedgerUnreachable` for an answer that the ledger did not give, or not of this claim.

    Whatever decides whether noise is drawn must be signed: whoever answers in the ledger's place
    has seen receipts of others, and may have claims of its own.
    """
    said, receipt = (answer.get("id"), answer.get("state")), answer.get("receipt")
    if not all(isinstance(each, str) for each in said) or not isinstance(receipt, dict):
        raise no_ledger("Its answer is no claim.")
    connection.require_signed(receipt)
    if receipt.get("claim") != said[0] or number not in (None, said[0]):
        raise no_ledger("Its answer is of another claim.")
    if request is not None and receipt.get("request") != request:
        raise no_ledger("Its receipt does not sign what was claimed here, with this key.")
    if state is not None and not state == said[1] == receipt.get("state"):
        raise no_ledger(f"It does not sign that the claim is {state}, and says {said[1]:.40}.")


def _path(name: object) -> str:
    from urllib.parse import quote

    return quote(str(name), safe="")
