"""What ``raw doctor`` finds out about the host.

Every finding is ``{name, ok, message, hint, detail}``. Only the sandbox findings decide
whether tools can run; the others say which tools can, and how well.
"""

from __future__ import annotations

import os
import platform
import stat
import sys
from pathlib import Path
from typing import Any

from ..config import config_path, load_config
from ..effects.compiled import default_cache_dir
from ..errors import RawExecError, WorkerError
from ..pool import find_node, open_launcher
from ..pool.runtimes import examine_node
from ..private_root import open_private_root
from ..sandbox import best_tier, derive_findings
from .running import run_async

__all__ = ["examine_host"]


def finding(
    name: str,
    ok: bool,
    message: str,
    hint: str | None = None,
    detail: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return one finding."""
    return {"name": name, "ok": ok, "message": message, "hint": hint, "detail": detail or {}}


def examine_host(config: str | None) -> dict[str, Any]:
    """Probe the host and return the report that ``raw doctor --json`` prints.

    Args:
        config: The configuration file, ``None`` for the implicit one.
    """
    capabilities: dict[str, Any] = {}
    tier = "none"
    try:
        capabilities = run_async(_probe)
        tier = best_tier(capabilities)
        sandbox = [
            finding(item.feature, item.works, item.message, item.hint, item.detail)
            for item in derive_findings(capabilities)
        ]
    except WorkerError as exc:
        sandbox = [finding("launcher", False, exc.message, exc.hint)]
    return {
        "ok": tier != "none",
        "tier": tier,
        "sandbox": sandbox,
        "host": [_node(), _python(), _cache(), _config(config)],
        "capabilities": capabilities,
    }


async def _probe() -> dict[str, Any]:
    with open_private_root() as root:
        async with open_launcher(scratch_parent=root) as launcher:
            return await launcher.probe()


def _node() -> dict[str, Any]:
    try:
        node = find_node()
    except RawExecError as exc:
        return finding("node", False, exc.message, exc.hint)
    detail = {"path": str(node.path), "source": node.source}
    try:
        version = examine_node(node.path).version
    except WorkerError as exc:
        return finding("node", False, f"{exc.message} (from {node.source})", exc.hint, detail)
    return finding(
        "node",
        True,
        f"{version} at {node.path} (from {node.source})",
        detail={**detail, "version": version},
    )


def _python() -> dict[str, Any]:
    version = platform.python_version()
    return finding(
        "python",
        True,
        f"{version} at {sys.executable}",
        detail={"path": sys.executable, "version": version, "system": platform.platform()},
    )


def _cache() -> dict[str, Any]:
    folder = default_cache_dir()
    nearest = folder
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    if not (nearest.is_dir() and os.access(nearest, os.W_OK | os.X_OK)):
        return finding(
            "cache",
            False,
            f"{folder} can not be written; every start compiles the engine again",
            f"make {nearest} writable, or set XDG_CACHE_HOME",
            {"path": str(folder)},
        )
    info = nearest.stat()
    if nearest == folder and (info.st_uid != os.geteuid() or info.st_mode & 0o022):
        return finding(
            "cache",
            False,
            f"{folder} can be changed by others, so it is not used",
            f"chmod 700 {folder}, and own it",
            {"path": str(folder)},
        )
    return finding("cache", True, str(folder), detail={"path": str(folder)})


def _config(given: str | None) -> dict[str, Any]:
    path = Path(os.path.abspath(given)) if given is not None else config_path()
    detail = {"path": str(path)}
    try:
        info = path.stat()
    except OSError as exc:
        if given is None and isinstance(exc, FileNotFoundError | NotADirectoryError):
            return finding("config", True, f"none at {path}; defaults are used", detail=detail)
        return finding("config", False, f"{path} can not be read: {exc.strerror}", detail=detail)
    mode = stat.S_IMODE(info.st_mode)
    detail["mode"] = f"{mode:04o}"
    if mode & 0o077:
        return finding(
            "config",
            False,
            f"{path} is open to other users (mode {mode:04o})",
            f"chmod 600 {path}",
            detail,
        )
    try:
        load_config(given)
    except RawExecError as exc:
        if exc.code not in ("agent_not_chosen", "unknown_agent"):
            return finding("config", False, str(exc), exc.hint, detail)
    return finding("config", True, f"{path} (mode {mode:04o})", detail=detail)
