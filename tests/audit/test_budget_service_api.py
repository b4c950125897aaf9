"""The addresses of a budget ledger: tokens and roles, bodies, problems, and no secret anywhere."""

from __future__ import annotations

import http.client
import json
import logging
import socket
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privplan.accountant import events as ev
from privplan.audit.budget_service import slow_senders, tokens
from privplan.audit.budget_service.audited import audit_history
from privplan.audit.budget_service.claim_addresses import CLAIM_ADDRESSES
from privplan.audit.budget_service.data_set_addresses import DATA_SET_ADDRESSES
from privplan.audit.budget_service.description import ANSWERS
from privplan.audit.budget_service.problems import PROBLEM
from privplan.audit.budget_service.signer import SignedStatement

from ..cases import for_each
from .ledger_services import LAPLACE, TRAINING, answering, served

ROLES = {"olga": "owner", "otto": "owner", "ana": "analyst", "aud": "auditor", "rob": "read-only"}

WARD = {
    "name": "ward",
    "unit": "user",
    "neighbours": "add-remove",
    "epsilon": 4.0,
    "delta": 1e-6,
    "blocks": ["2025", "2026"],
}


@dataclass(frozen=True)
class Answer:
    """An answer, read whole."""

    status_code: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Api:
    """The addresses, asked by holders of tokens over one connection."""

    def __init__(self, url: str, secrets: dict[str, str]) -> None:
        self.secrets = secrets
        self._connection = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc)

    def __call__(
        self, who: str, method: str, path: str, body: Any = None, **headers: str
    ) -> Answer:
        given = {"Authorization": f"Bearer {self.secrets[who]}", **headers}
        sent = None if body is None else json.dumps(body).encode()
        return self.request(method, f"/v1{path}", sent, given)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        try:
            self._connection.request(method, path, body, headers or {})
            answer = self._connection.getresponse()
        except http.client.RemoteDisconnected:  # idle for too long
            self._connection.request(method, path, body, headers or {})
            answer = self._connection.getresponse()
        named = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, named, answer.read())

    def claim(self, who: str = "ana", key: str | None = None, **changed: Any) -> Any:
        body = {"data_set": "ward", "project": "sepsis", "event": LAPLACE.to_json(), **changed}
        return self(
            who, "POST", "/claims", body, **({} if key is None else {"Idempotency-Key": key})
        )


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    with served(tmp_path_factory.mktemp("ledger") / "ledger.db") as service:
        secrets = {}
        for holder, role in ROLES.items():
            answer = service.wrote(
                lambda each, holder=holder, role=role: tokens.issue(each, holder, role, 1.0, None)
            )
            secrets[holder] = str(answer["token"])
        with answering(service) as url:
            api = Api(url, secrets)
            assert api("olga", "POST", "/data-sets", WARD).status_code == 201
            yield api


def test_the_contract(api: Api) -> None:
    answer = api.claim(begin=True, blocks="all")
    assert answer.status_code == 201
    said = answer.json()
    assert set(said) == {"id", "state", "spent", "left", "receipt"}
    assert said["state"] == "begun"
    assert set(said["spent"]) == set(said["left"]) == {"epsilon", "delta"}
    assert 0.0 < said["spent"]["epsilon"] < 1.0
    waiting = api.claim(blocks=["2025"]).json()["id"]
    assert api("ana", "POST", f"/claims/{waiting}/begin", {}).json()["state"] == "begun"
    released = api("ana", "POST", f"/claims/{waiting}/release", {"head": "ab" * 32}).json()
    assert released["state"] == "released"
    other = api.claim(blocks=["2026"]).json()["id"]
    assert api("ana", "POST", f"/claims/{other}/cancel", {}).json()["state"] == "cancelled"
    assert api("rob", "GET", f"/claims/{other}").json()["state"] == "cancelled"
    audit = {"verdict": "holds", "event": LAPLACE.to_json()}
    assert api("aud", "POST", f"/claims/{waiting}/audit", audit).json()["state"] == "audited"
    shown = api("rob", "GET", "/data-sets/ward").json()
    assert shown["blocks"]["2025"]["spent"] > shown["blocks"]["2026"]["spent"] > 0.0
    assert any("counts what it is told" in note for note in shown["notes"])
    lines = api("aud", "GET", "/data-sets/ward/entries").content.splitlines(keepends=True)
    head = SignedStatement.from_json(api("rob", "GET", "/data-sets/ward/head").json())
    audited = audit_history(lines, head, [SignedStatement.from_json(said["receipt"])])
    assert audited.problem is None
    assert api("aud", "GET", "/data-sets/ward/entries?first=1&most=1").content == lines[1]


