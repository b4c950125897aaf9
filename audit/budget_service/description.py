"""What the OpenAPI description says of an address: its body and its answers, with examples.

The service itself reads bodies more strictly than a schema can say; nothing here is asked by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi.responses import JSONResponse, PlainTextResponse, Response

from .addresses import Address
from .problems import PROBLEM

Schema = Mapping[str, Any]

_NAME: Final = {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$"}
_NAMES: Final = {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 400}
_HASH: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXT: Final = {"type": "string", "minLength": 1, "maxLength": 1000}
_ABOVE_ZERO: Final = {"type": "number", "exclusiveMinimum": 0}
_SHARE: Final = {"type": "number", "minimum": 0, "maximum": 1}
_COUNT: Final = {"type": "integer", "minimum": 0, "maximum": 10**15}
_EVENT: Final = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string"}},
    "description": "an event: privplan explain events",
}
_STATED: Final[Schema] = {
    "unit": _NAME,
    "neighbours": {"enum": ["add-remove", "replace-one", "zero-out"]},
    "observer": _NAME,
    "records_per_unit": {"type": "integer", "minimum": 1},
}


def _object(optional: Schema | None = None, **required: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": {**required, **(optional or {})},
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


BODIES: Final[Mapping[str, Schema]] = {
    "/v1/data-sets": _object(
        {
            "observer": _NAME,
            "cap_at_most": _ABOVE_ZERO,
            "currency": {"enum": ["rdp", "zcdp", "gdp", "mu2-plans", "planned-pool"]},
            "orders": {"type": "array", "items": {"type": "number"}, "maxItems": 16},
            "slack": {"type": "number"},
            "plans": {"type": "integer"},
            "blocks_per_unit": {"type": "integer", "minimum": 1},
            "blocks": _NAMES,
        },
        name=_NAME,
        unit=_NAME,
        neighbours=_STATED["neighbours"],
        epsilon=_ABOVE_ZERO,
        delta={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
    ),
    "/v1/data-sets/{name}/blocks": _object(blocks=_NAMES),
    "/v1/data-sets/{name}/views": _object(view=_NAME),
    "/v1/data-sets/{name}/projects": _object(project=_NAME, share=_SHARE),
    "/v1/data-sets/{name}/analysts": _object(analyst=_NAME, share=_SHARE),
    "/v1/data-sets/{name}/caps": _object(epsilon=_ABOVE_ZERO, reason=_TEXT),
    "/v1/data-sets/{name}/caps/{proposal}/approve": _object(),
    "/v1/data-sets/{name}/freeze": _object(reason=_TEXT),
    "/v1/data-sets/{name}/thaw": _object(reason=_TEXT),
    "/v1/data-sets/{name}/receipts": {
        "type": "object",
        "description": "a head or a receipt, unchanged",
    },
    "/v1/data-sets/{name}/acknowledge": _object(
        {"histories": _or_null(_COUNT)}, reason=_TEXT, restored_at=_or_null(_COUNT)
    ),
    "/v1/tokens": _object(
        holder=_NAME,
        role={"enum": ["owner", "analyst", "auditor", "read-only"]},
        days=_ABOVE_ZERO,
    ),
    "/v1/claims": _object(
        {
            "blocks": {"anyOf": [{"const": "all"}, _NAMES]},
            "begin": {"type": "boolean"},
            **_STATED,
        },
        data_set=_NAME,
        project=_NAME,
        event=_EVENT,
    ),
    "/v1/claims/{claim}/begin": _object(),
    "/v1/claims/{claim}/release": _object({"head": _or_null(_HASH)}),
    "/v1/claims/{claim}/cancel": _object(),
    "/v1/claims/{claim}/abandon": _object(),
    "/v1/claims/{claim}/audit": _object(
        {"event": _or_null(_EVENT), **_STATED}, verdict={"enum": ["holds", "above"]}
    ),
}
"""The body of each address that takes one."""

QUERIES: Final[Mapping[str, Mapping[str, str]]] = {
    "/v1/data-sets/{name}/entries": {
        "first": "the number of the first entry",
        "most": "how many at most, 1000 where nothing is given",
    }
}
"""Whole numbers in the query of an address, and what they say."""

_ID: Final = "9f" * 16
_LOSS: Final = {"epsilon": 1.35, "delta": 1e-6}
_SIGNED: Final = {
    "format": "privplan-ledger/1",
    "data_set": "ward",
    "seq": 3,
    "hash": "5f" * 32,
    "balances": {"2025": ["1250000", "0"], "2026": ["0", "0"]},
    "cap": ["1000000000000000", "0"],
    "certified": True,
    "frozen": False,
    "claim": None,
    "key": "a7" * 32,
    "signature": "c3" * 64,
}
_CLAIM: Final = {
    "id": _ID,
    "state": "begun",
    "spent": _LOSS,
    "left": {"epsilon": 6.65, "delta": 1e-6},
    "receipt": {**_SIGNED, "claim": _ID, "state": "begun", "request": "5f" * 32},
}
_SHOWN: Final = {
    "name": "ward",
    "charged": "ward",
    "unit": "user",
    "neighbours": "add-remove",
    "observer": "model",
    "epsilon": 8.0,
    "delta": 1e-6,
    "cap_at_most": 8.0,
    "certified": True,
    "frozen": None,
    "currency": "rdp",
    "orders": [3.0, 5.0, 9.0, 17.0, 33.0, 65.0],
    "slack": 0.0,
    "blocks_per_unit": 1,
    "spent": _LOSS,
    "left": {"epsilon": 6.65, "delta": 1e-6},
    "blocks": {"2025": {"spent": 1.35, "left": 6.65}, "2026": {"spent": 0.0, "left": 8.0}},
    "seq": 3,
    "head": "5f" * 32,
    "notes": ["The ledger counts what it is told: a release that nobody claimed is not in it."],
}
_TOKEN: Final = {"id": "a1b2", "holder": "ana", "role": "analyst", "expires": 1.8e9}
_ENTRY: Final = (
    '{"at":"2026-11-30T09:00:00+00:00","blocks":["2027"],"by":"olga","hash":"5f5f...",'
    '"prev":"3c3c...","seq":4,"type":"blocks.add"}\n'
)

ANSWERS: Final[Mapping[tuple[str, str], Mapping[str, Any] | str]] = {
    ("POST", "/v1/data-sets"): _SHOWN,
    ("GET", "/v1/data-sets"): {"data_sets": ["ward", "ward-copy"]},
    ("GET", "/v1/data-sets/{name}"): _SHOWN,
    ("GET", "/v1/data-sets/{name}/head"): _SIGNED,
    ("GET", "/v1/data-sets/{name}/entries"): _ENTRY,
    ("POST", "/v1/data-sets/{name}/blocks"): _SHOWN,
    ("POST", "/v1/data-sets/{name}/views"): {**_SHOWN, "name": "ward-copy"},
    ("POST", "/v1/data-sets/{name}/projects"): _SHOWN,
    ("POST", "/v1/data-sets/{name}/analysts"): _SHOWN,
    ("POST", "/v1/data-sets/{name}/caps"): {"proposal": _ID, "epsilon": 6.0, "state": "proposed"},
    ("POST", "/v1/data-sets/{name}/caps/{proposal}/approve"): {**_SHOWN, "epsilon": 6.0},
    ("POST", "/v1/data-sets/{name}/freeze"): {**_SHOWN, "frozen": "why, for the history"},
    ("POST", "/v1/data-sets/{name}/thaw"): _SHOWN,
    ("POST", "/v1/data-sets/{name}/receipts"): {"agrees": True, "frozen": None},
    ("POST", "/v1/data-sets/{name}/acknowledge"): _SHOWN,
    ("POST", "/v1/tokens"): {**_TOKEN, "token": "plt_..."},
    ("GET", "/v1/tokens"): {"tokens": [{**_TOKEN, "revoked": False, "issued_by": "olga"}]},
    ("DELETE", "/v1/tokens/{token}"): {"id": "a1b2", "revoked": True},
    ("POST", "/v1/claims"): _CLAIM,
    ("GET", "/v1/claims/{claim}"): {**_CLAIM, "state": "released", "head": "5f" * 32},
    ("POST", "/v1/claims/{claim}/begin"): _CLAIM,
    ("POST", "/v1/claims/{claim}/release"): {**_CLAIM, "state": "released"},
    ("POST", "/v1/claims/{claim}/cancel"): {**_CLAIM, "state": "cancelled"},
    ("POST", "/v1/claims/{claim}/abandon"): {**_CLAIM, "state": "abandoned"},
    ("POST", "/v1/claims/{claim}/audit"): {
        **_CLAIM,
        "state": "audited",
        "audit": {"verdict": "holds", "charged": ["0", "0"], "content": "5f" * 32},
    },
}
"""An answer of each address."""

_PROBLEM_EXAMPLE: Final = {
    "type": "urn:privplan:ledger:budget",
    "title": "The claim does not fit into what is left of ward.",
    "status": 409,
    "detail": "In at least one block, or for the project, it would exceed the cap.",
    "fits": {"count": 12},
}

_PROBLEMS_BY_STATUS: Final = {
    401: "no valid token",
    403: "not for this role",
    404: "not there",
    408: "the body did not come in time",
    409: "does not fit, frozen, or not in that state",
    413: "more than 1 MB",
    422: "makes no sense, has no price, or a key that was used",
    429: "another event of this holder is being priced",
    500: "an error of the service's own: ask again with the same key",
    503: "the database did not take it: ask again with the same key",
}

PROBLEMS: Final[dict[int | str, dict[str, Any]]] = {
    status: {
        "description": description,
        "content": {
            PROBLEM: {
                "schema": {"$ref": "#/components/schemas/Problem"},
                "example": {**_PROBLEM_EXAMPLE, "status": status}
                if status == 409
                else {
                    "type": "urn:privplan:ledger:word",
                    "title": description,
                    "status": status,
                    "detail": "why, and what to do next",
                },
            }
        },
    }
    for status, description in _PROBLEMS_BY_STATUS.items()
}
"""What each address may answer instead (RFC 9457)."""

COMPONENTS: Final = {
    "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
    "schemas": {
        "Problem": {
            "type": "object",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string", "pattern": "^urn:privplan:ledger:[a-z-]+$"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
            },
        }
    },
}


def described(address: Address) -> dict[str, Any]:
    """Return what the description says of an address besides its path and its answers."""
    said: dict[str, Any] = {"security": [{"bearer": []}]}
    parameters = [
        {"name": part[1:-1], "in": "path", "required": True, "schema": _NAME}
        for part in address.path.split("/")
        if part.startswith("{")
    ]
    if address.path == "/v1/claims" and address.method == "POST":
        key = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"}
        parameters.append({"name": "Idempotency-Key", "in": "header", "schema": key})
    for name, says in QUERIES.get(address.path, {}).items():
        parameters.append({"name": name, "in": "query", "schema": _COUNT, "description": says})
    if parameters:
        said["parameters"] = parameters
    if address.example is not None:
        content = {"schema": dict(BODIES[address.path]), "example": dict(address.example)}
        said["requestBody"] = {"required": True, "content": {"application/json": content}}
    return said


def answers(address: Address) -> dict[int | str, dict[str, Any]]:
    """Return the answers of an address: what it gives, with an example, and each problem."""
    example = ANSWERS[address.method, address.path]
    schema = {"type": "string" if isinstance(example, str) else "object"}
    content = {response_class(address).media_type: {"schema": schema, "example": example}}
    return {address.status: {"description": address.says, "content": content}, **PROBLEMS}


def response_class(address: Address) -> type[Response]:
    """Return in which form an address answers."""
    is_text = isinstance(ANSWERS[address.method, address.path], str)
    return EntriesResponse if is_text else JSONResponse


class EntriesResponse(PlainTextResponse):
    """Entries of a history, one a line."""

    media_type = "application/x-ndjson"
