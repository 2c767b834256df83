"""One running call, as the requests that wait for it see it.

A call outlives the request that began it where it asks a person in the stateless era: the
request is answered with the question, and another request brings the answer. So a call runs
in a task of its own and leaves news; whoever serves a request waits for them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

import trio

from ...panels import PanelView
from ...panels.document import derive
from .protocol import ToolCall

__all__ = ["CURRENT_CALL", "Asked", "NoAnswer", "Progress", "RunningCall"]

MAX_ASKED: Final = 32
"""Open questions of one call."""


class NoAnswer(Exception):
    """A question got no answer: the client refused it, or is gone."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call has come.

    Args:
        done: Rises with every one that is sent.
        total: What ``done`` is of, when known.
        message: One line, when there is one.
    """

    done: int
    total: int | None
    message: str | None

    def params(self, token: str | int) -> dict[str, Any]:
        """Return the parameters of ``notifications/progress``."""
        out: dict[str, Any] = {"progressToken": token, "progress": self.done}
        if self.total is not None:
            out["total"] = self.total
        if self.message is not None:
            out["message"] = self.message
        return out


@dataclass(slots=True, eq=False)
class Asked:
    """A form that a person is to fill in.

    Args:
        key: Names it among the questions of the call.
        params: Of ``elicitation/create``.
    """

    key: str
    params: dict[str, Any]
    result: Mapping[str, Any] | None = None
    refusal: str | None = None
    settled: trio.Event = field(default_factory=trio.Event)

    def answer(self, result: Mapping[str, Any]) -> None:
        """Give the result of the elicitation; the first one counts."""
        if not self.settled.is_set():
            self.result = result
            self.settled.set()

    def refuse(self, reason: str) -> None:
        """Say that there will be no answer."""
        if not self.settled.is_set():
            self.refusal = reason
            self.settled.set()


class RunningCall:
    """A call and its news.

    Args:
        wanted: What the client asked for.
        owner: Who may bring answers: the connection or principal that began it.
        place: Whose session it belongs to.
    """

    def __init__(self, wanted: ToolCall, owner: str, place: str) -> None:
        self.wanted = wanted
        self.owner = owner
        self.place = place
        self.id = f"mcp_{secrets.token_hex(12)}"
        self.scope = trio.CancelScope()
        self.result: dict[str, Any] | None = None
        self.failure: BaseException | None = None
        self.ended = trio.Event()
        self.given = dict(wanted.input_responses or {})
        """Answers that came with the call itself, before anything was asked."""
        self._asked: dict[str, Asked] = {}
        self.withdrawn: list[Asked] = []
        """Questions that nobody waits for any more."""
        self._progress: Progress | None = None
        self._sent = -1
        self._panel: tuple[str, int] | None = None
        self._news = trio.Event()

    # ------------------------------------------------------------ for the call itself

    async def ask(self, name: str, params: dict[str, Any]) -> Mapping[str, Any]:
        """Put a form to the client's person and return the result of the elicitation.

        If cancelled, the client is told that nobody waits for it any more.

        Args:
            name: What the question is called among those of the call.
            params: Of ``elicitation/create``.

        Raises:
            NoAnswer: There will be none.
        """
        if len(self._asked) >= MAX_ASKED:
            raise NoAnswer(f"the call asks {MAX_ASKED} questions already")
        key, number = name, 2
        while key in self._asked:
            key, number = f"{name}-{number}", number + 1
        asked = Asked(key, params)
        self._asked[asked.key] = asked
        self._tell()
        try:
            await asked.settled.wait()
        finally:
            del self._asked[asked.key]
            if not asked.settled.is_set():
                asked.settled.set()
                self.withdrawn.append(asked)
                self._tell()
        if asked.result is None:
            raise NoAnswer(asked.refusal or "the client did not answer")
        return asked.result

    def note_panel(self, view: PanelView) -> None:
        """Take a new state of one of the call's panels for progress."""
        if self.wanted.progress_token is None or self.ended.is_set():
            return
        derived = derive(view.document)
        told = view.id, view.revision
        if told == self._panel:
            return  # the same state again, now settled
        self._panel = told
        done, total = derived.done, derived.total
        if done is None:
            done, total = self._sent + 1, None  # something happened, and that is all
        elif done <= self._sent:
            return  # progress must rise: a step back, or another panel, can't be told
        self._progress = Progress(done, total, derived.summary)
        self._tell()

    def end(self, result: dict[str, Any] | None, failure: BaseException | None = None) -> None:
        """Say what became of it; ``None`` and no failure: it was given up."""
        self.result, self.failure = result, failure
        self.ended.set()
        self._tell()

    # ------------------------------------------------------------ for who waits

    def attach(self, wanted: ToolCall) -> None:
        """Go on for another request of the same call."""
        self.wanted = wanted
        self._progress, self._sent = None, -1

    async def wait_news(self) -> None:
        """Return once there is something new since the last time."""
        await self._news.wait()
        self._news = trio.Event()

    def take_progress(self) -> Progress | None:
        """Return progress that was not sent yet; each is returned once and rises."""
        found, self._progress = self._progress, None
        if found is not None:
            self._sent = found.done
        return found

    @property
    def asked(self) -> dict[str, Asked]:
        """Questions without an answer by their keys, the oldest first."""
        return {key: one for key, one in self._asked.items() if not one.settled.is_set()}

    def take_withdrawn(self) -> list[Asked]:
        """Return questions that the client should forget; each is returned once."""
        found, self.withdrawn = self.withdrawn, []
        return found

    def give_up(self) -> None:
        """Abort it; ``ended`` is set once nothing of it is left running."""
        self.scope.cancel()

    def _tell(self) -> None:
        self._news.set()


CURRENT_CALL: ContextVar[RunningCall | None] = ContextVar("raw_exec_mcp_call", default=None)
"""The call that the running task belongs to."""
