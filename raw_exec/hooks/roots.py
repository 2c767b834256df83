"""The two places that hook folders come from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ..config import Config, config_path
from ..manifest.hook import HOOK_MANIFEST, HOOK_NAME, Source

__all__ = ["HookRoots", "discover_hooks", "hook_roots"]


@dataclass(frozen=True, slots=True)
class HookRoots:
    """Folders that hold hook folders; either may not exist.

    Args:
        agent: ``hooks/`` beside the configuration file.
        local: ``hooks/`` of the user, whatever ``--config`` says.
    """

    agent: Path
    local: Path

    def path(self, source: Source) -> Path:
        """Return the folder for a source."""
        return self.agent if source == "agent" else self.local


def hook_roots(config: Config, *, environ: Mapping[str, str] | None = None) -> HookRoots:
    """Derive the roots from a configuration and the environment."""
    return HookRoots(config.directory / "hooks", config_path(environ).parent / "hooks")


def discover_hooks(root: Path) -> tuple[str, ...]:
    """List the names of the folders of a root that look like hooks, sorted; none is opened."""
    try:
        names = os.listdir(root)
    except OSError:
        return ()
    return tuple(
        sorted(
            name
            for name in names
            if HOOK_NAME.fullmatch(name) and os.path.lexists(root / name / HOOK_MANIFEST)
        )
    )
