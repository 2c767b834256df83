"""Plugin folders: ``tool.json``, panel declarations, content-addressed snapshots.

Contract: ``raw.tool-api/2``.
"""

from __future__ import annotations

from .load import LoadedTool, load_tool
from .panels import PanelAction, PanelDeclaration
from .snapshot import Snapshot
from .tool import ENTRIES, ToolManifest, parse_manifest

__all__ = [
    "ENTRIES",
    "LoadedTool",
    "PanelAction",
    "PanelDeclaration",
    "Snapshot",
    "ToolManifest",
    "load_tool",
    "parse_manifest",
]
