"""Asking by calling a function of the program that uses this library."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import trio

from ..errors import Problem
from .errors import InteractionError
from .question import Question, Reply

__all__ = ["MAX_ATTEMPTS", "Callback", "CallbackAdapter"]

MAX_ATTEMPTS: Final = 5
"""Wrong answers of a callback before the question is declined: it may never do better."""

_CORRECTABLE: Final = ("answers_invalid", "answers_over_budget")
_Answered: TypeAlias = "Mapping[str, Any] | None"
Callback: TypeAlias = "Callable[[Question, tuple[Problem, ...]], Awaitable[_Answered] | _Answered]"


class CallbackAdapter:
    """Asks a function.

    Args:
        callback: Gets the question, and what was wrong with its answers before; returns the
            answers, or ``None`` to decline. A plain function runs in a thread, which is left
            alone when the question is settled otherwise; a coroutine function is cancelled.
    """

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        called = callback if inspect.isroutine(callback) else getattr(callback, "__call__", None)  # noqa: B004
        self._is_async = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(
            called
        )

    def can_ask(self, session: str) -> bool:
        """Always."""
        return True

    async def ask(self, question: Question, reply: Reply) -> None:
        """Call the function until its answers fit, at most ``MAX_ATTEMPTS`` times."""
        problems: tuple[Problem, ...] = ()
        for _ in range(MAX_ATTEMPTS):
            answers = await self._call(question, problems)
            if answers is None:
                break
            try:
                await reply.answer(answers)
            except InteractionError as exc:
                if exc.code not in _CORRECTABLE:
                    return
                problems = exc.problems or (Problem("", exc.message),)
            else:
                return
        await reply.cancel()

    async def _call(self, question: Question, problems: tuple[Problem, ...]) -> Any:
        if self._is_async:
            answers: Any = self._callback(question, problems)
        else:
            # In a tuple, since a function that returns a coroutine is fine here.
            (answers,) = await trio.to_thread.run_sync(
                lambda: (self._callback(question, problems),), abandon_on_cancel=True
            )
        return await answers if inspect.isawaitable(answers) else answers
