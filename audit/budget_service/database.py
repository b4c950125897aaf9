"""The database of the ledger: opened once, brought to the newest tables, written in groups.

SQLite stands in a file (WAL, full synchronisation), which no second server opens, by any name
(`database_file`): it would not see what the first is about to commit.  PostgreSQL is given by URL
(READ COMMITTED): there the data set's row is locked first, then the project's, then the blocks' by
their ids.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from ...accountant.errors import InvalidInput, MissingExtra, PrivplanError
from .database_file import DatabaseFile
from .names import Refusal
from .tables import data_sets

_SQLITE: Final = "sqlite"
_POSTGRESQL: Final = ("postgresql", "postgresql+psycopg", "postgres")
_BUSY_SECONDS: Final = 60.0

T = TypeVar("T")

Operation = Callable[[sa.Connection], T]
"""What is done in one savepoint; it is retried by nobody."""


class StoreFailed(PrivplanError):
    """The database did not take a group: nothing of it is acknowledged, and nothing is known."""


class Database:
    """An open database.

    Raises `InvalidInput` for an address that is none, a file that another server has or that holds
    no ledger, and tables of a newer version; `MissingExtra` without the driver.
    """

    def __init__(self, address: str) -> None:
        self._file: DatabaseFile | None = None
        self.engine = _engine(address)
        self.is_sqlite = self.engine.dialect.name == _SQLITE
        try:
            if self.is_sqlite:
                self._file = DatabaseFile(Path(str(self.engine.url.database)))
                if not self._file.is_new:
                    _require_tables(self.engine)
            _migrate(self.engine)
            if self.is_sqlite:
                _write_back(self.engine)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close every connection, and let go of the file."""
        self.engine.dispose()
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextlib.contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Yield a connection that sees one committed state, and writes nothing.

        Raises `StoreFailed` where the database does not answer.
        """
        try:
            with self.engine.connect() as connection:
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN")
                else:
                    connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
                try:
                    yield connection
                finally:
                    if self.is_sqlite:
                        connection.exec_driver_sql("ROLLBACK")
        except sa.exc.SQLAlchemyError as error:
            raise StoreFailed(
                f"The database does not answer ({type(error).__name__}).",
                "Nothing was read, and nothing was changed.",
                "Ask again.",
            ) from None

    def write(
        self, operations: Sequence[Operation[Any]], concerned: Iterable[int] = ()
    ) -> list[Any]:
        """Do operations in one transaction, each in a savepoint; return what each returned.

        An operation that refuses is undone alone, and its error stands in the list.  `concerned`
        are the ids of the data sets whose rows are locked first, in their order, so that two
        servers never wait for each other.  When this returns, what was done is on the disk.

        Raises `StoreFailed` where the database fails: then nothing is known to be done.
        """
        answers: list[Any] = []
        try:
            with self.engine.connect() as connection:
                connection.exec_driver_sql("BEGIN IMMEDIATE" if self.is_sqlite else "SELECT 1")
                try:
                    for number in sorted(set(concerned)):
                        locked_row(connection, data_sets, data_sets.c.id == number)
                    for operation in operations:
                        answers.append(_in_savepoint(connection, operation))
                except BaseException:
                    _roll_back(connection, is_sqlite=self.is_sqlite)
                    raise
                if self.is_sqlite:
                    connection.exec_driver_sql("COMMIT")
                else:
                    connection.commit()
        except sa.exc.SQLAlchemyError as error:
            raise StoreFailed(
                f"The database did not take it ({type(error).__name__}).",
                "What was asked is not acknowledged; whether it was written is not known.",
                "Ask again with the same key.",
            ) from None
        return answers


def locked_row(
    connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]
) -> sa.Row[Any] | None:
    """Return a row, locked until the transaction ends; None where there is none."""
    return connection.execute(sa.select(table).where(condition).with_for_update()).first()


def locked_rows(
    connection: sa.Connection, table: sa.Table, condition: sa.ColumnElement[bool]
) -> list[sa.Row[Any]]:
    """Return rows in the order of their ids, locked until the transaction ends."""
    asked = sa.select(table).where(condition).order_by(table.c.id).with_for_update()
    return list(connection.execute(asked))


def _in_savepoint(connection: sa.Connection, operation: Operation[Any]) -> Any:
    connection.exec_driver_sql("SAVEPOINT claim")
    try:
        answer = operation(connection)
    except (sa.exc.DataError, sa.exc.IntegrityError) as error:
        # The database refuses these values; the transaction goes on without them.
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT claim")
        answer = Refusal(422, "values", f"The database refuses it ({type(error).__name__}).")
    except sa.exc.SQLAlchemyError:
        raise  # the whole group fails: what the database still knows is not known
    except Exception as error:  # whatever it is, it is the fault of this operation alone
        connection.exec_driver_sql("ROLLBACK TO SAVEPOINT claim")
        answer = error
    connection.exec_driver_sql("RELEASE SAVEPOINT claim")
    return answer


def _roll_back(connection: sa.Connection, *, is_sqlite: bool) -> None:
    with contextlib.suppress(sa.exc.SQLAlchemyError):
        if is_sqlite:
            # A full disk may have ended the transaction already.
            connection.exec_driver_sql("ROLLBACK")
        else:
            connection.rollback()


def _engine(address: str) -> sa.Engine:
    """Return the engine of a path or a URL."""
    try:
        url = sa.make_url(address if "://" in address else f"sqlite:///{address}")
    except sa.exc.ArgumentError:
        raise _no_address() from None
    if url.drivername in _POSTGRESQL:
        try:
            return sa.create_engine(url.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        except ModuleNotFoundError:
            raise MissingExtra(
                "PostgreSQL needs the package `psycopg`.",
                "It comes with the extra `serve`.",
                "pip install 'privplan[serve]'",
            ) from None
    if url.drivername != _SQLITE or not url.database or url.database == ":memory:" or url.query:
        raise _no_address()
    # What is locked must be what is opened, and a journal stands next to the file itself.
    url = url.set(database=os.path.realpath(url.database))
    engine = sa.create_engine(url, connect_args={"timeout": _BUSY_SECONDS})

    @sa.event.listens_for(engine, "connect")
    def _(connection: Any, _: object) -> None:
        # Transactions are begun by hand: the driver would begin them late.
        connection.isolation_level = None
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}")

    return engine


def _no_address() -> InvalidInput:
    return InvalidInput(
        "The address of the database is none.",
        "It is the path of a file, or postgresql://user@host/name.",
        "Give such an address; a password belongs into PGPASSWORD or a password file.",
    )


def _require_tables(engine: sa.Engine) -> None:
    """Raise `InvalidInput` where a file that exists holds no ledger: it may have lost its own."""
    try:
        has_tables = sa.inspect(engine).has_table("alembic_version")
    except sa.exc.SQLAlchemyError as error:
        raise _unopened(error) from None
    if not has_tables:
        raise InvalidInput(
            f"{engine.url.database} exists, and holds no ledger.",
            "A copy that was made without its journal looks so: everybody's budget would begin "
            "anew.",
            "Restore a backup; for a new ledger give a file that does not exist.",
        )


def _write_back(engine: sa.Engine) -> None:
    """Write the journal back into the file, so that a copy of the file alone is no empty ledger."""
    with contextlib.suppress(sa.exc.SQLAlchemyError), engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)").all()


def _migrate(engine: sa.Engine) -> None:
    """Bring the tables to the newest version."""
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    script = ScriptDirectory.from_config(config)

    def steps(revision: Any, _: object) -> Any:
        return script._upgrade_revs("head", revision)

    try:
        with (
            engine.connect() as connection,
            EnvironmentContext(config, script, fn=steps) as context,
        ):
            connection.exec_driver_sql(
                "BEGIN IMMEDIATE" if engine.dialect.name == _SQLITE else "SELECT 1"
            )
            context.configure(connection=connection, transactional_ddl=False)
            context.run_migrations()
            if engine.dialect.name == _SQLITE:
                connection.exec_driver_sql("COMMIT")
            else:
                connection.commit()
    except CommandError:
        raise InvalidInput(
            "The tables of the ledger are of a newer version of privplan.",
            "An older one would not know what they say.",
            "Install the version that made them, or a newer one.",
        ) from None
    except sa.exc.SQLAlchemyError as error:
        raise _unopened(error) from None


def _unopened(error: Exception) -> InvalidInput:
    return InvalidInput(
        f"The database cannot be opened ({type(error).__name__}).",
        "The ledger needs a file that can be written, or a PostgreSQL database that answers.",
        "Check its address, and that it runs.",
    )
