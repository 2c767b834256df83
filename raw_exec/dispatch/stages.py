"""The stages of a dispatch, each one small function. ``STAGES`` in pipeline is the order.

A stage returns to let the call go on and raises ``CallRefused`` to end it. The handler
stage is the only one after which something may have happened outside.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

from ..effects import check_effects
from ..errors import (
    CallRefused,
    InternalError,
    RemoteWireError,
    SandboxError,
    WorkerBroken,
    WorkerError,
)
from ..limits import MAX_ARGUMENT_BYTES, MAX_ARGUMENT_NODES
from ..policy import Verdict
from ..pool import (
    CallReply,
    CallRequest,
    LoadFailure,
    NotDelivered,
    WorkerSpec,
    attribute_failure,
)
from ..sandbox import in_view
from ..transactions.view import View
from ..values import NotJson, freeze
from .asking import ask, bounded, rule_detail, rule_text
from .call import Call, Services
from .results import InvalidResult, cap_content, check_result
from .served import refuse_missing, run_served

__all__ = [
    "ask_approval",
    "cap_output",
    "check_exposure",
    "check_schema",
    "describe_effects",
    "evaluate_rules",
    "run_handler",
    "run_post_hooks",
    "run_pre_hooks",
    "take_out_panels",
    "validate_arguments",
    "worker_spec",
]

_DELIVERY_ATTEMPTS = 3


async def check_exposure(call: Call, services: Services) -> None:
    """Find the tool and refuse it when an unconditional deny applies (step 1)."""
    tool = services.registry.get(call.name)
    if tool is None:
        missing = services.registry.find_missing(call.name)
        if missing is not None:
            raise refuse_missing(missing)
        shown = ", ".join(services.registry.names[:20]) or "none"
        raise CallRefused(
            "unknown_tool",
            f"no tool is named {call.name!r:.80}",
            stage="exposure",
            hint=f"available tools: {shown}",
        )
    call.tool = tool
    rule = tool.policy.hidden
    if rule is not None:
        raise CallRefused(
            "tool_denied",
            f"{tool.identity} is denied by rule {rule.index} (match {rule.match!r})",
            stage="exposure",
            detail={"rule": {"index": rule.index, "match": rule.match, "effect": "deny"}},
        )


async def check_schema(call: Call, services: Services) -> None:
    """Freeze the arguments and check them against the input schema (step 2)."""
    tool = call.chosen_tool()
    try:
        call.arguments = freeze(call.raw_arguments)
    except NotJson as exc:
        raise _invalid([exc.problem.pointer], f"arguments are not JSON: {exc.problem}") from None
    excess = _find_excess(call.arguments)
    if excess is not None:
        raise _invalid([""], f"arguments are {excess}")
    if not tool.input_schema.is_valid(call.arguments):
        problems = tool.input_schema.problems(call.arguments)
        if problems:
            explained = tool.input_schema.explain(call.arguments)
            raise CallRefused(
                "invalid_arguments",
                f"arguments of {call.name} do not fit its schema:\n{explained}",
                stage="schema",
                detail={"problems": [asdict(problem) for problem in problems]},
            )


def _invalid(pointers: list[str], message: str) -> CallRefused:
    problems = [{"pointer": pointer, "message": message} for pointer in pointers]
    return CallRefused("invalid_arguments", message, stage="schema", detail={"problems": problems})


def _find_excess(value: Any) -> str | None:
    """Say what is too large; the size is estimated generously before anything is encoded."""
    size = nodes = 0
    stack = [value]
    while stack:
        item = stack.pop()
        nodes += 1
        size += 9
        if isinstance(item, str):
            size += len(item) * 6
        elif isinstance(item, dict):
            stack.extend(item)
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        if nodes > MAX_ARGUMENT_NODES:
            return f"more than {MAX_ARGUMENT_NODES} values"
        if size > MAX_ARGUMENT_BYTES:
            break
    else:
        return None
    size = len(json.dumps(value, ensure_ascii=False).encode("utf-8"))
    return f"{size} bytes, over {MAX_ARGUMENT_BYTES}" if size > MAX_ARGUMENT_BYTES else None


async def validate_arguments(call: Call, services: Services) -> None:
    """Run the tool's own ``validateArgs`` on the whole input (step 2)."""
    tool = call.chosen_tool()
    if tool.mcp is not None:
        return
    message = await services.descriptors.validate(tool, call.arguments, call.cwd)
    if message is not None:
        shown = bounded(message)
        raise CallRefused(
            "invalid_arguments",
            shown,
            stage="validate_args",
            detail={"problems": [{"pointer": "", "message": shown}], "by": "validateArgs"},
        )


