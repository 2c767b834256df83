"""The three places that tool folders come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..config import Config, config_path
from ..manifest.load import Source
from ..manifest.tool import TOOL_ID
from ..manifest.tree import MANIFEST_NAME

__all__ = ["ToolRoots", "discover", "tool_roots"]


@dataclass(frozen=True, slots=True)
class ToolRoots:
    """Folders that hold tool folders; any of them may not exist.

    Args:
        agent: ``tools/`` beside the configuration file.
        local: ``tools/`` of the user, whatever ``--config`` says.
        builtin: Shipped in this package.
    """

    agent: Path
    local: Path
    builtin: Path

    def path(self, source: Source) -> Path:
        """Return the folder for a source."""
        return {"agent": self.agent, "local": self.local, "builtin": self.builtin}[source]


def tool_roots(
    config: Config,
    *,
    builtin_root: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> ToolRoots:
    """Derive the roots from a configuration and the environment.

    Args:
        builtin_root: Instead of the folder in this package.
        environ: Instead of the process environment.
    """
    return ToolRoots(
        agent=config.directory / "tools",
        local=config_path(environ).parent / "tools",
        builtin=builtin_root or _package_folder() / "builtin",
    )


def _package_folder() -> Path:
    return Path(__file__).resolve().parent.parent


def discover(root: Path) -> tuple[str, ...]:
    """List the IDs of the folders of a root that look like tools, sorted.

    Only names are looked at; no manifest is opened.
    """
    try:
        names = os.listdir(root)
    except OSError:
        return ()
    return tuple(
        sorted(
            name
            for name in names
            if TOOL_ID.fullmatch(name) and os.path.lexists(root / name / MANIFEST_NAME)
        )
    )
