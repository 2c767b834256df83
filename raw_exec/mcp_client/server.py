"""One configured server: started when it is needed, watched, started again after it died.

Rules
1. What the model was shown is kept. After a restart, and when the server says that its tools
   changed, it is asked again; a tool whose name or schemas are not what they were is refused
   from then on, and the model's view changes only with the next ``open_runtime``.
2. A server that died is started again by the next call. What it remembered is lost, and the
   outcome of that call says so. From the second failure in a row on there is a growing pause
   first; after the third, calls are refused until a longer one is over.
3. A failure of a server is a failure of its calls, never of the runtime.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import trio

from ..config import Config, McpServer
from ..errors import CallRefused, SandboxError
from ..pool import Launcher
from ..pool.oneshot import ProgramUnavailable
from ..text import escape_text
from ..tools.mcp import definition_digest
from ..tools.plan import derive_server_plan
from ..variables import VariableError, VariableService
from .calls import CallGivenUp, ServerCall
from .failures import OVERSIZE_WORDS, BadAnswer, ConnectionLost, RpcFailed, ServerFailure
from .logs import Secrets
from .program import downloader_hint, find_server_program, start_directory

if TYPE_CHECKING:
    from .connection import Connection, Start
    from .protocol import Listing

__all__ = ["Server"]

MAX_IN_FLIGHT: Final = 64
"""Calls that one server is given at a time; more wait their turn."""
_BACKOFF_SECONDS: Final = (0.0, 0.1, 0.5, 2.0)
_TOLERATED: Final = 3
_PAUSE_SECONDS: Final = (1.0, 5.0, 30.0, 120.0)
_MAX_MESSAGE_CHARS = 2000
_STATE_LOST: Final = "it was started again; what it remembered of earlier calls is lost"


class Server:
    """One server of a runtime.

    Args:
        config: The configuration.
        server: Its part of it.
        launcher: Starts it.
        variables: Resolve what its environment or headers refer to.
        nursery: Its connections run here.
        cwd: Absolute working directory of the runtime.
        elicits: Whether there may be a person to ask.
    """

    def __init__(
        self,
        config: Config,
        server: McpServer,
        launcher: Launcher,
        variables: VariableService,
        nursery: trio.Nursery,
        *,
        cwd: str,
        elicits: bool,
    ) -> None:
        self.name = server.name
        self._config = config
        self._server = server
        self._launcher = launcher
        self._variables = variables
        self._nursery = nursery
        self._cwd = cwd
        self._elicits = elicits
        self._secrets = Secrets()
        self._connection: Connection | None = None
        self._lock = trio.Lock()
        self._room = trio.CapacityLimiter(MAX_IN_FLIGHT)
        self._failures = 0
        self._not_before = 0.0
        self._last: ServerFailure | None = None
        self._module: ModuleType | None = None
        self._contracts: tuple[Listing | None, dict[str, str]] = (None, {})

    # -- public --------------------------------------------------------------

    async def start(self) -> Listing | ServerFailure:
        """Start it and return what it offers, or why it can't be used."""
        async with self._lock:
            connection = await self._connect()
        if isinstance(connection, ServerFailure):
            return connection
        return connection.listing

    @property
    def version(self) -> str | None:
        """The version that it says it has."""
        return None if self._connection is None else self._connection.session.server_version

    def warnings(self) -> tuple[str, ...]:
        """Return what the operator should know of it, safe to show."""
        if self._connection is None:
            return ()
        stray = self._connection.stray.describe(self._secrets)
        return () if stray is None else (f"MCP server {self.name!r}: {stray}",)

    async def call(self, call: ServerCall) -> dict[str, Any]:
        """Make one call and return its result as the server sent it.

        If cancelled, the call is withdrawn first, see ``calls``.

        Raises:
            CallRefused: There is no result.
        """
        started = trio.current_time()
        call_ms = min(call.call_ms, self._server.call_ms or call.call_ms)
        deadline = started + call_ms / 1000
        with trio.CancelScope(deadline=deadline) as scope:
            await self._room.acquire()
        if scope.cancelled_caught:
            raise self._timed_out(call, "call_ms", call_ms, ", all of it waiting for its turn")
        try:
            with trio.CancelScope(deadline=deadline) as scope:
                connection = await self._ready(call)
            if scope.cancelled_caught:
                raise self._timed_out(call, "call_ms", call_ms, ", its server was not ready")
            call.enforced = connection.enforced
            call.usage["start_ms"] = round((trio.current_time() - started) * 1000, 3)
            return await self._exchange(connection, call, call_ms)
        finally:
            self._room.release()

    def clean(self, data: Any) -> Any:
        """Return JSON data without the values that the server was given to keep."""
        return self._variables.redact(self._secrets.clean_data(data))

    async def close(self) -> None:
        """End it; return when nothing of it is left. Not cancellable."""
        if self._connection is not None:
            await self._connection.close(self._config.limits.grace_ms / 1000)

    # -- calls ---------------------------------------------------------------

    async def _exchange(
        self, connection: Connection, call: ServerCall, call_ms: int
    ) -> dict[str, Any]:
        assert self._module is not None  # noqa: S101  (a connection exists)
        try:
            exchange = self._module.Exchange(
                connection, call, idle_ms=min(self._server.idle_ms, call_ms), call_ms=call_ms
            )
            raw: dict[str, Any] = await exchange.run()
        except CallGivenUp as exc:
            ended = "" if exc.stopped else "; the server may still be working on it"
            raise self._timed_out(call, exc.limit, exc.limit_ms, ended, exc.stopped) from None
        except RpcFailed as exc:
            self._check_size(connection, call, exc)
            message = self._shown(exc.message)
            raise CallRefused(
                "handler_error",
                f"MCP server {self.name!r} answered with error {exc.code}: {message}",
                stage="handler",
                detail={**call.detail, "kind": "rpc", "error": str(exc.code)},
            ) from None
        except BadAnswer as exc:
            raise CallRefused(
                "invalid_result",
                f"result of {call.identity} can't be used: {self._shown(str(exc))}",
                stage="handler",
                detail={**call.detail, "kind": "protocol"},
            ) from None
        except ConnectionLost as exc:
            self._check_size(connection, call, exc)
            raise await self._lost(connection, call, exc) from None
        self._failures = 0
        return raw

    async def _lost(
        self, connection: Connection, call: ServerCall, exc: ConnectionLost
    ) -> CallRefused:
        """Say why a connection was lost, once nothing is left of it."""
        if not connection.is_local and connection.usable:
            # Only the one request: the server elsewhere may go on.
            failure = ServerFailure(f"gave no answer: {self._shown(str(exc))}")
        else:
            with trio.CancelScope(shield=True):
                await connection.done.wait()
            failure = connection.failed
            if "ended_for" not in failure.detail:  # not its own doing
                self._note_failure(failure)
        return self._refused(failure, call)

    def _check_size(self, connection: Connection, call: ServerCall, exc: Exception) -> None:
        """Refuse an answer of a server elsewhere that was cut off for its size."""
        if connection.is_local or not any(words in str(exc) for words in OVERSIZE_WORDS):
            return
        limit = self._config.limits.result_bytes
        raise CallRefused(
            "output_limit",
            f"MCP server {self.name!r} answered with over {limit} bytes",
            stage="handler",
            detail={**call.detail, "limit": "result_bytes", "limit_bytes": limit},
        )

    def _timed_out(
        self, call: ServerCall, limit: str, limit_ms: int, words: str, stopped: bool = True
    ) -> CallRefused:
        what = "gave no sign of progress for" if limit == "idle_ms" else "took over"
        return CallRefused(
            "timeout",
            f"{call.identity} {what} {limit_ms} ms{words}",
            stage="handler",
            detail={**call.detail, "limit": limit, "limit_ms": limit_ms, "stopped": stopped},
            hint=f"mcp.servers.{self.name}.{limit} is the limit"
            + ("" if limit == "idle_ms" else ", or limits.call_ms"),
        )

    def _refused(self, failure: ServerFailure, call: ServerCall) -> CallRefused:
        return CallRefused(
            failure.code,
            f"MCP server {self.name!r} {failure.reason}",
            stage="handler",
            detail={**call.detail, **failure.detail},
            hint=failure.hint,
        )

    def _shown(self, text: str) -> str:
        shown = escape_text(self._secrets.clean(text))
        if len(shown) <= _MAX_MESSAGE_CHARS:
            return shown
        return f"{shown[:_MAX_MESSAGE_CHARS]}… [{len(shown) - _MAX_MESSAGE_CHARS} more characters]"

    # -- starting ------------------------------------------------------------

    async def _ready(self, call: ServerCall) -> Connection:
        """Return a connection in which the tool is what the model was shown."""
        async with self._lock:
            connection = self._connection
            warm = connection is not None and connection.usable
            if connection is None or not warm:
                if connection is not None:
                    await connection.done.wait()
                before = self._last or (None if connection is None else connection.failed)
                fresh = await self._connect()
                if isinstance(fresh, ServerFailure):
                    raise self._refused(fresh, call)
                connection = fresh
                call.detail["server_restarted"] = _STATE_LOST
                if before is not None:
                    call.detail["server_ended"] = before.reason
            elif connection.session.list_changed:
                await self._list_again(connection, call)
        call.usage["worker"] = "warm" if warm else "cold"
        self._check_same(connection.listing, call)
        return connection

    async def _list_again(self, connection: Connection, call: ServerCall) -> None:
        try:
            with trio.move_on_after(self._server.start_ms / 1000) as scope:
                await connection.list_tools()
            if scope.cancelled_caught:
                failure = ServerFailure("did not list its changed tools in time (start_ms)")
                raise self._refused(failure, call)
        except (RpcFailed, BadAnswer) as exc:
            failure = ServerFailure(f"can not list its changed tools: {self._shown(str(exc))}")
            raise self._refused(failure, call) from None
        except ConnectionLost as exc:
            raise await self._lost(connection, call, exc) from None

    def _check_same(self, listing: Listing, call: ServerCall) -> None:
        origin = call.origin
        definition = listing.tools.get(origin.tool)
        if definition is None:
            reason = f"has no tool {origin.tool!r:.80} any more"
        elif self._contract(listing, origin.tool) != origin.contract:
            reason = f"has changed the schema of {origin.tool!r:.80} since the model was shown it"
        else:
            return
        hint = "open the runtime again to take its tools as they are now"
        raise self._refused(ServerFailure(reason, detail={"changed": True}, hint=hint), call)

    def _contract(self, listing: Listing, tool: str) -> str:
        """Return the digest of a listed definition, worked out once."""
        if self._contracts[0] is not listing:
            self._contracts = (listing, {})
        known = self._contracts[1]
        if tool not in known:
            known[tool] = definition_digest(listing.tools[tool])
        return known[tool]

    async def _connect(self) -> Connection | ServerFailure:
        """Start it, unless it has failed too often of late. Called under the lock."""
        left = self._not_before - trio.current_time()
        if left > 0 and self._last is not None:
            return ServerFailure(
                f"failed {self._failures} times in a row and is not tried again for {left:.1f} s "
                f"(last: it {self._last.reason})",
                detail={"crash_loop": self._failures, "retry_after_ms": int(left * 1000)},
                hint=self._last.hint,
            )
        await trio.sleep(_BACKOFF_SECONDS[min(self._failures, len(_BACKOFF_SECONDS) - 1)])
        start = await self._prepare()
        if isinstance(start, ServerFailure):
            self._note_failure(start)
            return start
        assert self._module is not None  # noqa: S101  (prepared)
        connection: Connection = self._module.Connection(
            self._launcher, start, self._secrets, elicits=self._elicits
        )
        self._connection = connection
        self._nursery.start_soon(connection.run)
        try:
            await _first(connection.ready, connection.done)
        except BaseException:
            await connection.close()
            raise
        if not connection.usable:
            with trio.CancelScope(shield=True):
                await connection.done.wait()
            self._note_failure(connection.failed)
            return connection.failed
        self._last = None
        return connection

    async def _prepare(self) -> Start | ServerFailure:
        try:
            self._module = self._module or await trio.to_thread.run_sync(
                importlib.import_module, "raw_exec.mcp_client.connection"
            )
        except ImportError as exc:
            return ServerFailure(
                f"can't be used: {exc.name or 'a package'} is not installed",
                hint="pip install 'raw-exec[mcp]'",
            )
        server = self._server
        remote = server.url is not None
        literals = server.headers if remote else server.env
        references = server.header_vars if remote else server.env_vars
        try:
            resolved = await self._variables.resolve_configured(references)
        except VariableError as exc:
            detail = {"variable": exc.variable, "class": exc.code}
            return ServerFailure(f"was not started: {exc.message}", detail=detail, hint=exc.hint)
        for name, value in literals.items():
            self._secrets.add(name, value, literal=True)
        for name, value in resolved.items():
            if self._config.vars[references[name]].access == "use":
                self._secrets.add(name, value, literal=False)
        return await self._start_facts({**literals, **resolved})

    async def _start_facts(self, env: Mapping[str, str]) -> Start | ServerFailure:
        assert self._module is not None  # noqa: S101  (just imported)
        make: type[Start] = self._module.Start
        if self._server.url is not None:
            problem = next((n for n, value in env.items() if not _fits_header(value)), None)
            if problem is not None:
                return ServerFailure(f"was not asked: header {problem!r} can't have its value")
            return make(self._server, env, self._config.limits)
        try:
            plan = derive_server_plan(self._config, self._server, self._cwd)
            cwd = start_directory(self._config, self._server, plan, self._cwd)
            program = await trio.to_thread.run_sync(
                find_server_program, self._config, self._server, cwd
            )
        except ProgramUnavailable as exc:
            return ServerFailure(
                f"was not started: {exc.message}", detail={"class": exc.code}, hint=exc.hint
            )
        except SandboxError as exc:
            return ServerFailure(f"was not started: {exc.message}", hint=exc.hint)
        return make(self._server, env, self._config.limits, program, plan, cwd)

    def _note_failure(self, failure: ServerFailure) -> None:
        if failure is self._last:
            return  # of several calls that it took with it, the first counts
        self._last = failure
        self._failures += 1
        over = self._failures - _TOLERATED
        if over >= 0:
            pause = _PAUSE_SECONDS[min(over, len(_PAUSE_SECONDS) - 1)]
            self._not_before = trio.current_time() + pause

    def hint(self) -> str | None:
        """Return advice about how it is configured, if there is any."""
        return downloader_hint(self._server)


def _fits_header(value: str) -> bool:
    return value.isascii() and value.isprintable() and value == value.strip()


async def _first(*events: trio.Event) -> None:
    """Wait until one of the events is set."""
    async with trio.open_nursery() as nursery:

        async def wait(event: trio.Event) -> None:
            await event.wait()
            nursery.cancel_scope.cancel()

        for event in events:
            nursery.start_soon(wait, event)
