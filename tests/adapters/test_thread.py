"""The thread of a loop: each call is delivered once, in its own context, and ends alone."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from raw_exec.adapters.thread import LoopThread, RuntimeClosed, Submission

_user = contextvars.ContextVar("_user", default="nobody")


@asynccontextmanager
async def _something() -> AsyncIterator[object]:
    yield object()


@pytest.fixture
def loop() -> Iterator[LoopThread[object]]:
    """An open loop, closed at the end; its thread has ended by then."""
    thread: LoopThread[object] = LoopThread(_something, name="loop-under-test")
    opened = threading.Event()
    thread.start(opened.set)
    opened.wait()
    thread.check_open()
    yield thread
    closed = threading.Event()
    if thread.close(closed.set):
        closed.wait()
    thread.finish()
    assert "loop-under-test" not in {one.name for one in threading.enumerate()}


def _submit(
    loop: LoopThread[object], function: Callable[[], Awaitable[Any]]
) -> tuple[Submission[Any], threading.Event]:
    delivered = threading.Event()
    return loop.submit(function, delivered.set), delivered


def _run(loop: LoopThread[object], function: Callable[[], Awaitable[Any]]) -> Any:
    submission, delivered = _submit(loop, function)
    delivered.wait()
    return submission.result()


def test_a_call_sees_its_caller_s_context_and_leaves_nothing_in_another(loop) -> None:
    """Also its child tasks and threads, and over every wait; one after another."""

    async def look() -> tuple[str, str, str]:
        before = _user.get()
        in_child: list[str] = []

        async def child() -> None:
            in_child.append(_user.get())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
        in_thread = await trio.to_thread.run_sync(_user.get)
        _user.set("changed inside")
        await trio.lowlevel.checkpoint()
        assert _user.get() == "changed inside"
        return before, in_child[0], in_thread

    assert _run(loop, look) == ("nobody",) * 3
    token = _user.set("ada")
    try:
        assert _run(loop, look) == ("ada",) * 3
        assert _user.get() == "ada"
    finally:
        _user.reset(token)
    assert _run(loop, look) == ("nobody",) * 3


def test_a_cancellation_reaches_its_own_call_only(loop) -> None:
    """Before it begins, while it runs, and after its end, when its task runs the next one."""

    async def quick() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    running = threading.Event()

    async def endless() -> None:
        running.set()
        await trio.sleep_forever()

    for _ in range(50):
        ended, delivered = _submit(loop, quick)
        delivered.wait()
        ended.cancel()
        assert _run(loop, quick) == "done"
    cancelled, delivered = _submit(loop, endless)
    running.wait()
    beside, beside_delivered = _submit(loop, quick)
    cancelled.cancel()
    cancelled.cancel()
    delivered.wait()
    beside_delivered.wait()
    assert beside.result() == "done"
    with pytest.raises(RuntimeClosed):
        cancelled.result()
    at_once, delivered = _submit(loop, trio.sleep_forever)
    at_once.cancel()
    delivered.wait()
    assert _run(loop, quick) == "done"


def test_what_goes_wrong_beside_a_cancellation_is_the_caller_s(loop) -> None:
    """An error group comes without the cancellations in it."""
    running = threading.Event()

    async def child() -> None:
        try:
            running.set()
            await trio.sleep_forever()
        finally:
            raise ValueError("while it ended")

    async def both() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)

    submission, delivered = _submit(loop, both)
    running.wait()
    submission.cancel()
    delivered.wait()
    with pytest.raises(BaseExceptionGroup) as raised:
        submission.result()
    assert raised.group_contains(ValueError, match="while it ended")
    assert not raised.group_contains(trio.Cancelled)


def test_an_error_is_raised_where_the_call_was_made_and_the_loop_goes_on(loop) -> None:
    """Whatever kind it is."""

    async def fail(error: BaseException) -> None:
        await trio.lowlevel.checkpoint()
        raise error

    async def fine() -> str:
        return "fine"

    for error in (ValueError("x"), SystemExit(3), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            _run(loop, lambda error=error: fail(error))
        assert _run(loop, fine) == "fine"


def test_closing_ends_calls_that_run_and_tasks_that_wait_for_one(loop) -> None:
    """More calls at a time than tasks are kept; the fixture sees the thread end."""
    together = 40
    arrived = threading.Barrier(together + 1)

    async def meet() -> None:
        await trio.to_thread.run_sync(arrived.wait, limiter=trio.CapacityLimiter(together))

    calls = [_submit(loop, meet) for _ in range(together)]
    arrived.wait()
    for submission, delivered in calls:
        delivered.wait()
        assert submission.result() is None
    running, delivered = _submit(loop, trio.sleep_forever)
    closed = threading.Event()
    assert loop.close(closed.set)
    closed.wait()
    assert delivered.is_set()
    with pytest.raises(RuntimeClosed):
        running.result()
    with pytest.raises(RuntimeClosed):
        loop.submit(trio.sleep_forever, delivered.set)
