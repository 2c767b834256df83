"""What every call ends in: exactly one ``ToolResult``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..hooks import HookReceipt

__all__ = ["CODES", "ToolResult", "exit_status"]

CODES: Mapping[str, str] = {
    "unknown_tool": "no selected tool has this name",
    "tool_denied": "an unconditional deny rule applies to the tool",
    "invalid_arguments": "the arguments do not fit the schema, or validateArgs refused them",
    "effects_failed": "validateArgs or describeEffects could not be run to a usable answer",
    "invalid_effects": "the described effects do not fit effects_schema",
    "hook_denied": "a PreToolUse hook refused",
    "approval_required": "a rule asks for approval and nobody can give it",
    "approval_denied": "the approver said no, or failed",
    "aborted": "the caller gave the call up",
    "timeout": "the handler or its import outlived its limit",
    "output_limit": "the handler sent or printed more than its limit",
    "memory_limit": "the worker ran out of memory",
    "worker_crashed": "the worker ended or broke the protocol before there was a result",
    "invalid_result": "the handler returned something outside the result contract",
    "handler_error": "the handler threw, or its module could not be imported",
    "undeclared_effects": "the call changed files that it had not described; none was committed",
    "commit_conflict": "files were changed by somebody else while the call ran; nothing committed",
    "commit_refused": "a change of the call must not or can't be committed; nothing was",
    "commit_interrupted": "a commit failed on its way; it is finished or undone at the next start",
    "sandbox_unavailable": "a restriction the plan asks for can't be enforced here",
    "interaction_unavailable": "a question needs a person and nobody is there",
    "interaction_budget_too_small": "an answer could not fit the call's output budget",
    "vars_unavailable": "a configured variable could not be resolved",
    "process_unavailable": "a background process could not be started or found",
    "runtime_unavailable": "the tool's language runtime is not installed",
    "mcp_unavailable": "the tool's MCP server failed, died, or has no such tool any more",
}
"""Codes that the host gives; a tool's own codes are its own and come with origin ``tool``."""

_EXIT_STATUS = {
    "unknown_tool": 2,
    "invalid_arguments": 3,
    "effects_failed": 3,
    "invalid_effects": 3,
    "tool_denied": 4,
    "hook_denied": 4,
    "approval_required": 4,
    "approval_denied": 4,
    "interaction_unavailable": 4,
    "undeclared_effects": 4,
    "commit_refused": 4,
    "worker_crashed": 5,
    "mcp_unavailable": 5,
    "invalid_result": 5,
    "timeout": 6,
    "output_limit": 6,
    "memory_limit": 6,
    "commit_conflict": 8,
    "commit_interrupted": 5,
    "sandbox_unavailable": 7,
    "runtime_unavailable": 7,
    "aborted": 130,
}


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of one call.

    Args:
        content: Result blocks: ``text``, ``json`` or ``image``, capped.
        is_error: Whether the tool failed or the call was refused.
        code: Stable reason: one of ``CODES`` when the host speaks, the tool's own otherwise.
        stage: The dispatch stage that decided.
        enforced: What the kernel enforced on the worker; empty when nothing ran.
        usage: Milliseconds and bytes used.
        elapsed_ms: From dispatch to outcome.
        origin: ``"tool"`` when the handler returned this, else ``"host"``. A handler can
            return any code; it can't make the host say it.
        tool_call_id: The call's ID.
        detail: Facts behind a refusal or failure: rule, problems, limit, exit, evidence; why the
            tool's last question got no answer (``unanswered``).
        hints: What would make it work.
        logs: What the handler printed, ``stdout`` and ``stderr``, capped and escaped.
        hooks: Receipts of the hooks that ran for the call, in order.
        changes: What the call changed on its copy-on-write view: ``path``, ``action``
            (``create``, ``write``, ``delete``, ``metadata``), ``kind`` and whether a described
            effect covers it (``declared``). At most 1000; ``usage["changes"]`` is their number.
        committed: Whether the changes were committed; ``None`` when the call ran on no view.
        diff: They as a unified diff, of a dry run.
    """

    content: tuple[dict[str, Any], ...]
    is_error: bool
    code: str | None
    stage: str
    enforced: Mapping[str, Any]
    usage: Mapping[str, Any]
    elapsed_ms: float
    origin: str = "host"
    tool_call_id: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    hints: tuple[str, ...] = ()
    logs: Mapping[str, str] = field(default_factory=dict)
    hooks: tuple[HookReceipt, ...] = ()
    changes: tuple[dict[str, Any], ...] = ()
    committed: bool | None = None
    diff: str | None = None

    @property
    def text(self) -> str:
        """All text blocks, one after another."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data, as ``raw tools call --json`` prints it."""
        out: dict[str, Any] = {
            "content": list(self.content),
            "is_error": self.is_error,
            "code": self.code,
            "stage": self.stage,
            "origin": self.origin,
            "enforced": dict(self.enforced),
            "usage": dict(self.usage),
            "elapsed_ms": round(self.elapsed_ms, 3),
            "tool_call_id": self.tool_call_id,
        }
        if self.detail:
            out["detail"] = dict(self.detail)
        if self.hints:
            out["hints"] = list(self.hints)
        if self.logs:
            out["logs"] = dict(self.logs)
        if self.hooks:
            out["hooks"] = [receipt.as_dict() for receipt in self.hooks]
        if self.committed is not None:
            out["changes"] = [dict(change) for change in self.changes]
            out["committed"] = self.committed
        if self.diff is not None:
            out["diff"] = self.diff
        return out


def exit_status(result: ToolResult) -> int:
    """Return the process exit status for an outcome: 0 ok, 1 the tool's own error, else 2-8.

    A tool that passes on why its question got no answer speaks for the host there.
    """
    if not result.is_error:
        return 0
    ours = result.origin == "host" or result.code == result.detail.get("unanswered")
    if not ours or result.code is None:
        return 1
    return _EXIT_STATUS.get(result.code, 1)
