"""The file: private, of one version, and one clear error for everything wrong with it."""

# Nothing else runs in these tests while they look at the file.
# ruff: noqa: ASYNC221, ASYNC240

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from raw_exec.history import FAILURES, HistoryError, PanelRevision, open_history
from raw_exec.history.schema import APPLICATION_ID, VERSION
from requires import require

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where a history may be made."""
    return tmp_path / "folder" / "history.db"


async def refusal(path: Path, busy_ms: int = 0) -> HistoryError:
    """Return why a file can't be opened."""
    with pytest.raises(HistoryError) as caught:
        async with open_history(path, busy_ms=busy_ms):
            raise AssertionError("it was opened")
    assert caught.value.code in FAILURES
    return caught.value


async def made(path: Path) -> None:
    """Make a history with a session and a panel."""
    async with open_history(path) as history:
        await history.begin_session("s1")
        await history.commit_panels("s1", None, [PanelRevision("a", 1, {"x": "y" * 5000}, 5)])


async def test_a_new_file_belongs_to_its_user_alone(path: Path) -> None:
    """Contract: 0600, also what SQLite and the hosts put beside it."""
    os.umask(os.umask(0o777))
    async with open_history(path) as history:
        await history.begin_session("s1")
        modes = {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
        assert modes == {
            "history.db": 0o600,
            "history.db-wal": 0o600,
            "history.db-shm": 0o600,
            "history.db-hosts": 0o600,
        }
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_file_that_others_may_read_is_refused_untouched(path: Path) -> None:
    """Security: what people answered is in it."""
    await made(path)
    path.chmod(0o640)
    before = path.read_bytes()
    assert (await refusal(path)).code == "history_not_private"
    assert path.read_bytes() == before
    path.chmod(0o600)
    await made_again(path)


async def made_again(path: Path) -> None:
    """Check that a history can be opened and has what ``made`` stored."""
    async with open_history(path) as history:
        assert [item.panel for item in await history.panels("s1")] == ["a"]


@pytest.mark.parametrize("kind", ["symlink", "directory", "fifo", "lock symlink"])
async def test_what_is_no_regular_file_is_refused(path: Path, kind: str) -> None:
    """Security: a link could lead the writes elsewhere."""
    path.parent.mkdir()
    if kind == "symlink":
        path.symlink_to(path.parent / "other")
    elif kind == "directory":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    else:
        path.with_name("history.db-hosts").symlink_to(path.parent / "other")
    assert (await refusal(path)).code in ("history_not_private", "history_unavailable")
    assert not (path.parent / "other").exists()


async def test_a_file_of_another_user_is_refused(path: Path) -> None:
    """Security: they could read and change it."""
    require("root", os.geteuid() == 0, "only root can give a file away")
    await made(path)
    os.chown(path, 65534, -1)
    assert (await refusal(path)).code == "history_not_private"


async def test_a_directory_where_everyone_writes_is_refused_unless_it_is_sticky(
    path: Path,
) -> None:
    """Security: the file could be replaced."""
    path.parent.mkdir()
    path.parent.chmod(0o777)
    assert (await refusal(path)).code == "history_not_private"
    path.parent.chmod(0o1777)
    await made(path)


async def test_a_file_of_a_newer_version_is_refused_untouched(path: Path) -> None:
    """Contract: the schema version is checked."""
    await made(path)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()
    before = path.read_bytes()
    error = await refusal(path)
    assert (error.code, str(VERSION + 1) in error.message) == ("history_version", True)
    assert path.read_bytes() == before


async def test_a_database_of_another_program_is_refused_untouched(path: Path) -> None:
    """A wrong path must not cost anybody their data."""
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE mine (x)")
    db.close()
    path.chmod(0o600)
    before = path.read_bytes()
    assert (await refusal(path)).code == "history_foreign"
    assert path.read_bytes() == before


async def test_the_file_says_whose_it_is(path: Path) -> None:
    """The pair of the two tests above: this is what is checked."""
    await made(path)
    with sqlite3.connect(path) as db:
        ids = [
            db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("application_id", "user_version", "journal_mode")
        ]
    db.close()
    assert ids == [APPLICATION_ID, VERSION, "wal"]


async def test_a_text_file_is_corrupt(path: Path) -> None:
    """One clear error."""
    path.parent.mkdir()
    path.write_text("this is no database, but long enough to look for a header " * 50)
    path.chmod(0o600)
    error = await refusal(path)
    assert (error.code, error.hint is not None) == ("history_corrupt", True)


async def test_a_damaged_page_is_corrupt_and_a_write_is_refused_whole(path: Path) -> None:
    """One clear error when it is found, wherever that is."""
    await made(path)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))
    with pytest.raises(HistoryError) as caught:
        async with open_history(path) as history:
            await history.panels("s1")
    assert caught.value.code == "history_corrupt"


async def test_a_stored_value_that_is_not_json_is_corrupt(path: Path) -> None:
    """Somebody edited the file."""
    await made(path)
    with sqlite3.connect(path) as db:
        db.execute("UPDATE panels SET document = '{]'")
    db.close()
    async with open_history(path) as history:
        with pytest.raises(HistoryError) as caught:
            await history.panels("s1")
    assert caught.value.code == "history_corrupt"


async def test_a_missing_table_is_corrupt(path: Path) -> None:
    """Somebody edited the file."""
    await made(path)
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE jobs")
    db.close()
    assert (await refusal(path)).code == "history_corrupt"


async def test_a_locked_file_is_said_to_be_locked_and_works_later(path: Path) -> None:
    """Nothing half-written: the session is not there, and begins when the lock is gone."""
    await made(path)
    other = sqlite3.connect(path, isolation_level=None)
    async with open_history(path, busy_ms=0) as history:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(HistoryError) as caught:
            await history.begin_session("s2")
        assert caught.value.code == "history_locked"
        assert await history.session("s2") is None
        assert (await refusal(path)).code == "history_locked"
        other.execute("ROLLBACK")
        await history.begin_session("s2")
    other.close()