async def describe_effects(call: Call, services: Services) -> None:
    """Compute the intended effects and check them against ``effects_schema`` (step 3)."""
    tool = call.chosen_tool()
    if tool.effects_schema is None:
        return
    value = await services.descriptors.effects(tool, call.arguments, call.cwd)
    call.effects = check_effects(value, tool.effects_schema)


async def evaluate_rules(call: Call, services: Services) -> None:
    """Evaluate ``tools.rules``; the last rule that matches decides (step 4)."""
    tool = call.chosen_tool()
    evaluation = tool.policy.evaluate({"arguments": call.arguments, "effects": call.effects})
    call.evaluation = evaluation
    if evaluation.verdict is Verdict.DENY:
        raise CallRefused(
            "tool_denied",
            f"{tool.identity} is denied by {rule_text(call)}",
            stage="rules",
            detail={"rule": rule_detail(call)},
        )


async def run_pre_hooks(call: Call, services: Services) -> None:
    """Run ``PreToolUse`` hooks, when any is selected (step 5)."""
    if services.pre_hooks is not None:
        await services.pre_hooks(call)


async def ask_approval(call: Call, services: Services) -> None:
    """Ask the approver when a rule requires it (step 6).

    A rule with ``review`` asks after the run instead, where what the call changes can still
    be withheld then: on a view, and without a network that something could have left by.
    """
    evaluation = call.evaluation
    if evaluation is None or evaluation.verdict is not Verdict.ASK:
        return
    if evaluation.rule is not None and evaluation.rule.review:
        plan = worker_spec(call, services).plan
        if plan.view and plan.network == "none":
            return
    await ask(call, services)


async def run_handler(call: Call, services: Services) -> None:
    """Run the handler in a sandboxed worker of its trust domain (step 7)."""
    tool = call.chosen_tool()
    if tool.mcp is not None:
        await run_served(call, services)
        return
    request = CallRequest(
        arguments=call.arguments,
        cwd=call.cwd,
        tool_call_id=call.tool_call_id,
        max_output_bytes=call.max_output_bytes,
        call_ms=call.call_ms,
        grace_ms=services.limits.grace_ms,
        on_request=None if services.requests is None else services.requests(call),
        timer=call.timer,
    )
    try:
        reply = await _call_worker(call, services, request)
    except LoadFailure as exc:
        raise _failed(exc.code, exc.message, "load", exc.detail) from exc
    except SandboxError as exc:
        raise _unconfined(exc) from exc
    except WorkerBroken as exc:
        raise CallRefused(
            exc.code, exc.message, stage="handler", detail=exc.detail, hint=exc.hint
        ) from exc
    except RemoteWireError as exc:
        raise _failed(
            "worker_crashed",
            f"worker of {tool.identity} broke the protocol: {exc.message}",
            "handler",
            {"violation": exc.message},
        ) from exc
    except WorkerError as exc:
        raise CallRefused(
            "runtime_unavailable", exc.message, stage="sandbox", hint=exc.hint
        ) from exc
    _take_reply(call, reply)


def worker_spec(call: Call, services: Services) -> WorkerSpec:
    """Say what worker a call needs; a dry run needs one with a view.

    Raises:
        CallRefused: ``sandbox_unavailable``.
    """
    try:
        spec = services.spec_for(call.chosen_tool(), call.cwd)
        return replace(spec, plan=in_view(spec.plan)) if call.dry_run else spec
    except SandboxError as exc:
        raise _unconfined(exc) from exc


def _unconfined(exc: SandboxError) -> CallRefused:
    detail = {"step": exc.step, "errno": exc.errno}
    return CallRefused(exc.code, exc.message, stage="sandbox", detail=detail, hint=exc.hint)


