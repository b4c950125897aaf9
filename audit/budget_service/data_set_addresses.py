"""Addresses of data sets, of their histories, and of tokens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import require_fields
from . import owners, restoring, tokens
from .addresses import AUDITORS, EVERYBODY, OWNERS, Address, AuthorisedRequest, blocking
from .description import EntriesResponse
from .names import name_of, names_of

_REASON: Final = {"reason": "why, for the history"}


async def _open(asked: AuthorisedRequest) -> Any:
    return await blocking(asked.service.open_data_set, asked.body, asked.actor)


async def _names(asked: AuthorisedRequest) -> Any:
    return {"data_sets": await blocking(asked.service.names)}


async def _shown(asked: AuthorisedRequest) -> Any:
    return await blocking(asked.service.shown, asked.path["name"])


async def _head(asked: AuthorisedRequest) -> Any:
    return await blocking(asked.service.head, asked.path["name"])


async def _entries(asked: AuthorisedRequest) -> Any:
    """Entries as they were written, one a line; `first` is the number of the first."""
    first = _whole(asked.query.get("first", "0"))
    most = _whole(asked.query.get("most", "1000"))
    lines = await blocking(asked.service.lines, asked.path["name"], first, most)
    text = "".join(f"{line}\n" for line in lines)
    return EntriesResponse(text)


async def _present(asked: AuthorisedRequest) -> Any:
    return await blocking(asked.service.present, asked.path["name"], dict(asked.body))


def _writing(
    fields: tuple[str, ...],
    operation: Callable[..., Any],
    *,
    whole_name: bool = True,
    optional: tuple[str, ...] = (),
) -> Callable[[AuthorisedRequest], Any]:
    """Return a handler: the fields of the body, in order, are arguments of an owner's operation."""

    async def handler(asked: AuthorisedRequest) -> Any:
        otherwise = f"It takes {', '.join(fields)}."
        require_fields(
            asked.body,
            fields,
            "body",
            optional=optional,
            otherwise=otherwise,
            if_missing=otherwise,
        )
        given = [asked.body.get(field) for field in fields]
        named = [asked.path[name] for name in ("name", "proposal") if name in asked.path]
        service, actor = asked.service, asked.actor
        return await blocking(
            service.wrote,
            lambda connection: operation(connection, service.signer, *named, *given, actor),
            asked.path["name"] if whole_name else None,
        )

    return handler


def _add_blocks(connection: Any, signer: Any, name: str, new: Any, actor: Any) -> Any:
    return owners.add_blocks(connection, signer, name, names_of(blocks=new), actor)


def _open_view(connection: Any, signer: Any, parent: str, view: Any, actor: Any) -> Any:
    return owners.open_view(connection, signer, name_of(view=view), parent, actor)


def _acknowledge(
    connection: Any, signer: Any, name: str, reason: Any, last: Any, histories: Any, actor: Any
) -> Any:
    return restoring.acknowledge(connection, signer, name, reason, last, actor, histories)


async def _issue(asked: AuthorisedRequest) -> Any:
    fields = ("holder", "role", "days")
    otherwise = f"It takes {', '.join(fields)}."
    require_fields(asked.body, fields, "body", otherwise=otherwise, if_missing=otherwise)
    body, by = asked.body, asked.actor.holder
    return await blocking(
        asked.service.wrote,
        lambda connection: tokens.issue(connection, body["holder"], body["role"], body["days"], by),
    )


async def _revoke(asked: AuthorisedRequest) -> Any:
    number = asked.path["token"]
    return await blocking(asked.service.wrote, lambda connection: tokens.revoke(connection, number))


async def _listed(asked: AuthorisedRequest) -> Any:
    return {"tokens": await blocking(asked.service.tokens)}


def _whole(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InvalidInput("`first` and `most` are whole numbers.")
    return validate.count_from(0, number=int(text))


DATA_SET_ADDRESSES: Final = (
    Address(
        "POST",
        "/v1/data-sets",
        OWNERS,
        _open,
        "Open a data set; its currency is fixed now, before its first claim",
        {
            "name": "ward",
            "unit": "user",
            "neighbours": "add-remove",
            "epsilon": 8.0,
            "delta": 1e-6,
            "blocks": ["2025", "2026"],
        },
        201,
    ),
    Address("GET", "/v1/data-sets", EVERYBODY, _names, "The names of all data sets"),
    Address("GET", "/v1/data-sets/{name}", EVERYBODY, _shown, "What is spent and left, by block"),
    Address("GET", "/v1/data-sets/{name}/head", EVERYBODY, _head, "The signed head: keep it"),
    Address(
        "GET", "/v1/data-sets/{name}/entries", AUDITORS, _entries, "The history, one entry a line"
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/blocks",
        OWNERS,
        _writing(("blocks",), _add_blocks),
        "Add blocks, of new people",
        {"blocks": ["2027"]},
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/views",
        OWNERS,
        _writing(("view",), _open_view),
        "Open a view or a copy, for which the data set pays",
        {"view": "ward-copy"},
        201,
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/projects",
        OWNERS,
        _writing(("project", "share"), owners.limit_project),
        "Limit a project to a share: a limit, no guarantee",
        {"project": "sepsis", "share": 0.25},
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/analysts",
        OWNERS,
        _writing(("analyst", "share"), owners.limit_analyst),
        "Limit a holder of tokens to a share: a limit, no guarantee",
        {"analyst": "ana", "share": 0.5},
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/caps",
        OWNERS,
        _writing(("epsilon", "reason"), owners.propose_cap),
        "Propose another cap; another owner approves it",
        {"epsilon": 6.0, **_REASON},
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/caps/{proposal}/approve",
        OWNERS,
        _writing((), owners.approve_cap),
        "Approve a cap that another owner proposed",
        {},
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/freeze",
        (*OWNERS, "auditor"),
        _writing(("reason",), owners.freeze),
        "Freeze: nothing is claimed or begun",
        _REASON,
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/thaw",
        OWNERS,
        _writing(("reason",), owners.thaw),
        "Let claims be made again",
        _REASON,
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/receipts",
        EVERYBODY,
        _present,
        "Present a head or a receipt: the history must have its entry",
        {"format": "privplan-ledger/1"},
    ),
    Address(
        "POST",
        "/v1/data-sets/{name}/acknowledge",
        OWNERS,
        _writing(("reason", "restored_at", "histories"), _acknowledge, optional=("histories",)),
        "Acknowledge a restored backup that ended at an entry (null: unknown): its gap is charged",
        {**_REASON, "restored_at": 1041, "histories": 1},
    ),
    Address(
        "POST",
        "/v1/tokens",
        OWNERS,
        _issue,
        "Issue a token, which is shown once",
        {"holder": "ana", "role": "analyst", "days": 90},
        201,
    ),
    Address("GET", "/v1/tokens", OWNERS, _listed, "All tokens, without their secrets"),
    Address("DELETE", "/v1/tokens/{token}", OWNERS, _revoke, "Revoke a token"),
)
