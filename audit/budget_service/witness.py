"""A witness: it keeps heads elsewhere, and holds each new one against the last.

A head that the witness kept and a history that lacks its entry exclude each other: the database was
restored from a backup, or another history is shown to others.  The witness reads the entries
between two heads itself, so it takes nobody's word that one leads to the other.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ...accountant.decoding import parsed_json
from ...accountant.errors import InvalidInput, PrivplanError
from ...accountant.regular_file import regular_content
from ...fl.ledger_client.connection import Connection
from ...fl.ledger_client.receipts import signature_holds
from ...fl.log.hash_chain import CHAIN, chained
from .audit_limits import MEGABYTE, AuditLimits
from .audited import audit_history
from .names import name_of
from .signer import SignedStatement, rotation_message

MAX_HEADS: Final = 32
"""Most heads of a data set that are kept: an older one bounds what a restored backup forgot."""

MAX_STATE_BYTES: Final = 2**26


@dataclass(frozen=True)
class WitnessedHistory:
    """What a witness saw of one data set: how many entries are new, or what is wrong.

    `restored` says that the history that was seen before was lost, that the new one acknowledges
    it with its charge, and that the new one is kept from here on.
    """

    data_set: str
    seq: int
    added: int
    problem: str | None
    restored: bool = False


def witness(
    connection: Connection, state: Path, data_sets: tuple[str, ...] = ()
) -> list[WitnessedHistory]:
    """Hold the newest head of each data set against the last that the state has, and keep it.

    The first head of a data set is believed, with its key; compare that key with the owner's.
    Nothing is kept of a data set whose history contradicts the last head, unless that history as a
    whole withstands an audit and acknowledges the last head as one of a history that was lost.
    Raises `InvalidInput` for a state that cannot be read, and what the connection raises.
    """
    kept = _state(state)
    names = data_sets or tuple(map(str, connection.get("/v1/data-sets")["data_sets"]))
    seen: list[WitnessedHistory] = []
    for name in names:
        head = SignedStatement.from_json(
            connection.get(f"/v1/data-sets/{name_of(data_set=name)}/head")
        )
        root = head.statement.data_set  # a view has the history of its data set
        if root in {each.data_set for each in seen}:
            continue
        earlier = kept.get(root, [])
        last = earlier[-1] if earlier else None
        problem = _contradiction(connection, root, last, head)
        added = head.statement.seq - (last.statement.seq if last else -1)
        restored = problem is not None and _acknowledged(connection, root, last, head)
        if restored:
            problem, added, earlier, last = None, head.statement.seq + 1, [], None
        seen.append(WitnessedHistory(root, head.statement.seq, added, problem, restored))
        if problem is None and (last is None or last.statement.seq != head.statement.seq):
            kept[root] = [*earlier, head][-MAX_HEADS:]
    _write(state, kept)
    return seen


def heads_in(path: Path) -> list[SignedStatement]:
    """Return the newest head of each data set that a witness keeps.

    The witness saw one lead to the next, so it says what all of them say.
    """
    return [heads[-1] for heads in _state(path, needed=True).values() if heads]


def _contradiction(
    connection: Connection, name: str, last: SignedStatement | None, head: SignedStatement
) -> str | None:
    """Return how a new head contradicts the last; None where entries lead from one to the other."""
    new = head.statement
    if last is None:
        return None if head.holds(frozenset({head.key})) else "its head has a signature that is bad"
    old = last.statement
    if new.seq < old.seq:
        return (
            f"its history ends at entry {new.seq}, and entry {old.seq} was seen: it was restored "
            "from a backup, or cut off"
        )
    seq, prev, signs = old.seq + 1, old.hash, last.key
    while seq <= new.seq:
        lines = connection.text(f"/v1/data-sets/{name}/entries?first={seq}").splitlines()
        if not lines:
            return f"entry {seq} is kept back"
        for line in lines[: new.seq - seq + 1]:
            source = parsed_json(line)
            record = {key: source[key] for key in source if key not in CHAIN}
            whole, digest = chained(record, seq, prev)
            if whole != line:
                return f"entry {seq} does not follow the head that was kept: it is another history"
            if record.get("type") == "key.rotate":
                message = rotation_message(name, prev, str(record["key"]))
                if not signature_holds(signs, record["signature"], message):
                    return f"entry {seq} names a key that the one before did not sign"
                signs = str(record["key"])
            seq, prev = seq + 1, digest
    if prev != new.hash:
        return f"entry {new.seq} is not the one that was seen: it is another history"
    return None if head.holds(frozenset({signs})) else "its head is not signed by the key in use"


def _acknowledged(
    connection: Connection, name: str, last: SignedStatement | None, head: SignedStatement
) -> bool:
    """Return whether a history withstands an audit that holds the last head for a lost one's.

    Its first key must be one that the witness knows: that of the last head, or one before it.
    """
    if last is None:
        return False
    lines: list[bytes] = []
    size, most = 0, AuditLimits().megabytes * MEGABYTE
    while len(lines) <= head.statement.seq:
        text = connection.text(f"/v1/data-sets/{name}/entries?first={len(lines)}")
        size += len(text)
        if not text or size > most:
            return False
        lines += [f"{line}\n".encode() for line in text.splitlines()]
    whole = lines[: head.statement.seq + 1]
    if not audit_history(whole, head, [last], last.key).ok:
        return False
    old = last.statement
    return old.seq >= len(whole) or json.loads(whole[old.seq])["hash"] != old.hash


def _state(path: Path, *, needed: bool = False) -> dict[str, list[SignedStatement]]:
    if not needed and not path.exists():
        return {}
    try:
        source = parsed_json(regular_content(path, MAX_STATE_BYTES))
        heads = source["heads"]
        return {
            name: [SignedStatement.from_json(each) for each in listed]
            for name, listed in heads.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PrivplanError):
        raise InvalidInput(
            f"{path} is no state of a witness.",
            "It holds the heads that were seen, and a lost head finds nothing.",
            "Give the file that `privplan ledger witness --state` wrote.",
        ) from None


def _text(kept: Mapping[str, list[SignedStatement]]) -> str:
    """Return the state as it is written: with fewer heads of each data set where it has no room."""
    most = MAX_HEADS
    while True:
        heads = {name: [each.to_json() for each in listed[-most:]] for name, listed in kept.items()}
        text = json.dumps({"format": "privplan-witness/1", "heads": heads})
        if len(text) <= MAX_STATE_BYTES:
            return text
        if most == 1:
            raise InvalidInput(
                f"The newest heads of {len(kept):,} data sets have more than "
                f"{MAX_STATE_BYTES // 2**20} MB.",
                "A state that is larger could not be read again.",
                "Keep some of them in another --state: --data-set NAME, again for each.",
            )
        most //= 2


def _write(path: Path, kept: Mapping[str, list[SignedStatement]]) -> None:
    text = _text(kept)
    new = path.with_name(path.name + ".new")
    try:
        with new.open("w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be written: {error.strerror}.",
            "A head that is not kept finds nothing.",
            "Give a --state that can be written.",
        ) from None
