"""Open the database and run transactions in it.

Rules:

1. One function call is one transaction. It commits when the function returns and rolls back
   when it raises, so nothing is ever half-written.
2. On SQLite a writing transaction takes the write lock at once (``BEGIN IMMEDIATE``):
   writers queue up and each sees what the one before it did. On PostgreSQL writing
   transactions are SERIALIZABLE, and one that lost a race is run again from the start.
   Either way a rule that was checked still holds at the commit.
3. Reading transactions see one snapshot.
4. A database fault leaves here as a ``StoreError`` that says what to do.

Not thread-bound: any number of threads may share a store. There is no trio in here.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError
from sqlalchemy.orm import Session

from ..errors import StoreError
from .faults import explain_fault, is_worth_retrying
from .schema import ensure_schema, is_current

__all__ = ["Store", "open_store"]

T = TypeVar("T")

BUSY_SECONDS: Final = 5.0
"""How long a writer waits for another one before it is told that the database is busy."""

_CONNECT_SECONDS: Final = 5

_ATTEMPTS: Final = 10
_PAUSE_SECONDS: Final = 0.01
_WRITES: Final = "raw_exec_writes"


def _utc_now() -> datetime:
    return datetime.now(UTC)


class Store:
    """An open registry database.

    Args:
        now: The clock, as aware UTC; the service reads it through the session.
    """

    def __init__(self, engine: Engine, shown_url: str, now: Callable[[], datetime]) -> None:
        self._engine = engine
        self._shown_url = shown_url
        self.now = now
        if engine.dialect.name == "sqlite":
            self._writer = self._migrator = engine.execution_options(**{_WRITES: True})
            self._reader = engine
        else:
            # Race: a serialisable snapshot would be older than the lock that it waits for.
            self._migrator = engine.execution_options(isolation_level="READ COMMITTED")
            self._writer = engine.execution_options(isolation_level="SERIALIZABLE")
            self._reader = engine.execution_options(
                isolation_level="REPEATABLE READ", postgresql_readonly=True
            )

    @property
    def dialect(self) -> str:
        """``"sqlite"`` or ``"postgresql"``."""
        return self._engine.dialect.name

    def read(self, work: Callable[[Session], T]) -> T:
        """Run ``work(session)`` on one snapshot and return its value."""
        return self._run(self._reader, work)

    def write(self, work: Callable[[Session], T]) -> T:
        """Run ``work(session)`` in a transaction that no other writer can interleave with.

        ``work`` may run several times, so it must change nothing but the session.

        Raises:
            Conflict: ``concurrent_change``, when it lost every race.
            StoreError: When the database can not be used.
        """
        for attempt in range(1, _ATTEMPTS):
            try:
                return self._run(self._writer, work, raise_lost_races=True)
            except _LostRace:
                # Race: spread those that collided, or they will again. S311: no secret.
                time.sleep(random.uniform(0, _PAUSE_SECONDS * attempt))  # noqa: S311
        return self._run(self._writer, work)

    def _run(
        self, engine: Engine, work: Callable[[Session], T], *, raise_lost_races: bool = False
    ) -> T:
        try:
            with (
                Session(engine, expire_on_commit=False, info={"now": self.now}) as session,
                session.begin(),
            ):
                return work(session)
        except DBAPIError as exc:
            if raise_lost_races and is_worth_retrying(exc):
                raise _LostRace from exc
            told = explain_fault(exc, self._shown_url)
            if told is None:
                raise
            raise told from exc

    def _ensure_schema(self, migrate: bool) -> None:
        """Check the schema without waiting for writers, and migrate when it is not the newest."""
        try:
            with self._reader.connect() as connection, connection.begin():
                if is_current(connection):
                    return
            with self._migrator.connect() as connection, connection.begin():
                ensure_schema(connection, self._shown_url, migrate=migrate)
        except DBAPIError as exc:
            told = explain_fault(exc, self._shown_url)
            if told is None:
                raise
            raise told from exc

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _LostRace(Exception):
    """Another transaction won; running again is all there is to do."""


def open_store(
    url: str | os.PathLike[str],
    *,
    migrate: bool = True,
    now: Callable[[], datetime] = _utc_now,
    busy_seconds: float = BUSY_SECONDS,
) -> Store:
    """Open a registry database; create or migrate its schema when needed.

    Args:
        url: A file's path, ``sqlite:///path``, or ``postgresql://user:password@host/name``.
        migrate: Whether an older schema may be changed. An empty database always may.
        now: The clock.
        busy_seconds: How long a writer waits for others before ``database_locked``.

    Raises:
        StoreError: The database can not be reached or used, or is not a registry's.
    """
    parsed = _parse_url(url)
    shown = parsed.render_as_string(hide_password=True)
    if parsed.get_backend_name() == "sqlite":
        shown = str(parsed.database)
        engine = _open_sqlite(parsed, shown, busy_seconds)
    else:
        engine = _open_postgresql(parsed, busy_seconds)
    store = Store(engine, shown, now)
    try:
        store._ensure_schema(migrate)
    except BaseException:
        store.close()
        raise
    return store


def _parse_url(url: str | os.PathLike[str]) -> URL:
    text = os.fspath(url)
    hint = "name a file, sqlite:///path or postgresql://user:password@host/name"
    if "://" not in text:
        return URL.create("sqlite", database=os.path.abspath(text))
    try:
        parsed = make_url(text)
        backend = {"postgres": "postgresql"}.get(parsed.drivername, parsed.drivername)
        if backend in {"postgresql", "postgresql+psycopg"}:
            return parsed.set(drivername="postgresql+psycopg")
        if backend == "sqlite" and parsed.database not in {None, "", ":memory:"}:
            return parsed.set(database=os.path.abspath(str(parsed.database)))
    except (ArgumentError, NoSuchModuleError, ValueError) as exc:
        # Security: the text may hold a password, so the parser's words are not shown.
        raise StoreError("bad_database_url", "database address can not be read", hint=hint) from exc
    raise StoreError(
        "bad_database_url", f"database address {backend}:… is not supported", hint=hint
    )


def _open_sqlite(url: URL, shown: str, busy_seconds: float) -> Engine:
    path = Path(str(url.database))
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Security: created for the owner alone; SQLite copies the mode to its side files.
        os.close(os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
    except OSError as exc:
        raise StoreError(
            "database_unreachable",
            f"registry database {shown} can not be opened: {exc.strerror}",
            hint="check the path and its permissions",
        ) from exc
    engine = create_engine(url, connect_args={"timeout": busy_seconds})
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: sqlite3.Connection, _record: Any) -> None:
    # The driver would begin transactions by itself, and too late.
    connection.isolation_level = None
    cursor = connection.cursor()
    _use_wal(cursor)
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _use_wal(cursor: sqlite3.Cursor) -> None:
    # Race: SQLite does not wait for others when it changes the mode; once is enough for a file.
    deadline = time.monotonic() + BUSY_SECONDS
    while cursor.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            is_busy = exc.sqlite_errorname.startswith("SQLITE_BUSY")
            if not is_busy or time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_SECONDS)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _open_postgresql(url: URL, busy_seconds: float) -> Engine:
    return create_engine(
        url,
        pool_pre_ping=True,
        connect_args={
            "connect_timeout": _CONNECT_SECONDS,
            "options": f"-c lock_timeout={int(busy_seconds * 1000)} -c statement_timeout=30s "
            "-c idle_in_transaction_session_timeout=60s -c timezone=UTC",
        },
    )
