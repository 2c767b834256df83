"""Faults between the supervisor and its launcher: told, bounded, and over by the next call."""

from __future__ import annotations

import errno
import fcntl
import os
import selectors
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

import raw_exec.private_root
from raw_exec.errors import SandboxError, WorkerBroken
from raw_exec.limits import Limits
from raw_exec.manifest import load_tool
from raw_exec.pool import Launcher, WorkerSpec, open_launcher, open_pool
from raw_exec.pool.answers import Answers
from raw_exec.pool.calls import RequestRefused
from raw_exec.pool.nursery import is_cancellation, open_service_nursery
from raw_exec.pool.pool import WorkerPool
from raw_exec.private_root import open_private_root
from raw_exec.wire import Request, WorkerConnection
from toolbox import plan_of, write_tool
from workers.launcher.control import Control

SECONDS = 60


def python_spec(root: Path) -> WorkerSpec:
    """A Python tool that returns nothing much."""
    write_tool(
        root, "t", "def handler(args, context):\n    return {'content': []}\n", language="python"
    )
    loaded = load_tool(root / "tools", "t", source="agent")
    return WorkerSpec(
        label="agent/t",
        language="python",
        kind="handler",
        entry="index.py",
        snapshot=loaded.snapshot,
        plan=plan_of(root),
        principal="test",
    )


@pytest.fixture
async def launcher(tmp_path: Path) -> AsyncIterator[Launcher]:
    """A launcher client whose process starts at the first use."""
    async with open_launcher(scratch_parent=tmp_path) as opened:
        yield opened


async def test_what_the_launcher_can_not_do_fails_the_question_and_names_it(
    launcher: Launcher,
) -> None:
    """Its ``error`` answers nobody, so it must not leave anybody waiting."""
    with trio.fail_after(SECONDS):
        await launcher.capabilities()
        with pytest.raises(WorkerBroken) as caught:
            await launcher._ask({"op": "sing"}, "sing")
        assert caught.value.detail == {"launcher": "died", "said": "unknown op 'sing'"}
        assert (await launcher.capabilities())["seccomp"]["works"] is not None
    assert launcher.restarts == 1


async def test_a_launcher_that_is_told_to_end_leaves_the_runtimes_files(
    launcher: Launcher, tmp_path: Path
) -> None:
    """The supervisor lives, so its private directory is still in use."""
    kept = tmp_path / "snapshots"
    kept.mkdir()
    with trio.fail_after(SECONDS):
        await launcher.capabilities()
        connection = launcher._connection
        assert connection is not None
        os.kill(connection.process.pid, signal.SIGTERM)
        await connection.dead.wait()
        await launcher.capabilities()
    assert kept.is_dir()
    assert launcher.restarts == 1


async def test_a_launcher_that_was_reaped_before_its_end_was_noticed_is_replaced(
    launcher: Launcher,
) -> None:
    """``Popen`` reaps whenever it looks, and a number that is gone can't be opened."""
    with trio.fail_after(SECONDS):
        await launcher.capabilities()
        connection = launcher._connection
        assert connection is not None
        connection.process.kill()
        connection.process.wait()
        with pytest.raises(WorkerBroken, match="the launcher"):
            await launcher._exchange(connection, {"op": "probe"}, "probe")
        await connection.dead.wait()
        assert (await launcher.capabilities())["seccomp"]["works"] is not None


