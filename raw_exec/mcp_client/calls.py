"""One ``tools/call``: its deadlines, the questions that it may ask, and how it is given up.

Rules
1. Two deadlines: without a sign of progress for ``idle_ms`` a call ends, and after ``call_ms``
   whatever it reports. Both stand still while a person is asked.
2. A call that is given up is withdrawn from the server. There is an outcome only once the
   server has answered it all the same, or its grace is over and its process tree is dead. The
   protocol has no other word for "I have stopped": a server that obeys in silence is ended too.
3. What a server elsewhere goes on doing, nobody here can know; the outcome says so.
4. An answer that was there in time counts, also when the deadline struck at that moment.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import trio

from ..pool import CallTimer, RequestRefused
from ..tools import McpOrigin
from .elicitation import CANCELLED, DECLINED, NotAskable, ask_person
from .failures import BadAnswer, ConnectionLost, RpcFailed

if TYPE_CHECKING:
    from .connection import Connection

__all__ = ["CallGivenUp", "Exchange", "ServerCall"]

_MAX_ROUNDS: Final = 10
"""How often a server may answer with a question instead of a result."""
_STATE_ONLY_SECONDS = 0.05
Ask = Callable[[Any], Awaitable[Any]]


@dataclass(slots=True, eq=False)
class ServerCall:
    """One call of a server's tool, and what became of it.

    Args:
        identity: Of the tool, for messages.
        origin: Which tool of which server.
        arguments: Frozen JSON data that fits its schema.
        call_ms: Wall time, milliseconds, whatever the server's configuration allows.
        grace_ms: Between withdrawing a call and ending the server, milliseconds.
        timer: Stands still while a person is asked.
        ask: Answers ``interactions.request``; ``None`` where no session is open.
        sent: Whether the server was given it.
        enforced: What the kernel enforces on the server.
        usage: Milliseconds and bytes used.
        detail: Facts for the outcome.
    """

    identity: str
    origin: McpOrigin
    arguments: Mapping[str, Any]
    call_ms: int
    grace_ms: int
    timer: CallTimer
    ask: Ask | None = None
    sent: bool = False
    enforced: Mapping[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    detail: dict[str, Any] = field(default_factory=dict)


class CallGivenUp(Exception):
    """A deadline struck.

    Args:
        limit: ``idle_ms`` or ``call_ms``.
        limit_ms: Its value.
        stopped: Whether nothing of the call goes on.
    """

    def __init__(self, limit: str, limit_ms: int, *, stopped: bool) -> None:
        super().__init__(limit)
        self.limit = limit
        self.limit_ms = limit_ms
        self.stopped = stopped


class Exchange:
    """A call that is with a server. One use.

    Args:
        connection: A ready one.
        call: What is asked.
        idle_ms: Without a sign of progress, milliseconds.
        call_ms: In all, milliseconds.
    """

    def __init__(
        self, connection: Connection, call: ServerCall, *, idle_ms: int, call_ms: int
    ) -> None:
        self._connection = connection
        self._call = call
        self._idle_ms = idle_ms
        self._call_ms = call_ms
        self._ticket = connection.new_ticket(self._on_progress)
        self._done = trio.Event()
        self._task_scope = trio.CancelScope()
        self._idle_scope: trio.CancelScope | None = None
        self._waiting = 0
        self._result: dict[str, Any] | None = None
        self._error: Exception | None = None

    async def run(self) -> dict[str, Any]:
        """Send the call and return its result as the server sent it.

        If cancelled, the call is withdrawn, and ``Cancelled`` goes on when nothing of it does.

        Raises:
            CallGivenUp: A deadline struck.
            RpcFailed: The server answered with an error.
            BadAnswer: Its answer is not valid.
            ConnectionLost: It is gone.
        """
        self._connection.exchanges.append(self)
        try:
            return await self._run()
        finally:
            self._connection.exchanges.remove(self)
            self._connection.session.forget(self._ticket)

    async def _run(self) -> dict[str, Any]:
        self._connection.start_soon(self._send)
        self._call.sent = True
        limit = None
        try:
            with trio.CancelScope(deadline=_from_now(self._call_ms)) as whole:
                self._call.timer.attach(whole)
                with trio.CancelScope(deadline=_from_now(self._idle_ms)) as idle:
                    self._idle_scope = idle
                    await self._done.wait()
            if whole.cancelled_caught:
                limit = ("call_ms", self._call_ms)
            elif idle.cancelled_caught:
                limit = ("idle_ms", self._idle_ms)
        except trio.Cancelled:
            await self._withdraw()
            raise
        finally:
            self._idle_scope = None
        if limit is not None and not self._done.is_set():
            stopped = await self._withdraw()
            raise CallGivenUp(*limit, stopped=stopped)
        if self._error is not None:
            raise self._error
        if self._result is None:
            raise ConnectionLost("the connection ended")
        return self._result

    async def _withdraw(self) -> bool:
        """Tell the server, wait for its answer or its grace, end it; say if it has stopped."""
        stopped = False
        with trio.CancelScope(shield=True):
            self._task_scope.cancel()  # the SDK's part sends the notice on its way out
            with trio.move_on_after(self._call.grace_ms / 1000) as grace:
                await self._done.wait()
                # Race: a call given up at once may never have come to the pipe. The notice goes
                # the same way and was taken from there by now, so what was written is known.
                if self._ticket.written or not self._connection.is_local:
                    await self._ticket.answered.wait()
            stopped = not grace.cancelled_caught or await self._connection.end_for(self._call)
        return stopped  # noqa: RET504  (a `with` may swallow, for the type checker)

    async def _send(self) -> None:
        try:
            with self._task_scope:
                self._result = await self._rounds()
        except (RpcFailed, BadAnswer, ConnectionLost) as exc:
            self._error = exc
        finally:
            self._done.set()

    async def _rounds(self) -> dict[str, Any]:
        """Send the call again as long as the answer is a question."""
        responses: dict[str, Any] | None = None
        state: str | None = None
        for _round in range(_MAX_ROUNDS):
            raw = await self._connection.session.call_tool(
                self._ticket,
                self._call.origin.tool,
                self._call.arguments,
                responses=responses,
                state=state,
            )
            if raw.get("resultType", "complete") == "complete":
                return raw
            if raw["resultType"] != "input_required":
                raise BadAnswer(f"answered with a result of type {raw['resultType']!r}")
            self._on_progress()
            state = raw.get("requestState")
            responses = await self._answers(raw.get("inputRequests") or {})
        raise BadAnswer(f"asked for input over {_MAX_ROUNDS} times")

    async def _answers(self, requests: Mapping[str, Any]) -> dict[str, Any] | None:
        if not requests:
            await trio.sleep(_STATE_ONLY_SECONDS)  # the server only wants to be asked again
            return None
        found: dict[str, Any] = {}
        for key, request in requests.items():
            if request.get("method") != "elicitation/create":
                raise BadAnswer(f"asked its client for {request.get('method')!r}: refused")
            found[key] = await self.elicit(request.get("params") or {})
        return found

    async def elicit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Put a question of the server to the person of the call's session."""
        ask = self._call.ask
        if ask is None:
            self._call.detail["unanswered"] = "interaction_unavailable"
            return DECLINED
        with self._person():
            try:
                return await ask_person(params, ask)
            except RequestRefused as exc:
                self._call.detail["unanswered"] = exc.code
                return CANCELLED
            except NotAskable as exc:
                self._call.detail["unanswered"] = self._connection.shown(str(exc))
                return DECLINED

    def _on_progress(self) -> None:
        """Renew the idle deadline. Progress can change nothing else."""
        if self._idle_scope is not None and not self._waiting:
            self._idle_scope.deadline = _from_now(self._idle_ms)

    @contextmanager
    def _person(self) -> Iterator[None]:
        """Let no idle time pass; the timer of the call is stopped by whoever asks."""
        self._waiting += 1
        if self._idle_scope is not None:
            self._idle_scope.deadline = math.inf
        try:
            yield
        finally:
            self._waiting -= 1
            self._on_progress()


def _from_now(milliseconds: int) -> float:
    return trio.current_time() + milliseconds / 1000
