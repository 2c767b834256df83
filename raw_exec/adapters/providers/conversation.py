"""From a provider's message with tool calls to the messages that answer it.

``answer_calls`` awaits whatever ``dispatch`` it is given, so it serves a runtime or session
of trio as well as one of asyncio; ``answer_calls_blocking`` serves one of
``raw_exec.blocking``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from ...dispatch import ToolResult
from ...errors import RawExecError
from ...profiles import ProjectedTools
from .calls import ProviderCall, read_calls
from .results import Answered, result_messages

__all__ = ["AsyncDispatch", "answer_calls", "answer_calls_blocking", "call_arguments"]

_NAMES_SHOWN = 20


class AsyncDispatch(Protocol):
    """The ``dispatch`` of a runtime's registry, or of a session."""

    def __call__(
        self, name: str, arguments: Any, *, tool_call_id: str | None = None
    ) -> Awaitable[ToolResult]:
        """Take one call through every step."""
        ...


BlockingDispatch: TypeAlias = "Callable[..., ToolResult]"


def call_arguments(tools: ProjectedTools, call: ProviderCall) -> tuple[str, Any] | ToolResult:
    """Return the name and the arguments to dispatch, or the refusal of a call that can't be.

    Args:
        tools: What the provider was told.
        call: What its model asks for.
    """
    tool = tools.get(call.name)
    if tool is None:
        # Security: a model may only use what it was told; a withheld tool is not among it.
        known = ", ".join(one.name for one in tools.tools[:_NAMES_SHOWN])
        return _refusal(call, "unknown_tool", "exposure", f"no tool {call.name!r:.80}; {known}")
    if call.problem is not None:
        return _refusal(call, "invalid_arguments", "schema", call.problem)
    return tool.tool_name, tool.restore(call.arguments)


def _refusal(call: ProviderCall, code: str, stage: str, text: str) -> ToolResult:
    return ToolResult(
        content=({"type": "text", "text": text},),
        is_error=True,
        code=code,
        stage=stage,
        enforced={},
        usage={},
        elapsed_ms=0.0,
        tool_call_id=call.id,
    )


async def answer_calls(
    dispatch: AsyncDispatch,
    tools: ProjectedTools,
    message: Any,
    *,
    options: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run every tool call of a message, one after another, and return what to append.

    Args:
        dispatch: ``runtime.registry.dispatch`` or ``session.dispatch``.
        tools: From ``runtime.registry.projected``.
        message: What the provider sent: a response, a message, or one call.
        options: Other arguments of ``dispatch``, for example ``cwd``.

    Returns:
        Messages in the provider's form; none if there was no call.

    Raises:
        ConfigError: ``message_invalid``.
    """
    answered: list[Answered] = []
    for call in read_calls(tools.profile, message):
        what = call_arguments(tools, call)
        if isinstance(what, ToolResult):
            answered.append((call, what))
            continue
        name, arguments = what
        result = await dispatch(name, arguments, tool_call_id=call.id or None, **(options or {}))
        answered.append((call, result))
    return result_messages(tools.profile, answered)


def answer_calls_blocking(
    dispatch: BlockingDispatch,
    tools: ProjectedTools,
    message: Any,
    *,
    options: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Do what ``answer_calls`` does, for a runtime or session of ``raw_exec.blocking``.

    Raises:
        ConfigError: ``message_invalid``.
    """

    async def awaited(name: str, arguments: Any, **rest: Any) -> ToolResult:
        return dispatch(name, arguments, **rest)

    steps = answer_calls(awaited, tools, message, options=options)
    try:
        steps.send(None)
    except StopIteration as done:
        messages: list[dict[str, Any]] = done.value
        return messages
    steps.close()
    raise RawExecError("not_blocking", "dispatch is not that of a blocking runtime")
