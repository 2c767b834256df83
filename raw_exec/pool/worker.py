"""One worker process: its pipes, its protocol connection, one call at a time.

Rules
1. After a request is written, anything but a terminal frame means that the worker is
   ended: a worker at an unknown place in its stream is never used again.
2. A call waits on one cancel scope. The deadline, the launcher's exit notice and a log
   flood all cancel that scope, so the fast path needs no second task.
3. Cancellation from outside: the abort frame is sent, the handler gets the grace
   period, the tree is killed and reaped, and only then ``Cancelled`` goes on.
"""

from __future__ import annotations

from secrets import randbelow
from typing import Any, NoReturn

import trio

from ..errors import RemoteWireError, WireError, WorkerBroken
from ..wire import (
    NEED_DATA,
    Described,
    Failed,
    LeftBehind,
    Loaded,
    LoadFailed,
    Pong,
    Progress,
    Ready,
    Request,
    Result,
    WorkerConnection,
    WorkerFailure,
)
from .answers import Answers, refuse_aborted
from .calls import (
    CallReply,
    CallRequest,
    CallTimer,
    LoadFailure,
    NotDelivered,
    RequestHandler,
)
from .channel import Channel, ChannelClosed, open_pipes, poller
from .child import Child, ExitNotice
from .launcher import Launcher
from .logs import LogCapture
from .verdict import attribute_exit

__all__ = ["Worker"]

_QUICK_LOOKS = 3
_ID_STEP = 2**32
_FLOOD_FACTOR = 64
"""A plugin may print this many times what is kept before its call is ended."""
_MIN_FLOOD_BYTES = 4 * 1024 * 1024
_CLOSED_CHANNEL_SECONDS = 0.25
"""From the end of the reply pipe to the end of the process, when it is merely exiting."""


