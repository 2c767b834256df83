"""The database: created, checked, migrated, and clear about its faults."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from sqlalchemy import text

from raw_exec.contracts import service as registry
from raw_exec.contracts.errors import Conflict, StoreError
from raw_exec.contracts.model import Principal
from raw_exec.contracts.store import SCHEMA_VERSION, Store, open_store
from raw_exec.contracts.store.rows import Base
from raw_exec.contracts.store.schema import MIGRATIONS

OPERATOR = Principal.operator()


def test_a_new_database_has_the_newest_schema_and_is_opened_again(url: str) -> None:
    """The schema's version is checked."""
    for _ in range(2):
        with open_store(url) as store:
            found = store.read(
                lambda s: s.execute(text("SELECT version_num FROM alembic_version")).scalars().all()
            )
            assert found == [SCHEMA_VERSION]


def test_migrations_end_at_the_tables_that_the_code_uses(any_store: Store) -> None:
    """Our choice: a column that is only in one of the two is found here."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from alembic.script import ScriptDirectory

    def compare(session):
        options = {"compare_type": True}
        context = MigrationContext.configure(session.connection(), opts=options)
        return compare_metadata(context, Base.metadata)

    assert any_store.read(compare) == []
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [SCHEMA_VERSION]


def test_a_database_of_a_newer_version_is_refused_untouched(any_store: Store, url: str) -> None:
    """Our choice: an old program must not write into what it does not know."""
    any_store.write(lambda s: s.execute(text("UPDATE alembic_version SET version_num = 'v9999'")))
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert caught.value.code == "database_newer"


def test_an_older_database_is_migrated_only_when_that_is_allowed(tmp_path: Path) -> None:
    """Migrations by Alembic."""
    path = tmp_path / "registry.db"
    open_store(path).close()
    versions = {one.stem.partition("_")[0] for one in (MIGRATIONS / "versions").glob("v*.py")}
    assert SCHEMA_VERSION in versions
    if len(versions) == 1:
        return
    older = sorted(versions)[-2]
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE alembic_version SET version_num = ?", (older,))
    with pytest.raises(StoreError) as caught:
        open_store(path, migrate=False)
    assert caught.value.code == "database_outdated"


def test_tables_of_another_program_are_left_alone(tmp_path: Path) -> None:
    """Fault: the wrong file is named."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE users (name TEXT)")
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert caught.value.code == "database_foreign"
    with sqlite3.connect(path) as raw:
        assert [row[0] for row in raw.execute("SELECT name FROM sqlite_master")] == ["users"]


def test_two_servers_that_start_at_once_create_one_schema(url: str) -> None:
    """Race: both find an empty database."""
    start = threading.Barrier(4)
    failed: list[BaseException] = []

    def serve() -> None:
        try:
            start.wait(30)
            open_store(url).close()
        except BaseException as exc:
            failed.append(exc)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert failed == []
    open_store(url).close()


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    """Security: it holds hashes of keys and private contracts."""
    path = tmp_path / "deep" / "registry.db"
    with open_store(path) as store:
        store.write(lambda s: registry.add_user(s, OPERATOR, "me@example.test"))
        modes = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "registry.db-wal" in modes


def test_an_exception_rolls_everything_back(any_store: Store) -> None:
    """Nothing half-written."""

    def half(session) -> None:
        registry.add_user(session, OPERATOR, "me@example.test")
        raise KeyError("stop")

    with pytest.raises(KeyError):
        any_store.write(half)
    assert any_store.read(lambda s: registry.list_users(s, OPERATOR)) == ()


