"""What a selected tool is granted in a working directory."""

from __future__ import annotations

from pathlib import Path

from ..config import Config
from ..sandbox import SandboxPlan, derive_plan
from .registry import Tool

__all__ = ["derive_tool_plan"]


def derive_tool_plan(config: Config, tool: Tool, cwd: str) -> SandboxPlan:
    """Derive the sandbox plan of a tool for an absolute working directory.

    Raises:
        SandboxError: The profile grants something that can't be granted.
    """
    return derive_plan(
        config.sandbox,
        tool_identity=tool.identity,
        profile=tool.profile,
        cwd=cwd,
        config_directory=str(config.directory),
        home=str(Path.home()),
        limits=config.limits,
    )
