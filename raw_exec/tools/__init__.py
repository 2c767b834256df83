"""The tool registry: which tools an agent has selected, loaded, bound and immutable."""

from __future__ import annotations

from .registry import Tool, ToolRegistry, load_registry
from .roots import ToolRoots, discover, tool_roots

__all__ = ["Tool", "ToolRegistry", "ToolRoots", "discover", "load_registry", "tool_roots"]
