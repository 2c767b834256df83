"""Asking a function of the program that uses the library."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing

from raw_exec.errors import Problem
from raw_exec.history import History, open_history
from raw_exec.interactions import CallbackAdapter, InteractionError, InteractionService, Question
from raw_exec.interactions.callback import MAX_ATTEMPTS
from tests.interactions.support import ask


@pytest.fixture
async def history() -> AsyncIterator[History]:
    """Yield a history with one session."""
    async with open_history() as opened:
        await opened.begin_session("s1")
        yield opened


def plain(_question: Question, _problems: tuple[Problem, ...]) -> dict[str, Any]:
    return {"name": "Ada"}


async def coroutine(_question: Question, _problems: tuple[Problem, ...]) -> dict[str, Any]:
    await trio.lowlevel.checkpoint()
    return {"name": "Ada"}


class Callable:
    async def __call__(self, _question: Question, _problems: tuple[Problem, ...]) -> dict[str, Any]:
        return {"name": "Ada"}


@pytest.mark.parametrize("callback", [plain, coroutine, Callable(), lambda q, p: coroutine(q, p)])
async def test_a_function_of_any_kind_can_answer(history: History, callback: Any) -> None:
    """Contract: a library callback, sync or async."""
    answer = await ask(InteractionService(history, CallbackAdapter(callback)))
    assert answer["answers"] == {"name": "Ada"}


async def test_a_plain_function_may_block(history: History) -> None:
    """It runs in a thread: the loop goes on, here to let it return."""
    go_on = threading.Event()

    def blocks(_question: Question, _problems: tuple[Problem, ...]) -> dict[str, Any]:
        assert go_on.wait(30)
        return {"name": "Ada"}

    service = InteractionService(history, CallbackAdapter(blocks))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, service)
            await trio.testing.wait_all_tasks_blocked(0.01)
            go_on.set()


async def test_a_blocked_function_does_not_hold_up_a_cancelled_call(history: History) -> None:
    """Its thread is left alone."""
    go_on = threading.Event()
    started = threading.Event()

    def blocks(_question: Question, _problems: tuple[Problem, ...]) -> None:
        started.set()
        go_on.wait(30)

    service = InteractionService(history, CallbackAdapter(blocks))
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, service)
            await trio.to_thread.run_sync(started.wait, 30)
            nursery.cancel_scope.cancel()
    go_on.set()
    assert [item.state for item in await history.interactions("s1")] == ["cancelled"]


async def test_none_declines(history: History) -> None:
    """The pair of an answer."""
    service = InteractionService(history, CallbackAdapter(lambda _question, _problems: None))
    with pytest.raises(InteractionError) as caught:
        await ask(service)
    assert caught.value.code == "interaction_cancelled"


async def test_wrong_answers_can_be_corrected(history: History) -> None:
    """The function is told what was wrong."""
    seen = []

    async def learns(_question: Question, problems: tuple[Problem, ...]) -> dict[str, Any]:
        seen.append([problem.pointer for problem in problems])
        return {"name": "x" * 100} if len(seen) == 2 else {"name": "Ada"} if problems else {}

    service = InteractionService(history, CallbackAdapter(learns))
    answer = await ask(service, budget_bytes=100)
    assert (answer["answers"], seen) == ({"name": "Ada"}, [[], ["/name"], [""]])


async def test_a_function_that_never_learns_declines_in_the_end(history: History) -> None:
    """Otherwise it would spin for half an hour."""
    calls = []

    async def wrong(_question: Question, _problems: tuple[Problem, ...]) -> dict[str, Any]:
        calls.append(1)
        return {}

    with pytest.raises(InteractionError) as caught:
        await ask(InteractionService(history, CallbackAdapter(wrong)))
    assert (caught.value.code, len(calls)) == ("interaction_cancelled", MAX_ATTEMPTS)


async def test_a_function_that_raises_interrupts_the_question(history: History) -> None:
    """The tool gets a code, and the host goes on."""

    def broken(_question: Question, _problems: tuple[Problem, ...]) -> dict[str, Any]:
        raise RuntimeError("no answer")

    with pytest.raises(InteractionError) as caught:
        await ask(InteractionService(history, CallbackAdapter(broken)))
    assert caught.value.code == "interaction_interrupted"
