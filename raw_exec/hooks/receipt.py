"""What is kept of one run of a hook. Its input and output are not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..errors import RawExecError

__all__ = ["FAILURE_CODES", "MAX_MESSAGE_BYTES", "HookFailure", "HookReceipt", "bounded"]

MAX_MESSAGE_BYTES: Final = 2048
"""Of a reason or message, kept and shown."""

FAILURE_CODES: Mapping[str, str] = {
    "deny_ignored": "a hook of an event that only tells said deny; nothing can be stopped there",
    "extra_output": "it printed more than one JSON value",
    "interpreter_missing": "the first line of its script names no program that can be used",
    "invalid_json": "it printed something that is not strict JSON",
    "killed": "a signal ended it that was not ours",
    "launcher_lost": "the launcher died while it ran",
    "missing_decision": "it printed an object without a decision",
    "missing_reason": "it said deny without a reason",
    "nonzero_exit": "it exited with a status other than 0 and 2",
    "not_an_object": "it printed JSON that is not an object",
    "not_utf8": "it printed bytes that are not UTF-8",
    "output_limit": "it printed more than 65536 bytes, standard error included",
    "program_missing": "its command does not exist",
    "program_not_executable": "its command is not an executable file",
    "program_refused": "the kernel would not execute it",
    "request_invalid": "the event can't be told in UTF-8, for example a working directory",
    "sandbox_unavailable": "a restriction of its plan can't be enforced here",
    "snapshot_changed": "its folder changed while it was loaded",
    "timeout": "it was still running after its timeout_ms",
    "unbindable": "its condition does not fit a tool that came later than the configuration",
    "unknown_field": "it answered with a field that the contract does not have",
    "wrong_decision": "its decision is neither continue nor deny",
    "wrong_message": "its message or reason is not a text",
}
"""Why a run counts as failed: it stops what a gate guards, and warns anywhere else."""

Outcome = Literal["continued", "denied", "blocked", "warned"]


class HookFailure(RawExecError):
    """A hook did not answer as the contract says; ``code`` is one of ``FAILURE_CODES``."""


@dataclass(frozen=True, slots=True)
class HookReceipt:
    """One run of a hook.

    Args:
        id: Unique in this runtime.
        hook: Selection ID, for example ``"agent/guard"``.
        event: What it was told of.
        outcome: ``continued``, ``denied`` (it said so), ``blocked`` (a gate failed, so what
            it guards is stopped) or ``warned`` (any other hook failed; nothing is stopped).
        elapsed_ms: From its turn to the end of its process tree.
        message: Its reason or message, or what went wrong; at most 2 KiB.
        error: One of ``FAILURE_CODES``, when it failed.
        tool_call_id: The call that it was about, for tool events.
    """

    id: str
    hook: str
    event: str
    outcome: Outcome
    elapsed_ms: float
    message: str | None = None
    error: str | None = None
    tool_call_id: str | None = None

    @property
    def stops(self) -> bool:
        """Whether what the event announces must not happen."""
        return self.outcome in ("denied", "blocked")

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON data, absent fields left out."""
        return {**self.facts(), **({} if self.message is None else {"message": self.message})}

    def facts(self) -> dict[str, Any]:
        """Return the same without the message, which may quote arguments."""
        out: dict[str, Any] = {
            "id": self.id,
            "hook": self.hook,
            "event": self.event,
            "outcome": self.outcome,
            "elapsed_ms": round(self.elapsed_ms, 3),
        }
        if self.error is not None:
            out["error"] = self.error
        if self.tool_call_id is not None:
            out["tool_call_id"] = self.tool_call_id
        return out


def bounded(text: str) -> str:
    """Return a text of at most ``MAX_MESSAGE_BYTES``, with a mark where it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= MAX_MESSAGE_BYTES:
        return text
    kept = data[:MAX_MESSAGE_BYTES].decode("utf-8", "ignore")
    return f"{kept}… [truncated {len(data) - len(kept.encode('utf-8'))} bytes]"