async def test_a_full_disk_stores_nothing_of_a_write(path: Path) -> None:
    """SQLite's own limit on pages gives the very result of a full disk."""
    async with open_history(path) as history:
        await history.begin_session("s1")
        db = history._store._db
        assert db is not None
        (pages,) = db.execute("PRAGMA page_count").fetchone()
        db.execute(f"PRAGMA max_page_count = {pages + 4}")
        small, big = PanelRevision("a", 1, {}, 5), PanelRevision("b", 1, {"x": "y" * 60_000}, 5)
        with pytest.raises(HistoryError) as caught:
            await history.commit_panels("s1", None, [small, big])
        assert caught.value.code == "history_full"
        assert await history.panels("s1") == ()
        await history.commit_panels("s1", None, [small])
        assert await history.panels("s1") == (small,)


@pytest.mark.slow
async def test_a_really_full_file_system_is_one_clear_error(tmp_path: Path) -> None:
    """The same with a small file system of its own."""
    unshare = shutil.which("unshare")
    require("root", os.geteuid() == 0 and unshare is not None, "mounting needs root and unshare")
    program = f"""
import sys, trio
sys.path.insert(0, {str(ROOT)!r})
from raw_exec.history import *
async def main():
    async with open_history({str(tmp_path / "disk" / "h.db")!r}) as history:
        await history.begin_session("s1")
        kept = 0
        try:
            for n in range(1, 99):
                revision = PanelRevision("a", n, {{"x": "y" * 60000}}, 5)
                await history.commit_panels("s1", None, [revision])
                kept = n
        except HistoryError as exc:
            print(exc.code, [item.revision for item in await history.panels("s1")] == [kept])
trio.run(main)
"""
    (tmp_path / "disk").mkdir()
    disk = f"mount -t tmpfs -o size=1m,mode=700 none {tmp_path / 'disk'}"
    mount = f'{disk} && exec {sys.executable} -c "$1"'
    done = subprocess.run(
        [str(unshare), "--mount", "sh", "-c", mount, "sh", program],
        capture_output=True,
        text=True,
        timeout=60,
    )
    require("mount", "permission denied" not in done.stderr, "mounting is not allowed here")
    assert (done.stdout.strip(), done.returncode) == ("history_full True", 0), done.stderr


async def test_a_read_only_directory_is_one_clear_error(path: Path) -> None:
    """An ordinary user, who can't write there."""
    await made(path)
    program = f"""
import os, sys, trio
sys.path.insert(0, {str(ROOT)!r})
from raw_exec.history import *
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
async def main():
    try:
        async with open_history({str(path)!r}) as history:
            await history.begin_session("s2")
    except HistoryError as exc:
        print(exc.code)
trio.run(main)
"""
    if os.geteuid() == 0:
        for item in path.parent.iterdir():
            os.chown(item, 65534, 65534)
        os.chown(path.parent, 65534, 65534)
        for folder in path.parents:
            if folder == Path("/tmp"):
                break
            if folder != path.parent:
                folder.chmod(folder.stat().st_mode | 0o011)
    path.chmod(0o400)
    path.parent.chmod(0o500)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
    )
    path.parent.chmod(0o700)
    assert done.stdout.strip() == "history_read_only", done.stderr


async def test_a_write_that_the_disk_refuses_is_read_only(path: Path) -> None:
    """A file system that was remounted after the open."""
    async with open_history(path) as history:
        assert history._store._db is not None
        history._store._db.execute("PRAGMA query_only = ON")
        with pytest.raises(HistoryError) as caught:
            await history.begin_session("s1")
        assert caught.value.code == "history_read_only"
        assert await history.sessions() == ()
        history._store._db.execute("PRAGMA query_only = OFF")


async def test_a_failed_open_leaves_no_descriptor(path: Path) -> None:
    """Whatever the reason."""
    await made(path)
    before = len(os.listdir("/proc/self/fd"))
    path.chmod(0o644)
    for _ in range(5):
        await refusal(path)
    assert len(os.listdir("/proc/self/fd")) == before


async def test_a_cancelled_write_is_whole_or_not_there(path: Path) -> None:
    """A started write is never abandoned: its caller waits for the commit."""
    async with open_history(path) as history:
        await history.begin_session("s1")
        with trio.CancelScope() as scope:
            scope.cancel()
            await history.commit_panels("s1", None, [PanelRevision("a", 1, {}, 5)])
        assert await history.panels("s1") == ()
        started = trio.Event()
        token = trio.lowlevel.current_trio_token()

        def work(db: sqlite3.Connection) -> None:
            trio.from_thread.run_sync(started.set, trio_token=token)
            db.execute("UPDATE sessions SET agent = 'late'")

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(history._write, work)
                await started.wait()
                nursery.cancel_scope.cancel()
        found = await history.session("s1")
        assert found is not None
        assert found.agent == "late"


def test_every_result_of_sqlite_has_a_code() -> None:
    """An unknown one is "unavailable", with SQLite's words."""
    from raw_exec.history.errors import translated

    with pytest.raises(HistoryError) as caught, translated("h.db"):
        raise sqlite3.OperationalError("something new")
    assert (caught.value.code, caught.value.where) == ("history_unavailable", "h.db")
    assert "something new" in caught.value.message


async def test_a_file_system_without_locks_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them nobody could tell whether a host is alive."""
    import fcntl

    def refuse(*_args: object) -> bytes:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert (await refusal(path)).code == "history_unavailable"
