"""Errors of a plugin as bounded data: ``{kind, name, message, stack, cause?}``.

Whatever the plugin raised may be hostile: ``__str__`` that raises or returns 10 MB, a cyclic
``__cause__``, a group of 100,000. Everything is read once, inside a ``try``, and cut.
"""

from __future__ import annotations

import builtins

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

globals()["__builtins__"] = dict(vars(builtins))

__all__ = ["describe_exception", "failure", "truncate"]

MAX_NAME_BYTES = 256
MAX_MESSAGE_BYTES = 8 * 1024
MAX_STACK_BYTES = 16 * 1024
MAX_CAUSES = 4
MAX_FRAMES = 60
TRUNCATION_BYTES = 48

_encode = str.encode
_cause_of = BaseException.__dict__["__cause__"].__get__
_context_of = BaseException.__dict__["__context__"].__get__
_is_suppressed = BaseException.__dict__["__suppress_context__"].__get__
_traceback_of = BaseException.__dict__["__traceback__"].__get__
_members_of = BaseExceptionGroup.__dict__["exceptions"].__get__
_type_name = type.__dict__["__name__"].__get__


def failure(kind: str, name: str, message: str, stack: str = "") -> dict[str, Any]:
    """Return an error record."""
    return {
        "kind": kind,
        "name": truncate(name, MAX_NAME_BYTES),
        "message": truncate(message, MAX_MESSAGE_BYTES),
        "stack": truncate(stack, MAX_STACK_BYTES),
    }


def truncate(text: str, max_bytes: int) -> str:
    """Bound a text to ``max_bytes`` of UTF-8, and say how much is missing."""
    whole = _encode(text, "utf-8", "replace")
    if len(whole) <= max_bytes:
        return whole.decode()
    kept = whole[: max_bytes - TRUNCATION_BYTES].decode("utf-8", "ignore")
    missing = len(whole) - len(kept.encode())
    return f"{kept}… [truncated {missing} bytes]"


def describe_exception(kind: str, exc: BaseException, causes: int = MAX_CAUSES) -> dict[str, Any]:
    """Return the record of an exception and of up to ``causes`` causes."""
    record = failure(kind, _type_name(type(exc)), _message_of(exc), _stack_of(exc))
    cause = _next_of(exc)
    if cause is not None and cause is not exc and causes > 0:
        record["cause"] = describe_exception(kind, cause, causes - 1)
    return record


def _message_of(exc: BaseException) -> str:
    try:
        return str(exc)
    except BaseException:
        # Also SystemExit and KeyboardInterrupt: they come from the plugin's own __str__.
        return ""


def _next_of(exc: BaseException) -> BaseException | None:
    if isinstance(exc, BaseExceptionGroup):
        members = _members_of(exc)
        if members:
            first: BaseException = members[0]
            return first
    cause: BaseException | None = _cause_of(exc)
    if cause is None and not _is_suppressed(exc):
        cause = _context_of(exc)
    return cause


def _stack_of(exc: BaseException) -> str:
    lines: list[str] = []
    step: TracebackType | None = _traceback_of(exc)
    while step is not None and len(lines) < MAX_FRAMES:
        code = step.tb_frame.f_code
        # Frames of this worker and of the import system say nothing about the plugin.
        ours = step.tb_frame.f_globals.get("__package__") == __package__
        if not ours and not code.co_filename.startswith("<frozen importlib"):
            lines.append(f'  File "{code.co_filename}", line {step.tb_lineno}, in {code.co_name}')
        step = step.tb_next
    if step is not None:
        lines.append("  …")
    return "\n".join(lines)
