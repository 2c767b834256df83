"""What a hook answered, from how its process ended and what it printed. Pure.

Standard output is empty, which means ``continue``, or exactly one object:
``{"decision": "continue", "message"?}`` or ``{"decision": "deny", "reason", "message"?}``.
Exit status 2 denies whatever was printed; status 0 lets the object speak; all else failed.

Security: the parser's own messages may quote what was printed, so none is repeated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from ..jsontext import JsonTextError, parse
from .receipt import HookFailure, bounded

__all__ = ["Answer", "End", "read_answer"]

_BLANK = " \t\r\n"
_FIELDS = ("decision", "reason", "message")
_EXIT_DENY = 2


class End(Protocol):
    """How a program ended; ``pool.oneshot.ProgramOutcome`` is one."""

    @property
    def stdout(self) -> bytes: ...
    @property
    def code(self) -> int | None: ...
    @property
    def signal(self) -> int | None: ...
    @property
    def timed_out(self) -> bool: ...
    @property
    def overflowed(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision.

    Args:
        deny: Whether to stop, where stopping is possible.
        message: The reason of a denial, else the message; bounded.
    """

    deny: bool
    message: str | None = None


def read_answer(end: End, *, timeout_ms: int, max_output_bytes: int) -> Answer:
    """Judge a hook that has ended.

    Args:
        end: How it ended.
        timeout_ms: What it was given, for the message.
        max_output_bytes: The same.

    Raises:
        HookFailure: It did not answer as the contract says.
    """
    if end.timed_out:
        raise HookFailure("timeout", f"was still running after {timeout_ms} ms")
    if end.overflowed:
        raise HookFailure("output_limit", f"printed more than {max_output_bytes} bytes in all")
    if end.signal is not None:
        raise HookFailure("killed", f"was ended by signal {end.signal}")
    if end.code is None:
        raise HookFailure("launcher_lost", "was lost when the launcher died")
    if end.code == _EXIT_DENY:
        return Answer(True, _reason_of(end.stdout))
    if end.code != 0:
        raise HookFailure("nonzero_exit", f"exited with status {end.code}")
    return _parse(end.stdout)


def _reason_of(stdout: bytes) -> str:
    """Return the reason that a hook which exited with 2 gives, if it gives one properly."""
    try:
        answer = _parse(stdout)
    except HookFailure:
        answer = Answer(False)
    return answer.message if answer.deny and answer.message else "exited with status 2"


def _parse(data: bytes) -> Answer:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise HookFailure("not_utf8", "printed bytes that are not UTF-8") from None
    if not text.strip(_BLANK):
        return Answer(False)
    try:
        value = parse(text, max_bytes=len(data))
    except JsonTextError:
        if _has_more(text.strip(_BLANK)):
            raise HookFailure("extra_output", "printed more than one JSON value") from None
        text = "printed something that is not strict JSON"
        raise HookFailure("invalid_json", text) from None
    if not isinstance(value, dict):
        raise HookFailure("not_an_object", "printed JSON that is not an object")
    return _check(value)


def _check(value: dict[str, Any]) -> Answer:
    if "decision" not in value:
        raise HookFailure("missing_decision", "answered without a decision")
    decision = value["decision"]
    if decision not in ("continue", "deny"):
        raise HookFailure("wrong_decision", "answered with a decision other than continue and deny")
    allowed = _FIELDS if decision == "deny" else ("decision", "message")
    if any(key not in allowed for key in value):
        raise HookFailure("unknown_field", f"answered with fields beside {', '.join(allowed)}")
    if decision == "deny" and "reason" not in value:
        raise HookFailure("missing_reason", "answered deny without a reason")
    for key in ("reason", "message"):
        if key in value and not isinstance(value[key], str):
            raise HookFailure("wrong_message", f"answered with a {key} that is not a text")
    if decision == "deny" and not value["reason"].strip():
        raise HookFailure("missing_reason", "answered deny with an empty reason")
    text = value.get("reason") or value.get("message")
    return Answer(decision == "deny", bounded(text) if text else None)


def _has_more(text: str) -> bool:
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return False
    return bool(text[end:].strip(_BLANK))