def test_a_claim_that_does_not_fit_says_what_would(api: Api) -> None:
    answer = api.claim(event=ev.Repeat(10**6, TRAINING.event).to_json())
    assert answer.status_code == 409
    assert answer.headers["content-type"] == PROBLEM
    said = answer.json()
    assert said["type"] == "urn:privplan:ledger:budget"
    fits = said["fits"]
    assert 0 < fits["count"] < 10**6
    assert 0.0 < fits["rate"] < 0.01
    assert fits["noise_multiplier"] > 1.0


def test_a_key_in_the_header_makes_a_retry_the_same_claim(api: Api) -> None:
    first = api.claim(key="retry").json()
    assert api.claim(key="retry").json() == first
    assert api.claim(key="retry", blocks=["2025"]).status_code == 422
    assert api.claim(key="x" * 201).status_code == 422


def test_every_address_is_for_its_roles_alone(api: Api) -> None:
    for address in (*DATA_SET_ADDRESSES, *CLAIM_ADDRESSES):
        path = address.path.removeprefix("/v1").format(
            name="ward", proposal="0", claim="0", token="0"
        )
        for holder, role in ROLES.items():
            if role not in address.roles:
                answer = api(holder, address.method, path, {})
                assert answer.status_code == 403, (address.path, role)
        without = api.request(address.method, f"/v1{path}", b"{}")
        assert without.status_code == 401, address.path
        assert without.headers["www-authenticate"] == "Bearer"


@for_each(
    "given",
    ["", "Bearer", "Bearer x", "Basic {secret}", "Bearer {secret}x", "bearer  {secret} y"],
)
def test_other_credentials_open_nothing(given: str, api: Api) -> None:
    header = given.format(secret=api.secrets["olga"])
    answer = api.request("GET", "/v1/data-sets", headers={"Authorization": header})
    assert answer.status_code == 401
    address = f"/v1/data-sets?token={api.secrets['olga']}&access_token={api.secrets['olga']}"
    assert api.request("GET", address).status_code == 401


def test_tokens_are_shown_once_expire_and_can_be_revoked(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"holder": "tom", "role": "analyst", "days": 1}
    issued = api("olga", "POST", "/tokens", body).json()
    assert len(issued["token"]) > 43
    api.secrets["tom"] = issued["token"]
    assert api("tom", "GET", "/data-sets").status_code == 200
    listed = api("olga", "GET", "/tokens").text
    assert not any(secret in listed for secret in api.secrets.values())
    assert api("olga", "DELETE", f"/tokens/{issued['id']}").status_code == 200
    assert api("tom", "GET", "/data-sets").status_code == 401
    api.secrets["tom"] = api("olga", "POST", "/tokens", body).json()["token"]
    now = time.time()
    monkeypatch.setattr(tokens.time, "time", lambda: now + 2 * 86400.0)
    assert api("tom", "GET", "/data-sets").status_code == 401
    # One name is one person, with one role, by one issuer.
    for changed in ({"role": "owner"}, {"holder": "otto", "role": "owner"}):
        assert api("olga", "POST", "/tokens", {**body, **changed}).status_code in (401, 409)


def test_an_owner_who_issues_a_token_has_no_second_pair_of_eyes(api: Api) -> None:
    for holder in ("puppet", "second"):
        body = {"holder": holder, "role": "owner", "days": 1}
        api.secrets[holder] = api("olga", "POST", "/tokens", body).json()["token"]
    body = {"epsilon": 3.9, "reason": "less"}
    number = api("puppet", "POST", "/data-sets/ward/caps", body).json()["proposal"]
    path = f"/data-sets/ward/caps/{number}/approve"
    for holder in ("puppet", "olga", "second"):
        answer = api(holder, "POST", path, {})
        assert answer.status_code == 403
        assert answer.json()["type"].endswith("four-eyes")
    assert api("otto", "POST", path, {}).json()["epsilon"] == 3.9


