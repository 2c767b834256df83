"""One SQLite connection and its transactions. Synchronous; the history calls it in a thread.

Rules
1. Everything is written in ``BEGIN IMMEDIATE`` … ``COMMIT``. Whatever goes wrong in between
   rolls back, so a write is either whole or not there.
2. WAL with ``synchronous=NORMAL`` survives the death of this process at any point. Answers and
   panel revisions are committed with ``FULL``, which also survives a power cut.
3. A host takes the lock of its number before its row is committed, so no other host can see
   it unlocked while it lives.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from .errors import FAILURES, HistoryError, translated
from .lease import HostLease
from .private_file import prepare_file
from .records import Swept
from .schema import prepare
from .sweep import sweep

__all__ = ["MEMORY", "Store"]

_T = TypeVar("_T")
MEMORY: Final = "(in memory)"
_LOCKS_SUFFIX: Final = "-hosts"
_RETRY_SECONDS: Final = 0.01


class Store:
    """An open history file, or one in memory.

    Args:
        path: The file; ``None`` keeps everything in memory.
        now: Epoch milliseconds.
        busy_ms: How long to wait for another writer.

    Raises:
        HistoryError: It can't be used.
    """

    def __init__(self, path: Path | None, now: int, busy_ms: int) -> None:
        self.where = MEMORY if path is None else str(path)
        self.host = 0
        self.found = Swept()
        self._lease: HostLease | None = None
        self._db: sqlite3.Connection | None = None
        self._durable: bool | None = None
        try:
            with translated(self.where):
                self._open(path, now, busy_ms)
        except BaseException:
            self._drop()
            raise

    def _open(self, path: Path | None, now: int, busy_ms: int) -> None:
        inode = None
        if path is not None:
            inode = prepare_file(path)
            self._lease = HostLease(path.with_name(path.name + _LOCKS_SUFFIX))
        self._db = sqlite3.connect(
            ":memory:" if path is None else path,
            timeout=busy_ms / 1000,
            isolation_level=None,
            check_same_thread=False,
        )
        self._db.execute("PRAGMA foreign_keys = ON")
        self._db.execute("PRAGMA trusted_schema = OFF")
        # Before WAL, which changes the file: that of another program must stay as it is.
        self.write(lambda db: prepare(db, self.where))
        if path is not None:
            self._enter_wal(path, inode, busy_ms)
        self.found = self.write(lambda db: self._arrive(db, now), durable=True)

    def _enter_wal(self, path: Path, inode: tuple[int, int] | None, busy_ms: int) -> None:
        mode = self._journal_mode(busy_ms)
        if mode != "wal":
            message = f"the file system does not support WAL (journal mode {mode!r})"
            raise HistoryError("history_unavailable", message, where=self.where)
        status = os.lstat(path)
        if (status.st_dev, status.st_ino) != inode:
            message = "the file was replaced while it was opened"
            raise HistoryError("history_not_private", message, where=self.where)

    def _journal_mode(self, busy_ms: int) -> str:
        # SQLite does not wait for this lock by itself. It is contended only while two hosts
        # make the same file.
        deadline = time.monotonic() + busy_ms / 1000
        while True:
            try:
                (mode,) = self._connection().execute("PRAGMA journal_mode = WAL").fetchone()
            except sqlite3.OperationalError as exc:
                if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                    raise
                if time.monotonic() >= deadline:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return str(mode)

    def _arrive(self, db: sqlite3.Connection, now: int) -> Swept:
        cursor = db.execute("INSERT INTO hosts (pid, started_at) VALUES (?, ?)", (os.getpid(), now))
        self.host = cursor.lastrowid or 0
        if self._lease is None:
            return Swept()
        self._lease.take(self.host)
        return sweep(db, self.host, now, self._lease.is_alive)

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise HistoryError("history_closed", FAILURES["history_closed"], where=self.where)
        return self._db

    # ------------------------------------------------------------ transactions

    def write(self, work: Callable[[sqlite3.Connection], _T], *, durable: bool = False) -> _T:
        """Run ``work`` in one transaction, whose changes are kept if it returns.

        Args:
            durable: The commit survives a power cut.

        Raises:
            HistoryError: Nothing of it was stored.
        """
        db = self._connection()
        with translated(self.where):
            if durable is not self._durable:
                db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
                self._durable = durable
            db.execute("BEGIN IMMEDIATE")
            try:
                out = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
            return out

    def read(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run ``work``, which only reads."""
        db = self._connection()
        with translated(self.where):
            db.execute("BEGIN")
            try:
                return work(db)
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")

    def is_alive(self, host: int) -> bool:
        """Whether another host of this file runs."""
        return self._lease is not None and self._lease.is_alive(host)

    def sweep(self, now: int) -> Swept:
        """Settle what hosts left behind that died since."""
        lease = self._lease
        if lease is None:
            return Swept()
        return self.write(lambda db: sweep(db, self.host, now, lease.is_alive), durable=True)

    def close(self, now: int) -> None:
        """Settle what is still open of this host, and let go of the file."""
        if self._db is None:
            return
        try:
            if self._lease is not None:
                # Its own row counts as one of a dead host.
                self.write(lambda db: sweep(db, 0, now, lambda host: host != self.host))
        finally:
            self._drop()

    def _drop(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
        if self._lease is not None:
            self._lease.close()