async def test_a_launcher_that_can_not_be_started_leaves_no_directory(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a failed start stays behind, whichever part failed."""

    def no_pipe(_flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    before = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(os, "pipe2", no_pipe)
        with pytest.raises(WorkerBroken, match="launcher can't be started"):
            await launcher._start()
    assert os.listdir(tmp_path) == []
    assert set(os.listdir("/proc/self/fd")) == before


async def test_descriptors_that_the_launcher_can_not_take_fail_one_spawn_only() -> None:
    """A spawn without its descriptors would hang, and an error would end every other call."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, selectors.DefaultSelector() as selector:
        control = Control(theirs, selector)
        control._refuse_cut({"op": "spawn", "id": "w7"})
        assert b'"op":"spawn_failed","id":"w7"' in ours.recv(4096)
        assert not control.closed


async def test_a_root_being_made_is_not_swept_by_another_runtime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between making the lock and locking it, the directory does not look like a stale one."""
    lock = fcntl.flock
    sweeps = []

    def sweep_first(fd: int, operation: int) -> None:
        if not sweeps:
            sweeps.append(fd)
            raw_exec.private_root._sweep(tmp_path)
        lock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", sweep_first)
    with open_private_root(tmp_path) as root:
        assert sweeps
        assert root.is_dir()
    assert os.listdir(tmp_path) == []


async def test_a_root_left_by_a_killed_runtime_is_still_swept(tmp_path: Path) -> None:
    """The other half: what nobody holds is removed."""
    stale = tmp_path / "raw-exec-stale"
    stale.mkdir()
    (stale / "lock").touch()
    with open_private_root(tmp_path):
        assert not stale.exists()


class _StubLauncher:
    """A launcher that is asked and never answers."""

    restarts = 0

    def __init__(self, *, complete: bool | None) -> None:
        self.complete = complete

    async def clean(self, _child: Any) -> bool:
        if self.complete is None:
            await trio.sleep_forever()
        return bool(self.complete)


class _Leaving:
    """A worker whose last call left files."""

    class child:  # noqa: N801
        has_files = True
        noted = False

        @classmethod
        def note_clean(cls) -> None:
            cls.noted = True


@pytest.mark.parametrize(
    ("complete", "reason"), [(None, "left files"), (False, "left files"), (True, None)]
)
async def test_files_that_can_not_be_removed_soon_retire_the_worker(
    complete: bool | None, reason: str | None, tmp_path: Path, autojump_clock: object
) -> None:
    """A caller must not wait for a hundred thousand files, nor the next call see them."""
    async with trio.open_nursery() as nursery:
        pool = WorkerPool(
            nursery,
            _StubLauncher(complete=complete),  # type: ignore[arg-type]
            Limits(),
            snapshot_store=tmp_path / "a" / "b",
        )
        spec = python_spec(tmp_path)
        assert await pool._tidy(_Leaving(), spec) == reason  # type: ignore[arg-type]


async def test_a_worker_without_descriptors_is_a_refusal_with_the_errno(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A supervisor at its limit of descriptors says so, and has room again afterwards."""
    store = tmp_path / "store" / "snapshots"
    store.mkdir(parents=True)
    spec = python_spec(tmp_path)
    with trio.fail_after(SECONDS):
        async with open_pool(launcher, Limits(), snapshot_store=store) as pool:
            await launcher.capabilities()

            def no_pipe(_flags: int) -> tuple[int, int]:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

            with monkeypatch.context() as patched:
                patched.setattr(os, "pipe2", no_pipe)
                with pytest.raises(SandboxError) as caught:
                    async with pool.lease(spec):
                        pass
            assert (caught.value.step, caught.value.errno) == ("pipes", errno.EMFILE)
            async with pool.lease(spec) as lease:
                assert lease.worker.alive


async def test_a_worker_that_ends_before_it_is_looked_at_is_a_crash(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its exit notice may come before anybody has taken its descriptor; the long soak found it."""
    store = tmp_path / "store" / "snapshots"
    store.mkdir(parents=True)
    spec = python_spec(tmp_path)
    spawn = launcher.spawn
    before = set(os.listdir("/proc/self/fd"))

    async def spawn_and_lose(**request: Any) -> Any:
        child = await spawn(**request)
        await launcher.kill(child)
        return child

    with trio.fail_after(SECONDS):
        async with open_pool(launcher, Limits(), snapshot_store=store) as pool:
            with monkeypatch.context() as patched:
                patched.setattr(launcher, "spawn", spawn_and_lose)
                with pytest.raises(WorkerBroken) as caught:
                    async with pool.lease(spec):
                        pass
            assert caught.value.code == "worker_crashed"
            assert pool.statistics().live == 0
        await launcher.aclose()
    assert set(os.listdir("/proc/self/fd")) <= before


async def test_the_number_of_the_next_call_can_not_be_told_from_this_one(
    launcher: Launcher, tmp_path: Path
) -> None:
    """A plugin that knew it could leave an answer for a call of somebody else behind."""
    store = tmp_path / "store" / "snapshots"
    store.mkdir(parents=True)
    steps = []
    with trio.fail_after(SECONDS):
        async with (
            open_pool(launcher, Limits(), snapshot_store=store) as pool,
            pool.lease(python_spec(tmp_path)) as lease,
        ):
            for _ in range(4):
                before = lease.worker._last_id
                await lease.worker.ping(10_000)
                steps.append(lease.worker._last_id - before)
    assert min(steps) > 0
    assert len(set(steps)) == 4


async def test_files_that_can_not_be_laid_out_are_a_refusal(
    launcher: Launcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while a snapshot is written is the host's fault, told as such."""
    store = tmp_path / "store" / "snapshots"
    store.mkdir(parents=True)
    spec = python_spec(tmp_path)

    def full(_self: object, _store: Path) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with trio.fail_after(SECONDS):
        async with open_pool(launcher, Limits(), snapshot_store=store) as pool:
            monkeypatch.setattr(type(spec.snapshot), "materialise", full)
            with pytest.raises(SandboxError) as caught:
                async with pool.lease(spec):
                    pass
            assert (caught.value.step, caught.value.errno) == ("snapshot", errno.ENOSPC)
            assert pool.statistics().live == 0


async def test_calls_that_wait_for_room_end_when_the_pool_closes(
    launcher: Launcher, tmp_path: Path
) -> None:
    """Closing must not leave a call parked for ever."""
    store = tmp_path / "store" / "snapshots"
    store.mkdir(parents=True)
    spec = python_spec(tmp_path)
    outcomes: list[str] = []

    async def call(pool: WorkerPool) -> None:
        try:
            async with pool.lease(spec):
                pass
        except WorkerBroken as exc:
            outcomes.append(exc.message)

    with trio.fail_after(SECONDS):
        async with (
            open_pool(launcher, Limits(max_workers=1), snapshot_store=store) as pool,
            pool.lease(spec),
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(call, pool)
            nursery.start_soon(call, pool)
            await wait_all_tasks_blocked()
            await pool.aclose()
    assert outcomes == ["the runtime is closing"] * 2


def test_only_cancellation_counts_as_cancellation() -> None:
    """A group with one real failure must come out as it is."""
    assert not is_cancellation(ExceptionGroup("", [ValueError()]))
    assert not is_cancellation(ValueError())


async def test_a_group_of_cancellations_comes_out_as_one() -> None:
    """A cancelled call is noticed by who looks for ``Cancelled`` alone."""
    seen: list[BaseException] = []
    with trio.CancelScope() as scope:
        try:
            async with open_service_nursery() as nursery:
                nursery.start_soon(trio.sleep_forever)
                scope.cancel()
                await trio.sleep_forever()
        except BaseException as exc:
            seen.append(exc)
            raise
    assert [type(exc) for exc in seen] == [trio.Cancelled]


async def test_an_answer_that_is_late_by_one_result_is_dropped() -> None:
    """The handler's result was read while the answer was prepared."""
    wire = WorkerConnection(max_frame_bytes=4096)  # expects no reply in this state
    sent: list[bytes] = []

    class _Channel:
        async def send_control(self, frame: bytes) -> None:
            sent.append(frame)

    answers = Answers(wire, _Channel())  # type: ignore[arg-type]

    async def refuse(_method: str, _params: Any) -> Any:
        raise RequestRefused("late", "late")

    with trio.fail_after(SECONDS):
        await answers._answer(
            Request(id=1, rid=1, method="m", params={}), refuse, trio.Semaphore(0)
        )
    assert sent == []
