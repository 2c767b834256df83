"""The order of a dispatch, as data, and the loop that walks it."""

from __future__ import annotations

import time

import trio

from ..errors import CallRefused
from . import stages
from .call import Call, Services, Stage
from .outcome import ToolResult

__all__ = ["STAGES", "dispatch_call", "judge_call"]

STAGES: tuple[Stage, ...] = (
    stages.check_exposure,  # step 1
    stages.check_schema,  # step 2
    stages.validate_arguments,  # step 2
    stages.describe_effects,  # step 3
    stages.evaluate_rules,  # step 4
    stages.run_pre_hooks,  # step 5
    stages.ask_approval,  # step 6
    stages.run_handler,  # step 7
    stages.take_out_panels,
    stages.run_post_hooks,
    stages.cap_output,
)
"""Seed 1, "Dispatch order". Nothing else decides order."""


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
    """Walk the stages and return the one outcome.

    If cancelled, the approver's signal is set, the worker's tree is killed and reaped, and
    ``trio.Cancelled`` goes on.
    """
    start = time.perf_counter()
    try:
        for stage in STAGES:
            await stage(call, services)
    except CallRefused as refusal:
        return _refused(call, refusal, (time.perf_counter() - start) * 1000)
    except trio.Cancelled:
        call.signal.abort("cancelled")
        raise
    return ToolResult(
        content=call.content,
        is_error=call.is_error,
        code=call.code,
        stage="handler",
        enforced=call.enforced,
        usage=call.usage,
        elapsed_ms=(time.perf_counter() - start) * 1000,
        origin="tool",
        tool_call_id=call.tool_call_id,
        detail=call.detail,
        logs=call.logs,
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
    )
