"""The handler stage of a tool that an MCP server runs (step 7)."""

from __future__ import annotations

from typing import Any

from ..errors import CallRefused
from ..mcp_client import ServerCall
from ..mcp_client.results import left_out
from ..tools import MissingTool
from .asking import bounded
from .call import Call, Services
from .results import InvalidResult, check_result

__all__ = ["refuse_missing", "run_served"]


def refuse_missing(tool: MissingTool) -> CallRefused:
    """Return the refusal of a selected tool that its server does not offer."""
    return CallRefused(
        "mcp_unavailable",
        f"{tool.identity} is not available: {tool.reason}",
        stage="exposure",
        detail=dict(tool.detail),
        hint=tool.hint or "repair its server, and open the runtime again",
    )


async def run_served(call: Call, services: Services) -> None:
    """Have the server run the tool; everything before and after is as for any other.

    Raises:
        CallRefused: There is no result.
    """
    tool = call.chosen_tool()
    if tool.mcp is None or services.servers is None:
        raise CallRefused("mcp_unavailable", "no servers are open here", stage="handler")
    if call.dry_run:
        # Its process runs already, and what it changes is changed in place.
        raise CallRefused(
            "sandbox_unavailable",
            f"{tool.identity} can't be run dry: its server's process outlives the call",
            stage="sandbox",
            detail={"step": "view", "errno": None},
            hint="raw tools explain says what would happen",
        )
    request = ServerCall(
        identity=tool.identity,
        origin=tool.mcp,
        arguments=call.arguments,
        call_ms=call.call_ms,
        grace_ms=services.limits.grace_ms,
        timer=call.timer,
        ask=None if call.home is None else _asking(call),
    )
    try:
        value = await services.servers.call(request)
        call.value = {**value, "content": [_usable(block) for block in value["content"]]}
    except CallRefused as refusal:
        refusal.message = bounded(refusal.message)
        raise
    finally:
        call.handler_ran, call.enforced = request.sent, request.enforced
        call.usage.update(request.usage)
        call.detail.update(request.detail)


def _usable(block: dict[str, Any]) -> dict[str, Any]:
    """Return a block; an image that is none becomes a line that says so, and costs no more."""
    if block["type"] != "image":
        return block
    try:
        check_result({"content": [block]})
    except InvalidResult as exc:
        reason = str(exc).removeprefix("/content/0/data: ").removeprefix("/content/0")
        return left_out(f"image of type {block['mimeType']} that {reason}")
    return block


def _asking(call: Call) -> Any:
    async def ask(params: Any) -> Any:
        assert call.home is not None  # noqa: S101  (only then is this made)
        return await call.home.ask(call, params)

    return ask
