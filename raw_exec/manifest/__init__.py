"""Plugin folders: ``tool.json``, ``hook.json``, panel declarations, snapshots by content.

Contract: ``raw.tool-api/2`` and ``raw.hook/2``.
"""

from __future__ import annotations

from .hook import HookManifest, LoadedHook, Subscription, load_hook, parse_hook_manifest
from .load import LoadedTool, load_tool
from .panels import PanelAction, PanelDeclaration
from .snapshot import Snapshot
from .tool import ENTRIES, ToolManifest, parse_manifest

__all__ = [
    "ENTRIES",
    "HookManifest",
    "LoadedHook",
    "LoadedTool",
    "PanelAction",
    "PanelDeclaration",
    "Snapshot",
    "Subscription",
    "ToolManifest",
    "load_hook",
    "load_tool",
    "parse_hook_manifest",
    "parse_manifest",
]
