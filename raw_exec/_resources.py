"""Where the files that are not Python modules live: workers and published schemas.

A wheel carries them in ``raw_exec/_bundled``; a checkout (and an editable install of one)
has them beside the package.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

from .errors import InternalError

__all__ = ["launcher_module", "schemas_dir", "workers_dir"]


def workers_dir() -> Path:
    """Return the folder with ``launcher/``, ``node/`` and ``python/``.

    Raises:
        InternalError: The installation is incomplete.
    """
    return _find("workers")


def schemas_dir() -> Path:
    """Return the folder with the published JSON Schemas and ``PINNED.json``.

    Raises:
        InternalError: The installation is incomplete.
    """
    return _find("schemas")


@cache
def launcher_module(name: str) -> ModuleType:
    """Load a module of the launcher that stands alone, for use in this process.

    Raises:
        InternalError: The installation is incomplete.
    """
    path = workers_dir() / "launcher" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"raw_exec_launcher_{name}", path)
    if spec is None or spec.loader is None:
        raise InternalError("resource_missing", "can't be loaded", where=str(path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def _find(name: str) -> Path:
    package = Path(__file__).resolve().parent
    candidates = (package / "_bundled" / name, package.parent / name)
    for candidate in candidates:
        if candidate.is_dir():
            return candidate
    raise InternalError(
        "resource_missing",
        f"the {name!r} folder is missing from this installation",
        where=" and ".join(str(c) for c in candidates),
        hint="reinstall the package",
    )
