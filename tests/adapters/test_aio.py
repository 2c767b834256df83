"""The asyncio facade: cancellation both ways, callbacks in the asyncio loop, nothing left."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import raw_exec
import raw_exec.aio
from raw_exec import ConfigError
from raw_exec.aio import RuntimeClosed

from .toolsets import write_facade_config

pytestmark = pytest.mark.usefixtures("nothing_left")
_user = contextvars.ContextVar("_user", default="nobody")


def _run(steps: Callable[[], Awaitable[Any]]) -> Any:
    async def bounded() -> Any:
        async with asyncio.timeout(60):
            return await steps()

    return asyncio.run(bounded())


def _is_written(path: Path) -> bool:
    return path.exists() and path.read_text() != ""


async def _started(path: Path) -> None:
    while not _is_written(path):
        await asyncio.sleep(0.005)  # another process's state has no event


async def _started_call(
    runtime: raw_exec.aio.Runtime, folder: Path
) -> tuple[asyncio.Task[Any], list[psutil.Process]]:
    """Start a call that never ends; return its task and the processes that came with it."""
    await runtime.registry.dispatch("echo", {"text": "the launcher runs"})
    launcher = psutil.Process((await runtime.statistics()).launcher_pid)
    before = launcher.children(recursive=True)
    task = asyncio.create_task(runtime.registry.dispatch("wait", {"name": "a"}))
    await _started(folder / "started-a")
    return task, [p for p in launcher.children(recursive=True) if p not in before]


def test_calls_of_many_tasks_have_their_own_results(config, tmp_path, cache) -> None:
    """Asyncio programs get the runtime's outcomes."""

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
            texts = [f"call {i}" for i in range(50)]
            found = await asyncio.gather(
                *(runtime.registry.dispatch("echo", {"text": text}) for text in texts)
            )
            assert [result.text for result in found] == texts
            assert runtime.registry.names == ("echo", "wait")
            assert (await runtime.registry.dispatch("echo", {})).code == "invalid_arguments"

    _run(steps)


def test_cancelling_the_task_returns_only_after_the_tree_is_dead(config, tmp_path, cache) -> None:
    """The handler ignores its abort, so only the kill ends it."""

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
            task, tree = await _started_call(runtime, tmp_path)
            assert tree != []
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [process for process in tree if process.is_running()] == []
            assert (await runtime.registry.dispatch("echo", {"text": "b"})).text == "b"

    _run(steps)


def test_cancelling_again_does_not_return_earlier(config, tmp_path, cache) -> None:
    """An impatient caller waits for the tree all the same."""

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
            task, tree = await _started_call(runtime, tmp_path)
            for _ in range(5):
                task.cancel()
                await asyncio.sleep(0)
            with pytest.raises(asyncio.CancelledError):
                await task
            assert [process for process in tree if process.is_running()] == []

    _run(steps)


def test_a_timeout_of_asyncio_is_a_cancellation(config, tmp_path, cache) -> None:
    """``asyncio.timeout`` sees its own cancellation come back."""

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await runtime.registry.dispatch("wait", {"name": "a"})
            assert (await runtime.statistics()).calls_in_flight == 0

    _run(steps)


def test_a_cancellation_that_races_the_result_leaves_nothing_in_flight(
    config, tmp_path, cache
) -> None:
    """An abort that races completion, at many different moments."""

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:
            await runtime.registry.dispatch("echo", {"text": "warm"})
            for number in range(60):
                task = asyncio.create_task(runtime.registry.dispatch("echo", {"text": "x"}))
                for _ in range(number):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait([task])
            assert (await runtime.statistics()).calls_in_flight == 0
            assert (await runtime.registry.dispatch("echo", {"text": "b"})).text == "b"

    _run(steps)


def test_an_async_approver_runs_in_the_asyncio_loop_with_the_callers_context(
    tmp_path, cache
) -> None:
    """A web request's variables are there when its call is to be approved."""
    config = write_facade_config(tmp_path, rules=[{"match": "agent/echo", "effect": "ask"}])
    seen: list[object] = []

    async def approve(request: raw_exec.ApprovalRequest) -> bool:
        await asyncio.sleep(0)
        seen.append((_user.get(), threading.current_thread() is threading.main_thread()))
        return request.arguments["text"] == "yes"

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(
            config, cwd=tmp_path, cache_dir=cache, approve=approve
        ) as runtime:
            _user.set("ada")
            assert (await runtime.registry.dispatch("echo", {"text": "yes"})).text == "yes"
            _user.set("bob")
            result = await runtime.registry.dispatch("echo", {"text": "no"})
            assert result.code == "approval_denied"

    _run(steps)
    assert seen == [("ada", True), ("bob", True)]


