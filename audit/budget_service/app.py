"""The application: every address, asked by whoever may, answered in JSON or by a problem."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Final

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from .addresses import Address, AuthorisedRequest
from .claim_addresses import CLAIM_ADDRESSES
from .claims import Actor
from .data_set_addresses import DATA_SET_ADDRESSES
from .description import COMPONENTS, answers, described, response_class
from .large_bodies import LargeBodies, at_once
from .names import Refusal
from .problems import Computing, answered, body_of, problem
from .service import LedgerService
from .tokens import unauthorised

_PLAIN: Final = re.compile(r"[A-Za-z0-9._+-]{1,100}")

_TOKEN_SECONDS: Final = 2.0
"""How long a token that was valid is taken for valid: another server may revoke it meanwhile."""


class _Tokens:
    """Tokens that were valid a moment ago."""

    def __init__(self, service: LedgerService) -> None:
        self._service = service
        self._valid: dict[str, tuple[float, Actor]] = {}

    async def actor(self, request: Request) -> Actor:
        kind, _, secret = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not secret or len(secret) > 200:
            raise unauthorised()
        known, now = self._valid.get(secret), time.monotonic()
        if known is not None and now - known[0] < _TOKEN_SECONDS:
            return known[1]
        self._valid.pop(secret, None)
        actor = await run_in_threadpool(self._service.actor, secret)
        if len(self._valid) > 1000:
            self._valid.clear()
        self._valid[secret] = (now, actor)
        return actor

    def forget(self) -> None:
        self._valid.clear()


def application(service: LedgerService) -> FastAPI:
    """Return the application over a service."""
    # Its pages load code from elsewhere; the description itself stands at /openapi.json.
    app = FastAPI(
        title="privplan budget ledger",
        version="1",
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    valid, large = _Tokens(service), LargeBodies()
    for address in (*DATA_SET_ADDRESSES, *CLAIM_ADDRESSES):
        app.add_api_route(
            address.path,
            _endpoint(service, valid, large, address),
            methods=[address.method],
            status_code=address.status,
            summary=address.says,
            operation_id=f"{address.method.lower()} {address.path}",
            openapi_extra=described(address),
            responses=answers(address),
            response_model=None,
            response_class=response_class(address),
        )

    # Anybody may ask for it, so it is written once.
    description = JSONResponse({**app.openapi(), "components": COMPONENTS}).body

    @app.get("/openapi.json", include_in_schema=False)
    async def _() -> Response:
        return Response(bytes(description), media_type="application/json")

    @app.exception_handler(HTTPException)
    async def _(request: Request, error: HTTPException) -> Response:
        word = {404: "no-address", 405: "method"}.get(error.status_code, "request")
        answer = problem(
            error.status_code, word, str(error.detail), "GET /openapi.json lists them."
        )
        if error.status_code == 405:
            answer.headers["Allow"] = ", ".join(_allowed(app, request))
        return answer

    return app


def _allowed(app: FastAPI, request: Request) -> list[str]:
    """Return the methods that the path of a request takes."""
    matching = [
        route
        for route in app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
    ]
    return sorted({method for route in matching for method in route.methods or ()})


def _endpoint(
    service: LedgerService, valid: _Tokens, large: LargeBodies, address: Address
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        try:
            actor = await valid.actor(request)
            if actor.role not in address.roles:
                raise Refusal(
                    403,
                    "role",
                    f"A token of role {actor.role} may not do this.",
                    f"It is for {' and '.join(address.roles)}.",
                    "Ask an owner.",
                )
            # No name, id or number of the service looks otherwise.
            if not all(_PLAIN.fullmatch(each) for each in request.path_params.values()):
                raise Refusal(404, "no-address", "Nothing has such a name.")
            key = request.headers.get("idempotency-key")
            if key is not None and not (1 <= len(key) <= 200 and key.isprintable()):
                raise Refusal(422, "key", "Idempotency-Key has 1 to 200 printable characters.")
            with ExitStack() as turns:
                computing: list[Computing] = []

                def when_large() -> Computing:
                    turns.enter_context(large.turn(actor.holder))
                    computing.append(large.apart)
                    return large.apart

                has_body = address.method not in ("GET", "DELETE")
                body = await body_of(request, when_large) if has_body else {}
                compute = computing[0] if computing else at_once
                asked = AuthorisedRequest(
                    service, actor, body, request.path_params, request.query_params, key, compute
                )
                answer = await address.handler(asked)
        except Exception as error:
            # An error of the service's own shows nothing: its text may quote what was sent.
            return answered(error)
        finally:
            if address.path.startswith("/v1/tokens") and address.method != "GET":
                valid.forget()
        if isinstance(answer, Response):
            return answer
        return JSONResponse(answer, address.status)

    return endpoint
