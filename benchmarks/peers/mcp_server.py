"""An MCP server over stdio with one tool, as the Python SDK's users write it."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("bench", log_level="ERROR")


@server.tool(structured_output=False)
def echo(text: str, count: int = 0) -> str:
    """Return the text."""
    return text


if __name__ == "__main__":
    server.run("stdio")
