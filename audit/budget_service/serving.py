"""The service as a process: its database, its key, what a witness kept, and where it answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ...accountant.errors import InvalidInput, MissingExtra
from ...fl.log.signing import require_library
from ...fl.running.signing_key import key_is_open, private_key

LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")
FIRST_DAYS: Final = 90.0
"""How long a token that the operator issues is valid."""

DEMO_DATA_SET: Final = "ward"

STOPPED_BY: Final = (signal.SIGINT, signal.SIGTERM)

MAX_CONNECTIONS: Final = 500
"""What is above is answered 503 at once."""

GRACE_SECONDS: Final = 15
"""How long requests that are being answered keep a service from stopping."""

Announce = Callable[[Mapping[str, Any]], None]
"""Called once, when the service answers, with its URL and the tokens that were issued."""


@dataclass(frozen=True)
class ServiceOptions:
    """What is served, and where.

    `database` is a path or a URL, `key` the file of the private key, which is made where there is
    none.  `former_key` hands the histories over to `key`.  `owner` is issued a token of an owner.
    `witnesses` are files of `privplan ledger witness`.  `new` says that a key that exists has
    signed no data set yet.  `daily_claims` and `daily_megabytes` are what a holder may claim of a
    data set in a day (None: the default of `daily_limits`).
    """

    database: str
    key: Path
    host: str = "127.0.0.1"
    port: int = 8443
    owner: str | None = None
    former_key: Path | None = None
    witnesses: tuple[Path, ...] = ()
    certificate: Path | None = None
    certificate_key: Path | None = None
    new: bool = False
    daily_claims: int | None = None
    daily_megabytes: int | None = None


def require_packages() -> None:
    """Raise `MissingExtra` where a package of the extra `serve` is absent."""
    try:
        import alembic  # noqa: F401
        import fastapi  # noqa: F401
        import sqlalchemy  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"The ledger needs the package `{error.name}`.",
            "It comes with the extra `serve`.",
            "pip install 'privplan[serve]'",
        ) from None
    require_library()


def serve(asked: ServiceOptions, announce: Announce) -> None:
    """Serve until the process is told to stop.

    Raises `InvalidInput` for a database, a key or an address that cannot be used, and for histories
    that another key signs.
    """
    require_packages()
    _require_private(asked)
    with _closed_in_order():
        _serve(asked, announce)


def _serve(asked: ServiceOptions, announce: Announce) -> None:
    from .database import Database
    from .restoring import hold_witnessed
    from .rotation import require_key
    from .service import LedgerService
    from .signer import Signer
    from .startup_check import require_consistent
    from .witness import heads_in

    _require_key_elsewhere(asked)
    had_key = asked.key.exists()
    signer = Signer(_key(asked.key))
    former = (
        None if asked.former_key is None else Signer(private_key(asked.former_key, "--former-key"))
    )
    database = Database(asked.database)
    try:
        if had_key and not asked.new:
            _require_data_sets(database)
        unchecked = require_consistent(database, signer)
        require_key(database, signer, former)
        heads = [head for file in asked.witnesses for head in heads_in(file)]
        behind = hold_witnessed(database, signer, heads)
    except BaseException:
        database.close()
        raise
    service = LedgerService(database, signer, limits=_limits(asked))
    try:
        said: dict[str, Any] = {"tokens": {}, "key": signer.public, "behind": behind}
        said["unchecked"] = unchecked
        if asked.owner is not None:
            said["tokens"] = {asked.owner: _issued(service, asked.owner, "owner")}
        if key_is_open(asked.key):
            said["warning"] = f"Others can read the private key: chmod 600 {asked.key}"
        _answer(service, asked, said, announce)
    finally:
        service.close()


def _limits(asked: ServiceOptions) -> Any:
    from .audit_limits import MEGABYTE
    from .daily_limits import DailyLimits

    usual = DailyLimits()
    megabytes = asked.daily_megabytes
    return DailyLimits(
        usual.claims if asked.daily_claims is None else asked.daily_claims,
        usual.bytes if megabytes is None else megabytes * MEGABYTE,
    )


def demo(port: int, announce: Announce) -> None:
    """Serve an example from a temporary folder, with a token of each role."""
    require_packages()
    from .claims import Actor
    from .database import Database
    from .service import LedgerService
    from .signer import Signer

    with _closed_in_order(), tempfile.TemporaryDirectory(prefix="privplan-ledger-") as folder:
        service = LedgerService(Database(str(Path(folder) / "ledger.db")), Signer.fresh())
        try:
            roles = ("owner", "analyst", "auditor")
            issued = {role: _issued(service, role, role) for role in roles}
            terms = {
                "name": DEMO_DATA_SET,
                "unit": "user",
                "neighbours": "add-remove",
                "epsilon": 8.0,
                "delta": 1e-6,
                "blocks": ["2025", "2026"],
            }
            service.open_data_set(terms, Actor("owner", "owner"))
            said = {"tokens": issued, "data_set": DEMO_DATA_SET}
            _answer(service, ServiceOptions("", Path(), port=port), said, announce)
        finally:
            service.close()


def _answer(
    service: Any, asked: ServiceOptions, said: Mapping[str, Any], announce: Announce
) -> None:
    import uvicorn

    from .app import application
    from .slow_senders import ImpatientProtocol

    class Server(uvicorn.Server):
        @contextlib.contextmanager
        def capture_signals(self) -> Iterator[None]:
            """Stop on SIGINT and SIGTERM, and go on to what closes the database."""
            for each in STOPPED_BY:
                signal.signal(each, self.handle_exit)
            try:
                yield
            finally:
                # A second signal does not keep the database from being closed.
                for each in STOPPED_BY:
                    signal.signal(each, signal.SIG_IGN)

        async def startup(self, sockets: Any = None) -> None:
            with _impatient_handshakes(asyncio.get_running_loop()):
                await super().startup(sockets=sockets)
            if self.started:
                port = self.servers[0].sockets[0].getsockname()[1]
                scheme = "http" if asked.certificate is None else "https"
                host = f"[{asked.host}]" if ":" in asked.host else asked.host
                announce({"url": f"{scheme}://{host}:{port}", **said})

    config = uvicorn.Config(
        application(service),
        host=asked.host,
        port=asked.port,
        # No line of a log shows who asked for what.
        access_log=False,
        log_level="error",
        server_header=False,
        lifespan="off",
        http=ImpatientProtocol,
        loop="asyncio",
        limit_concurrency=MAX_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        ssl_certfile=asked.certificate,
        ssl_keyfile=asked.certificate_key,
    )
    _allow_files()
    server = Server(config)
    server.run()
    if not server.started:
        raise InvalidInput(
            f"The service cannot answer at {asked.host}, port {asked.port}.",
            "Another program may answer there, or the name is of another machine.",
            "Give another --port or --host.",
        )


@contextlib.contextmanager
def _impatient_handshakes(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Have servers that are made end a TLS handshake as soon as the head of a request.

    uvicorn counts connections after their handshake alone, and asyncio waits a minute for it.
    """
    from .slow_senders import HEAD_SECONDS

    usual: Callable[..., Awaitable[Any]] = loop.create_server

    async def create_server(*arguments: Any, ssl: Any = None, **more: Any) -> Any:
        limit = {} if ssl is None else {"ssl_handshake_timeout": HEAD_SECONDS}
        return await usual(*arguments, ssl=ssl, **limit, **more)

    vars(loop)["create_server"] = create_server
    try:
        yield
    finally:
        del vars(loop)["create_server"]