async def _call_worker(call: Call, services: Services, request: CallRequest) -> CallReply:
    """Call a worker; when an idle one died before it had read the request, take another."""
    spec = worker_spec(call, services)
    call.plan = spec.plan
    for attempt in range(_DELIVERY_ATTEMPTS):
        try:
            note_start = call.note_start if spec.plan.view else None
            async with services.pool.lease(spec, note_start) as lease:
                if spec.plan.view:
                    call.take_view(View.take(lease.worker.child, call.started_ns))
                call.enforced = lease.worker.child.enforced
                call.usage["worker"] = "warm" if lease.warm else "cold"
                call.usage["start_ms"] = round(lease.start_ms, 3)
                call.handler_ran = True
                return await lease.worker.call(request)
        except NotDelivered:
            call.handler_ran = False
            if attempt == _DELIVERY_ATTEMPTS - 1:
                raise
    raise InternalError("internal", "no attempt was made to deliver a call")


def _take_reply(call: Call, reply: CallReply) -> None:
    for name, log in (("stdout", reply.stdout), ("stderr", reply.stderr)):
        if log.bytes:
            call.usage[f"{name}_bytes"] = log.bytes
            call.logs[name] = log.text
    call.usage["result_bytes"] = reply.result_bytes
    failure = reply.failure
    if failure is None:
        call.value = reply.value
        return
    identity = call.chosen_tool().identity
    detail: dict[str, Any] = {"kind": failure.kind, "error": failure.name}
    if failure.kind == "too_large":
        raise _failed("output_limit", f"result of {identity} {failure.message}", "handler", detail)
    if failure.kind != "threw":
        raise _failed(
            "invalid_result",
            f"result of {identity} can't be used: {failure.message}",
            "handler",
            detail,
        )
    evidence = attribute_failure(failure.name, failure.message)
    code = "handler_error" if evidence is None else "memory_limit"
    detail |= evidence or {}
    detail["stack"] = failure.stack
    raise _failed(code, f"{failure.name}: {failure.message}", "handler", detail)


def _failed(code: str, message: str, stage: str, detail: dict[str, Any]) -> CallRefused:
    return CallRefused(code, bounded(message), stage=stage, detail=detail)


async def take_out_panels(call: Call, services: Services) -> None:
    """Check the result's shape and take panel blocks out before anyone else sees it."""
    try:
        checked = check_result(call.value)
    except InvalidResult as exc:
        raise CallRefused(
            "invalid_result",
            f"result of {call.chosen_tool().identity} is not valid: {exc}",
            stage="result",
            detail={"pointer": exc.pointer},
            hint="return {content: [...], isError?, code?}",
        ) from exc
    call.is_error, call.code = checked.is_error, checked.code
    call.content = checked.content
    if not checked.panels:
        return
    if call.panels is None:
        call.panel_lines = [
            f"panel {_panel_id(block)} update rejected: panel_closed_context "
            "no session keeps panels for this call"
            for block in checked.panels
        ]
    else:
        call.panel_lines = call.panels.apply_results(checked.panels, only=not checked.content)


async def run_post_hooks(call: Call, services: Services) -> None:
    """Tell hooks of a result: ``PostToolUse``, or ``PostToolUseFailure`` when it is an error.

    A handler that did not come to a result is told of where its refusal is caught.
    """
    if services.post_hooks is not None:
        result: dict[str, Any] = {"content": list(call.content), "isError": call.is_error}
        if call.code is not None:
            result["code"] = call.code
        await services.post_hooks(call, result)


async def cap_output(call: Call, services: Services) -> None:
    """Cut text and JSON to the call's budget, with a mark of what is missing."""
    lines = tuple({"type": "text", "text": line} for line in call.panel_lines)
    # Room for the lines first: a long result must not hide that an update was refused.
    lines, missing = cap_content(lines, call.max_output_bytes)
    left = call.max_output_bytes - sum(len(line["text"].encode()) for line in lines)
    content, more = cap_content(call.content, max(0, left)) if call.content else ((), 0)
    call.content = content + lines
    missing += more
    if missing:
        call.usage["truncated_bytes"] = missing


def _panel_id(block: dict[str, Any]) -> str:
    name = block.get("panel")
    return f"{name:.32}" if isinstance(name, str) else "(unnamed)"
