"""Running calls for clients: admission, the outcome, and the end of it all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import trio

from ...dispatch import CODES, ToolResult
from ...errors import RawExecError
from ...serving import RateLimiter
from .admission import Admission, Ticket
from .answers import Refused, encode, error_body
from .calls import CallState, HostedCall
from .homes import Home, Homes
from .limits import ServiceLimits
from .metrics import Metrics
from .requests import CallRequest, Workplace

__all__ = ["Service"]

_MAX_BUCKETS = 10_000
_LARGE_BYTES = 256 * 1024
"""A result from this size on is encoded in a thread."""

_log = logging.getLogger(__name__)


class Service:
    """What the routes work with.

    Args:
        homes: Of the principals.
        limits: Bounds.
        workplace_of: Return where the calls of a principal may work.
        nursery: Calls run in it, whatever becomes of the request that made them.
        problems: Why the service can't be used as it is configured; empty when it can.
    """

    def __init__(
        self,
        homes: Homes,
        limits: ServiceLimits,
        workplace_of: Callable[[str], Workplace],
        nursery: trio.Nursery,
        problems: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.homes = homes
        self.limits = limits
        self.workplace_of = workplace_of
        self.admission = Admission(limits.running, limits.queued, limits.per_principal)
        self.metrics = Metrics(homes, self.admission)
        self.draining = False
        self._nursery = nursery
        self._problems = problems
        self._rates: RateLimiter | None = None
        if limits.per_second is not None:
            burst = max(1, int(2 * limits.per_second))
            self._rates = RateLimiter(burst, limits.per_second, _MAX_BUCKETS, time.monotonic)

    def problems(self) -> tuple[str, ...]:
        """Return why the service is not ready; empty when it is."""
        return (*(("it is stopping",) if self.draining else ()), *self._problems())

    def check_open(self) -> None:
        """Refuse what is new while the service stops.

        Raises:
            Refused: ``draining``.
        """
        if self.draining:
            seconds = max(1, int(self.limits.drain_seconds))
            raise Refused("draining", "the service is stopping", retry_after=seconds)

    def check_rate(self, principal: str) -> None:
        """Count a request.

        Raises:
            Refused: ``rate_limited``.
        """
        wait = 0.0 if self._rates is None else self._rates.take(principal)
        if wait:
            seconds = max(1, int(wait + 0.999))
            message = f"too many requests with this key; wait {seconds} s"
            raise Refused("rate_limited", message, retry_after=seconds)

    # ------------------------------------------------------------ calls

    def start(self, home: Home, request: CallRequest, ticket: Ticket) -> HostedCall:
        """Start a call; it leaves the ticket when it is over.

        Raises:
            Refused: ``call_exists``, ``session_unknown`` or ``draining``; the ticket is kept.
        """
        self.check_open()
        if request.session is not None:
            home.session(request.session)
        call = HostedCall(request.call_id, request.session, request.interactive)
        home.calls.add(call)
        self._nursery.start_soon(self._run, home, call, request, ticket)
        return call

    async def _run(
        self, home: Home, call: HostedCall, request: CallRequest, ticket: Ticket
    ) -> None:
        began = time.perf_counter()
        state, body = CallState.FAILED, b""
        with ticket:
            try:
                result: ToolResult | None = None
                with call.scope:
                    await ticket.wait_turn()
                    call.begin()
                    result = await home.run(call, request)
                if result is None:
                    result = _aborted(call, (time.perf_counter() - began) * 1000)
                self.metrics.count(call.identity, result)
                with trio.CancelScope(shield=True):
                    state, body = CallState.DONE, await _encoded(result)
            except Refused as exc:
                # Its session was closed while it waited for its turn.
                body = encode(error_body(exc.code, exc.message, exc.pointer))
            except Exception as exc:
                body = encode(_failure(exc))
            finally:
                call.end(state, body or encode(error_body("service_failed", "it was stopped")))
                home.calls.keep(call)

    # ------------------------------------------------------------ the end

    async def drain(self) -> None:
        """Take nothing new, wait for calls under way, then abort those that are left.

        Returns when every call has its outcome.
        """
        self.draining = True
        with trio.move_on_after(self.limits.drain_seconds):
            await self._until_quiet()
        for home in self.homes.all:
            for call in home.calls.live:
                call.abort("stopping")
        await self._until_quiet()

    async def _until_quiet(self) -> None:
        for home in self.homes.all:
            for call in home.calls.live:
                await call.finished.wait()


async def _encoded(result: ToolResult) -> bytes:
    size = sum(len(block.get("text", "")) + len(block.get("data", "")) for block in result.content)
    large = size > _LARGE_BYTES or any(block["type"] == "json" for block in result.content)
    value = result.as_dict()
    return await trio.to_thread.run_sync(encode, value) if large else encode(value)


def _aborted(call: HostedCall, elapsed_ms: float) -> ToolResult:
    return ToolResult(
        content=({"type": "text", "text": CODES["aborted"]},),
        is_error=True,
        code="aborted",
        stage=call.stage,
        enforced={},
        usage={},
        elapsed_ms=elapsed_ms,
        tool_call_id=call.id,
        detail={"reason": call.abort_reason or "stopping"},
    )


def _failure(exc: Exception) -> dict[str, object]:
    """Return the error of a call that the service could not bring to an outcome."""
    cause: BaseException = exc
    while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
        cause = cause.exceptions[0]
    if isinstance(cause, RawExecError):
        _log.error("a call failed with %s: %s", cause.code, cause)
        return error_body("service_failed", f"{cause.code}: {cause}")
    _log.error("a call failed", exc_info=cause)
    return error_body("service_failed", f"internal error: {type(cause).__name__}")
