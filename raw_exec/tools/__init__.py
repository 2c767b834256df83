"""The tool registry: which tools an agent has selected, loaded, bound and immutable."""

from __future__ import annotations

from .plan import derive_tool_plan
from .registry import Tool, ToolRegistry, bind_tool, load_registry
from .roots import ToolRoots, discover, tool_roots

__all__ = [
    "Tool",
    "ToolRegistry",
    "ToolRoots",
    "bind_tool",
    "derive_tool_plan",
    "discover",
    "load_registry",
    "tool_roots",
]
