"""Where the files that are not Python modules live: workers and published schemas.

A wheel carries them in ``raw_exec/_bundled``; a checkout (and an editable install of one)
has them beside the package.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .errors import InternalError

__all__ = ["schemas_dir", "workers_dir"]


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
