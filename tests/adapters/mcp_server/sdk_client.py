"""Everything an application does with the official Python client; run as a program.

    python sdk_client.py MODE... -- URL
    python sdk_client.py MODE... -- COMMAND ARGUMENT...

Prints one JSON object: what each mode saw. A program of its own, since importing the SDK
costs every later collection of garbage in the test process.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import trio
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import ElicitResult


async def _answer(_context: Any, params: Any) -> ElicitResult:
    """Fill in a form like a person who likes the first choice of everything."""
    content: dict[str, Any] = {}
    for name, field in params.requested_schema["properties"].items():
        if "oneOf" in field:
            content[name] = field["oneOf"][0]["const"]
        elif "enum" in field:
            content[name] = field["enum"][-1]
        elif field["type"] == "array":
            content[name] = [option["const"] for option in field["items"]["anyOf"]]
        else:
            content[name] = "typed"
    return ElicitResult(action="accept", content=content)


async def _use(target: Any, mode: str, cwd: Path) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    async with Client(target, mode=mode, elicitation_callback=_answer) as client:
        seen["version"] = client.session.protocol_version
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["echo"] = (await client.call_tool("echo", {"text": "hi"})).content[0].text
        seen["data"] = (await client.call_tool("data", {"kind": "object"})).structured_content
        wrong = await client.call_tool("echo", {})
        seen["wrong"] = [wrong.is_error, wrong.meta["raw/code"]]
        try:
            await client.call_tool("nothing", {})
        except MCPError as exc:
            seen["unknown"] = exc.error.code
        progress: list[float] = []

        async def note(done: float, _total: float | None, _message: str | None) -> None:
            progress.append(done)

        await client.call_tool("progress", {"steps": 2}, progress_callback=note)
        seen["progress"] = [progress == sorted(set(progress)), progress[-1]]
        seen["ask"] = (await client.call_tool("ask", {})).structured_content
        seen["guarded"] = (await client.call_tool("guarded", {"text": "ok"})).content[0].text
        seen["cancelled"] = await _cancel(client, cwd / "running")
        seen["after"] = (await client.call_tool("echo", {"text": "bye"})).content[0].text
    async with Client(target, mode=mode) as client:  # without forms
        asked = await client.call_tool("ask", {})
        guarded = await client.call_tool("guarded", {"text": "ok"})
        seen["unasked"] = [asked.meta["raw/code"], guarded.meta["raw/code"]]
    return seen


async def _cancel(client: Client, running: Path) -> bool:
    file = trio.Path(running)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.call_tool, "hang", {})
        while not await file.exists():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    await file.unlink()
    return True


async def main() -> None:
    divider = sys.argv.index("--")
    modes, target = sys.argv[1:divider], sys.argv[divider + 1 :]
    connect: Any = target[0]
    if len(target) > 1:
        connect = StdioServerParameters(command=target[0], args=target[1:], cwd=os.getcwd())
    cwd = Path(os.environ["MCP_TEST_CWD"])
    print(json.dumps({mode: await _use(connect, mode, cwd) for mode in modes}))


if __name__ == "__main__":
    trio.run(main)