def _allow_files() -> None:
    """Allow as many open files as the system lets a process have: a connection is one."""
    try:
        import resource
    except ModuleNotFoundError:
        return
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@contextlib.contextmanager
def _closed_in_order() -> Iterator[None]:
    """Have a signal that ends the process run what closes the database, also before it answers."""

    def end(*_: object) -> None:
        raise SystemExit(128 + signal.SIGTERM)

    before = {each: signal.getsignal(each) for each in STOPPED_BY}
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _require_data_sets(database: Any) -> None:
    """Raise `InvalidInput` where a key that exists is given with a database that has nothing."""
    import sqlalchemy as sa

    from .tables import data_sets

    with database.reading() as connection:
        if connection.execute(sa.select(data_sets.c.id).limit(1)).first() is not None:
            return
    raise InvalidInput(
        "The key exists, and the database has no data set.",
        "A ledger that was lost looks so, and a new one gives everybody a second budget.",
        "Restore a backup; where the key signed no data set yet, give --new.",
    )


def _issued(service: Any, holder: str, role: str) -> str:
    from . import tokens

    answer = service.wrote(
        lambda connection: tokens.issue(connection, holder, role, FIRST_DAYS, None)
    )
    return str(answer["token"])


def _require_private(asked: ServiceOptions) -> None:
    """Raise `InvalidInput` where tokens would cross a network in the clear."""
    if asked.host not in LOOPBACK and asked.certificate is None:
        raise InvalidInput(
            f"{asked.host} would be served without TLS.",
            "Whoever listens to the network would read the tokens.",
            "Give --tls-cert and --tls-key, or serve 127.0.0.1 behind a proxy that has them.",
        )


def _require_key_elsewhere(asked: ServiceOptions) -> None:
    if "://" in asked.database and not asked.database.startswith("sqlite"):
        return
    folder = Path(asked.database.removeprefix("sqlite:///")).resolve().parent
    if asked.key.resolve().parent == folder:
        raise InvalidInput(
            f"The private key {asked.key} lies in the folder of the database.",
            "A backup of the folder would take it along, and whoever restores it could sign anew.",
            "Keep the key in another folder: --key FILE",
        )


def _key(path: Path) -> Any:
    """Return the private key in a file, which is made where there is none."""
    library = require_library()
    if not path.exists():
        from cryptography.hazmat.primitives import serialization

        pem = library.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        try:
            with _new_file(path) as descriptor:
                os.write(descriptor, pem)
                os.fsync(descriptor)
        except OSError as error:
            raise InvalidInput(
                f"{path} cannot be written: {error.strerror}.",
                "The service signs by a private key of its own.",
                "Give a --key in a folder that exists and can be written.",
            ) from None
    return private_key(path, "--key")


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


__all__ = ["DEMO_DATA_SET", "ServiceOptions", "demo", "require_packages", "serve"]