def test_an_approver_is_cancelled_with_its_call(tmp_path, cache) -> None:
    """Cancellation both ways; a question nobody wants an answer to goes away."""
    config = write_facade_config(tmp_path, rules=[{"match": "agent/echo", "effect": "ask"}])
    told: list[str] = []

    async def steps() -> None:
        asked = asyncio.Event()

        async def approve(request: raw_exec.ApprovalRequest) -> bool:
            asked.set()
            try:
                await request.signal.wait()
            except asyncio.CancelledError:
                told.append("cancelled")
                raise
            return True

        async with raw_exec.aio.open_runtime(
            config, cwd=tmp_path, cache_dir=cache, approve=approve
        ) as runtime:
            task = asyncio.create_task(runtime.registry.dispatch("echo", {"text": "a"}))
            await asked.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    _run(steps)
    assert told == ["cancelled"]


def test_a_broken_approver_denies(tmp_path, cache) -> None:
    """Security: an exception in a callback approves nothing."""
    config = write_facade_config(tmp_path, rules=[{"match": "agent/echo", "effect": "ask"}])

    def approve(_request: raw_exec.ApprovalRequest) -> bool:
        raise ValueError("broken")

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(
            config, cwd=tmp_path, cache_dir=cache, approve=approve
        ) as runtime:
            result = await runtime.registry.dispatch("echo", {"text": "a"})
            assert result.code == "approval_denied"

    _run(steps)


def test_a_session_works_and_closing_the_runtime_first_is_fine(config, tmp_path, cache) -> None:
    """Sessions too."""

    async def steps() -> None:
        runtime = await raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache)
        async with runtime.open_session("s") as session:
            assert (await session.dispatch("echo", {"text": "a"})).text == "a"
            assert (await session.panels(), await session.questions()) == ((), ())
        late = await runtime.open_session("t")
        await runtime.close()
        await late.close()
        with pytest.raises(RuntimeClosed):
            await late.dispatch("echo", {"text": "a"})

    _run(steps)


def test_an_error_of_opening_is_the_native_one(config, tmp_path) -> None:
    """And no thread is left."""

    async def steps() -> None:
        with pytest.raises(ConfigError):
            await raw_exec.aio.open_runtime(config, cwd=tmp_path / "missing")

    _run(steps)
    assert [t.name for t in threading.enumerate() if t.name == "raw-exec"] == []


def test_cancelling_while_it_opens_leaves_nothing(config, tmp_path) -> None:
    """The fixture counts."""

    async def steps() -> None:
        for yields in range(6):
            task = asyncio.ensure_future(_entered(raw_exec.aio.open_runtime(config, cwd=tmp_path)))
            for _ in range(yields):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                await task.result().close()

    _run(steps)


async def _entered(opening: Awaitable[raw_exec.aio.Runtime]) -> raw_exec.aio.Runtime:
    return await opening


def test_several_asyncio_loops_use_one_runtime(config, tmp_path, cache) -> None:
    """Safe from several threads, each with a loop of its own."""

    async def steps() -> None:
        async with raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache) as runtime:

            def elsewhere(text: str) -> str:
                return asyncio.run(_text(runtime, text))

            texts = [f"t{i}" for i in range(6)]
            assert (
                await asyncio.gather(*(asyncio.to_thread(elsewhere, text) for text in texts))
                == texts
            )

    _run(steps)


async def _text(runtime: raw_exec.aio.Runtime, text: str) -> str:
    return (await runtime.registry.dispatch("echo", {"text": text})).text


def test_a_loop_that_is_closed_with_a_runtime_open_does_not_hold_up_closing(
    config, tmp_path, cache
) -> None:
    """A notebook whose loop is gone: the runtime can be closed from another one."""

    async def opened() -> raw_exec.aio.Runtime:
        return await raw_exec.aio.open_runtime(config, cwd=tmp_path, cache_dir=cache)

    runtime = _run(opened)
    assert _run(lambda: _text(runtime, "other loop")) == "other loop"
    _run(runtime.close)
