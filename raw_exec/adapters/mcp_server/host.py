"""Runs the calls of all clients, and brings what they ask to the clients' people.

Rules
1. A call is counted from its arrival. Beyond ``MAX_CALLS`` it is refused with an error at
   once; up to ``MAX_RUNNING`` are served at a time, their answers' way to the client
   included, and the others wait in order. One that asks a person makes room for another.
2. Whoever serves a request and is cancelled gives the call up, except between two requests of
   a stateless one: there it waits for ``DETACHED_SECONDS`` at most.
3. A stateless answer to a question counts for the call only if it comes from where the call
   came from, with the same tool, the same arguments and the state that was given out last.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

import trio

from ...approval import Answer, ApprovalRequest, NobodyToAsk
from ...errors import Problem
from ...interactions import CallbackAdapter, Question, Reply
from .calls import CURRENT_CALL, Asked, NoAnswer, RunningCall
from .catalog import Catalog
from .eras import INVALID_PARAMS, RpcError
from .forms import approval_form, question_form, read_answers, read_approval
from .generation import Generation, Opening, keep_generation
from .protocol import Peer, ServerFacts, ToolCall
from .results import call_result

__all__ = [
    "DETACHED_SECONDS",
    "MAX_CALLS",
    "MAX_RUNNING",
    "Host",
    "HostStatistics",
    "open_host",
]

_log = logging.getLogger(__name__)

MAX_RUNNING: Final = 64
MAX_CALLS: Final = 4096
MAX_OPEN_QUESTIONS: Final = 256
"""Of all clients together: each keeps a call, and mostly a worker."""
DETACHED_SECONDS: Final = 30 * 60.0
_ACTIONS: Final = ("accept", "decline", "cancel")


@dataclass(frozen=True, slots=True)
class _Detached:
    """A call between two requests.

    Args:
        until: When the client may not come back any more, by trio's clock.
        shown: What the client was asked, and may answer.
    """

    call: RunningCall
    until: float
    shown: Mapping[str, Asked]


@dataclass(frozen=True, slots=True)
class HostStatistics:
    """A snapshot for tests and operators.

    Args:
        served: Requests for calls whose answers are not on their way yet.
        calls: Calls without an outcome.
        open_questions: Forms that clients have been sent, or are to be told of.
        detached: States that a client may come back with.
    """

    served: int
    calls: int
    open_questions: int
    detached: int


class Host:
    """See the module. Use ``open_host``.

    Args:
        facts: What the server says of itself.
        nursery: Where calls run.
    """

    def __init__(self, facts: ServerFacts, nursery: trio.Nursery) -> None:
        self.facts = facts
        self._nursery = nursery
        self._generation: Generation | None = None
        self._slots = trio.CapacityLimiter(MAX_RUNNING)
        self._calls: dict[str, RunningCall] = {}
        self._detached: dict[str, _Detached] = {}
        self._served = 0
        self._listeners: dict[object, Callable[[], None]] = {}
        self._asking = CallbackAdapter(self._put_question)

    # ------------------------------------------------------------ runtimes

    @property
    def generation(self) -> Generation:
        """The one that new calls go to."""
        assert self._generation is not None  # noqa: S101  (replace comes first)
        return self._generation

    def catalog(self) -> Catalog:
        """Return the tools as of now."""
        return self.generation.catalog

    def peer(self) -> Peer:
        """Return the protocol of one more client."""
        return Peer(self.facts, self.catalog)

    async def replace(self, opening: Opening, *, keeps_history: bool) -> bool:
        """Serve another runtime from now on; calls under way finish with the one before.

        Returns:
            Whether clients are told of other tools than before.

        Raises:
            RawExecError: It can't be opened; nothing has changed.
        """

        async def keep(*, task_status: trio.TaskStatus[Generation]) -> None:
            await keep_generation(opening, keeps_history=keeps_history, task_status=task_status)

        before = self._generation
        generation: Generation = await self._nursery.start(keep)
        self._generation = generation
        if before is None:
            return False
        before.retire()
        changed = generation.catalog.differs_from(before.catalog)
        if changed:
            for listener in list(self._listeners.values()):
                listener()
        return changed

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever the list of tools changes; return what ends that."""
        key = object()
        self._listeners[key] = listener

        def end() -> None:
            self._listeners.pop(key, None)

        return end

    # ------------------------------------------------------------ calls

    @property
    def calls(self) -> int:
        """Calls that have no outcome yet, those between two requests included."""
        return len(self._calls)

    def statistics(self) -> HostStatistics:
        """Return counts as of now."""
        return HostStatistics(
            served=self._served,
            calls=len(self._calls),
            open_questions=self._open_questions(),
            detached=len(self._detached),
        )

    @property
    def slots(self) -> trio.CapacityLimiter:
        """Room for requests that are served at a time."""
        return self._slots

    @contextmanager
    def counted(self) -> Iterator[bool]:
        """Count a request for a call in the block; yield whether it is one too many."""
        refused = self._served >= MAX_CALLS
        self._served += 1
        try:
            yield refused
        finally:
            self._served -= 1

    async def start(self, wanted: ToolCall, owner: str, place: str) -> RunningCall:
        """Begin a call, in a task of its own where somebody may have to wait for its news.

        If cancelled, it is given up.
        """
        call = RunningCall(wanted, owner, place)
        generation = self.generation
        self._calls[call.id] = call
        generation.begin(call)
        if generation.is_quiet(call):
            await self._run(call, generation)
        else:
            generation.nursery.start_soon(self._run, call, generation)
        return call

    async def _run(self, call: RunningCall, generation: Generation) -> None:
        CURRENT_CALL.set(call)
        result, failure = None, None
        try:
            with call.scope:
                outcome = await generation.dispatch(call)
                result = call_result(outcome, call.wanted.era)
        except Exception as exc:
            failure = exc
            _log.exception("the call %s failed", call.wanted.tool.projected.name)
        finally:
            generation.finish(call)
            del self._calls[call.id]
            call.end(result, failure)

    def resume(self, wanted: ToolCall, owner: str) -> RunningCall:
        """Return the call that a stateless request brings answers for.

        Raises:
            RpcError: There is none, or it is another one's.
        """
        found = self._detached.get(wanted.request_state or "")
        if (
            found is None
            or found.call.owner != owner
            or (found.call.ended.is_set() and found.call.result is None)
        ):
            raise RpcError(INVALID_PARAMS, "params.requestState is unknown, used up or expired")
        call = found.call
        asked = call.wanted
        if (wanted.tool.projected.name, wanted.arguments) != (
            asked.tool.projected.name,
            asked.arguments,
        ):
            raise RpcError(INVALID_PARAMS, "params.requestState belongs to another call")
        responses = wanted.input_responses or {}
        for key, value in responses.items():
            if key in found.shown and not _is_elicit_result(value):
                raise RpcError(INVALID_PARAMS, f"inputResponses[{key!r:.60}] is no result")
        del self._detached[wanted.request_state or ""]
        call.scope.deadline = math.inf
        call.attach(wanted)
        # Security: only what was shown is answered. A tool names its questions, and could give
        # one the name of an approval that comes after it.
        for key, shown in found.shown.items():
            if key in responses:
                shown.answer(responses[key])
        return call

    def detach(self, call: RunningCall, shown: Mapping[str, Asked]) -> str:
        """Let a call wait for the request that brings answers; return its state.

        Args:
            shown: What the client is asked.
        """
        now = trio.current_time()
        # One that ended meanwhile, since its question did, keeps its result for the client.
        over = [key for key, one in self._detached.items() if one.until <= now]
        ended = [key for key, one in self._detached.items() if one.call.ended.is_set()]
        for key in {*over, *ended[:-MAX_OPEN_QUESTIONS]}:
            del self._detached[key]
        state = secrets.token_urlsafe(32)
        self._detached[state] = _Detached(call, now + DETACHED_SECONDS, shown)
        call.scope.deadline = now + DETACHED_SECONDS
        return state

    def drop(self, owner: str) -> None:
        """Give up every call of a client that is gone, and end its session."""
        for call in list(self._calls.values()):
            if call.owner == owner:
                call.give_up()
        self.close_place(owner)

    def close_place(self, place: str) -> None:
        """End the session of a client."""
        if self._generation is not None:
            self._generation.close_session(place)

    # ------------------------------------------------------------ asking people

    def _open_questions(self) -> int:
        return sum(len(call.asked) for call in self._calls.values())

    def _can_ask(self, call: RunningCall | None) -> bool:
        return (
            call is not None and call.wanted.elicits and self._open_questions() < MAX_OPEN_QUESTIONS
        )

    async def approve(self, request: ApprovalRequest) -> Answer:
        """Ask whether a call may run; for the runtime.

        Raises:
            NobodyToAsk: Its client shows no forms.
        """
        call = self._calls.get(request.tool_call_id)
        if call is None or not self._can_ask(call):
            raise NobodyToAsk
        try:
            return read_approval(await call.ask("approval", approval_form(request)))
        except NoAnswer as exc:
            return Answer(False, str(exc))

    def can_ask(self, session: str) -> bool:
        """Say whether the client of the running call shows forms; for the runtime."""
        return self._can_ask(CURRENT_CALL.get())

    async def ask(self, question: Question, reply: Reply) -> None:
        """Put a question of a tool; for the runtime."""
        await self._asking.ask(question, reply)

    async def _put_question(
        self, question: Question, problems: Sequence[Problem]
    ) -> Mapping[str, Any] | None:
        call = self._calls.get(question.tool_call_id)
        if call is None:
            return None
        version = call.wanted.version
        # A client that lost the state of a call may send all answers again at its start. An
        # approval is not among them: it counts for what was shown only.
        given = call.given.pop(question.form.id, None)
        if _is_elicit_result(given) and not problems:
            return read_answers(question, given, version)
        try:
            form = question_form(question, problems, version)
            result = await call.ask(question.form.id, form)
        except NoAnswer:
            return None
        return read_answers(question, result, version)


def _is_elicit_result(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("action") not in _ACTIONS:
        return False
    content = value.get("content")
    return content is None or isinstance(content, dict)


@asynccontextmanager
async def open_host(facts: ServerFacts) -> AsyncIterator[Host]:
    """Open a host without tools; ``Host.replace`` brings them.

    On exit every call is aborted, and every runtime is closed.
    """
    async with trio.open_nursery() as nursery:
        try:
            yield Host(facts, nursery)
        finally:
            nursery.cancel_scope.cancel()
