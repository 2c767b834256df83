"""Load one selected tool: its folder, manifest and snapshot. Runs none of its code."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..errors import ManifestError, Problem
from .snapshot import Snapshot, take_snapshot
from .tool import ToolManifest, parse_manifest
from .tree import MANIFEST_NAME, open_inside

__all__ = ["LoadedTool", "Source", "load_tool"]

Source = Literal["agent", "local", "builtin", "mcp"]


@dataclass(frozen=True, slots=True)
class LoadedTool:
    """A valid tool folder.

    Args:
        identity: Policy identity, ``<source>/<id>``.
        warnings: For the author, each naming the tool.
    """

    identity: str
    source: Source
    manifest: ToolManifest
    snapshot: Snapshot
    warnings: tuple[str, ...]


def load_tool(root: Path, folder_name: str, *, source: Source) -> LoadedTool:
    """Read, validate and snapshot the tool ``folder_name`` of ``root``.

    Args:
        root: One of the three tool roots.
        folder_name: Must equal the manifest's ``id``.
        source: Which root it is.

    Raises:
        ManifestError: Whatever is wrong, with all problems of the manifest at once.
    """
    # Plain strings: with thousands of tools, pathlib would be a fifth of the time.
    folder = os.path.join(root, folder_name)
    fd = open_inside(os.fspath(root), folder_name)
    try:
        snapshot = take_snapshot(fd, folder)
    finally:
        os.close(fd)
    where = f"{folder}/{MANIFEST_NAME}"
    if snapshot.find(MANIFEST_NAME) is None:
        raise ManifestError("manifest_missing", f"there is no file {MANIFEST_NAME!r}", where=folder)
    data = snapshot.read(MANIFEST_NAME)
    manifest = parse_manifest(data, folder_name=folder_name, where=where)
    _check_entry(snapshot, manifest, where)
    identity = f"{source}/{folder_name}"
    warnings = tuple(f"{identity}: {text}" for text in manifest.warnings)
    return LoadedTool(identity, source, manifest, snapshot, warnings)


def _check_entry(snapshot: Snapshot, manifest: ToolManifest, where: str) -> None:
    if snapshot.find(manifest.entry.removeprefix("./")) is None:
        problem = Problem("/entry", f"there is no file {manifest.entry!r} in the folder")
        raise ManifestError("entry_missing", str(problem), where=where, problems=(problem,))
