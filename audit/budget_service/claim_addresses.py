"""Addresses of claims: make one, begin, release, cancel, abandon, audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...accountant import validate
from ...accountant.errors import InvalidInput
from ...accountant.nearest_names import require_fields
from ...fl.log.hash_chain import is_hash
from . import claims
from .addresses import AUDITORS, CLAIMANTS, EVERYBODY, Address, AuthorisedRequest, blocking, durable
from .balances import Vector
from .claiming import BudgetRefusal
from .service import claim_request
from .stating import FIELDS, stated_in

_EVENT: Final = {
    "type": "repeat",
    "count": 1000,
    "event": {
        "type": "poisson",
        "rate": 0.01,
        "event": {"type": "gaussian", "noise_multiplier": 1.0},
    },
}
_HEAD: Final = "5f" * 32


async def _claim(asked: AuthorisedRequest) -> Any:
    request = claim_request(asked.body)
    priced = await asked.compute(asked.service.kept_price, request)
    if priced is None:
        priced = await blocking(asked.service.priced, request, asked.actor)
    request, price = priced
    future = await blocking_if_new(asked, request, price)
    try:
        return await durable(future)
    except BudgetRefusal as refusal:
        return await _refused(asked, request, refusal)


async def blocking_if_new(
    asked: AuthorisedRequest, request: claims.ClaimRequest, price: Vector
) -> Any:
    """Return the future of a claim; a data set that was not yet asked for is looked up."""
    arguments = (request, price, asked.actor, asked.key)
    if asked.service.knows(request.data_set):
        return asked.service.claimed(*arguments)
    return await blocking(asked.service.claimed, *arguments)


async def _refused(
    asked: AuthorisedRequest, request: claims.ClaimRequest, refusal: BudgetRefusal
) -> Any:
    raise await blocking(asked.service.fits, request, refusal, asked.actor)


async def _shown(asked: AuthorisedRequest) -> Any:
    return await blocking(asked.service.claim_now, asked.path["claim"], asked.actor)


def _step(operation: Callable[..., dict[str, Any]]) -> Callable[[AuthorisedRequest], Any]:
    async def step(asked: AuthorisedRequest) -> Any:
        _require(asked.body, ())
        return await _taken(asked, operation)

    return step


async def _release(asked: AuthorisedRequest) -> Any:
    _require(asked.body, ("head",), optional=("head",))
    head = asked.body.get("head")
    if head is not None and not is_hash(head):
        raise InvalidInput(
            "`head` must be the head of a log: 64 hexadecimal digits.",
            "It says which log tells what was released.",
            "Leave it out where there is no log.",
        )
    return await _taken(asked, claims.release, head)


async def _audit(asked: AuthorisedRequest) -> Any:
    _require(asked.body, ("verdict", "event", *FIELDS), optional=("event", *FIELDS))
    verdict = validate.choice(("holds", "above"), verdict=asked.body["verdict"])
    event = asked.body.get("event")
    if event is not None and not isinstance(event, dict):
        raise InvalidInput("`event` must be an object with a `type`.")
    number, stated = asked.path["claim"], stated_in(asked.body)
    lost = await blocking(asked.service.audited_loss, number, event, asked.actor, stated)
    return await _taken(asked, claims.audit, verdict, lost)


async def _taken(asked: AuthorisedRequest, operation: Callable[..., Any], *arguments: Any) -> Any:
    service, number, actor = asked.service, asked.path["claim"], asked.actor
    future = await blocking(
        service.step,
        number,
        lambda connection: operation(connection, service.signer, number, actor, *arguments),
    )
    return await durable(future)


def _require(
    body: Mapping[str, Any], known: tuple[str, ...], optional: tuple[str, ...] = ()
) -> None:
    otherwise = f"It takes {', '.join(known) or 'no fields'}."
    require_fields(body, known, "body", optional=optional, otherwise=otherwise)


CLAIM_ADDRESSES: Final = (
    Address(
        "POST",
        "/v1/claims",
        CLAIMANTS,
        _claim,
        "Claim an event; what does not fit is answered by what would",
        {"data_set": "ward", "blocks": "all", "project": "sepsis", "event": _EVENT, "begin": True},
        201,
    ),
    Address("GET", "/v1/claims/{claim}", EVERYBODY, _shown, "A claim as it is now"),
    Address(
        "POST",
        "/v1/claims/{claim}/begin",
        CLAIMANTS,
        _step(claims.begin),
        "Begin: from here on it is spent; draw no noise before this is answered",
        {},
    ),
    Address(
        "POST",
        "/v1/claims/{claim}/release",
        CLAIMANTS,
        _release,
        "Close with the head of the log that says what was released",
        {"head": _HEAD},
    ),
    Address(
        "POST",
        "/v1/claims/{claim}/cancel",
        CLAIMANTS,
        _step(claims.cancel),
        "Take back what was not begun",
        {},
    ),
    Address(
        "POST",
        "/v1/claims/{claim}/abandon",
        CLAIMANTS,
        _step(claims.abandon),
        "Close without a release; it stays spent",
        {},
    ),
    Address(
        "POST",
        "/v1/claims/{claim}/audit",
        AUDITORS,
        _audit,
        "Close with a verdict; what was lost above the claim is charged",
        {"verdict": "holds", "event": _EVENT},
    ),
)
