"""The tool registry: which tools an agent has selected, loaded, bound and immutable."""

from __future__ import annotations

from .mcp import McpOrigin, MissingTool
from .plan import derive_server_plan, derive_tool_plan
from .registry import Tool, ToolRegistry, bind_tool, load_registry
from .roots import ToolRoots, discover, tool_roots

__all__ = [
    "McpOrigin",
    "MissingTool",
    "Tool",
    "ToolRegistry",
    "ToolRoots",
    "bind_tool",
    "derive_server_plan",
    "derive_tool_plan",
    "discover",
    "load_registry",
    "tool_roots",
]
