"""How many calls there may be, and whose turn it is.

Rules
1. A call takes its place before its body is read, so what waits is bounded in memory too.
2. A free turn goes to the principal that has waited longest since its last one: whoever
   sends many calls delays its own.
3. No place is ever lost: every ticket that was given out is given back once.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from types import TracebackType
from typing import Final

import trio

from .answers import Refused

__all__ = ["Admission", "Ticket"]

_MAX_RETRY_SECONDS: Final = 30
_WEIGHT: Final = 0.1
"""Of the latest call in the average time that a call takes."""


class Ticket:
    """The place of one call. From ``Admission.enter``; to be left once."""

    __slots__ = ("_admission", "_left", "_since", "principal")

    def __init__(self, admission: Admission, principal: str) -> None:
        self._admission = admission
        self.principal = principal
        self._since: float | None = None
        self._left = False

    async def wait_turn(self) -> None:
        """Return once the call may run. If cancelled, it waits no more."""
        await self._admission._wait(self)
        self._since = trio.current_time()

    def leave(self) -> None:
        """Give the place back; a second time changes nothing."""
        if not self._left:
            self._left = True
            self._admission._leave(self.principal, self._since)

    def __enter__(self) -> Ticket:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()


class Admission:
    """The places of all calls.

    Args:
        running: Calls that run at the same time.
        queued: Calls that wait.
        per_principal: Calls of one principal, running and waiting; ``None``: no bound.
    """

    def __init__(self, running: int, queued: int, per_principal: int | None = None) -> None:
        self._max_running = running
        self._max_held = running + queued
        self._per_principal = self._max_held if per_principal is None else per_principal
        self._running = 0
        self._held: dict[str, int] = {}
        self._total = 0
        self._waiting: OrderedDict[str, deque[trio.Event]] = OrderedDict()
        self._seconds = 0.0

    @property
    def running(self) -> int:
        """Calls whose turn it is."""
        return self._running

    @property
    def held(self) -> int:
        """Places taken: by calls that run, that wait, and whose body is being read."""
        return self._total

    def enter(self, principal: str) -> Ticket:
        """Take a place.

        Raises:
            Refused: ``too_many_calls``.
        """
        own = self._held.get(principal, 0)
        if self._total >= self._max_held:
            message = f"the service has {self._total} calls, running and waiting"
            raise Refused("too_many_calls", message, retry_after=self._retry_seconds())
        if own >= self._per_principal:
            message = f"this key has {own} calls, running and waiting"
            raise Refused("too_many_calls", message, retry_after=self._retry_seconds())
        self._total += 1
        self._held[principal] = own + 1
        return Ticket(self, principal)

    def _retry_seconds(self) -> int:
        """Estimate when there is room: what waits, at the pace of late."""
        waiting = self._total - self._running
        seconds = math.ceil(self._seconds * waiting / self._max_running)
        return max(1, min(_MAX_RETRY_SECONDS, seconds))

    async def _wait(self, ticket: Ticket) -> None:
        if self._running < self._max_running and not self._waiting:
            self._running += 1
            return
        turn = trio.Event()
        queue = self._waiting.setdefault(ticket.principal, deque())
        queue.append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._running -= 1  # Race: it was given the turn and can't take it any more.
                self._next()
            else:
                queue.remove(turn)
                if not queue:
                    self._waiting.pop(ticket.principal, None)
            raise

    def _leave(self, principal: str, since: float | None) -> None:
        self._total -= 1
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        if since is not None:
            taken = trio.current_time() - since
            self._seconds += (taken - self._seconds) * _WEIGHT
            self._running -= 1
            self._next()

    def _next(self) -> None:
        while self._waiting and self._running < self._max_running:
            principal, queue = self._waiting.popitem(last=False)
            queue.popleft().set()
            self._running += 1
            if queue:
                self._waiting[principal] = queue
