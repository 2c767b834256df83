"""One connection to a server, from its start to its end. It is used once.

Rules
1. A stdio server is a spawn of the launcher, confined by its plan. Its end is the launcher's
   exit notice, when its whole tree is dead and reaped.
2. ``ready`` is set when its tools are listed, ``done`` when nothing of it is left; ``failure``
   then says why. Nothing that happens inside is an exception of the runtime.
3. It is ended politely: its input is closed, it has its grace, then its tree is killed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import trio

from ..config import McpServer
from ..errors import SandboxError, WorkerError
from ..limits import Limits
from ..pool import Child, Launcher
from ..pool.nursery import is_cancellation
from ..pool.oneshot import Program
from ..pool.verdict import attribute_exit
from ..sandbox import SandboxPlan, host_plan
from ..text import escape_text
from .calls import Exchange, ServerCall
from .failures import BadAnswer, ConnectionLost, RpcFailed, ServerFailure
from .http import describe_http_failure, open_http
from .logs import ErrorTail, Secrets, StrayLines, last_line
from .pipes import LineTooLong, Pipes
from .protocol import Listing, Session, Ticket, open_protocol

__all__ = ["Connection", "Start"]

# The SDK's records may quote a server. Without this, Python prints them where nobody asked.
for _name in ("mcp", "client", "httpx2", "httpcore2"):
    logging.getLogger(_name).addHandler(logging.NullHandler())

_CLOSE_SECONDS = 2.0
_DRAIN_SECONDS = 1.0
_MAX_REASON_CHARS = 500
_PATIENCE_SECONDS = 5.0
"""How long a server may be silent about what the earlier era does not know, or half its time."""


@dataclass(frozen=True, slots=True)
class Start:
    """What a connection needs of its server.

    Args:
        server: Its configuration.
        env: The values of its environment, or of its headers. Security: may hold secrets.
        limits: Bounds of calls and of what is kept.
        program: What to start; ``None`` for a server elsewhere.
        plan: What it is granted.
        cwd: Where it starts.
        use: Optional mechanisms of the sandbox.
    """

    server: McpServer
    env: Mapping[str, str]
    limits: Limits
    program: Program | None = None
    plan: SandboxPlan | None = None
    cwd: str = "/"
    use: tuple[str, ...] = ("namespaces", "cgroup")


class Connection:
    """One connection. ``run`` it in a task; wait for ``ready`` or ``done``.

    Args:
        launcher: Starts and ends the process.
        start: What is started.
        secrets: Values to keep out of every message.
        elicits: Whether there may be a person to ask.
    """

    def __init__(
        self, launcher: Launcher, start: Start, secrets: Secrets, *, elicits: bool
    ) -> None:
        self._launcher = launcher
        self._start = start
        self._secrets = secrets
        self._elicits = elicits
        self._scope = trio.CancelScope()
        self._over = trio.Event()
        self._nursery: trio.Nursery | None = None
        self._deadline = trio.current_time() + start.server.start_ms / 1000
        self._child: Child | None = None
        self.session: Session
        self.exchanges: list[Exchange] = []
        self.stray = StrayLines()
        self.listing = Listing({}, {})
        self.failure: ServerFailure | None = None
        self.enforced: Mapping[str, Any] = {}
        self.ready = trio.Event()
        self.done = trio.Event()

    @property
    def usable(self) -> bool:
        """Whether calls can be sent."""
        return self.ready.is_set() and not self._over.is_set() and not self.done.is_set()

    @property
    def is_local(self) -> bool:
        """Whether it is a process of ours."""
        return self._start.program is not None

    @property
    def failed(self) -> ServerFailure:
        """Why it ended."""
        return self.failure or ServerFailure("was ended")

    # -- for calls -----------------------------------------------------------

    def new_ticket(self, on_progress: Callable[[], None]) -> Ticket:
        """Return the ticket of a call to come."""
        return Ticket(on_progress)

    def start_soon(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run a part of a call inside the connection; it ends with it at the latest.

        Raises:
            ConnectionLost: It is over.
        """
        if self._nursery is None or self._over.is_set():
            raise ConnectionLost("the connection ended")
        self._nursery.start_soon(function)

    async def list_tools(self) -> None:
        """Ask what it offers. Security: its words go to a model, so what it was given goes not.

        Raises:
            BadAnswer: As ``Session.list_tools``, and its other exceptions.
        """
        found = await self.session.list_tools()
        tools = {name: self._secrets.clean_data(tool) for name, tool in found.tools.items()}
        refused = {
            name: self.shown(reason)[:_MAX_REASON_CHARS] for name, reason in found.refused.items()
        }
        self.listing = Listing(tools, refused)

    def shown(self, words: str) -> str:
        """Return words of the server for people: in one line, without what it was given."""
        return escape_text(self._secrets.clean(words), keep_newlines=False)

    async def end_for(self, call: ServerCall) -> bool:
        """End a server that does not let go of a call; say if nothing goes on."""
        if not self.is_local:
            return False
        tool = call.origin.tool
        self.fail(
            ServerFailure(
                f"was ended, since it had not answered a withdrawn call of {tool!r:.80} within "
                f"{call.grace_ms} ms",
                detail={"ended_for": tool},
            )
        )
        await self._kill()
        await self.done.wait()
        return True

    def fail(self, failure: ServerFailure) -> None:
        """Say why it ends, unless that is known, and end it."""
        if self.failure is None:
            self.failure = failure
        self._over.set()

    async def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """End it and return when nothing is left. Not cancellable."""
        with trio.CancelScope(shield=True):
            self._over.set()
            with trio.move_on_after(seconds):
                await self.done.wait()
            self._scope.cancel()
            await self.done.wait()

    # -- its life ------------------------------------------------------------

    async def run(self) -> None:
        """Open it, list its tools, keep it open until it ends."""
        try:
            with self._scope:
                if self.is_local:
                    await self._run_process()
                else:
                    await self._run_http()
        except (SandboxError, WorkerError) as exc:
            detail = {"step": exc.step, "errno": exc.errno} if isinstance(exc, SandboxError) else {}
            self.fail(
                ServerFailure(f"was not started: {exc.message}", detail=detail, hint=exc.hint)
            )
        except OSError as exc:
            self.fail(ServerFailure(f"was not started: {exc.strerror}"))
        except (Exception, BaseExceptionGroup) as exc:
            if is_cancellation(exc):
                raise
            reason = describe_http_failure(exc, self._secrets)
            self.fail(ServerFailure(reason))
        finally:
            self._over.set()
            self.done.set()

    async def _run_process(self) -> None:
        program, plan = self._start.program, self._start.plan
        assert program is not None and plan is not None  # noqa: S101, PT018  (it is local)
        with ExitStack() as ours:
            fds: list[int] = []
            with ExitStack() as theirs:
                given: dict[int, int] = {}
                for target, we_read in enumerate((False, True, True)):
                    reader, writer = os.pipe2(os.O_CLOEXEC)
                    mine, other = (reader, writer) if we_read else (writer, reader)
                    ours.callback(_close, fds, len(fds))
                    theirs.callback(os.close, other)
                    fds.append(mine)
                    given[target] = other
                    os.set_blocking(mine, False)
                child = await self._launcher.spawn(
                    kind="exec",
                    argv=program.argv,
                    env={**program.env, **self._start.env},
                    cwd=self._start.cwd,
                    fds=given,
                    scratch=True,
                    plan=host_plan(
                        plan, runtime=program.files, snapshot_dir=None, use=self._start.use
                    ),
                )
            # No await between a live process and what guards it.
            self._child, self.enforced = child, child.enforced
            tail = ErrorTail(fds[2], self._start.limits.log_bytes)
            try:
                await self._serve_process(child, fds, tail)
            finally:
                with trio.CancelScope(shield=True):
                    _close(fds, 0)
                    with trio.move_on_after(self._start.limits.grace_ms / 1000):
                        if self.failure is None or self.failure.code == "mcp_unavailable":
                            await child.exited.wait()
                    await self._launcher.kill(child)
            tail.drain()
            self._explain_exit(child, tail)

    async def _serve_process(self, child: Child, fds: list[int], tail: ErrorTail) -> None:
        pipes = Pipes(
            fds[1],
            fds[0],
            max_line_bytes=self._start.limits.result_bytes,
            stray=self.stray,
            on_request=lambda ident: self.session.note_request(ident),
            on_answer=lambda ident: self.session.note_answer(ident),
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(tail.pump)
                nursery.start_soon(pipes.write)
                nursery.start_soon(self._read, pipes)
                nursery.start_soon(self._watch_exit, child)
                await self._serve(pipes.incoming, pipes.outgoing)
                nursery.cancel_scope.cancel()
        finally:
            pipes.close()

    async def _read(self, pipes: Pipes) -> None:
        try:
            await pipes.read()
        except LineTooLong:
            limit = self._start.limits.result_bytes
            self.fail(
                ServerFailure(
                    f"was ended, since it sent a line of over {limit} bytes",
                    code="output_limit",
                    detail={"limit": "result_bytes", "limit_bytes": limit},
                )
            )
        self._over.set()

    async def _watch_exit(self, child: Child) -> None:
        await child.exited.wait()
        # Its last answer may still be in the pipe, whose end somebody else can keep open.
        with trio.move_on_after(_DRAIN_SECONDS):
            await self._over.wait()
        self._over.set()

    async def _run_http(self) -> None:
        async with open_http(
            self._start.server.url or "",
            self._start.env,
            max_bytes=self._start.limits.result_bytes,
            connect_seconds=self._start.server.start_ms / 1000,
        ) as (incoming, outgoing):
            await self._serve(incoming, outgoing)

    async def _serve(self, incoming: Any, outgoing: Any) -> None:
        """Open the session, list the tools, and wait until it is over."""
        elicit = self._elicit if self._elicits else None
        async with open_protocol(incoming, outgoing, elicit=elicit) as session:
            self.session = session
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._end_when_over, nursery.cancel_scope)
                try:
                    if not await self._negotiate(session):
                        self._over.set()
                    else:
                        self.ready.set()
                        nursery.start_soon(session.watch_list)
                    await trio.sleep_forever()
                finally:
                    # No call may come to a nursery that is being left.
                    self._nursery = None
                    self._over.set()

    async def _end_when_over(self, scope: trio.CancelScope) -> None:
        await self._over.wait()
        scope.cancel()

    async def _negotiate(self, session: Session) -> bool:
        start_ms = self._start.server.start_ms
        try:
            with trio.CancelScope(deadline=self._deadline) as scope:
                await session.negotiate(min(_PATIENCE_SECONDS, start_ms / 2000))
                await self.list_tools()
                return True
        except RpcFailed as exc:
            words = self.shown(exc.message)
            self.fail(ServerFailure(f"refused with error {exc.code}: {words:.300}"))
        except BadAnswer as exc:
            words = self.shown(str(exc))
            self.fail(ServerFailure(f"broke the protocol: {words:.500}"))
        except ConnectionLost as exc:
            with trio.move_on_after(_DRAIN_SECONDS if self.is_local else 0):
                await self._over.wait()
            if not self._over.is_set():  # its own words, under the code of a lost connection
                words = self.shown(str(exc))
                self.fail(ServerFailure(f"did not let itself be used: {words:.300}"))
        if scope.cancelled_caught:
            self.fail(ServerFailure(f"did not answer within {start_ms} ms (start_ms)"))
        return False

    async def _elicit(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Answer a question that names no call: it can only be put where there is one."""
        if len(self.exchanges) == 1:
            return await self.exchanges[0].elicit(params)
        return {"action": "cancel"}

    async def _kill(self) -> None:
        if self._child is not None:
            await self._launcher.kill(self._child)

    def _explain_exit(self, child: Child, tail: ErrorTail) -> None:
        """Complete the failure by what the process left behind."""
        notice = child.exit
        assert notice is not None  # noqa: S101  (it was killed, at the latest)
        text = tail.text(self._secrets)
        failure = self.failure
        if failure is None:
            verdict = attribute_exit(
                notice,
                stderr=tail.bytes(),
                label=self._start.server.name,
                memory_bytes=self._start.plan.memory_bytes if self._start.plan else None,
            )
            code, reason = "mcp_unavailable", notice.describe()
            if verdict.code in ("memory_limit", "output_limit", "timeout"):
                code = verdict.code
                reason = verdict.message.removeprefix(f"worker of {self._start.server.name} ")
            failure = ServerFailure(reason, code, dict(verdict.detail))
        said = last_line(text)
        reason = failure.reason + (f"; its standard error ends: {said}" if said else "")
        detail = {**failure.detail, **({"stderr": text} if text else {})}
        self.failure = ServerFailure(reason, failure.code, detail, failure.hint)


def _close(fds: list[int], index: int) -> None:
    fd, fds[index] = fds[index], -1
    if fd >= 0:
        trio.lowlevel.notify_closing(fd)
        os.close(fd)