class Worker:
    """A started worker. Made by ``Worker.start``; ended by ``end``.

    ``retire_reason`` is set as soon as it must not be used for another call.
    """

    def __init__(
        self,
        child: Child,
        launcher: Launcher,
        label: str,
        channel: Channel,
        logs: tuple[LogCapture, LogCapture],
        result_bytes: int,
        log_bytes: int,
        memory_bytes: int,
    ) -> None:
        self.child = child
        self.label = label
        self.retire_reason: str | None = None
        self.calls = 0
        self.loaded_exports: frozenset[str] = frozenset()
        self.left: LeftBehind | None = None
        self.base_rss = 0
        self.idle_since = trio.current_time()
        self._launcher = launcher
        self._channel = channel
        self._out, self._err = logs
        self._result_bytes = result_bytes
        self._memory_bytes = memory_bytes
        self._flood_bytes = max(_MIN_FLOOD_BYTES, log_bytes * _FLOOD_FACTOR)
        # The frame holds the value, an error of bounded size, or the state besides it.
        self._wire = WorkerConnection(max_frame_bytes=result_bytes + 64 * 1024)
        self._answers = Answers(self._wire, channel)
        self._last_id = 0
        # One system call each instead of two; select() can't take descriptors over 1023.
        self._log_poller = poller(self._out.fd, self._err.fd)
        self._idle_poller = poller(child.pidfd, channel.replies)
        self._scope: trio.CancelScope | None = None
        self._flooded = False
        self._early: Any = NEED_DATA
        self._received = 0

    # -- life --------------------------------------------------------------

    @classmethod
    async def start(
        cls,
        launcher: Launcher,
        nursery: trio.Nursery,
        *,
        label: str,
        kind: str,
        argv: list[str],
        env: dict[str, str],
        cwd: str,
        plan: dict[str, Any],
        load_ms: int,
        result_bytes: int,
        log_bytes: int,
        memory_bytes: int,
    ) -> Worker:
        """Start a process in its sandbox and wait until it says that it is ready.

        Raises:
            SandboxError: A restriction could not be put in force.
            WorkerBroken: It ended, or was not ready within ``load_ms``.
        """
        with open_pipes() as (fds, ours):
            child = await launcher.spawn(
                kind=kind, argv=argv, env=env, cwd=cwd, fds=fds, scratch=True, plan=plan
            )
        if child.views:
            child.note_seen((cwd, *plan["read"], *plan["write"], *plan["exec"]))
        out, err, requests, replies, control = ours
        logs = (LogCapture(out, log_bytes), LogCapture(err, log_bytes))
        worker = cls(
            child,
            launcher,
            label,
            Channel(requests, replies, control),
            logs,
            result_bytes,
            log_bytes,
            memory_bytes,
        )
        for log in logs:
            nursery.start_soon(worker._pump, log)
        try:
            event = await worker._exchange(b"", load_ms, "starting the worker")
            if not isinstance(event, Ready):
                raise worker._violation(f"sent {type(event).__name__} before Ready")
        except BaseException:
            await worker.end()
            raise
        return worker

    async def load(self, entry: str, name: str, kind: str, load_ms: int) -> None:
        """Import the plugin.

        Raises:
            LoadFailure: It could not be imported or lacks an export.
            WorkerBroken: It ended, or did not finish within ``load_ms``.
        """
        if self._wire.surplus_bytes or self._idle_poller.poll(0):
            await self.end()
            raise self._violation("spoke before it was asked to import the plugin")
        data = self._wire.send_load(entry=entry, name=name, kind=kind)
        event = await self._exchange(data, load_ms, "importing the plugin")
        if isinstance(event, LoadFailed):
            self.retire_reason = "load failed"
            log = self._err_tail()
            failure = event.error
            raise LoadFailure(
                "handler_error",
                f"{self.label} can't be loaded: {failure.name}: {failure.message}",
                failure,
                log,
            )
        if not isinstance(event, Loaded):
            raise self._violation(f"sent {type(event).__name__} instead of Loaded")
        self.loaded_exports = frozenset(event.exports)

    async def end(self) -> ExitNotice:
        """Kill the whole tree, wait until it is reaped, close the pipes. Not cancellable."""
        if self.retire_reason is None:
            self.retire_reason = "ended"
        try:
            return await self._launcher.kill(self.child)
        finally:
            self._channel.close()
            self._out.close()
            self._err.close()

    @property
    def alive(self) -> bool:
        """Whether the launcher has not reported its end."""
        return self.child.exit is None

    @property
    def usable(self) -> bool:
        """Whether it may take another call: not retired, silent, and running right now."""
        if self.retire_reason is not None or self.child.exit is not None:
            return False
        # Readable: the process has ended, or something was said that nobody asked for.
        return not self._idle_poller.poll(0) and self.child.is_current

    # -- one exchange ------------------------------------------------------

    async def call(self, request: CallRequest) -> CallReply:
        """Run the handler once.

        If cancelled, the handler sees its abort signal, gets the grace period, and the
        tree is killed and reaped before ``Cancelled`` goes on.

        Raises:
            WorkerBroken: Codes ``timeout``, ``memory_limit``, ``output_limit``,
                ``worker_crashed``; ``detail`` names the evidence.
        """
        ident = self._new_id()
        self.calls += 1
        data = self._wire.send_call(
            id=ident,
            args=request.arguments,
            cwd=request.cwd,
            tool_call_id=request.tool_call_id,
            max_output_bytes=request.max_output_bytes,
            result_bytes=self._result_bytes,
            scratch=self.child.scratch,
        )
        self._received = 0
        event = await self._exchange(
            data,
            request.call_ms,
            "running the handler",
            abort_id=ident,
            grace_ms=request.grace_ms,
            on_request=request.on_request,
            timer=request.timer,
        )
        if isinstance(event, Result):
            self.left = event.state
            return self._reply(event.value, None)
        if isinstance(event, Failed):
            self.left = event.state
            return self._reply(None, event.error)
        raise self._violation(f"sent {type(event).__name__} instead of a result")

    async def describe(self, fn: str, arguments: Any, cwd: str, deadline_ms: int) -> Any:
        """Run a descriptor function in a descriptor worker.

        Returns:
            The value, or a ``WorkerFailure``.

        Raises:
            WorkerBroken: It ended or overran ``deadline_ms``.
        """
        self.calls += 1
        data = self._wire.send_describe(id=self._new_id(), fn=fn, args=arguments, cwd=cwd)
        event = await self._exchange(data, deadline_ms, f"running {fn}")
        for log in (self._out, self._err):
            log.drain()
            log.take()  # nobody is shown it, and it must not be what the next failure shows
        if isinstance(event, Described):
            return event.value
        if isinstance(event, Failed):
            return event.error
        raise self._violation(f"sent {type(event).__name__} instead of a value")

    async def ping(self, load_ms: int) -> None:
        """Have the worker answer once, which warms its code paths."""
        data = self._wire.send_ping(id=self._new_id())
        event = await self._exchange(data, load_ms, "answering a ping")
        if not isinstance(event, Pong):
            raise self._violation(f"sent {type(event).__name__} instead of Pong")

    def _new_id(self) -> int:
        # Security: a plugin that could tell the next call's number could answer it beforehand.
        self._last_id += 1 + randbelow(_ID_STEP)
        return self._last_id

    async def _exchange(
        self,
        data: bytes,
        limit_ms: int,
        doing: str,
        *,
        abort_id: int | None = None,
        grace_ms: int = 0,
        on_request: RequestHandler | None = None,
        timer: CallTimer | None = None,
    ) -> Any:
        """Write ``data`` and return the next terminal event; on any other end, end the worker."""
        if self.child.exit is not None:
            raise self._attribute(self.child.exit)
        event: Any = None
        try:
            # Written before anything else is set up: the worker begins meanwhile.
            rest = self._send_first(data)
            if data and rest is not None and not rest:
                event = await self._quick_terminal()
                if event is not None:
                    return event
            with trio.CancelScope(deadline=trio.current_time() + limit_ms / 1000) as scope:
                self._scope = self.child.on_exit = scope
                if timer is not None:
                    timer.attach(scope)
                try:
                    if rest is None:
                        raise ChannelClosed
                    if rest:
                        await self._channel.send(rest)
                    event = await self._next_terminal(on_request)
                except ChannelClosed:
                    # The notice may have come before this scope was there to be cancelled.
                    if self.child.exit is None:
                        await self._wait_for_exit()
        except BaseException as exc:
            await self._abandon(exc, abort_id, grace_ms)
            raise
        finally:
            self._scope = self.child.on_exit = None
        if event is not None:
            return event
        raise await self._broken(limit_ms, doing, abort_id, grace_ms, len(data))

    async def _quick_terminal(self) -> Any:
        """Look for the answer of a fast handler before a deadline is set up for it.

        A cancel scope costs as much as such a handler. Bounded by a few checkpoints, so no
        deadline can be missed by it.
        """
        for _ in range(_QUICK_LOOKS):
            await trio.lowlevel.checkpoint()
            data = self._channel.receive_nowait()
            if data:
                self._received += len(data)
                self._wire.receive_data(data)
                event = self._wire.next_event()
                if type(event) is Result or type(event) is Failed:
                    return event
                self._early = event  # anything else is dealt with under the deadline
                return None
        return None

    def _send_first(self, data: bytes) -> bytes | memoryview | None:
        """Write what fits now; return the rest, or ``None`` when nobody reads any more."""
        if not data:
            return data
        try:
            return self._channel.send_nowait(data)
        except ChannelClosed:
            return None

    async def _broken(
        self, limit_ms: int, doing: str, abort_id: int | None, grace_ms: int, sent: int
    ) -> WorkerBroken:
        """Find out why the scope was cancelled, end the worker, and say it."""
        notice = self.child.exit
        if notice is not None:
            self.retire_reason = "worker ended"
            error = self._attribute(notice)
            if sent and self._channel.unread_bytes() >= sent:
                error = NotDelivered(error.code, error.message, detail=error.detail)
        elif self._flooded:
            self.retire_reason = "log flood"
            error = WorkerBroken(
                "output_limit",
                f"{self.label} printed more than {self._flood_bytes} bytes in one call",
                detail={"limit": "log_bytes", "bytes": self._out.total + self._err.total},
            )
        else:
            self.retire_reason = "timeout"
            if abort_id is not None:
                await self._abort(abort_id, "timeout", grace_ms)
            error = WorkerBroken(
                "timeout",
                f"{self.label} was still {doing} after {limit_ms} ms",
                detail={"limit_ms": limit_ms, "evidence": "wall clock of the supervisor"},
            )
        ended = await self.end()
        error.detail.setdefault("stderr", self._err_tail())
        if ended.oom and error.code == "timeout":
            error.detail["oom"] = dict(ended.oom)
        return error

    async def _abandon(self, exc: BaseException, abort_id: int | None, grace_ms: int) -> None:
        """End a worker whose exchange was left by an exception."""
        if isinstance(exc, RemoteWireError):
            self.retire_reason = "protocol violation"
        elif isinstance(exc, trio.Cancelled):
            self.retire_reason = "aborted"
            if abort_id is not None and self.alive:
                await self._abort(abort_id, "aborted", grace_ms)
        else:
            self.retire_reason = type(exc).__name__
        await self.end()

    async def _abort(self, ident: int, reason: str, grace_ms: int) -> None:
        """Let the handler see its abort signal and wait for its answer for the grace period."""
        deadline = trio.current_time() + grace_ms / 1000
        with trio.CancelScope(deadline=deadline, shield=True) as scope:
            self.child.on_exit = scope
            try:
                await self._answers.send(self._wire.send_abort(id=ident, reason=reason))
                await self._next_terminal(refuse_aborted)
            except (ChannelClosed, WireError):  # it may have been read to its end already
                pass  # it is ended next in any case
            finally:
                self.child.on_exit = None

    async def _next_terminal(self, on_request: RequestHandler | None) -> Any:
        event = await self._next_event()
        if type(event) is not Request:
            return event
        event = await self._answers.serve(event, on_request, self._next_event)
        if self._answers.cut:
            self.retire_reason = self.retire_reason or "control frame cut"
        return event

    async def _next_event(self) -> Any:
        wire = self._wire
        while True:
            event, self._early = self._early, NEED_DATA
            if event is NEED_DATA:
                event = wire.next_event()
            if event is NEED_DATA:
                data = await self._channel.receive()
                self._received += len(data)
                wire.receive_data(data)
            elif type(event) is not Progress:
                return event

    async def _wait_for_exit(self) -> NoReturn:
        """The channel is closed: an exit notice follows, or the worker lives on without it."""
        pidfd = self.child.pidfd
        if pidfd >= 0:
            try:
                with trio.move_on_after(_CLOSED_CHANNEL_SECONDS) as scope:
                    await trio.lowlevel.wait_readable(pidfd)
            except trio.ClosedResourceError:
                pass  # the notice came first
            else:
                if scope.cancelled_caught:
                    raise self._violation("closed its channel but went on running")
        # The notice, which comes once its tree is dead too, cancels the exchange's scope.
        await trio.sleep_forever()

    # -- logs and verdicts -------------------------------------------------

    async def _pump(self, log: LogCapture) -> None:
        while log.fd >= 0:
            try:
                await trio.lowlevel.wait_readable(log.fd)
            except trio.ClosedResourceError:
                return
            before = log.total
            log.drain(max_chunks=4)
            if log.total == before and log.at_eof:
                return
            if log.total > self._flood_bytes and self._scope is not None:
                self._flooded = True
                self._scope.cancel()
            await trio.lowlevel.checkpoint()

    def _reply(self, value: Any, failure: WorkerFailure | None) -> CallReply:
        if self._wire.surplus_bytes:
            # The first terminal frame is the outcome; what came with it ends the worker.
            self.retire_reason = "protocol violation"
        if self._log_poller.poll(0):
            self._out.drain()
            self._err.drain()
        return CallReply(
            value=value,
            failure=failure,
            stdout=self._out.take(),
            stderr=self._err.take(),
            result_bytes=self._received,
        )

    def _attribute(self, notice: ExitNotice) -> WorkerBroken:
        self._out.drain()
        self._err.drain()
        return attribute_exit(
            notice,
            stderr=self._err.peek(),
            label=self.label,
            memory_bytes=self._memory_bytes,
        )

    def _err_tail(self) -> str:
        self._err.drain()
        return self._err.take().text

    def _violation(self, what: str) -> RemoteWireError:
        self.retire_reason = "protocol violation"
        return RemoteWireError("worker_crashed", f"{self.label} {what}", where=self.label)
