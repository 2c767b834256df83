"""The order of a dispatch, as data, and the loop that walks it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import trio

from ..errors import CallRefused
from ..pool.nursery import is_cancellation
from . import settling, stages
from .call import Call, Services, Stage
from .outcome import ToolResult

__all__ = ["STAGES", "STAGE_NAMES", "dispatch_call", "judge_call"]

STAGE_NAMES: dict[Stage, str] = {
    stages.check_exposure: "exposure",  # step 1
    stages.check_schema: "schema",  # step 2
    stages.validate_arguments: "validate_args",  # step 2
    stages.describe_effects: "effects",  # step 3
    stages.evaluate_rules: "rules",  # step 4
    stages.run_pre_hooks: "hooks",  # step 5
    stages.ask_approval: "approval",  # step 6
    stages.run_handler: "handler",  # step 7
    stages.take_out_panels: "result",
    settling.settle: "settle",
    stages.run_post_hooks: "post_hooks",
    stages.cap_output: "cap",
}

STAGES: tuple[Stage, ...] = tuple(STAGE_NAMES)
"""Seed 1, "Dispatch order". Nothing else decides order."""

_NO_RESULT_YET = ("handler", "result", "settle")
"""Refused here, a call has not been told of by its own post hook stage."""

_JUDGING = STAGES[: STAGES.index(stages.evaluate_rules) + 1]


async def judge_call(call: Call, services: Services) -> None:
    """Take a call through the stages before hooks, approval and handler, and no further.

    Runs ``validateArgs`` and ``describeEffects`` where a real call would.

    Raises:
        CallRefused: A stage refused; ``call`` holds what was found out until then.
    """
    for stage in _JUDGING:
        await stage(call, services)


async def dispatch_call(call: Call, services: Services) -> ToolResult:
    """Walk the stages and return the one outcome, recorded where an audit log is kept.

    If cancelled, the approver's signal is set, the worker's tree is killed and reaped, the
    call is recorded as ``aborted``, and ``trio.Cancelled`` goes on.

    Raises:
        OSError: The audit log can't be written.
    """
    start = time.perf_counter()
    call.began_ns = time.time_ns()
    try:
        result = await _walk(call, services, start)
    except (trio.Cancelled, BaseExceptionGroup) as exc:
        if not is_cancellation(exc):
            raise
        if call.signal is not None:
            call.signal.abort("cancelled")
        if services.record is not None:
            given_up = CallRefused("aborted", "the caller gave the call up", stage=call.stage)
            services.record(call, _refused(call, given_up, (time.perf_counter() - start) * 1000))
        raise
    finally:
        if call.view is not None:
            call.view.close()
    if services.redact is not None:
        result = _redacted(result, services.redact)
    if services.record is not None:
        services.record(call, result)
    return result


async def _take_through(stages_left: Iterator[Stage], call: Call, services: Services) -> None:
    """Take a call through stages, until none is left or files were changed by the last one."""
    changed_before = call.has_changed_files
    for stage in stages_left:
        call.stage = STAGE_NAMES[stage]
        await stage(call, services)
        if call.has_changed_files is not changed_before:
            return


async def _walk(call: Call, services: Services, start: float) -> ToolResult:
    """Take a call through the stages; tell hooks of a handler that ran without a result."""
    try:
        stages_left = iter(STAGES)
        await _take_through(stages_left, call, services)
        if call.has_changed_files:
            # An abort that comes once files were changed is too late: the outcome says so.
            with trio.CancelScope(shield=True):
                await _take_through(stages_left, call, services)
    except CallRefused as caught:
        refusal = caught
        if call.view is not None and call.stage == "handler":
            refusal = settling.attribute_quota(call.view, caught)
        result = _refused(call, refusal, (time.perf_counter() - start) * 1000)
    else:
        return _returned(call, (time.perf_counter() - start) * 1000)
    if call.handler_ran and services.post_hooks is not None and call.stage in _NO_RESULT_YET:
        shown = result if services.redact is None else _redacted(result, services.redact)
        await services.post_hooks(
            call, {"content": list(shown.content), "isError": True, "code": shown.code}
        )
        elapsed_ms = (time.perf_counter() - start) * 1000
        result = replace(result, hooks=tuple(call.receipts), elapsed_ms=elapsed_ms)
    return result


def _redacted(result: ToolResult, redact: Callable[[Any], Any]) -> ToolResult:
    """Take secrets out of what the host says and keeps; a tool's own result is its own."""
    if result.origin == "host":
        content, detail = redact(result.content), redact(result.detail)
        result = replace(result, content=content, detail=detail)
    if result.hooks:
        hooks = tuple(replace(item, message=redact(item.message)) for item in result.hooks)
        result = replace(result, hooks=hooks)
    return replace(result, logs=redact(result.logs)) if result.logs else result


def _returned(call: Call, elapsed_ms: float) -> ToolResult:
    return ToolResult(
        content=call.content,
        is_error=call.is_error,
        code=call.code,
        stage="handler",
        enforced=call.enforced,
        usage=call.usage,
        elapsed_ms=elapsed_ms,
        origin="tool",
        tool_call_id=call.tool_call_id,
        detail=call.detail,
        logs=call.logs,
        hooks=tuple(call.receipts),
        changes=call.changes,
        committed=call.committed,
        diff=call.diff,
    )


def _refused(call: Call, refusal: CallRefused, elapsed_ms: float) -> ToolResult:
    stderr = refusal.detail.pop("stderr", None)
    if stderr:
        call.logs.setdefault("stderr", stderr)
    return ToolResult(
        content=({"type": "text", "text": refusal.message},),
        is_error=True,
        code=refusal.code,
        stage=refusal.stage,
        enforced=call.enforced,
        usage=call.usage,
        elapsed_ms=elapsed_ms,
        tool_call_id=call.tool_call_id,
        detail=refusal.detail,
        hints=(refusal.hint,) if refusal.hint else (),
        logs=call.logs,
        hooks=tuple(call.receipts),
        changes=call.changes,
        committed=call.committed,
        diff=call.diff,
    )