NESTED: Any = {"type": "laplace", "noise_multiplier": 1.0}
for _ in range(70):
    NESTED = {"type": "repeat", "count": 1, "event": NESTED}


@for_each(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b"{", 422),
        (b'{"a": 1, "a": 2}', 422),
        (b'{"data_set": NaN}', 422),
        (b"[" * 10**6, 422),
        (b'{"x": "' + b"y" * 2**20 + b'"}', 413),
        (b"\xff\xfe", 422),
        (b'{"n": ' + b"9" * 5000 + b"}", 422),
        (json.dumps({"data_set": "ward", "project": "p", "event": NESTED}).encode(), 422),
        (b'{"data_set": "ward", "project": "p", "event": {"type": "laplace"}}', 422),
        (b'{"data_set": "ward", "project": "p", "event": 3}', 422),
        (b'{"data_set": "ward", "project": "p", "event": {}, "begin": 1}', 422),
        (b'{"data_set": "ward", "project": "p", "price": [0]}', 422),
        (b'{"data_set": "w\' or 1=1 --", "project": "p", "event": {"type": "gaussian"}}', 422),
        (b'{"data_set": "nowhere", "project": "p", "event": {"type": "gaussian"}}', 404),
    ],
)
def test_bodies_that_make_no_sense_are_problems_and_charge_nothing(
    body: bytes, status: int, api: Api
) -> None:
    before = api("rob", "GET", "/data-sets/ward/head").json()
    headers = {"Authorization": f"Bearer {api.secrets['ana']}"}
    answer = api.request("POST", "/v1/claims", body, headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    assert {"type", "title", "status", "detail"} <= answer.json().keys()
    assert api("rob", "GET", "/data-sets/ward/head").json() == before


def test_no_answer_and_no_log_shows_a_token(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answers = [
        api("ana", "GET", f"/data-sets/{api.secrets['ana']}"),
        api("ana", "POST", "/claims", {"data_set": api.secrets["ana"]}),
        api("ana", "GET", "/nothing"),
        api("rob", "POST", "/claims", {}),
    ]
    assert all(answer.status_code >= 400 for answer in answers)
    assert not any(api.secrets["ana"] in answer.text for answer in answers[1:])
    assert not any(secret in each for each in caplog.messages for secret in api.secrets.values())


def test_the_head_of_a_request_has_some_seconds_to_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_senders, "HEAD_SECONDS", 0.3)
    with served(tmp_path / "slow.db") as service, answering(service) as url:
        whole = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
        for before in (b"", b"GET / HT", whole + b"GET / HT"):
            with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as client:
                client.settimeout(10)
                client.send(before)
                for _ in range(8):  # whoever sends a little now and then is no faster
                    time.sleep(0.1)
                    with suppress(OSError):
                        client.send(b"X")
                with suppress(ConnectionResetError):
                    while client.recv(2**16):
                        pass


def test_answers_that_nobody_reads_are_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_senders, "ANSWER_SECONDS", 0.5)
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"
    with served(tmp_path / "unread.db") as service, answering(service) as url:
        address = ("127.0.0.1", int(url.rpartition(":")[2]))
        with socket.create_connection(address) as client:
            client.settimeout(0.2)
            # More than the buffers of a connection hold; whoever reads nothing is closed.
            for _ in range(100):
                try:
                    client.sendall(asked * 50)
                except TimeoutError:
                    continue
                except OSError:
                    break
                time.sleep(0.05)
            else:
                raise AssertionError("it is still open")
        with socket.create_connection(address) as client:  # whoever reads is not
            client.settimeout(10)
            for _ in range(3):
                client.sendall(asked)
                time.sleep(0.6)
                assert client.recv(2**22)


