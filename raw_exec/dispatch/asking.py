"""Asking the approver about one call: before it runs, or about what it changed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ..approval import AbortSignal, ApprovalRequest, NobodyToAsk, normalise_answer
from ..errors import CallRefused
from .call import Call, Services

__all__ = ["ask", "bounded", "rule_detail", "rule_text"]

_MAX_PLUGIN_TEXT_BYTES = 8192


async def ask(
    call: Call,
    services: Services,
    *,
    changes: Sequence[dict[str, Any]] | None = None,
    diff: str | None = None,
) -> None:
    """Ask, and return when the answer is yes.

    Args:
        changes: What the call changed on its view, when that is the question.
        diff: The same as a unified diff.

    Raises:
        CallRefused: ``approval_required`` when nobody can be asked, ``approval_denied``.
    """
    tool = call.chosen_tool()
    detail = {"rule": rule_detail(call)}
    unasked = CallRefused(
        "approval_required",
        f"{tool.identity} needs approval ({rule_text(call)}) and nobody can give it here",
        stage=call.stage,
        detail=detail,
        hint="run it where somebody can be asked, or pass an approver",
    )
    if services.approve is None:
        raise unasked
    call.signal = AbortSignal()
    request = ApprovalRequest(
        identity=tool.identity,
        name=call.name,
        arguments=call.arguments,
        effects=call.effects,
        tool_call_id=call.tool_call_id,
        signal=call.signal,
        rule=detail["rule"],
        changes=None if changes is None else tuple(changes),
        change_count=call.usage.get("changes", 0),
        diff=diff,
    )
    what = tool.identity if changes is None else f"what {tool.identity} changed"
    try:
        value = services.approve(request)
        if inspect.isawaitable(value):
            value = await value
        answer = normalise_answer(value)
    except NobodyToAsk:
        raise unasked from None
    except Exception as exc:
        # Security: a broken approver must not approve.
        raise CallRefused(
            "approval_denied",
            f"{what} was not approved: the approver failed with {type(exc).__name__}",
            stage=call.stage,
            detail=detail,
        ) from exc
    if not answer.allow:
        reason = f": {bounded(answer.reason)}" if answer.reason else ""
        raise CallRefused(
            "approval_denied",
            f"{what} was not approved{reason}",
            stage=call.stage,
            detail=detail,
        )


def rule_detail(call: Call) -> dict[str, Any]:
    """Return the rule that decided as JSON data; empty when none did."""
    evaluation = call.evaluation
    if evaluation is None or evaluation.rule is None:
        return {}
    rule = evaluation.rule
    detail: dict[str, Any] = {"index": rule.index, "match": rule.match, "effect": rule.effect}
    if evaluation.matched is not None:
        detail["matched"] = dict(evaluation.matched)
    return detail


def rule_text(call: Call) -> str:
    """Name the rule that decided, and what it matched."""
    detail = rule_detail(call)
    text = f"rule {detail.get('index')} (match {detail.get('match')!r})"
    matched = detail.get("matched")
    if matched:
        text += f", since {matched['source']} {matched['pointer']} matches {matched['regex']!r}"
    return text


def bounded(text: str) -> str:
    """Cut a text of a plugin or an approver to what an outcome may hold, with a mark."""
    data = text.encode("utf-8", "replace")
    if len(data) <= _MAX_PLUGIN_TEXT_BYTES:
        return text
    kept = data[:_MAX_PLUGIN_TEXT_BYTES].decode("utf-8", "ignore")
    return f"{kept}… [truncated {len(data) - _MAX_PLUGIN_TEXT_BYTES} bytes]"
