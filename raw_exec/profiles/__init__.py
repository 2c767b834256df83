"""What a model provider is told of the tools: names, schemas, and the way back."""

from __future__ import annotations

from .names import NameRule, wire_names
from .profile import (
    LINT_PROFILES,
    PROFILES,
    Profile,
    ProjectedTool,
    ProjectedTools,
    WithheldTool,
    description_warnings,
    profile_named,
    project_input,
    project_tools,
)

__all__ = [
    "LINT_PROFILES",
    "PROFILES",
    "NameRule",
    "Profile",
    "ProjectedTool",
    "ProjectedTools",
    "WithheldTool",
    "description_warnings",
    "profile_named",
    "project_input",
    "project_tools",
    "wire_names",
]