def test_the_description_names_every_address_with_examples(api: Api) -> None:
    said = api.request("GET", "/openapi.json").json()
    assert said["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    for address in (*DATA_SET_ADDRESSES, *CLAIM_ADDRESSES):
        entry = said["paths"][address.path][address.method.lower()]
        assert entry["summary"] == address.says
        if address.method == "POST":
            content = entry["requestBody"]["content"]["application/json"]
            assert content["example"] == address.example
            jsonschema.validate(address.example, content["schema"])
            assert content["schema"]["type"] == "object"
        for status, answer in entry["responses"].items():
            ((kind, content),) = answer["content"].items()
            assert content["example"]
            assert (kind == PROBLEM) == (int(status) >= 400)
    assert api.request("GET", "/docs").status_code == 404


def test_examples_of_answers_have_the_fields_of_answers(api: Api) -> None:
    claim = api.claim(begin=True).json()
    number = claim["id"]
    real = {
        ("POST", "/v1/claims"): claim,
        ("GET", "/v1/claims/{claim}"): api("ana", "GET", f"/claims/{number}").json(),
        ("POST", "/v1/claims/{claim}/abandon"): api(
            "ana", "POST", f"/claims/{number}/abandon", {}
        ).json(),
        ("POST", "/v1/claims/{claim}/audit"): api(
            "aud", "POST", f"/claims/{number}/audit", {"verdict": "holds"}
        ).json(),
        ("GET", "/v1/data-sets/{name}"): api("rob", "GET", "/data-sets/ward").json(),
        ("GET", "/v1/data-sets/{name}/head"): api("rob", "GET", "/data-sets/ward/head").json(),
        ("GET", "/v1/data-sets"): api("rob", "GET", "/data-sets").json(),
        ("GET", "/v1/tokens"): api("olga", "GET", "/tokens").json(),
        ("POST", "/v1/data-sets/{name}/caps"): api(
            "olga", "POST", "/data-sets/ward/caps", {"epsilon": 7.5, "reason": "r"}
        ).json(),
        ("POST", "/v1/data-sets/{name}/receipts"): api(
            "rob", "POST", "/data-sets/ward/receipts", claim["receipt"]
        ).json(),
    }
    for address, answer in real.items():
        example = ANSWERS[address]
        assert example.keys() == answer.keys(), address
        for name, value in example.items():
            if isinstance(value, dict) and name not in ("blocks", "balances"):
                assert value.keys() == answer[name].keys(), (address, name)
    assert real["GET", "/v1/tokens"]["tokens"][0].keys() == (
        ANSWERS["GET", "/v1/tokens"]["tokens"][0].keys()
    )


def test_a_method_that_an_address_does_not_take_names_those_that_it_does(api: Api) -> None:
    answer = api.request("PATCH", "/v1/data-sets")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, POST"
    assert answer.headers["content-type"] == PROBLEM
    assert api.request("TRACE", "/v1/claims/x/begin").headers["allow"] == "POST"


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(10**15, 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["all", "ward", "2025", "gaussian", "repeat", "above", "owner", "\x00", "-1"]),
)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def _bodies(draw: st.DrawFn) -> tuple[Any, Any]:
    """Draw an address, and its example with some of its parts exchanged."""
    addresses = [each for each in (*DATA_SET_ADDRESSES, *CLAIM_ADDRESSES) if each.method == "POST"]
    address = draw(st.sampled_from(addresses))
    body = json.loads(json.dumps(address.example))
    for _ in range(draw(st.integers(0, 3))):
        part: Any = body
        while isinstance(part, dict) and part:
            name = draw(st.sampled_from([*part, "extra"]))
            inner = part.get(name)
            if not isinstance(inner, dict) or draw(st.booleans()):
                part[name] = draw(_VALUES)
                break
            part = inner
    return address, body


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(case=_bodies())
def test_no_body_stops_the_service_on_an_error_of_its_own(case: tuple[Any, Any], api: Api) -> None:
    address, body = case
    path = address.path.removeprefix("/v1").format(name="ward", proposal="0" * 32, claim="0" * 32)
    who = "aud" if address.path.endswith("/audit") else "olga"
    answer = api(who, "POST", path, body)
    assert answer.status_code != 500, (path, body, answer.text)
    assert answer.status_code < 300 or answer.headers["content-type"] == PROBLEM


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(name=st.text(max_size=30), query=st.text(max_size=10))
def test_no_path_stops_the_service_on_an_error_of_its_own(name: str, query: str, api: Api) -> None:
    quoted = urllib.parse.quote(name, safe="")
    for path in (f"/data-sets/{quoted}", f"/data-sets/{quoted}/head", f"/claims/{quoted}"):
        assert api("olga", "GET", path).status_code in (200, 404, 405, 422)
    asked = urllib.parse.quote(query, safe="")
    answer = api("olga", "GET", f"/data-sets/ward/entries?first={asked}&most={asked}")
    assert answer.status_code in (200, 422)
