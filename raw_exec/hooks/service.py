"""Runs the hooks of an event, one after another, and says what they decided.

Rules
1. Hooks run in selection order, each at most once per event, each in a process of its own
   that starts from its snapshot and gets one JSON object.
2. On a gate (``PreToolUse``, ``UserPromptSubmit``) the first hook that denies, or does not
   answer as it must, stops the event; later hooks do not run. Anywhere else a hook that
   fails is noted in its receipt and the next one runs.
3. A hook decides about what it is told and changes nothing of it: there is no answer that
   approves, and none that carries arguments or results.

If cancelled, a running hook's process tree is ended and reaped before ``Cancelled`` goes on.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import trio

from ..config import Config
from ..errors import (
    CallRefused,
    ConfigError,
    ManifestError,
    PolicyError,
    SandboxError,
    WorkerError,
)
from ..fields import did_you_mean
from ..manifest.hook import EVENTS, GATES, TOOL_EVENTS
from ..pool import Launcher
from ..pool.oneshot import Program, ProgramOutcome, ProgramUnavailable, find_program, run_program
from ..sandbox import SandboxPlan, explain_path
from ..tools import Tool
from .answer import Answer, read_answer
from .binding import BoundHook, HookSet
from .payload import HookIds, encode_payload, event_payload, tool_payload
from .plan import hook_plan
from .receipt import HookFailure, HookReceipt, Outcome

__all__ = ["HookIds", "HookService", "SessionDecision", "ToolCall"]

MAX_OUTPUT_BYTES: Final = 65536
"""Standard output and error of one run, together."""

_MAX_PROCESSES = 8
_SESSION_EVENTS = tuple(event for event in EVENTS if event not in TOOL_EVENTS)


class ToolCall(Protocol):
    """What a tool event is about; ``dispatch.Call`` is one."""

    name: str
    arguments: Any
    effects: Any
    source: str
    cwd: str
    tool_call_id: str
    session_id: str | None
    turn_id: str | None
    receipts: list[HookReceipt]

    def chosen_tool(self) -> Tool:
        """Return the tool."""


@dataclass(frozen=True, slots=True)
class SessionDecision:
    """What the hooks of a session event decided.

    Args:
        allowed: ``False``: a hook of ``UserPromptSubmit`` stopped the prompt.
        reason: Why, for the user.
        receipts: Of the hooks that ran, in order.
    """

    allowed: bool
    reason: str | None
    receipts: tuple[HookReceipt, ...]


class HookService:
    """The selected hooks of one agent.

    Args:
        config: The configuration.
        hooks: From ``load_hooks``.
        launcher: Starts their processes.
        store: Folder that snapshots are materialised in.
        cwd: Absolute directory of events that are not about a call.
        environ: Instead of the process environment, for ``PATH``.
        on_receipt: Called with every receipt as soon as there is one.
    """

    def __init__(
        self,
        config: Config,
        hooks: HookSet,
        launcher: Launcher,
        *,
        store: Path,
        cwd: str,
        environ: Mapping[str, str] | None = None,
        on_receipt: Callable[[HookReceipt], None] | None = None,
    ) -> None:
        self.hooks = hooks
        self.on_receipt = on_receipt
        self._config = config
        self._launcher = launcher
        self._store = store
        self._cwd = cwd
        self._environ = os.environ if environ is None else environ
        self._by_event = {
            event: tuple(hook for hook in hooks.hooks if hook.subscribes(event)) for event in EVENTS
        }
        self._limiter = trio.CapacityLimiter(_MAX_PROCESSES)
        self._programs: dict[str, tuple[str, Program]] = {}
        self._prefix = f"hook_{secrets.token_hex(6)}_"
        self._runs = 0

    def wants(self, event: str) -> bool:
        """Return whether any selected hook subscribes to an event."""
        return bool(self._by_event[event])

    def statistics(self) -> dict[str, int]:
        """Return how many hooks ran since the start, and how many processes they have now."""
        return {"runs": self._runs, "running": int(self._limiter.borrowed_tokens)}

    async def pre_tool(self, call: ToolCall) -> None:
        """Run the ``PreToolUse`` hooks that a call matches; receipts go to the call.

        Raises:
            CallRefused: ``hook_denied``: a hook denied it, or failed.
        """
        for receipt in await self._tell_of_call("PreToolUse", call, None):
            if receipt.stops:
                raise _denied(call, receipt)

    async def post_tool(self, call: ToolCall, result: Mapping[str, Any]) -> None:
        """Tell of a handler that ran; receipts go to the call. Never raises ``CallRefused``.

        Args:
            call: The call.
            result: ``{content, isError, code?}`` without panel blocks, before caps. With
                ``isError`` the event is ``PostToolUseFailure``, else ``PostToolUse``.
        """
        event = "PostToolUseFailure" if result.get("isError") else "PostToolUse"
        await self._tell_of_call(event, call, result)

    async def session_event(
        self,
        event: str,
        payload: Mapping[str, Any] | None = None,
        ids: HookIds | None = None,
        *,
        cwd: str | None = None,
    ) -> SessionDecision:
        """Tell of something that an agent's session did or is about to do.

        Args:
            event: ``SessionStart``, ``UserPromptSubmit``, ``Stop`` or ``SessionEnd``.
            payload: JSON data added to what hooks are told, for example ``{"prompt": ...}``.
            ids: Session and turn, as far as known.
            cwd: Absolute directory of the session; the runtime's by default.

        Raises:
            ConfigError: ``option_invalid``: it is no such event.
        """
        if event not in _SESSION_EVENTS:
            raise ConfigError(
                "option_invalid",
                f"event {event!r:.60} is not one of a session{did_you_mean(event, EVENTS)}",
                hint=f"events: {', '.join(_SESSION_EVENTS)}",
            )
        hooks = self._by_event[event]
        directory = cwd or self._cwd
        told = event_payload(
            event,
            cwd=directory,
            agent=self._config.agent.name,
            ids=ids or HookIds(),
            facts=payload,
        )
        receipts = await self._run_all(event, hooks, told, directory, None)
        stopped = receipts[-1] if receipts and receipts[-1].stops else None
        return SessionDecision(
            allowed=stopped is None,
            reason=None if stopped is None else f"hook {stopped.hook}: {stopped.message}",
            receipts=tuple(receipts),
        )

    async def _tell_of_call(
        self, event: str, call: ToolCall, result: Mapping[str, Any] | None
    ) -> list[HookReceipt]:
        subscribed = self._by_event[event]
        if not subscribed:
            return []
        tool = call.chosen_tool()
        hooks: list[BoundHook] = []
        unbindable: dict[str, PolicyError] = {}
        for hook in subscribed:
            try:
                if hook.match(event, tool, call.arguments, call.effects) is not None:
                    hooks.append(hook)
            except PolicyError as exc:
                unbindable[hook.identity] = exc
                hooks.append(hook)
        if not hooks:
            return []
        told = event_payload(
            event,
            cwd=call.cwd,
            agent=self._config.agent.name,
            ids=HookIds(call.session_id, call.turn_id),
            tool=tool_payload(
                identity=tool.identity,
                name=call.name,
                arguments=call.arguments,
                effects=call.effects,
                source=call.source,
                result=result,
            ),
        )
        return await self._run_all(event, hooks, told, call.cwd, call, unbindable)

    async def run_hook(
        self, hook: BoundHook, event: str, payload: Mapping[str, Any], *, cwd: str
    ) -> HookReceipt:
        """Run one hook on an event that is made up, whatever it subscribes to.

        Args:
            hook: Which.
            event: Its name, which decides what a failure means.
            payload: What it is told, see ``event_payload``.
            cwd: Absolute directory of the event.
        """
        try:
            request: bytes | HookFailure = encode_payload(payload)
        except HookFailure as exc:
            request = exc
        return await self._run(hook, event, request, cwd, None)

    async def _run_all(
        self,
        event: str,
        hooks: list[BoundHook] | tuple[BoundHook, ...],
        told: Mapping[str, Any],
        cwd: str,
        call: ToolCall | None,
        unbindable: Mapping[str, PolicyError] | None = None,
    ) -> list[HookReceipt]:
        receipts: list[HookReceipt] = []
        request: bytes | HookFailure = b""
        if hooks:
            try:
                request = encode_payload(told)
            except HookFailure as exc:
                request = exc
        for hook in hooks:
            failed = (unbindable or {}).get(hook.identity)
            asked: bytes | HookFailure = request
            if failed is not None:
                asked = HookFailure("unbindable", f"does not fit the call: {failed}")
            receipt = await self._run(hook, event, asked, cwd, call)
            receipts.append(receipt)
            if call is not None:
                call.receipts.append(receipt)
            if self.on_receipt is not None:
                self.on_receipt(receipt)
            if receipt.stops:
                break
        return receipts

    async def _run(
        self,
        hook: BoundHook,
        event: str,
        request: bytes | HookFailure,
        cwd: str,
        call: ToolCall | None,
    ) -> HookReceipt:
        self._runs += 1
        number = self._runs
        start = time.perf_counter()
        error: str | None = None
        try:
            if isinstance(request, HookFailure):
                raise request
            answer = await self.ask(hook, request, cwd)
        except HookFailure as exc:
            answer, error = Answer(event in GATES, exc.message), exc.code
        if answer.deny and event not in GATES and error is None:
            error = "deny_ignored"
        return HookReceipt(
            id=f"{self._prefix}{number:x}",
            hook=hook.identity,
            event=event,
            outcome=_outcome(event, answer.deny, error),
            elapsed_ms=(time.perf_counter() - start) * 1000,
            message=answer.message,
            error=error,
            tool_call_id=None if call is None else call.tool_call_id,
        )

    async def ask(self, hook: BoundHook, request: bytes, cwd: str) -> Answer:
        """Run a hook once, whatever it subscribes to.

        Args:
            hook: Which.
            request: What it reads.
            cwd: Absolute directory of the event; it starts there where its plan lets it.

        Raises:
            HookFailure: It could not be run, or did not answer as the contract says.
        """
        async with self._limiter:
            outcome = await self._run_program(hook, request, cwd)
        return read_answer(
            outcome, timeout_ms=hook.manifest.timeout_ms, max_output_bytes=MAX_OUTPUT_BYTES
        )

    async def _run_program(self, hook: BoundHook, request: bytes, cwd: str) -> ProgramOutcome:
        manifest = hook.manifest
        try:
            plan = hook_plan(self._config, hook.identity, cwd=cwd)
            found = self._programs.get(hook.identity)
            if found is None:
                found = await trio.to_thread.run_sync(self._find, hook)
                self._programs[hook.identity] = found
            folder, program = found
            return await run_program(
                self._launcher,
                argv=program.argv,
                env=program.env,
                cwd=_start_in(plan, cwd, folder),
                plan=plan,
                files=program.files,
                stdin=request,
                timeout_ms=manifest.timeout_ms,
                max_output_bytes=MAX_OUTPUT_BYTES,
                grace_ms=self._config.limits.grace_ms,
                snapshot_dir=folder,
            )
        except ProgramUnavailable as exc:
            hint = f"; {exc.hint}" if exc.hint else ""
            raise HookFailure(exc.code, f"can't be started: {exc.message}{hint}") from None
        except SandboxError as exc:
            raise HookFailure("sandbox_unavailable", f"was not run: {exc.message}") from None
        except WorkerError as exc:
            raise HookFailure("launcher_lost", f"was not run: {exc.message}") from None
        except ManifestError as exc:
            raise HookFailure("snapshot_changed", f"was not run: {exc.message}") from None
        except OSError as exc:
            raise HookFailure("program_refused", f"was not run: {exc.strerror}") from None

    def _find(self, hook: BoundHook) -> tuple[str, Program]:
        """Materialise a hook's snapshot and find its program, once; blocks."""
        folder = str(hook.snapshot.materialise(self._store))
        args = [_resolve(text, folder) for text in hook.manifest.args]
        command = hook.manifest.command
        return folder, find_program(command, args, directory=folder, environ=self._environ)


def _outcome(event: str, deny: bool, error: str | None) -> Outcome:
    if event in GATES:
        if error is not None:
            return "blocked"
        return "denied" if deny else "continued"
    return "continued" if error is None else "warned"


def _resolve(text: str, folder: str) -> str:
    return f"{folder}/{text[2:]}" if text.startswith("./") else text


def _start_in(plan: SandboxPlan, cwd: str, folder: str) -> str:
    """Start where the event happened, or in the snapshot when that is not granted."""
    return cwd if explain_path(plan, cwd).read else folder


def _denied(call: ToolCall, receipt: HookReceipt) -> CallRefused:
    identity = call.chosen_tool().identity
    detail: dict[str, Any] = {"hook": receipt.hook, "event": receipt.event, "receipt": receipt.id}
    if receipt.outcome == "denied":
        text = f"{identity} was denied by hook {receipt.hook}: {receipt.message}"
        return CallRefused("hook_denied", text, stage="hooks", detail=detail)
    detail["error"] = receipt.error
    return CallRefused(
        "hook_denied",
        f"{identity} was not run: hook {receipt.hook} {receipt.message}",
        stage="hooks",
        detail=detail,
        hint=f"a gate that fails stops the call; try it: raw hooks test {receipt.hook}",
    )