def test_a_locked_database_is_told_so_after_the_wait(tmp_path: Path) -> None:
    """Fault: database locked."""
    path = tmp_path / "registry.db"
    with open_store(path, busy_seconds=0.05) as store:
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as caught:
            store.write(lambda s: registry.add_user(s, OPERATOR, "me@example.test"))
        assert caught.value.code == "database_locked"
        # Readers are not kept waiting.
        assert store.read(lambda s: registry.list_users(s, OPERATOR)) == ()
        other.execute("ROLLBACK")
        other.close()
        store.write(lambda s: registry.add_user(s, OPERATOR, "me@example.test"))


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path) -> None:
    """Fault: disk full, played by SQLite's own limit."""
    with open_store(tmp_path / "registry.db") as store:
        # One connection is pooled, so the limit stays in force for the next transaction.
        store.read(lambda s: s.execute(text("PRAGMA max_page_count = 1")).scalar())

        def fill(session) -> None:
            for i in range(1000):
                registry.add_user(session, OPERATOR, f"user{i}@example.test")

        with pytest.raises(StoreError) as caught:
            store.write(fill)
        assert caught.value.code == "database_full"
        assert store.read(lambda s: registry.list_users(s, OPERATOR)) == ()
        store.read(lambda s: s.execute(text("PRAGMA max_page_count = 1000000")).scalar())
        store.write(lambda s: registry.add_user(s, OPERATOR, "me@example.test"))


def test_a_file_that_is_no_database_is_told_so(tmp_path: Path) -> None:
    """Fault: corrupt file."""
    path = tmp_path / "registry.db"
    path.write_bytes(b"this is not a database, but long enough to look like one" * 100)
    with pytest.raises(StoreError) as caught:
        open_store(path)
    assert caught.value.code == "database_corrupt"


def test_a_path_that_can_not_be_opened_is_told_so(tmp_path: Path) -> None:
    """Fault: a folder, or a file in the way of one."""
    (tmp_path / "file").write_text("")
    for bad in (tmp_path, tmp_path / "file" / "registry.db"):
        with pytest.raises(StoreError) as caught:
            open_store(bad)
        assert caught.value.code == "database_unreachable"


@pytest.mark.parametrize(
    "bad",
    ["sqlite://", "sqlite:///:memory:", "mysql://me:secret@h/d", "nonsense://x", "://"],
)
def test_an_address_of_another_kind_is_refused_without_repeating_its_password(bad: str) -> None:
    """Security: addresses hold passwords."""
    with pytest.raises(StoreError) as caught:
        open_store(bad)
    assert caught.value.code == "bad_database_url"
    assert "secret" not in str(caught.value)


def test_a_server_that_is_not_there_is_told_without_its_password() -> None:
    """Fault and security: wrong port."""
    with pytest.raises(StoreError) as caught:
        open_store("postgresql://me:secret@127.0.0.1:1/registry")
    assert caught.value.code == "database_unreachable"
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:1" in str(caught.value)


def test_a_server_that_went_away_is_told_and_used_again_when_it_is_back(any_store: Store) -> None:
    """Fault: connections that the server closed; the pool replaces them."""
    if any_store.dialect != "postgresql":
        return
    any_store.read(lambda s: registry.list_users(s, OPERATOR))

    def end_my_connection(session) -> None:
        session.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    with pytest.raises(StoreError) as caught:
        any_store.write(end_my_connection)
    assert caught.value.code == "database_unreachable"
    any_store.write(lambda s: registry.add_user(s, OPERATOR, "me@example.test"))


_KILLED = """
import os, signal, sys
from raw_exec.contracts import service as registry
from raw_exec.contracts.model import Principal
from raw_exec.contracts.store import open_store

def publish(session):
    registry.publish_tool_version(session, Principal.operator(), "acme", "t", "1.0.0")
    session.flush()
    if sys.argv[2] == "before":
        os.kill(os.getpid(), signal.SIGKILL)

open_store(sys.argv[1]).write(publish)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_server_killed_around_the_commit_leaves_all_or_nothing(url: str, moment: str) -> None:
    """Fault: killed between publish and answer; the retry is told it is already published."""
    with open_store(url) as store:

        def prepare(session) -> None:
            registry.add_user(session, OPERATOR, "me@example.test")
            registry.add_workspace(session, OPERATOR, "acme", owner="me@example.test")
            registry.create_tool(session, OPERATOR, "acme", "t")

        store.write(prepare)
        done = subprocess.run(
            [sys.executable, "-c", _KILLED, url, moment],
            timeout=60,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        assert done.returncode == -signal.SIGKILL

        def retry(session) -> str:
            return registry.publish_tool_version(session, OPERATOR, "acme", "t", "1.0.0").version

        if moment == "before":
            assert store.write(retry) == "1.0.0"
        with pytest.raises(Conflict) as caught:
            store.write(retry)
        assert caught.value.code == "already_published"
